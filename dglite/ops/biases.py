"""A layer's bias and the activation after it in one pass over the rows, and their gradients in another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from ..backend import Tensor, active
from ..expr import Expr, Operand, Side, derivative, evaluate
from ..formulas import FORMULAS
from .devices import device_of

Activation = tuple[str, tuple[tuple[str, Any], ...]]
"""A function's name in the table of formulas, and its options."""
_GRAD, _ROWS, _BIAS = (Operand(Side.E, slot) for slot in range(3))
"""Operands of formulas over rows: the gradient, the other rows, and the row that all share."""
_SLOPES: dict[str, Callable[..., Expr]] = {
    "elu": lambda alpha=1.0: _ROWS.call("gt", 0.0).call("where", _GRAD, _GRAD * (_ROWS + alpha)),
    "leaky_relu": lambda negative_slope=0.01: _ROWS.call("gt", 0.0).call("where", _GRAD, _GRAD * negative_slope),
    "relu": lambda: _ROWS.call("le", 0.0).call("where", 0.0, _GRAD),
    "sigmoid": lambda: _GRAD * (_ROWS * (1.0 - _ROWS)),
    "tanh": lambda: _GRAD * (1.0 - _ROWS * _ROWS),
}
"""Gradients before activations, of that behind it and the result, which tells all of these."""
RELU: Activation = ("relu", ())


def has_kernel(x: Tensor, bias: Tensor | None = None) -> bool:
    """Whether :func:`biased` is made by a kernel: on a CPU, large, in float32 or float64, where no compiler traces."""
    if active.compiling() or active.dtype(x) not in ("float32", "float64") or not active.shape(x)[0]:
        return False
    flat = x.reshape(x.shape[0], -1)
    return active.is_pooled(flat) if bias is None else active.is_pooled(flat, bias.reshape(-1))


def biased(x: Tensor, bias: Tensor | None, activation: Activation | None) -> Tensor:
    """Return ``activation(x + bias)`` of rows (rows, \\*feat) and a bias (\\*feat), where :func:`has_kernel`."""
    shape, operands = tuple(active.shape(x)), (x,) if bias is None else (x, bias.reshape(-1))
    op = _Biased(activation, bias is not None)
    operands = (x.reshape(shape[0], -1), *operands[1:])
    result = active.apply(op, *operands) if active.requires_grad(*operands) else op.forward(*operands)
    return active.reshape(result, shape)


@lru_cache(maxsize=256)
def _formulas(activation: Activation | None, has_bias: bool) -> tuple[Expr, Expr | None]:
    """Return the forward formula and the formula of the input gradient (None if the gradient passes unchanged)."""
    inner = _ROWS + _BIAS if has_bias else _ROWS
    if activation is None:
        return inner, None
    name, options = activation
    value = FORMULAS[name].expression(inner, **dict(options))
    return value, _GRAD * derivative(value, _ROWS)


class _Biased:
    """The autograd function. It saves its operands."""

    def __init__(self, activation: Activation | None, has_bias: bool) -> None:
        self.value, self.slope = _formulas(activation, has_bias)
        self.saved = () if self.slope is None else (0, 1)[: 1 + has_bias]

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        (x, bias), (rows, shared) = active.dense((x, bias))
        shape, device = tuple(active.shape(x)), device_of(x)
        out = active.new_empty(x, shape)
        addresses = (0, rows), shared, active.address(out)
        device.kernels("rows.bias").over_rows(active.dtype(x), self.value, shape, *addresses, device.queue)
        return out

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        saved = tuple(x for x in inputs if x is not None)
        summed = len(needs) > 1 and needs[1]
        if self.slope is None:
            return list(bias_gradient(grad, None, summed))[: len(needs)]
        if active.requires_grad(grad, *saved) or active.needs_operator((grad,)):
            grad = evaluate(self.slope, (grad, *saved), active.functions)
            return [grad, active.sum(grad, 0) if summed else None][: len(needs)]
        return list(_over_rows(self.slope, grad, saved, summed))[: len(needs)]


@lru_cache(maxsize=256)
def slope_of(activation: Activation) -> Expr | None:
    """Return the gradient before an activation, of that behind it and of the result, None where that does not tell."""
    name, options = activation
    return _SLOPES[name](**dict(options)) if name in _SLOPES else None


def bias_gradient(
    grad: Tensor, result: Tensor | None, summed: bool, activation: Activation = RELU, factor: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Return the gradient before an activation, times ``factor``, and, if ``summed``, its sum over rows without that.

    ``result`` is the activation's, or None without an activation; ``factor`` (rows, 1) or (rows, \\*feat).
    """
    operands = (grad,) if result is None else (grad, result)
    slope = _GRAD if result is None else slope_of(activation)
    assert slope is not None
    is_ours = active.is_pooled(*operands) and active.dtype(grad) in ("float32", "float64")
    pays = summed or factor is not None or (result is not None and activation != RELU)
    fits = factor is None or tuple(active.shape(factor)) == (active.shape(grad)[0], 1)
    if is_ours and pays and fits and not active.requires_grad(*operands):
        return _over_rows(slope, grad, operands[1:], summed, factor)
    if result is not None:
        of_relu = activation == RELU
        grad = active.relu_gradient(grad, result) if of_relu else evaluate(slope, operands, active.functions)
    sums = active.sum(grad, 0) if summed else None
    return grad if factor is None else active.times(grad, factor), sums


def scaled_rows(like: Tensor, shape: tuple[int, int], x: int, factor: int) -> Tensor:
    """Return rows, (rows, width) at the address ``x`` in the dtype of ``like``, times a factor for each, (rows,)."""
    out, device = active.new_empty(like, shape), device_of(like)
    addresses = (x, 0), 0, active.address(out)
    device.kernels("rows.bias").over_rows(active.dtype(like), _GRAD, shape, *addresses, device.queue, factor)
    return out


def _over_rows(
    formula: Expr, grad: Tensor, others: Sequence[Tensor], summed: bool, factor: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Return ``formula`` of the gradient, other rows and a row that all share, and its sum over rows if ``summed``.

    The first is multiplied by ``factor``, (rows, 1).
    """
    (factor, grad, *others), (scale, x, *more) = active.dense((factor, grad, *others))
    rows, shared = [*more, 0, 0][:2]
    shape, device = tuple(active.shape(grad)), device_of(grad)
    out = grad if formula is _GRAD and factor is None else active.new_empty(grad, shape)
    kernels = device.kernels("rows.bias")
    kernel = kernels.sums_over_rows if summed else kernels.over_rows
    addresses = (x, rows), shared, active.address(out)
    sums = kernel(active.dtype(grad), formula, shape, *addresses, device.queue, scale)
    return out, active.from_numpy(sums) if summed else None
