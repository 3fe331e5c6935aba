"""Arrays of the host that are copied to a GPU together."""

from __future__ import annotations

from typing import final

import numpy as np
import torch

from ...kernels.cuda.run.program import Memory, Runner

_STAGED_BYTES = 1 << 26
"""Larger parcels are copied from ordinary memory, and waited for: torch keeps page-locked memory for good."""


@final
class ArrayParcel:
    """Arrays of the host in one piece of memory of the GPU; what they say of each other's addresses is changed."""

    def __init__(self) -> None:
        self._arrays: list[np.ndarray] = []
        self._end = 0
        self._offsets: list[int] = []

    def add(self, array: np.ndarray) -> int:
        """Add an array and return its number."""
        self._arrays.append(array)
        self._offsets.append(self._end)
        self._end += (array.nbytes + 63) // 64 * 64
        return len(self._arrays) - 1

    def pack(self, runner: Runner) -> tuple[np.ndarray, Memory]:
        """Copy all arrays into one, and return it and memory for it."""
        memory = runner.empty(max(self._end, 64))
        self._pack(np.zeros(max(self._end, 64), np.uint8), memory.address)
        return self._packed, memory

    def stage(self, device: torch.device) -> None:
        """Copy all arrays into page-locked memory, where they may be changed before they are sent to a device."""
        size = max(self._end, 64)
        self._there = torch.empty(size, dtype=torch.uint8, device=device)
        self._here_tensor = torch.empty(size, dtype=torch.uint8, pin_memory=size <= _STAGED_BYTES)
        self._pack(self._here_tensor.numpy(), self._there.data_ptr())

    def send(self) -> torch.Tensor:
        """Copy what is staged to the device, in the order of the current stream; return the memory there."""
        self._there.copy_(self._here_tensor, non_blocking=True)
        return self._there

    def _pack(self, packed: np.ndarray, address: int) -> None:
        self._packed, self._address = packed, address
        for number, array in enumerate(self._arrays):
            self.view(number)[:] = np.ascontiguousarray(array).reshape(-1)
        here = np.array([array.ctypes.data for array in self._arrays])
        order = np.argsort(here)
        self._here, ends = here[order], [array.ctypes.data + max(array.nbytes, 1) for array in self._arrays]
        self._ends = np.array(ends)[order]
        self._shifts = (address + np.array(self._offsets) - here)[order]

    def view(self, number: int) -> np.ndarray:
        """Return an array's values in the piece."""
        array, offset = self._arrays[number], self._offsets[number]
        return self._packed[offset : offset + array.nbytes].view(array.dtype)

    def address(self, number: int) -> int:
        """Return where an array will lie."""
        return self._address + self._offsets[number]

    def change(self, words: np.ndarray) -> None:
        """Change addresses inside any of the arrays."""
        at = np.maximum(np.searchsorted(self._here, words, "right") - 1, 0)
        inside = (self._here[at] <= words) & (words < self._ends[at])
        words += np.where(inside, self._shifts[at], 0)

    def change_into(self, number: int, words: np.ndarray) -> None:
        """Change addresses inside one array, which takes less where there are many words."""
        array = self._arrays[number]
        inside = (words - array.ctypes.data).view(np.uint64) < array.nbytes
        words[inside] += self.address(number) - array.ctypes.data
