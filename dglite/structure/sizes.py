"""Amounts of memory: as users write them, and whether there is enough for an array with a place for every id."""

from __future__ import annotations

from ..backend.memory import pool
from ..config import available_memory, bytes_in
from ..errors import DGLError
from .ids import count_of

_LEAST, _UNKNOWN = 1 << 22, 1 << 32


def memory_limit(memory: int | str | None, least: int = _LEAST) -> int:
    """Return a limit in bytes: of a number, a text such as ``"4 GB"``, or None for half of the free memory.

    Raises ``DGLError``: it is no such text, or below ``least`` bytes, which no batch of rows fits in.
    """
    if memory is None:
        return max((available_memory() or _UNKNOWN) // 2, least)
    limit = bytes_in(memory) if isinstance(memory, str) else memory
    if limit is None:
        raise DGLError(f'memory must be a number of bytes or a text such as "4 GB", got {memory!r}')
    return count_of(limit, "memory", least, remark=" bytes, since a batch of rows must fit")


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
