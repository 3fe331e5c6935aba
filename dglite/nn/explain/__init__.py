"""Explainers: which nodes, edges and features a trained model's prediction depends on. They need torch."""

from .gnnexplainer import GNNExplainer
from .heterognnexplainer import HeteroGNNExplainer
from .heteropgexplainer import HeteroPGExplainer
from .heterosubgraphx import HeteroSubgraphX
from .pgexplainer import PGExplainer
from .subgraphx import SubgraphX

__all__ = [
    "GNNExplainer",
    "HeteroGNNExplainer",
    "HeteroPGExplainer",
    "HeteroSubgraphX",
    "PGExplainer",
    "SubgraphX",
]
