"""Whether there is memory for an array with a place for every id, of which a graph may have far more than edges."""

from __future__ import annotations

from ..backend.memory import pool
from ..config import available_memory
from ..errors import DGLError

_CHECKED_FROM = 1 << 28
"""Bytes below which the system is not asked."""


def require_room(num_ids: int, bytes_each: int, num_edges: int) -> None:
    """Raise ``DGLError`` unless there is memory for ``bytes_each`` bytes for each of ``num_ids`` ids.

    Asked beforehand: a system that lends more memory than it has ends the process later, when the memory is used.
    """
    needed = num_ids * bytes_each
    if needed < _CHECKED_FROM:
        return
    free = available_memory()
    if free is not None and needed > free:
        pool.release()
        free = available_memory()
    if free is not None and needed > free:
        raise DGLError(
            f"this needs an array with a place for each of {num_ids:,} ids, {needed / 2**30:.1f} GiB; "
            f"{free / 2**30:.1f} GiB of memory are free. The graph has {num_edges:,} edges: if most of its nodes have "
            "none, dglite.compact_graphs(g) returns the graph of those that have"
        )
