"""Neural network layers, one per module, with DGL's names, signatures and parameter names."""

from . import functional
from .edgeweightnorm import EdgeWeightNorm
from .gatconv import GATConv
from .graphconv import GraphConv
from .sageconv import SAGEConv

__all__ = ["EdgeWeightNorm", "GATConv", "GraphConv", "SAGEConv", "functional"]
