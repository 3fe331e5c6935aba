"""The NumPy backend: the CPU without torch, with gradients by the autograd tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from .array import ArrayBackend
from .autograd import Tensor
from .conversions import require_device
from .library import HOST


@final
class NumpyBackend(ArrayBackend):
    """Tensors wrap ``numpy.ndarray``."""

    name = "numpy"

    def empty(self, shape: Sequence[int], dtype: str, device: Any) -> Tensor:
        if device is not None and device != HOST:
            require_device(device)
        return super().empty(shape, dtype, device)

    def address(self, x: Tensor) -> int:
        return x.data.__array_interface__["data"][0]  # a third of what .ctypes costs
