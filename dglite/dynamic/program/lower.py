"""Torch's operators as nodes of a vertex program.

What has no entry here still runs, as a torch function on whole batches of rows (*opaque*), where it treats each row by
itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import DGLError
from ...formulas import FORMULAS, Formula
from .ir import Builder, Domain, Node, NodeKind

__all__ = ["LOWERINGS", "Lower"]

Lower = Callable[..., Any]
"""``lower(builder, *args, **kwargs)``: nodes and plain values in, a node, several, or ``NotImplemented`` out."""


def _by_formula(formula: Formula) -> Lower:
    def lower(builder: Builder, *args: Any, **kwargs: Any) -> Any:
        try:
            operands, options = formula.arguments(*args, **kwargs)
        except TypeError:
            return NotImplemented
        expr = formula.of(tuple(operands), tuple(options.items()))
        return NotImplemented if expr is None else builder.formula(expr, list(operands.values()))

    return lower


def _power(builder: Builder, x: Any, exponent: Any) -> Any:
    if isinstance(x, Node) and exponent in (2, 3):
        square = builder.pointwise("mul", x, x)
        return square if exponent == 2 else builder.pointwise("mul", square, x)
    return NotImplemented


def _where(builder: Builder, condition: Any, x: Any, y: Any) -> Any:
    if not isinstance(condition, Node) or condition.kind is not NodeKind.POINTWISE:
        return NotImplemented
    return builder.pointwise("where", condition, x, y)


# -- products ----------------------------------------------------------------------------------------------------
def _mm(builder: Builder, x: Any, weight: Any) -> Node:
    if not isinstance(weight, Node) or not isinstance(x, Node) or weight.domain is not Domain.SHARED:
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
def _rows_kept(x: Node, rows: int, shape: Any) -> tuple[int, ...] | None:
    """Return the shape of a row in a tensor of ``shape``, None when rows are not its first dimension."""
    shape = list(shape)
    if not shape or shape[0] not in (rows, -1):
        return None
    if -1 in shape[1:]:
        known = math.prod(size for size in shape[1:] if size != -1)
        shape[shape.index(-1, 1)] = x.width // max(known, 1)
    return tuple(shape[1:])


def _view(builder: Builder, x: Node, shape: Any, *, rows: int) -> Any:
    kept = _rows_kept(x, rows, shape)
    return NotImplemented if kept is None or math.prod(kept) != x.width else builder.reshaped(x, kept)


def _expand(builder: Builder, x: Node, shape: Any, *, rows: int, implicit: bool = False) -> Any:
    full = (rows, *x.shape)
    if len(shape) != len(full):
        return NotImplemented
    wanted = tuple(old if new == -1 else new for old, new in zip(full, shape, strict=True))
    return x if wanted == full else NotImplemented


def _unsqueeze(builder: Builder, x: Node, dim: int) -> Any:
    dim = dim + len(x.shape) + 2 if dim < 0 else dim
    return NotImplemented if dim == 0 else builder.reshaped(x, (*x.shape[: dim - 1], 1, *x.shape[dim - 1 :]))


def _squeeze(builder: Builder, x: Node, dim: Any) -> Any:
    dims = [d + len(x.shape) + 1 if d < 0 else d for d in ([dim] if isinstance(dim, int) else dim)]
    if 0 in dims:
        return NotImplemented
    return builder.reshaped(x, [size for i, size in enumerate(x.shape, 1) if i not in dims or size != 1])


def _is_last(x: Node, dim: int) -> bool:
    """Return whether ``dim`` is the only feature dimension."""
    return len(x.shape) == 1 and dim in (1, -1)


def _slice(
    builder: Builder, x: Node, dim: int = 0, start: Any = None, end: Any = None, step: int = 1, *, rows: int
) -> Any:
    size = (rows, *x.shape)[dim]
    first, last, _ = slice(start, end).indices(size)
    if (first, last, step) == (0, size, 1):
        return x
    return builder.slice(x, first, max(first, last)) if step == 1 and _is_last(x, dim) else NotImplemented


def _select(builder: Builder, x: Node, dim: int, index: int) -> Any:
    """Take one of several rows of features: a message of a mailbox."""
    if dim != 1 or len(x.shape) < 2:
        return NotImplemented
    width, index = x.width // x.shape[0], index % x.shape[0]
    return builder.reshaped(builder.slice(x, index * width, (index + 1) * width), x.shape[1:])


def _unbind(builder: Builder, x: Node, dim: int = 0) -> Any:
    parts = [_select(builder, x, dim, i) for i in range(x.shape[0])] if dim == 1 and x.shape else []
    return NotImplemented if not parts or NotImplemented in parts else parts


def _split(builder: Builder, x: Node, size: int, dim: int = 0) -> Any:
    if not _is_last(x, dim):
        return NotImplemented
    return [builder.slice(x, at, min(at + size, x.width)) for at in range(0, x.width, size)]


def _split_sizes(builder: Builder, x: Node, sizes: Any, dim: int = 0) -> Any:
    if not _is_last(x, dim):
        return NotImplemented
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return [builder.slice(x, end - size, end) for end, size in zip(ends, sizes, strict=True)]


def _cat(builder: Builder, parts: Any, dim: int = 0) -> Any:
    if any(part.domain is Domain.SHARED or not _is_last(part, dim) for part in parts):
        return NotImplemented
    if len({part.domain for part in parts}) > 1 or len({part.dtype for part in parts}) > 1:
        return NotImplemented
    return builder.cat(parts)


def _sum(builder: Builder, x: Node, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Add up a few features side by side: those of a mailbox's messages."""
    dims = [d + len(x.shape) + 1 if d < 0 else d for d in ([dim] if isinstance(dim, int) else dim or [])]
    if dims != [1] or len(x.shape) < 2 or not 0 < x.shape[0] <= _MOST_TERMS or dtype is not None:
        return NotImplemented
    width = x.width // x.shape[0]
    total: Node | None = None
    for i in range(x.shape[0]):
        total = builder.add(total, builder.slice(x, i * width, (i + 1) * width))
    assert total is not None
    return builder.reshaped(total, (1, *x.shape[1:]) if keepdim else x.shape[1:])


