"""Optimizers of :class:`dglite.distributed.DistEmbedding`: those of :mod:`dglite.optim`, which ask the table."""

from ..optim import SparseAdagrad, SparseAdam

__all__ = ["SparseAdagrad", "SparseAdam"]
