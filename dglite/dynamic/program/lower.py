"""Torch's operators as nodes of a vertex program.

What has no entry here still runs, as a torch function on whole batches of rows (*opaque*), where it treats each row by
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ...errors import DGLError
from ...formulas import FORMULAS, Formula
from ...opspec import COMPARISONS
from .ir import Builder, Node, NodeKind, RowDomain

_DATA_DEPENDENT = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero", "unique_dim", "_unique2")

Lower = Callable[..., Any]
"""``lower(builder, *args, **kwargs)``: nodes and plain values in, a node, several, or ``NotImplemented`` out."""


def _by_formula(formula: Formula) -> Lower:
    def lower(builder: Builder, *args: Any, **kwargs: Any) -> Any:
        try:
            operands, options = formula.arguments(*args, **kwargs)
        except TypeError:
            return NotImplemented
        expr = formula.bind(tuple(operands), tuple(options.items()))
        return NotImplemented if expr is None else builder.formula(expr, list(operands.values()))

    return lower


def _power(builder: Builder, x: Any, exponent: Any) -> Any:
    if isinstance(x, Node) and exponent in (2, 3):
        square = builder.pointwise("mul", x, x)
        return square if exponent == 2 else builder.pointwise("mul", square, x)
    return NotImplemented


# -- booleans ----------------------------------------------------------------------------------------------------
def _comparison(formula: Formula) -> Lower:
    lower = _by_formula(formula)

    def boolean(builder: Builder, *args: Any, **kwargs: Any) -> Any:
        comparison = lower(builder, *args, **kwargs)
        return builder.boolean(comparison) if isinstance(comparison, Node) else NotImplemented

    return boolean


def _where(builder: Builder, condition: Any, x: Any = None, y: Any = None) -> Any:
    return NotImplemented if x is None or y is None else builder.where(condition, x, y)


def _masked_fill(builder: Builder, x: Any, mask: Node, value: Any) -> Node:
    return builder.where(mask, value, x)


def _not(builder: Builder, x: Node) -> Node:
    return builder.pointwise("sub", 1.0, x)


def _xor(builder: Builder, x: Any, y: Any) -> Node:
    return builder.boolean(builder.pointwise("ne", x, y))


_LOGIC: Mapping[str, Lower] = {
    "and": lambda builder, x, y: builder.pointwise("mul", x, y),
    "or": lambda builder, x, y: builder.pointwise("maximum", x, y),
    "not": _not,
    "xor": _xor,
}
BOOLEAN: Mapping[str, Lower] = {
    **{name: _comparison(FORMULAS[name]) for name in COMPARISONS},
    **{f"{form}_{name}": lower for name, lower in _LOGIC.items() for form in ("logical", "bitwise")},
}
"""Operators whose result is a boolean; operands of logical ones are booleans as 0 and 1."""
ELEMENTWISE = {*FORMULAS, *BOOLEAN, "where", "masked_fill", "pow"}
TAKES_BOOLEANS = ("where", "masked_fill", "clone", "cat", *BOOLEAN)
"""Operators that do not use booleans as numbers."""


# -- products ----------------------------------------------------------------------------------------------------
def _mm(builder: Builder, x: Any, weight: Any) -> Node:
    if not isinstance(weight, Node) or not isinstance(x, Node) or weight.domain is not RowDomain.SHARED:
        raise DGLError(
            "F multiplies matrices of which the second is not a parameter: rows are vertices, so that would mix "
            "vertices; multiply as x @ weight, and use torch.einsum or a product of a row's own features for the rest"
        )
    return builder.matmul(x, weight)


def _addmm(builder: Builder, bias: Any, x: Any, weight: Any, beta: float = 1, alpha: float = 1) -> Node:
    product = _mm(builder, x, weight)
    product = product if alpha == 1 else builder.pointwise("mul", product, alpha)
    return builder.pointwise("add", product, bias if beta == 1 else builder.pointwise("mul", bias, beta))


# -- shapes ------------------------------------------------------------------------------------------------------
def _cat(builder: Builder, parts: Any, dim: int = 0) -> Any:
    if dim not in (1, -1) or any(part.domain is RowDomain.SHARED or len(part.shape) != 1 for part in parts):
        return NotImplemented
    if len({part.domain for part in parts}) > 1 or len({part.dtype for part in parts}) > 1:
        return NotImplemented
    return builder.cat(parts)


def _sum(builder: Builder, x: Node, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Add up all features of a row, or a few that lie side by side: those of a mailbox's messages."""
    dims = [d + len(x.shape) + 1 if d < 0 else d for d in ([dim] if isinstance(dim, int) else dim or [])]
    if dims == [1] and len(x.shape) == 1 and x.width and dtype is None:
        every = builder.matmul(x, builder.ones(x.width, 1))
        return every if keepdim else builder.reshaped(every, ())
    if dims != [1] or len(x.shape) < 2 or not 0 < x.shape[0] <= _MOST_TERMS or dtype is not None:
        return NotImplemented
    width = x.width // x.shape[0]
    total: Node | None = None
    for i in range(x.shape[0]):
        total = builder.add(total, builder.slice(x, i * width, (i + 1) * width))
    assert total is not None
    return builder.reshaped(total, (1, *x.shape[1:]) if keepdim else x.shape[1:])


