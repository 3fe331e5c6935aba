"""The CuPy backend: NVIDIA GPUs without torch, with the same autograd tape over CuPy's arrays."""

from __future__ import annotations

from typing import Any, final

import cupy
from cupyx.scipy.special import erf

from .array import ArrayBackend
from .autograd import Tensor
from .library import Device, library
from .rules import FUNCTIONS

library.xp = cupy
FUNCTIONS["erf"] = erf


@final
class CupyBackend(ArrayBackend):
    """Tensors wrap ``cupy.ndarray``. Structure stays with NumPy, on the host."""

    name = "cupy"

    def address(self, x: Tensor) -> int:
        return x.data.data.ptr  # type: ignore[no-any-return]

    def stream(self, device: Any) -> int:
        return cupy.cuda.get_current_stream().ptr  # type: ignore[no-any-return]

    def cpu(self) -> Any:
        # Where graphs live that were made of lists: CuPy has tensors on GPUs only.
        return Device(f"cuda:{cupy.cuda.Device().id}")
