"""Optimizers of :class:`dglite.nn.NodeEmbedding`, which update the rows that a step has read."""

from .. import hints
from .sparse import SparseAdagrad, SparseAdam, SparseGradOptimizer

__all__ = ["SparseAdagrad", "SparseAdam", "SparseGradOptimizer"]

__getattr__ = hints.names_of(__name__)
