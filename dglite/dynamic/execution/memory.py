"""Where the values of one call lie, what it returns, and gradients of parameters: in memory that earlier calls used."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from ...backend.memory import pool

CPU = torch.device("cpu")
_SMALL, _LINE = 1 << 15, 64
_IN_NUMPY = {getattr(torch, name): np.dtype(name) for name in ("float32", "float64", "uint8")}


def empty(shape: Sequence[int], dtype: torch.dtype, device: torch.device = CPU) -> torch.Tensor:
    """Return a tensor whose memory comes back when nobody refers to it any more; its values are any."""
    num_bytes = math.prod(shape) * dtype.itemsize
    small = num_bytes < _SMALL or device.type != "cpu"
    memory = None if small else pool.lend(shape, _IN_NUMPY[dtype], num_bytes, loose=True)
    return torch.empty(shape, dtype=dtype, device=device) if memory is None else torch.from_numpy(memory)


class Arena:
    """A whole number of cache lines, at least ``nbytes``, with views as tensors, which it must not outlive."""

    def __init__(self, nbytes: int, device: torch.device = CPU) -> None:
        size = max(-(-nbytes // _LINE) * _LINE, _LINE)
        buffer = pool.lend((size,), _IN_NUMPY[torch.uint8], size, loose=True) if device.type == "cpu" else None
        memory = torch.empty(size, dtype=torch.uint8, device=device) if buffer is None else torch.from_numpy(buffer)
        self._memory = memory
        self.nbytes = nbytes
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

    def clear(self, nbytes: int, address: int | None = None) -> None:
        """Set the first bytes, or those from an address on, to 0."""
        first = 0 if address is None else address - self.address
        self._memory[first : first + nbytes].zero_()
