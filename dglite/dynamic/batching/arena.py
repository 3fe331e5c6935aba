"""Memory that results of a run lie in. It is used again for later runs: fresh memory costs a page fault per 4 kB."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["Arena"]

_KEPT = 4
_free: list[Tensor] = []
_lock = threading.Lock()


class Arena:
    """A block of memory, with views of it as tensors. It must not outlive those."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes, self._memory = nbytes, _take(nbytes)
        self.address = self._memory.data_ptr()
        self._typed: dict[torch.dtype, Tensor] = {}

    def view(self, address: int, count: int, distance: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Return ``count`` values of one shape, ``distance`` bytes apart: (count, *shape)."""
        typed = self._typed.get(dtype)
        if typed is None:
            typed = self._typed[dtype] = self._memory.view(dtype)
        item = dtype.itemsize
        strides, inner = [], 1
        for size in reversed(shape):
            strides.append(inner)
            inner *= size
        return typed.as_strided(
            (count, *shape), (distance // item, *reversed(strides)), (address - self.address) // item
        )

    def clear(self, nbytes: int) -> None:
        """Set the first bytes to 0."""
        self._memory[:nbytes].zero_()

    def __del__(self) -> None:
        with _lock:
            if len(_free) < _KEPT:
                _free.append(self._memory)


def _take(nbytes: int) -> Tensor:
    """Return the smallest free block that is large enough, or a new one with some room to spare."""
    with _lock:
        fitting = [block for block in _free if nbytes <= block.numel() <= 8 * nbytes + (1 << 20)]
        if fitting:
            best = min(fitting, key=Tensor.numel)
            _free[:] = [block for block in _free if block is not best]
            return best
        _free[:] = [block for block in _free if block.numel() > nbytes // 2]
    return torch.empty((nbytes + nbytes // 4 + 4095) // 4096 * 4096, dtype=torch.uint8)
