"""Neural network layers, one per module, with DGL's names, signatures and parameter names."""

from . import functional
from .edgeweightnorm import EdgeWeightNorm
from .gatconv import GATConv
from .graphconv import GraphConv
from .sageconv import SAGEConv
from .sparsefeatures import SparseFeatures
from .sparselinear import FeatureDropout, SparseLinear

__all__ = [
    "EdgeWeightNorm",
    "FeatureDropout",
    "GATConv",
    "GraphConv",
    "SAGEConv",
    "SparseFeatures",
    "SparseLinear",
    "functional",
]
