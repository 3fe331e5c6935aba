"""The layers under the name by which DGL's users import them: ``import dglite.nn.pytorch as dglnn``."""

from . import (
    DotGatConv,
    EdgeWeightNorm,
    FeatureDropout,
    GATConv,
    GATv2Conv,
    GraphConv,
    SAGEConv,
    SparseFeatures,
    SparseLinear,
)
from .functional import edge_softmax

__all__ = [
    "DotGatConv",
    "EdgeWeightNorm",
    "FeatureDropout",
    "GATConv",
    "GATv2Conv",
    "GraphConv",
    "SAGEConv",
    "SparseFeatures",
    "SparseLinear",
    "edge_softmax",
]
