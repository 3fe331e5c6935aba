"""Explainers: which nodes, edges and features a trained model's prediction depends on. They need torch."""

from .gnnexplainer import GNNExplainer, HeteroGNNExplainer
from .pgexplainer import HeteroPGExplainer, PGExplainer
from .subgraphx import HeteroSubgraphX, SubgraphX

__all__ = ["GNNExplainer", "HeteroGNNExplainer", "HeteroPGExplainer", "HeteroSubgraphX", "PGExplainer", "SubgraphX"]
