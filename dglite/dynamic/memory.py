"""Where the values of one call lie.

The memory of a call is one block for each class of vertices, taken from blocks that earlier calls have given back:
fresh memory costs a page fault for every 4 KiB. What a call returns lies in such blocks too.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from ..locks import new_lock
from .ir import Domain
from .recipe import Buffer, Place

__all__ = ["Memory", "Pool", "Span"]

_KEPT_BLOCKS = 24
_ALIGNMENT = 64
_SMALL = 1 << 15
_CODES = {torch.float32: "<f4", torch.float64: "<f8"}


class Lease:
    """A block of bytes that goes back to its pool when nobody needs it any more."""

    __slots__ = ("__array_interface__", "block", "pool")

    def __init__(self, pool: Pool, block: torch.Tensor) -> None:
        self.pool, self.block = pool, block

    def __del__(self) -> None:
        self.pool.returned.append(self.block)

    def array(self, shape: Sequence[int], dtype: torch.dtype) -> np.ndarray:
        """Return the beginning of the block as an array, which keeps it."""
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "shape": tuple(shape),
            "typestr": _CODES[dtype],
            "data": (self.block.data_ptr(), False),
        }
        return np.asarray(self)


class Pool:
    """Blocks of memory that are free, smallest first. Torch aligns them to 64 bytes."""

    def __init__(self) -> None:
        self._free: list[torch.Tensor] = []
        self._lock = new_lock()
        self.returned: deque[torch.Tensor] = deque()
        """Blocks that were given back. No lock guards it: they come whenever memory is freed, amid a take."""

    def __deepcopy__(self, memo: object) -> Pool:
        return Pool()

    def __reduce__(self) -> tuple[type[Pool], tuple[()]]:
        return Pool, ()

    def take(self, num_bytes: int) -> Lease:
        """Return a block of at least so many bytes, and of at most about four times as many."""
        with self._lock:
            self._collect()
            for i, block in enumerate(self._free):
                if num_bytes <= block.numel() <= 4 * num_bytes + 4096:
                    return Lease(self, self._free.pop(i))
        return Lease(
            self, torch.empty((num_bytes + num_bytes // 4) // _ALIGNMENT * _ALIGNMENT + _ALIGNMENT, dtype=torch.uint8)
        )

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Return a tensor of a shape, in a block that comes back when nobody refers to it any more."""
        num_bytes = math.prod(shape) * dtype.itemsize
        if num_bytes < _SMALL:
            return torch.empty(shape, dtype=dtype)
        return torch.from_numpy(self.take(num_bytes).array(shape, dtype))

    def _collect(self) -> None:
        """Sort in the blocks that were given back; forget the smallest where there are many."""
        if self.returned:
            while self.returned:
                self._free.append(self.returned.popleft())
            self._free.sort(key=torch.Tensor.numel)
            del self._free[:-_KEPT_BLOCKS]


class Span:
    """The rows and edges of one class."""

    __slots__ = ("first_edge", "first_row", "num_edges", "num_rows")

    def __init__(self, first_row: int, last_row: int, first_edge: int, last_edge: int) -> None:
        self.first_row, self.num_rows = first_row, last_row - first_row
        self.first_edge, self.num_edges = first_edge, last_edge - first_edge

    def first(self, domain: Domain) -> int:
        """Return the number of the first row or edge."""
        return self.first_row if domain is Domain.VERTEX else self.first_edge

    def count(self, domain: Domain) -> int:
        """Return how many rows or edges there are."""
        return self.num_rows if domain is Domain.VERTEX else self.num_edges


class Memory:
    """The buffers of one class in one call: its own block, and tensors that it is given.

    ``addresses``, which all classes share, gets those that row (or edge) 0 of the graph would have.
    """

    def __init__(self, span: Span, pool: Pool, buffers: Iterable[Buffer], addresses: dict[Buffer, int]) -> None:
        self.span, self.addresses = span, addresses
        self._given: dict[Buffer, tuple[torch.Tensor, int]] = {}
        self._offsets: dict[Buffer, int] = {}
        counts = {Domain.VERTEX: span.num_rows, Domain.EDGE: span.num_edges}
        firsts = {Domain.VERTEX: span.first_row, Domain.EDGE: span.first_edge}
        total = 0
        for buffer in buffers:
            self._offsets[buffer] = total
            row = buffer.width * buffer.dtype.itemsize
            total += (counts[buffer.domain] * row + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        self._lease = pool.take(total)
        start = self._lease.block.data_ptr()
        for buffer, offset in self._offsets.items():
            row = buffer.width * buffer.dtype.itemsize
            self.addresses[buffer] = start + offset - firsts[buffer.domain] * row
        self._blocks: dict[torch.dtype, torch.Tensor] = {}

    def give(self, buffer: Buffer, tensor: torch.Tensor, first: int) -> None:
        """Let a buffer lie in a contiguous tensor whose row 0 is row (or edge) ``first``."""
        self._given[buffer] = tensor, first
        self.addresses[buffer] = tensor.data_ptr() - first * buffer.width * buffer.dtype.itemsize

    def share(self, other: Memory) -> None:
        """See the buffers of another memory of the same class, and keep it alive."""
        self._other = other

    def tensor(self, place: Place) -> torch.Tensor:
        """Return a place's rows of this class, (rows, width)."""
        buffer = place.buffer
        count, start = self.span.count(buffer.domain), self.span.first(buffer.domain)
        given = self._given.get(buffer)
        if given is not None:
            rows = given[0][start - given[1] : start - given[1] + count]
            return rows if place.width == buffer.width else rows[:, place.column : place.column + place.width]
        offset = self._offsets.get(buffer)
        if offset is None:
            return self._other.tensor(place)
        block = self._blocks.get(buffer.dtype)
        if block is None:
            block = self._blocks[buffer.dtype] = self._lease.block.view(buffer.dtype)
        return block.as_strided((count, place.width), (buffer.width, 1), offset // buffer.dtype.itemsize + place.column)
