"""The linear part of a layer, with bias and ReLU."""

from __future__ import annotations

from collections.abc import Sequence

from ..backend import RESULT, Tensor, active
from .biases import bias_gradient
from .devices import device_of

__all__ = ["product", "product_forward", "product_gradients", "weight_gradient"]

NARROW, LINE = 2048, 64
"""Elements of a matrix up to which a product of many rows with it takes as long as memory does; bytes of a line."""


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """Return ``x @ weight + bias`` of matrices, with ``relu`` its ReLU: large ones in memory of the pool."""
    operands = (x, weight) if bias is None else (x, weight, bias)
    if not active.is_pooled(*operands):
        return active.product(x, weight, bias, relu)
    needs = active.needs_grad(operands)
    return active.apply(_Product(needs, relu), *operands) if any(needs) else product_forward(x, weight, bias, relu)


def product_forward(x: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """Return a product in memory of the pool, of which nothing is recorded."""
    sizes, dtype = active.shape(weight), active.dtype(x)
    if not _is_narrow(sizes, dtype) or active.shape(x)[1] != sizes[0]:
        return active.product(x, weight, bias, relu)
    (x, weight, bias), addresses = active.dense((x, weight, bias))
    rows, device = active.shape(x)[0], device_of(x)
    out = active.new_empty(x, (rows, sizes[1]))
    device.kernels("rows.narrow").product(dtype, (rows, *sizes), addresses, relu, active.address(out), device.worker)
    return out


def product_gradients(
    x: Tensor | None, weight: Tensor | None, grad: Tensor, needs: Sequence[bool], result: Tensor | None = None
) -> list[Tensor | None]:
    """Return the gradients of a product's operands by ``needs``, that of its result being ``grad``.

    ``result`` is that of the ReLU, where there was one. ``x`` is read for the weight's gradient, ``weight`` for that of
    x. Narrow ones take a pass over the rows, unless gradients of gradients may follow.
    """
    summed, given = len(needs) > 2 and needs[2], [y for y in (x, weight) if y is not None]
    inner = active.shape(x)[1] if weight is None and x is not None else active.shape(weight)[0] if given else 0
    (rows, outer), dtype = active.shape(grad), active.dtype(grad)
    shape = rows, inner, outer
    if not (active.is_pooled(grad) and _is_narrow(shape[1:], dtype)) or active.requires_grad(grad, *given):
        grad, sums = bias_gradient(grad, result, summed)
        grads = [product(grad, active.swap_last(weight)) if needs[0] else None]
        return [*grads, product(active.swap_last(x), grad) if needs[1] else None, sums][: len(needs)]
    turned, x_grad = (active.swap_last(weight), active.new_empty(grad, shape[:2])) if needs[0] else (None, None)
    dense, addresses = active.dense((grad, result, x if needs[1] else None, turned, x_grad))
    device = device_of(dense[0])
    found = device.kernels("rows.narrow").gradients(dtype, shape, addresses, summed, device.worker)
    return [x_grad, *(None if y is None else active.from_numpy(y) for y in found)][: len(needs)]


def weight_gradient(x: Tensor, grad: Tensor) -> Tensor:
    """Return the transpose of ``x`` times ``grad``, of which no gradient is recorded."""
    sizes, dtype = (active.shape(x)[1], active.shape(grad)[1]), active.dtype(x)
    if not (active.is_pooled(x, grad) and _is_narrow(sizes, dtype)):
        return active.swap_last(x) @ grad
    dense, addresses = active.dense((grad, None, x, None, None))
    device, shape = device_of(dense[0]), (active.shape(x)[0], *sizes)
    found, _ = device.kernels("rows.narrow").gradients(dtype, shape, addresses, False, device.worker)
    return active.from_numpy(found)


def _is_narrow(sizes: Sequence[int], dtype: str) -> bool:
    """Whether our kernels are faster than a GEMM: few columns, whole lines of them or, on a side of one, halves."""
    item = {"float32": 4, "float64": 8}.get(dtype, 0)
    part = LINE // 2 if min(sizes) * item <= LINE else LINE
    return item > 0 and 0 < sizes[0] * sizes[1] <= NARROW and sizes[0] * item % part == sizes[1] * item % part == 0


class _Product:
    """One recorded call. Of ReLU it keeps the result, which is 0 where the gradient is."""

    def __init__(self, needs: Sequence[bool], relu: bool) -> None:
        self.relu = relu
        self.saved = (*((1,) if needs[0] else ()), *((0,) if needs[1] else ()), *((RESULT,) if relu else ()))

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return product_forward(x, weight, bias, self.relu)

    def backward(self, inputs: Sequence[Tensor | None], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        return product_gradients(inputs[0], inputs[1], grad, needs, inputs[RESULT] if self.relu else None)