_MOST_TERMS = 16


def _same(builder: Builder, x: Node, **_: Any) -> Node:
    return x


def _stop(builder: Builder, x: Node) -> Node:
    return builder.make(NodeKind.STOP, (x,), None, x.domain, x.shape, x.dtype)


def _like(value: float | None) -> Lower:
    def lower(builder: Builder, x: Node, *args: Any, dtype: Any = None, **_: Any) -> Any:
        if dtype not in (None, x.dtype):
            return NotImplemented
        return builder.full(float(args[0]) if value is None else value, x)

    return lower


def _bernoulli(builder: Builder, x: Node, keep: Any = 0.5, generator: Any = None) -> Any:
    if isinstance(keep, Node) or generator is not None:
        return NotImplemented
    return builder.make(NodeKind.RANDOM, (), float(keep), x.domain, x.shape, x.dtype, unique=True)


LOWERINGS: Mapping[str, Lower] = {
    **{name: _by_formula(formula) for name, formula in FORMULAS.items()},
    "pow": _power,
    "where": _where,
    "mm": _mm,
    "addmm": _addmm,
    "view": _view,
    "_unsafe_view": _view,
    "expand": _expand,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "slice": _slice,
    "select": _select,
    "unbind": _unbind,
    "split": _split,
    "unsafe_split": _split,
    "split_with_sizes": _split_sizes,
    "unsafe_split_with_sizes": _split_sizes,
    "cat": _cat,
    "sum": _sum,
    "clone": _same,
    "alias": _same,
    "detach": _stop,
    "zeros_like": _like(0.0),
    "ones_like": _like(1.0),
    "full_like": _like(None),
    "empty_like": _like(0.0),
    "bernoulli": _bernoulli,
}
"""By the name of the ATen operator, without the underscore of its in-place form."""

WANTS_ROWS = frozenset({"view", "_unsafe_view", "expand", "slice"})
"""Lowerings that are told how many rows the traced tensors have."""
