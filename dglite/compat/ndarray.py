"""``dgl.ndarray``: DGL's arrays, as thin wrappers of tensors for scripts that pass them on."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..backend import Tensor, active
from ..io.shared_arrays import create_shared_array as create_shared_mem_array
from ..io.shared_arrays import get_shared_array as get_shared_mem_array
from ..io.shared_arrays import has_shared_array as exist_shared_mem_array

__all__ = [
    "Context",
    "DGLContext",
    "NDArray",
    "array",
    "cpu",
    "create_shared_mem_array",
    "exist_shared_mem_array",
    "get_shared_mem_array",
    "gpu",
    "zerocopy_from_numpy",
]


class Context(NamedTuple):
    """A device: its kind and its number among those of this kind."""

    device_type: str
    device_id: int

    def __str__(self) -> str:
        return f"{self.device_type}:{self.device_id}"


DGLContext = Context


class NDArray:
    """An array that shares the memory of a tensor, its attribute ``data``."""

    __slots__ = ("data",)

    def __init__(self, data: Tensor) -> None:
        self.data = data

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return tuple(active.shape(self.data))

    @property
    def dtype(self) -> str:
        """Name of the dtype."""
        return active.dtype(self.data)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def ctx(self) -> Context:
        """Where the array lives."""
        kind, _, number = str(active.device(self.data)).partition(":")
        return Context(kind, int(number or 0))

    context = ctx

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"NDArray({self.asnumpy()!r}, {self.ctx})"

    def asnumpy(self) -> np.ndarray:
        """Return a copy of the values as a NumPy array."""
        return active.to_numpy(self.data).copy()

    numpy = asnumpy

    def to_dlpack(self, alignment: int = 0) -> Any:
        """Return a DLPack capsule that shares the memory."""
        return self.data.__dlpack__()


def array(arr: Any, ctx: Context | None = None) -> NDArray:
    """Return a copy of a list, NumPy array or ``NDArray`` on device ``ctx``, the CPU by default."""
    values = arr.asnumpy() if isinstance(arr, NDArray) else np.array(arr)
    return NDArray(active.from_numpy(values, None if ctx is None or ctx.device_type == "cpu" else str(ctx)))


def zerocopy_from_numpy(np_data: np.ndarray) -> NDArray:
    """Return an array that shares the memory of a NumPy array."""
    return NDArray(active.from_numpy(np_data))


def cpu(dev_id: int = 0) -> Context:
    """Return the context of the host."""
    return Context("cpu", dev_id)


def gpu(dev_id: int = 0) -> Context:
    """Return the context of a CUDA device."""
    return Context("cuda", dev_id)
