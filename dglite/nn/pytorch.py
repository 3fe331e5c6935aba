"""The layers under the name by which DGL's users import them: ``import dglite.nn.pytorch as dglnn``."""

from . import EdgeWeightNorm, FeatureDropout, GATConv, GraphConv, SAGEConv, SparseFeatures, SparseLinear
from .functional import edge_softmax

__all__ = [
    "EdgeWeightNorm",
    "FeatureDropout",
    "GATConv",
    "GraphConv",
    "SAGEConv",
    "SparseFeatures",
    "SparseLinear",
    "edge_softmax",
]
