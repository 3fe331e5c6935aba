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
    load_state_dict,
    save_state_dict,
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
    "load_state_dict",
    "save_state_dict",
]
