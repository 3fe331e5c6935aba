"""Optimizers of :class:`dglite.nn.NodeEmbedding`, which update the rows that a step has read."""

from .sparse import SparseAdagrad, SparseAdam, SparseGradOptimizer

__all__ = ["SparseAdagrad", "SparseAdam", "SparseGradOptimizer"]
