"""Memory that batches use one after the other: for gathered rows, once nothing refers to them, and for numbering nodes.

A fresh array costs more than what is copied into it: the system hands out its pages one by one, and clears them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..backend import framework
from ..locks import new_lock

__all__ = ["Buffers", "buffers_here", "current_buffers"]

ALIGNMENT = 64
SMALL = 1 << 16
"""Below so many bytes the system's own allocator has pages at hand."""


class _Lent:
    """A block while arrays, or tensors made of them, use it; the last of them to go gives it back.

    NumPy lets views of an array refer to what that array refers to. Because this is no array, every view, tensor and
    tensor's storage keeps it alive, and none is left when its memory is written again.
    """

    __slots__ = ("__array_interface__", "_block", "_free")

    def __init__(self, block: np.ndarray, size: int, free: dict[int, np.ndarray]) -> None:
        self._block, self._free = block, free
        self.__array_interface__ = {
            "data": (block.ctypes.data, False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        self._free[id(self._block)] = self._block


class Buffers:
    """Blocks of memory that are lent, and kept when they come back.

    There are never more of them than were in use at one time: one that is too small makes way for the new one.
    ``page_locked`` memory is copied to a GPU at full speed.
    """

    def __init__(self, page_locked: bool = False) -> None:
        self._page_locked = page_locked
        # By identity. Blocks come back whenever a tensor dies, in any thread and in the middle of what holds the lock.
        self._free: dict[int, np.ndarray] = {}
        self._lock = new_lock()
        self._tables: dict[tuple[int, ...], list[list[Any]]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Buffers, (self._page_locked,)

    def lend(self, size: int) -> np.ndarray:
        """Return an array of ``size`` bytes, aligned to cache lines, of arbitrary content."""
        with self._lock:
            free = self._free.copy()
            fits = [key for key, block in free.items() if size <= len(block) <= 2 * size]
            if fits:
                block = self._free.pop(min(fits, key=lambda key: len(free[key])))
            else:
                near = [key for key, block in free.items() if len(block) < size <= 2 * len(block)]
                if near:
                    del self._free[near[0]]
                block = _page_locked(_rounded(size)) if self._page_locked else _aligned(_rounded(size))
        return np.asarray(_Lent(block, size, self._free))

    def take_tables(self, counts: tuple[int, ...]) -> list[Any] | None:
        """Return tables for so many nodes of each type, which are the caller's until :meth:`give_tables`, if any."""
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

    @property
    def free_bytes(self) -> int:
        """Memory that waits to be lent."""
        return sum(len(block) for block in self._free.copy().values())


class _Here(threading.local):
    buffers: Buffers | None = None


_here = _Here()


def current_buffers() -> Buffers | None:
    """Return the buffers that this thread is to use, if any."""
    return _here.buffers


def buffers_here(size: int) -> Any:
    """Return an array of ``size`` bytes for this thread: of the buffers in use, or a fresh one."""
    if _here.buffers is None or size < SMALL:
        return _aligned(size)[:size]
    return _here.buffers.lend(size)


def _rounded(size: int) -> int:
    """Return a size that the next batches, which differ a little, fit too. Pages that are never used cost nothing."""
    return size + (size >> 3)


def _page_locked(size: int) -> np.ndarray:
    return framework.empty(size, dtype=framework.uint8, pin_memory=True).numpy()


def _aligned(size: int) -> np.ndarray:
    memory = np.empty(size + ALIGNMENT, np.uint8)
    skip = -memory.ctypes.data % ALIGNMENT
    return memory[skip : skip + size]
