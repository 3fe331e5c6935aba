"""Neural network layers, one per module, with DGL's names, signatures and parameter names."""

from . import functional
from .dotgatconv import DotGatConv
from .edgeweightnorm import EdgeWeightNorm
from .gatconv import GATConv
from .gatv2conv import GATv2Conv
from .graphconv import GraphConv
from .sageconv import SAGEConv
from .sparsefeatures import SparseFeatures
from .sparselinear import FeatureDropout, SparseLinear
from .state import load_state_dict, save_state_dict

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
    "functional",
    "load_state_dict",
    "save_state_dict",
]
