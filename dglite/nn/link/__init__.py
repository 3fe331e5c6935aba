"""Scores of node pairs, for link prediction and knowledge graphs."""

from .edgepred import EdgePredictor
from .transe import TransE
from .transr import TransR

__all__ = ["EdgePredictor", "TransE", "TransR"]
