"""The memory pool of results, gradients and scratch arrays: blocks that are reused once nothing refers to them.

The operating system maps fresh memory page by page, and clears each page: filling a fresh tensor of 50 MB takes ten
times as long as filling one in reused memory, and as long as many a kernel. A block belongs to one tensor at a time,
and is free again when the last reference to that tensor's memory is gone.

There is no lock. Blocks are freed in any thread and at any time, also in the middle of an allocation by the same
thread; only single operations of dictionaries and queues change shared state. Totals are computed on request.
"""

from __future__ import annotations

import gc
import math
import mmap
import os
import sys
import weakref
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from time import monotonic
from typing import Any

import numpy as np

from ..config import pool_limit

LARGE = 1 << 18
"""Minimum number of elements of results from the pool: 1 MB of float32. Below, malloc has pages at hand."""
IDLE = 10.0
"""Seconds after which an idle block is freed. In longer steps its page faults do not matter."""
MIN_LIMIT = 1 << 24
"""Bytes that the pool may hold in any case, so that small calls of varying sizes find blocks."""
_PAGE, _HUGE = 1 << 12, 1 << 21

Memory = Any
"""What exports a buffer: a map, an array."""


class Block:
    """Memory of the pool."""

    __slots__ = ("__weakref__", "memory", "requested", "since", "size", "start")

    def __init__(self, memory: Memory, start: int, size: int) -> None:
        self.memory, self.start, self.size = memory, start, size
        self.requested, self.since = 0, 0.0

    @property
    def bytes(self) -> np.ndarray:
        """All of its bytes, whether in use or not."""
        return np.ndarray(self.size, np.uint8, self.memory, self.start)


class _PooledArray(np.ndarray):
    """An array over a block. Tensors, storages and views made from it hold it; when it is freed, so is the block.

    NumPy lets a view of a view refer to the first array, unless that is of another class: so callers never get this
    itself, but arrays and tensors over it. Views that are of this class all the same have no block.
    """

    block: Block | None = None
    home: deque[Block]

    def __del__(self, now: Callable[[], float] = monotonic) -> None:
        block = self.block
        if block is not None:
            block.since = now()
            self.home.append(block)


