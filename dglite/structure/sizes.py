"""Amounts of memory: as users write them, and whether there is enough for an array with a place for every id."""

from __future__ import annotations

import os
import re

from ..backend.memory import pool
from ..config import available_memory
from ..errors import DGLError
from .ids import count_of

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_LEAST = 1 << 22


def memory_limit(memory: int | str | None, least: int = _LEAST) -> int:
    """Return a limit in bytes: of a number, a text such as ``"4 GB"``, or None for half of the free memory.

    Raises ``DGLError``: it is no such text, or below ``least`` bytes, which no batch of rows fits in.
    """
    if memory is None:
        return max(free_memory() // 2, least)
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*([0-9.]+)\s*([KMGT]?)(i?B)?\s*", memory, re.IGNORECASE)
        if match is None or match[1].count(".") > 1 or match[1] == ".":
            raise DGLError(f'memory must be a number of bytes or a text such as "4 GB", got {memory!r}')
        memory = int(float(match[1]) * _UNITS[match[2].upper()])
    return count_of(memory, "memory", least, remark=" bytes, since a batch of rows must fit")


def bytes_of(count: int) -> str:
    """Return a number of bytes as text."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1024 or unit == "GB":
            return f"{count:.3g} {unit}" if count < 1000 else f"{count:,.0f} {unit}"
        count /= 1024  # type: ignore[assignment]
    raise AssertionError


def free_memory() -> int:
    """Return the bytes of memory that are free."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return int(re.search(r"MemAvailable:\s+(\d+)", file.read())[1]) << 10  # type: ignore[index]
    except (OSError, TypeError):  # not Linux
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**32


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
