"""Dynamic networks: models over trees, sequences and graphs of each sample's own, at the speed of the products in them.

Vertex programs (Cavs): write the function of one vertex as a :class:`VertexFunction`, call it with a batch of graphs.
Lazy batching (DyNet): write one sample's computation on :func:`lazy` tensors; :func:`run` batches those of many.
Persistent processors (VPPS): train on lazy losses by a :func:`persistent` handle, a whole step at a time.
"""

from __future__ import annotations

from .batching import LastRun, LazyTensor, backward, cell, last_run, lazy, run
from .options import options
from .processors import Persistent, persistent
from .vertex import ByKind, Children, Partial, VertexFunction

__all__ = [
    "ByKind",
    "Children",
    "LastRun",
    "LazyTensor",
    "Partial",
    "Persistent",
    "VertexFunction",
    "backward",
    "cell",
    "last_run",
    "lazy",
    "options",
    "persistent",
    "run",
]
