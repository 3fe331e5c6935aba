"""The layers under the name by which DGL's users import them: ``import dglite.nn.pytorch as dglnn``."""

from . import EdgeWeightNorm, GATConv, GraphConv, SAGEConv
from .functional import edge_softmax

__all__ = ["EdgeWeightNorm", "GATConv", "GraphConv", "SAGEConv", "edge_softmax"]
