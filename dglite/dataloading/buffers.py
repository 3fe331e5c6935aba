"""Reused memory of mini-batches: for gathered features, and for numbering nodes.

They are from the memory pool; buffers that are copied to a GPU are from a pool of page-locked memory.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..backend import framework
from ..backend.memory import LARGE, Pool, pool
from ..locks import new_lock

ALIGNMENT = 64
SMALL = 1 << 16
"""Bytes below which the system's own allocator has pages at hand."""


_BYTES = np.dtype(np.uint8)


class Buffers:
    """The memory of a loader's batches. ``page_locked`` memory is copied to a GPU at full speed."""

    def __init__(self, page_locked: bool = False) -> None:
        self._page_locked = page_locked
        self.pool = Pool(lambda: sys.maxsize, _page_locked) if page_locked else pool
        self._lock = new_lock()
        self._tables: dict[tuple[int, ...], list[list[Any]]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Buffers, (self._page_locked,)

    def lend(self, size: int) -> np.ndarray:
        """Return an array of ``size`` bytes, aligned to cache lines, of arbitrary content."""
        return _borrow(self.pool, size, loose=True)

    def take_tables(self, counts: tuple[int, ...]) -> list[Any] | None:
        """Return tables for ``counts`` nodes of each type, the caller's until :meth:`give_tables`, or None."""
        with self._lock:
            waiting = self._tables.get(counts)
            return waiting.pop() if waiting else None

    def give_tables(self, counts: tuple[int, ...], tables: list[Any]) -> None:
        """Take tables, or take them back; those of another graph are dropped."""
        with self._lock:
            if counts not in self._tables:
                self._tables = {counts: []}
            self._tables[counts].append(tables)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let this thread gather into these buffers meanwhile."""
        before = _here.buffers
        _here.buffers = self
        try:
            yield
        finally:
            _here.buffers = before


class _ThreadBuffers(threading.local):
    buffers: Buffers | None = None


_here = _ThreadBuffers()


def current_buffers() -> Buffers | None:
    """Return the buffers that this thread is to use, if any."""
    return _here.buffers


def buffers_here(size: int) -> np.ndarray:
    """Return an array of ``size`` bytes for this thread: of the buffers in use, or of the pool where it is large."""
    if _here.buffers is None:
        return _aligned(size) if size < 4 * LARGE else _borrow(pool, size)
    return _aligned(size) if size < SMALL else _here.buffers.lend(size)


def _borrow(source: Pool, size: int, loose: bool = False) -> np.ndarray:
    array = source.lend((size,), _BYTES, size, loose)
    return _aligned(size) if array is None else array.view(np.ndarray)


def _page_locked(size: int) -> tuple[Any, int]:
    # Not an array: views of views would refer to it, instead of to the lent buffer.
    array: Any = framework.empty(size, dtype=framework.uint8, pin_memory=True).numpy()
    return (ctypes.c_char * size).from_buffer(array), 0


def _aligned(size: int) -> np.ndarray:
    memory = np.empty(size + ALIGNMENT, np.uint8)
    skip = -memory.ctypes.data % ALIGNMENT
    return memory[skip : skip + size]
