"""Convolutions, one per module: each computes new features of the destination nodes from their neighbours'."""

from .agnnconv import AGNNConv
from .appnpconv import APPNPConv
from .chebconv import ChebConv
from .dotgatconv import DotGatConv
from .edgeweightnorm import EdgeWeightNorm
from .gatconv import GATConv
from .gatv2conv import GATv2Conv
from .gcn2conv import GCN2Conv
from .ginconv import GINConv
from .gineconv import GINEConv
from .graphconv import GraphConv
from .hgtconv import HGTConv
from .relgraphconv import RelGraphConv
from .sageconv import SAGEConv
from .sgconv import SGConv
from .tagconv import TAGConv

__all__ = [
    "AGNNConv",
    "APPNPConv",
    "ChebConv",
    "DotGatConv",
    "EdgeWeightNorm",
    "GATConv",
    "GATv2Conv",
    "GCN2Conv",
    "GINConv",
    "GINEConv",
    "GraphConv",
    "HGTConv",
    "RelGraphConv",
    "SAGEConv",
    "SGConv",
    "TAGConv",
]
