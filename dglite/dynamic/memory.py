"""Where the values of one call lie.

The memory of a call is one block for each class of vertices, taken from blocks that earlier calls have given back: fresh
memory costs a page fault for every 4 KiB.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import torch

from .ir import Domain
from .plan import Buffer, Place

__all__ = ["Memory", "Pool", "Span"]

_KEPT_BLOCKS = 12
_ALIGNMENT = 64


class Lease:
    """A block of bytes that goes back to its pool when nobody needs it any more."""

    __slots__ = ("block", "pool")

    def __init__(self, pool: Pool, block: torch.Tensor) -> None:
        self.pool, self.block = pool, block

    def __del__(self) -> None:
        self.pool.give_back(self.block)


class Pool:
    """Blocks of memory that are free, smallest first."""

    def __init__(self) -> None:
        self._free: list[torch.Tensor] = []
        self._lock = threading.Lock()

    def __deepcopy__(self, memo: object) -> Pool:
        return Pool()

    def __reduce__(self) -> tuple[type[Pool], tuple[()]]:
        return Pool, ()

    def take(self, num_bytes: int) -> Lease:
        """Return a block of at least so many bytes, and of at most about four times as many."""
        with self._lock:
            for i, block in enumerate(self._free):
                if num_bytes <= block.numel() <= 4 * num_bytes + 4096:
                    return Lease(self, self._free.pop(i))
        return Lease(self, torch.empty(num_bytes + num_bytes // 4 + _ALIGNMENT, dtype=torch.uint8))

    def give_back(self, block: torch.Tensor) -> None:
        """Keep a block for the next call, unless there are many."""
        with self._lock:
            self._free.append(block)
            self._free.sort(key=torch.Tensor.numel)
            if len(self._free) > _KEPT_BLOCKS:
                del self._free[0]


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
    """The buffers of one class in one call: its own block, and tensors that it is given."""

    def __init__(self, span: Span, pool: Pool, buffers: Iterable[Buffer]) -> None:
        self.span = span
        self._given: dict[Buffer, tuple[torch.Tensor, int]] = {}
        self._offsets: dict[Buffer, int] = {}
        self._tensors: dict[Buffer, torch.Tensor] = {}
        total = _ALIGNMENT
        for buffer in buffers:
            self._offsets[buffer] = total
            size = span.count(buffer.domain) * buffer.width * buffer.dtype.itemsize
            total += -(-size // _ALIGNMENT) * _ALIGNMENT
        self._lease = pool.take(total)
        start = self._lease.block.data_ptr()
        self._start = -start % _ALIGNMENT
        self._address = start + self._start

    def give(self, buffer: Buffer, tensor: torch.Tensor, first: int) -> None:
        """Let a buffer lie in a tensor whose row 0 is row (or edge) ``first``."""
        self._given[buffer] = tensor, first

    def share(self, other: Memory) -> None:
        """See the buffers of another memory of the same class, which stays alive."""
        self._given.update(other._given)
        for buffer in other._offsets:
            self._given[buffer] = other.buffer(buffer), self.span.first(buffer.domain)

    def address(self, place: Place) -> tuple[int, int]:
        """Return the address that row 0 of the graph would have, and the bytes from row to row."""
        buffer = place.buffer
        item = buffer.dtype.itemsize
        given = self._given.get(buffer)
        if given is not None:
            tensor, first = given
            stride = tensor.stride(0) * item
            return tensor.data_ptr() + place.column * item - first * stride, stride
        stride = buffer.width * item
        first = self.span.first(buffer.domain)
        return self._address + self._offsets[buffer] + place.column * item - first * stride, stride

    def buffer(self, buffer: Buffer) -> torch.Tensor:
        """Return a buffer's rows of this class, (rows, width)."""
        tensor = self._tensors.get(buffer)
        if tensor is None:
            count, start = self.span.count(buffer.domain), self.span.first(buffer.domain)
            if buffer in self._given:
                whole, first = self._given[buffer]
                tensor = whole[start - first : start - first + count]
            else:
                begin = self._start + self._offsets[buffer]
                size = count * buffer.width * buffer.dtype.itemsize
                tensor = self._lease.block[begin : begin + size].view(buffer.dtype).view(count, buffer.width)
            self._tensors[buffer] = tensor
        return tensor

    def tensor(self, place: Place) -> torch.Tensor:
        """Return a place's rows of this class."""
        whole = self.buffer(place.buffer)
        if place.width == place.buffer.width:
            return whole
        return whole[:, place.column : place.column + place.width]
