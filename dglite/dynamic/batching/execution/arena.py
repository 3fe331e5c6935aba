"""Memory that results of a run lie in."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...execution.memory import take

__all__ = ["Arena"]


class Arena:
    """A block of memory, with views of it as tensors. It must not outlive those."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes, self._memory = nbytes, take(nbytes)
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