_MOST_TERMS = 16


def stop_gradient(builder: Builder, x: Node) -> Node:
    """Return the same values, whose gradient is 0."""
    return builder.make(NodeKind.COPY, (x,), "without gradient", x.domain, x.shape, x.dtype)


def _bernoulli(builder: Builder, x: Node, keep: Any = 0.5, generator: Any = None) -> Any:
    if isinstance(keep, Node) or generator is not None:
        return NotImplemented
    return builder.make(NodeKind.RANDOM, (), float(keep), x.domain, x.shape, x.dtype, unique=True)


LOWERINGS: Mapping[str, Lower] = {
    **{name: _by_formula(formula) for name, formula in FORMULAS.items()},
    **BOOLEAN,
    "pow": _power,
    "where": _where,
    "masked_fill": _masked_fill,
    "mm": _mm,
    "addmm": _addmm,
    "cat": _cat,
    "sum": _sum,
    "clone": lambda builder, x, **_: x,
    "detach": stop_gradient,
    "bernoulli": _bernoulli,
}
"""By the name of the ATen operator, without the underscore of its in-place form."""


# -- what is refused ---------------------------------------------------------------------------------------------
def mixing(name: str) -> DGLError:
    """Return the error of an operator that combines rows."""
    return DGLError(
        f"F mixes vertices: {name} works across dimension 0, or moves it. Inside F a tensor is (vertices, *features); "
        "operate on dimension 1 and up (dim=-1)"
    )


def check_independent(name: str) -> None:
    """Raise for an operator whose result depends on values: all vertices take the same path."""
    if name in _DATA_DEPENDENT:
        raise DGLError(
            f"F looks at the values of its tensors ({name}: if, bool(), item(), ...). F is traced once and runs "
            "for all vertices of a level together, so every vertex must take the same path. Use torch.where, give "
            "vertices of different kinds functions of their own (dynamic.ByKind), or record each sample by itself "
            "with lazy batching"
        )


# -- what is not lowered one by one ----------------------------------------------------------------------------------
TRANSPOSES = ("t", "transpose", "permute")
FACTORIES = {"zeros": 0.0, "ones": 1.0, "empty": 0.0, "full": None}
FACTORIES |= {form.format(name): value for name, value in FACTORIES.items() for form in ("new_{}", "{}_like")}
"""Functions that make constants, with the value of their elements; None where it is an argument."""


# -- what torch computes by one operator on a GPU, by those that it uses on the CPU -----------------------------------
def _gates(x: Tensor, hidden: Tensor, *biases: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the products with the input and with the hidden state, with their biases."""
    of_input, of_hidden = (*biases, None, None)[:2]
    return (
        x if of_input is None else x + of_input,
        hidden if of_hidden is None else hidden + of_hidden,
    )


def _lstm(x: Tensor, hidden: Tensor, cell: Tensor, *biases: Tensor | None) -> tuple[Tensor, ...]:
    of_input, of_hidden = _gates(x, hidden, *biases)
    i, f, g, o = (of_input + of_hidden).chunk(4, 1)
    after = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(after), after, cell


def _gru(x: Tensor, hidden: Tensor, state: Tensor, *biases: Tensor | None) -> tuple[Tensor, ...]:
    of_input, of_hidden = (gates.chunk(3, 1) for gates in _gates(x, hidden, *biases))
    reset, update = (torch.sigmoid(of_hidden[k] + of_input[k]) for k in range(2))
    new = torch.tanh(of_input[2] + of_hidden[2] * reset)
    return (state - new) * update + new, state


def _dropout(x: Tensor, p: float, train: bool | None) -> tuple[Tensor, ...]:
    if train is False or p == 0:
        return x, x
    return x * torch.empty_like(x).bernoulli_(1 - p).div_(1 - p), x


FUSED: Mapping[str, Callable[..., tuple[Tensor, ...]]] = {
    "_thnn_fused_lstm_cell": _lstm,
    "_thnn_fused_gru_cell": _gru,
    "native_dropout": _dropout,
}
"""By the name of the ATen operator; the last result stands for a workspace or mask that only torch's gradient reads."""