class Pool:
    """Blocks by size: eighths of powers of 2, so that at most an eighth is too much.

    It holds ``limit()`` bytes at most, and 1.5 times the recent peak of memory in use, or 16 MB. Blocks that are idle
    for ten seconds are freed at the next allocation or full garbage collection.
    """

    def __init__(self, limit: Callable[[], int], new: Callable[[int], tuple[Memory, int]] | None = None) -> None:
        self._read_limit, self._new = limit, new or _mapped
        self._limit: int | None = None
        self._free: dict[int, deque[Block]] = {}
        self._blocks: weakref.WeakValueDictionary[int, Block] = weakref.WeakValueDictionary()
        self.allocations = self.new_blocks = self.peak = 0
        self._recent_peak, self._next_look = (0, 0), 0.0

    # -- allocation ---------------------------------------------------------------------------------------------------
    def lend(self, shape: Sequence[int], dtype: np.dtype, nbytes: int, loose: bool = False) -> np.ndarray | None:
        """Return memory of any content, to be wrapped by a tensor or by ``view(np.ndarray)``; None beyond the limit.

        Raises MemoryError: the system has no memory, even after all free blocks were given back.

        Parameters
        ----------
        nbytes
            of an array of this shape and dtype, above 0.
        loose
            sizes change from call to call: a block of twice the size will do, and a new one is made a little larger
            than needed.
        """
        if monotonic() > self._next_look:
            self.release_idle()
        size = rounded(nbytes)
        block = self._fit(size, 8 if loose else 1) or self._new_or_larger(rounded(size + 1) if loose else size)
        if block is None:
            return None
        block.requested = nbytes
        array = _PooledArray(shape, dtype, block.memory, block.start)
        array.home = self._free[block.size]
        array.block = block
        self.allocations += 1
        return array

    def _fit(self, size: int, larger: int) -> Block | None:
        """Take the smallest free block of a size or of the next ``larger`` ones, 8 of which are a factor of 2."""
        for _ in range(larger + 1):
            waiting = self._free.get(size)
            if waiting:
                try:
                    return waiting.pop()
                except IndexError:
                    continue  # another thread was faster
            size = rounded(size + 1)
        return None

    def _new_or_larger(self, size: int) -> Block | None:
        """Return a new block, or a free one of up to four times the size where there are enough; None beyond the limit.

        So of sizes that are needed in turns, the smaller ones come to lie in the blocks of the larger ones, instead of
        each driving out the other's.
        """
        in_use, after = self.bytes_in_use + size, self.bytes_held + size
        before, since = self._recent_peak
        self._recent_peak = before, max(since, in_use)
        most = min(max(max(before, since, in_use) * 3 // 2, MIN_LIMIT), self.limit)
        if after > most:
            block = self._fit(size, 16)
            if block is not None:
                return block
            if in_use > self.limit:
                return None
            self._shrink(most - size)
        self.peak = max(self.peak, in_use)
        memory, start = with_room(lambda: self._new(size), size)
        block = Block(memory, start, size)
        self._free.setdefault(size, deque())
        self._blocks[id(block)] = block
        self.new_blocks += 1
        return block

    # -- freeing ---------------------------------------------------------------------------------------------------
    def release(self) -> None:
        """Free all blocks that are not in use."""
        self._recent_peak = 0, 0
        for size in list(self._free):
            while self._drop(size):
                pass

    def release_idle(self) -> None:
        """Free blocks that were idle for a while; called by allocations and full garbage collections."""
        now = monotonic()
        self._next_look = now + IDLE / 2
        for size in list(self._free):
            while self._since(size) < now - IDLE and self._drop(size):
                pass
        self._recent_peak = max(self._recent_peak[1], self.bytes_held * 2 // 3), 0  # everything left was used recently

    def _shrink(self, most: int) -> None:
        """Free blocks, least recently used first, until ``most`` bytes are held."""
        too_much = self.bytes_held - most
        while too_much > 0:
            since, size = min(((self._since(size), size) for size in list(self._free)), default=(math.inf, 0))
            if since == math.inf:
                return
            too_much -= size if self._drop(size) else 0

    def _since(self, size: int) -> float:
        """Return when the least recently used free block of a size was used, infinity if none is free."""
        try:
            return self._free[size][0].since
        except IndexError:
            return math.inf

    def _drop(self, size: int) -> bool:
        """Free the least recently used block of a size; False if none is free."""
        try:
            self._free[size].popleft()
        except IndexError:
            return False
        return True

    # -- counts --------------------------------------------------------------------------------------------------------
    @property
    def limit(self) -> int:
        """The most bytes that it may hold, 0 where there is no pool."""
        if self._limit is None:
            self._limit = self._read_limit()
        return self._limit

    @property
    def bytes_held(self) -> int:
        """Bytes of all blocks."""
        return sum(block.size for block in self.blocks())

    @property
    def free_bytes(self) -> int:
        """Bytes of free blocks."""
        return sum(size * len(self._free[size]) for size in list(self._free))

    @property
    def bytes_in_use(self) -> int:
        """Bytes of blocks in use."""
        return max(self.bytes_held - self.free_bytes, 0)

    def blocks(self) -> list[Block]:
        """Return all blocks, in use and free."""
        return [block for reference in self._blocks.valuerefs() if (block := reference()) is not None]

    def summary(self) -> str:
        """Return a table of what it holds, by size of blocks."""
        free, blocks = self.free_bytes, self.blocks()
        waiting = {size: len(self._free[size]) for size in list(self._free)}
        unused = {id(block) for size in waiting for block in tuple(self._free[size])}
        in_use = [block for block in blocks if id(block) not in unused]
        used, requested = sum(block.size for block in in_use), sum(block.requested for block in in_use)
        again = 100 * (1 - self.new_blocks / self.allocations) if self.allocations else 0.0
        lines = [
            f"in use      {spelt_bytes(used):>12}, {spelt_bytes(used - requested)} more than requested",
            f"free        {spelt_bytes(free):>12}",
            f"most in use {spelt_bytes(max(self.peak, used)):>12}",
            f"limit       {spelt_bytes(self.limit):>12}{'' if self.limit else ': no pool'}",
            f"allocations {self.allocations:>12}, {again:.1f}% of them from reused memory",
        ]
        counts = Counter(block.size for block in blocks)
        lines += [f"{'block':>12}{'blocks':>10}{'free':>8}"] if counts else []
        lines += [f"{spelt_bytes(size):>12}{counts[size]:>10}{waiting.get(size, 0):>8}" for size in sorted(counts)]
        return "\n".join(lines)


# -- sizes and maps ----------------------------------------------------------------------------------------------------
@lru_cache(maxsize=1 << 12)
def rounded(nbytes: int) -> int:
    """Return the size of the smallest block for a number of bytes: less than an eighth more, or whole pages."""
    unit = max(_PAGE, 1 << max(nbytes.bit_length() - 4, 0))
    return -(-nbytes // unit) * unit


def _mapped(size: int) -> tuple[Memory, int]:
    """Return memory of this process only, and where in it a block begins; pages come when they are written first.

    So threads that write have them near. Huge pages lie within the block, or its last one would be more than asked for.
    """
    if sys.platform == "win32":
        return mmap.mmap(-1, size), 0
    kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    if sys.platform != "linux" or size < _HUGE:
        return mmap.mmap(-1, size, flags=kind), 0
    memory = mmap.mmap(-1, size + _HUGE, flags=kind)
    start = -np.ndarray(1, np.uint8, memory).ctypes.data % _HUGE
    with suppress(OSError):  # a kernel without them
        memory.madvise(mmap.MADV_HUGEPAGE, start, size // _HUGE * _HUGE)
    return memory, start


def new_array(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an uninitialised array; a large one lies in memory of the pool."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < 4 * LARGE:
        return np.empty(shape, dtype)
    array = pool.lend(shape, dtype, nbytes)
    return with_room(lambda: np.empty(shape, dtype), nbytes) if array is None else array.view(np.ndarray)


def with_room(make: Callable[[], Any], nbytes: int) -> Any:
    """Return what ``make`` allocates: at once, or after free blocks of the pool were given back.

    Raises ``MemoryError``: there is no memory then either; the message says what the pool holds.
    """
    try:
        return make()
    except (MemoryError, OSError, RuntimeError):  # torch raises RuntimeError
        pool.release()
    try:
        return make()
    except (MemoryError, OSError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        more, used = spelt_bytes(nbytes), spelt_bytes(pool.bytes_in_use)
        raise MemoryError(
            f"{more} more are needed, and there is no memory for them ({error}). Results that are still used take "
            f"{used} of the memory pool, which has given back all that was free. Keep fewer results, or train on "
            "batches: dglite.dataloading. dglite.memory_summary() shows what is held"
        ) from error


def spelt_bytes(nbytes: int) -> str:
    """Return a number of bytes for readers."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if nbytes >> shift:
            return f"{nbytes / (1 << shift):.1f} {unit}"
    return f"{nbytes} bytes"


# -- the pool of this process ------------------------------------------------------------------------------------------
pool = Pool(pool_limit)
"""The same for all tensor libraries."""


def empty_cache() -> None:
    """Return unused memory of the pool to the system.

    Idle blocks are also freed after ten seconds, and when memory runs out.
    """
    pool.release()


def memory_summary() -> str:
    """Return a summary of the memory pool as text: bytes in use, free bytes, and how often memory was reused.

    Memory that torch or NumPy allocates itself is not included.

    >>> print(dgl.memory_summary().splitlines()[3].split()[0])
    limit
    """
    return "dglite's memory pool\n" + pool.summary()


def _look(phase: str, info: dict[str, int]) -> None:
    """Free idle blocks after a full garbage collection: a program may make no further allocations."""
    if phase == "stop" and info["generation"] == 2:
        pool.release_idle()


gc.callbacks.append(_look)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.release)  # writing to what the parent has, too, would copy it
