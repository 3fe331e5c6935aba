"""The linear part of a layer, with bias and ReLU, and the gradients of these two."""

from __future__ import annotations

from collections.abc import Sequence

from ..backend import RESULT, Tensor, active
from .processors import processor_of

__all__ = ["bias_gradient", "product"]


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """Return ``x @ weight + bias`` of matrices, with ``relu`` its ReLU: large ones in memory of the pool."""
    operands = (x, weight) if bias is None else (x, weight, bias)
    if not (active.is_pooled(*operands) and active.requires_grad(*operands)):
        return active.product(x, weight, bias, relu)
    return active.apply(_LayerProduct(tuple(map(active.requires_grad, operands)), relu), *operands)


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


def bias_gradient(grad: Tensor, result: Tensor | None, summed: bool) -> tuple[Tensor, Tensor | None]:
    """Return the gradient before a ReLU, whose ``result`` it is unless None, and its sum over rows if ``summed``."""
    operands = (grad,) if result is None else (grad, result)
    has_kernel = active.is_pooled(*operands) and active.dtype(grad) in ("float32", "float64")
    if not (summed and has_kernel) or active.requires_grad(*operands):
        grad = grad if result is None else active.relu_gradient(grad, result)
        return grad, active.sum(grad, 0) if summed else None
    grad, shape, processor = active.contiguous(grad), tuple(active.shape(grad)), processor_of(grad)
    result, masked = (None, None) if result is None else (active.contiguous(result), active.new_empty(grad, shape))
    addresses = [0 if x is None else active.address(x) for x in (grad, result, masked)]
    sums = processor.kernels("rows.bias").bias_gradient(active.dtype(grad), shape, *addresses, processor.worker)
    return grad if masked is None else masked, active.from_numpy(sums[0])
