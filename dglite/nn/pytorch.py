"""The layers under the name by which DGL's users import them: ``import dglite.nn.pytorch as dglnn``."""

from . import DotGatConv, EdgeWeightNorm, GATConv, GATv2Conv, GraphConv, SAGEConv
from .functional import edge_softmax

__all__ = ["DotGatConv", "EdgeWeightNorm", "GATConv", "GATv2Conv", "GraphConv", "SAGEConv", "edge_softmax"]
