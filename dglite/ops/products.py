"""The linear part of a layer, with bias and ReLU."""

from __future__ import annotations

from collections.abc import Sequence

from ..backend import RESULT, Tensor, active
from .biases import bias_gradient
from .devices import device_of

__all__ = ["product", "weight_gradient"]

NARROW, LINE = 2048, 64
"""Elements of a matrix up to which a product of many rows with it takes as long as memory does; bytes of a line."""


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """Return ``x @ weight + bias`` of matrices, with ``relu`` its ReLU: large ones in memory of the pool."""
    operands = (x, weight) if bias is None else (x, weight, bias)
    if not active.is_pooled(*operands):
        return active.product(x, weight, bias, relu)
    needs, narrow = tuple(map(active.requires_grad, operands)), _is_narrow(active.shape(weight), active.dtype(x))
    if not narrow and not any(needs):
        return active.product(x, weight, bias, relu)
    return active.apply((_NarrowProduct if narrow else _LayerProduct)(needs, relu), *operands)


def weight_gradient(x: Tensor, grad: Tensor) -> Tensor:
    """Return the transpose of ``x`` times ``grad``, of which no gradient is recorded."""
    sizes, dtype = (active.shape(x)[1], active.shape(grad)[1]), active.dtype(x)
    if not (active.is_pooled(x, grad) and _is_narrow(sizes, dtype)):
        return active.swap_last(x) @ grad
    x, grad, device = active.contiguous(x), active.contiguous(grad), device_of(x)
    kernel, addresses = device.kernels("rows.narrow").gradients, (active.address(grad), 0, active.address(x))
    found, _ = kernel(dtype, (active.shape(x)[0], *sizes), *addresses, (0, 0), False, device.worker)
    return active.from_numpy(found)


def _is_narrow(sizes: Sequence[int], dtype: str) -> bool:
    """Whether our kernels are faster than a GEMM: few columns, whole lines of them or, on a side of one, halves."""
    item = {"float32": 4, "float64": 8}.get(dtype, 0)
    part = LINE // 2 if min(sizes) * item <= LINE else LINE
    return item > 0 and 0 < sizes[0] * sizes[1] <= NARROW and sizes[0] * item % part == sizes[1] * item % part == 0


class _LayerProduct:
    """One recorded call. Of ReLU it keeps the result, which is 0 where the gradient is."""

    def __init__(self, needs: Sequence[bool], relu: bool) -> None:
        self.relu = relu
        self.saved = (*((1,) if needs[0] else ()), *((0,) if needs[1] else ()), *((RESULT,) if relu else ()))

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return active.product(x, weight, bias, self.relu)

    def backward(self, inputs: Sequence[Tensor | None], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        x, weight = inputs[:2]
        result = inputs[RESULT] if self.relu else None
        grad, sums = bias_gradient(grad, result, len(needs) > 2 and needs[2])
        grads = [product(grad, active.swap_last(weight)) if needs[0] else None]
        grads += [product(active.swap_last(x), grad) if needs[1] else None]
        return [*grads, sums][: len(needs)]


class _NarrowProduct(_LayerProduct):
    """One of a few columns: a pass over its rows in each direction, unless gradients of gradients may follow."""

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        self.shape = (*active.shape(x), active.shape(weight)[1])
        dense = [None if each is None else active.contiguous(each) for each in (x, weight, bias)]
        out, device = active.new_empty(x, (self.shape[0], self.shape[2])), device_of(x)
        kernel = device.kernels("rows.narrow").product
        kernel(active.dtype(x), self.shape, *map(_address, dense), self.relu, active.address(out), device.worker)
        return out

    def backward(self, inputs: Sequence[Tensor | None], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        x, weight = inputs[:2]
        if active.requires_grad(grad, *(y for y in (x, weight) if y is not None)):
            return super().backward(inputs, grad, needs)
        grad = active.contiguous(grad)
        x = active.contiguous(x) if needs[1] else None
        turned = active.contiguous(active.swap_last(weight)) if needs[0] else None
        x_grad = active.new_empty(grad, self.shape[:2]) if needs[0] else None
        result = active.contiguous(inputs[RESULT]) if self.relu else None
        addresses = [_address(y) for y in (grad, result, x)]
        device, summed = device_of(grad), len(needs) > 2 and needs[2]
        of_x = _address(turned), _address(x_grad)
        kernel = device.kernels("rows.narrow").gradients
        found = kernel(active.dtype(grad), self.shape, *addresses, of_x, summed, device.worker)
        return [x_grad, *(None if y is None else active.from_numpy(y) for y in found)][: len(needs)]


def _address(x: Tensor | None) -> int:
    return 0 if x is None else active.address(x)
