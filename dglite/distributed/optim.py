"""Optimizers of :class:`dglite.distributed.DistEmbedding`: those of :mod:`dglite.optim` on partitioned tables."""

from ..optim import SparseAdagrad, SparseAdam

__all__ = ["SparseAdagrad", "SparseAdam"]
