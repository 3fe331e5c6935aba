"""Where the values of one call lie.

The memory of a call is one block for each class of vertices, taken from blocks that earlier calls have given back:
fresh memory costs a page fault for every 4 KiB. What a call returns lies in such blocks too.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ...locks import new_lock

__all__ = ["Lease", "Pool"]

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
