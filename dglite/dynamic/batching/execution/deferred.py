"""Products whose weight gradients wait: inside a cell, ``F.linear`` with a parameter keeps what one GEMM will need.

A level of a tree has few rows, and a weight gradient costs as much for few rows as for many: it writes the whole
matrix. So the rows of all levels are put together first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["InputsAndGradients", "Late", "deferring"]

InputsAndGradients = tuple[Tensor, Tensor]
"""Inputs (n, features) of a product and the gradients (n, columns) of its results."""


class Late:
    """The products of one call. ``anchor`` makes torch ask for their gradients although no tensor of them does."""

    def __init__(self) -> None:
        self.anchor = torch.zeros((), requires_grad=True)
        self.products: list[tuple[Tensor, Tensor | None, list[InputsAndGradients]]] = []

    @property
    def parameters(self) -> list[Tensor]:
        """The weights and biases."""
        return [p for weight, bias, _ in self.products for p in (weight, bias) if p is not None and p.requires_grad]

    def has(self, parameter: Tensor) -> bool:
        """Whether the parameter is one of these products'."""
        return any(parameter is weight or parameter is bias for weight, bias, _ in self.products)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, anchor: Tensor, weight: Tensor, bias: Tensor | None, rows: list[InputsAndGradients]
    ) -> Tensor:
        ctx.x, ctx.weight, ctx.rows = x, weight, rows
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        flat = grad.reshape(-1, grad.shape[-1])
        ctx.rows.append((ctx.x.reshape(-1, ctx.x.shape[-1]), flat))
        into = (grad @ ctx.weight) if ctx.needs_input_grad[0] else None
        return into, torch.zeros(()), None, None, None


class _Deferring(TorchFunctionMode):
    def __init__(self, late: Late) -> None:
        super().__init__()
        self.late = late

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function is F.linear and _is_deferrable(*args, **kwargs):
            return self._linear(*args, **kwargs)
        if function is torch.lstm_cell:
            return _lstm_cell(self._linear, *args)
        if function is torch.gru_cell:
            return _gru_cell(self._linear, *args)
        return function(*args, **kwargs)

    def _linear(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        rows: list[InputsAndGradients] = []
        self.late.products.append((weight, bias, rows))
        return _Product.apply(input, self.late.anchor, weight.detach(), None if bias is None else bias.detach(), rows)


def _is_deferrable(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> bool:
    return weight.requires_grad and weight.is_leaf and (bias is None or (bias.is_leaf and bias.requires_grad))


def _lstm_cell(
    linear: Callable[..., Tensor],
    x: Tensor,
    state: tuple[Tensor, Tensor],
    weight_x: Tensor,
    weight_h: Tensor,
    bias_x: Tensor | None = None,
    bias_h: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    i, f, g, o = (linear(x, weight_x, bias_x) + linear(state[0], weight_h, bias_h)).chunk(4, -1)
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru_cell(
    linear: Callable[..., Tensor],
    x: Tensor,
    h: Tensor,
    weight_x: Tensor,
    weight_h: Tensor,
    bias_x: Tensor | None = None,
    bias_h: Tensor | None = None,
) -> Tensor:
    from_x, from_h = linear(x, weight_x, bias_x).chunk(3, -1), linear(h, weight_h, bias_h).chunk(3, -1)
    r, z = (from_x[0] + from_h[0]).sigmoid(), (from_x[1] + from_h[1]).sigmoid()
    n = (from_x[2] + r * from_h[2]).tanh()
    return (1 - z) * n + z * h


@contextmanager
def deferring() -> Iterator[Late]:
    """Let weight gradients of products inside the ``with`` block wait."""
    late = Late()
    with _Deferring(late):
        yield late
