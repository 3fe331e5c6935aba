"""Where the values of one call lie, what it returns, and gradients of parameters: in memory that earlier calls used."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ...backend import torch_memory

__all__ = ["Arena", "empty"]

_SMALL, _LINE = 1 << 15, 64


def empty(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor whose memory comes back when nobody refers to it any more; its values are any."""
    if math.prod(shape) * dtype.itemsize < _SMALL:
        return torch.empty(shape, dtype=dtype)
    return torch_memory.empty(shape, dtype, "cpu", loose=True)


class Arena:
    """A whole number of cache lines, at least ``nbytes``, with views as tensors, which it must not outlive."""

    def __init__(self, nbytes: int) -> None:
        taken = max(-(-nbytes // _LINE) * _LINE, _LINE)
        self.nbytes, self._memory = nbytes, torch_memory.empty((taken,), torch.uint8, "cpu", loose=True)
        self.address = self._memory.data_ptr()
        self._typed: dict[torch.dtype, torch.Tensor] = {}

    def view(self, address: int, count: int, distance: int, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
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
