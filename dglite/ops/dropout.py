"""Dropout of features: drawn while they are multiplied, and drawn again for the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..backend import Tensor, active
from .devices import device_of


def dropout(x: Tensor, p: float) -> Tensor:
    """Return ``x``, each element 0 with probability ``p``, else divided by ``1 - p``: large matrices by our kernel.

    A seed is drawn from the tensor library's generator, so that setting its seed repeats the result.
    """
    if active.dtype(x) not in ("float32", "float64") or not active.is_pooled(x):
        return active.dropout(x, p)
    return active.apply(_Dropout(p, active.draw_seed()), x)


class _Dropout:
    """Neither features nor what was drawn are kept: equal seeds drop the same."""

    saved = ()

    def __init__(self, p: float, seed: int) -> None:
        self.p, self.seed = p, seed

    def forward(self, x: Tensor) -> Tensor:
        (x,), (address,) = active.dense((x,))
        out, size, device = active.new_empty(x, active.shape(x)), prod(active.shape(x)), device_of(x)
        kernels, written = device.kernels("rows.dropout"), active.address(out)
        kernels.drop(active.dtype(x), address, written, size, self.p, self.seed, device.queue)
        return out

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        if active.needs_operator((grad,)):
            like = active.shape(grad), 1.0, active.dtype(grad), active.device(grad)
            return [grad * self.forward(active.full(*like))]
        return [active.apply(self, grad)]
