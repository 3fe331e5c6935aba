"""Scores of pairs of nodes: for links, and for relations of knowledge graphs."""

from .edgepred import EdgePredictor
from .transe import TransE
from .transr import TransR

__all__ = ["EdgePredictor", "TransE", "TransR"]
