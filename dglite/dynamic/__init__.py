"""Dynamic networks: models over trees, sequences and graphs of each sample's own, at the speed of the products in them.

Vertex programs (Cavs): write the function of one vertex as a :class:`VertexFunction`, call it with a batch of graphs.
Lazy batching (DyNet): write one sample's computation on :func:`lazy` tensors; :func:`run` batches those of many.
"""

from __future__ import annotations

from .lazy import LastRun, LazyTensor, backward, cell, last_run, lazy, run
from .options import options
from .vertex import ByKind, Children, Partial, VertexFunction

__all__ = [
    "ByKind",
    "Children",
    "LastRun",
    "LazyTensor",
    "Partial",
    "VertexFunction",
    "backward",
    "cell",
    "last_run",
    "lazy",
    "options",
    "run",
]
