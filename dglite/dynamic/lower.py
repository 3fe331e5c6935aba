"""Torch's operators as nodes of a vertex program.

What has no entry here still runs, as a torch function on whole batches of rows (*opaque*), where it treats each row by
itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import DGLError
from .ir import Builder, Domain, Kind, Node

__all__ = ["LOWERINGS", "Lower"]

Lower = Callable[..., Any]
"""``lower(builder, *args, **kwargs)``: nodes and plain values in, a node, several, or ``NotImplemented`` out."""


def _unary(name: str) -> Lower:
    return lambda builder, x: builder.pointwise(name, x)


def _binary(name: str) -> Lower:
    return lambda builder, x, y: builder.pointwise(name, x, y)


def _add(builder: Builder, x: Any, y: Any, alpha: float = 1) -> Node:
    return builder.pointwise("add", x, y if alpha == 1 else builder.pointwise("mul", y, alpha))


def _sub(builder: Builder, x: Any, y: Any, alpha: float = 1) -> Node:
    return builder.pointwise("sub", x, y if alpha == 1 else builder.pointwise("mul", y, alpha))


def _div(builder: Builder, x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    return NotImplemented if rounding_mode else builder.pointwise("div", x, y)


def _relu(builder: Builder, x: Node) -> Node:
    # Not a maximum: that would share the gradient at 0, where torch's is 0. NaN stays NaN.
    return builder.pointwise("where", builder.pointwise("le", x, 0.0), 0.0, x)


def _leaky_relu(builder: Builder, x: Node, slope: float = 0.01) -> Node:
    return builder.pointwise("where", builder.pointwise("gt", x, 0.0), x, builder.pointwise("mul", x, slope))


def _elu(builder: Builder, x: Node, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    if (scale, input_scale) != (1.0, 1.0):
        return NotImplemented
    # The exponential sees nothing above 0, where it could overflow and spoil the gradient.
    above = builder.pointwise("gt", x, 0.0)
    low = builder.pointwise("mul", builder.pointwise("expm1", builder.pointwise("where", above, 0.0, x)), alpha)
    return builder.pointwise("where", above, x, low)


def _softplus(builder: Builder, x: Node, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return builder.pointwise("softplus", x) if beta == 1 else NotImplemented


def _power(builder: Builder, x: Any, exponent: Any) -> Any:
    if isinstance(x, Node) and exponent in (2, 3):
        square = builder.pointwise("mul", x, x)
        return square if exponent == 2 else builder.pointwise("mul", square, x)
    return NotImplemented


def _clamp(builder: Builder, x: Node, low: Any = None, high: Any = None) -> Any:
    if isinstance(low, Node) or isinstance(high, Node):
        return NotImplemented
    # As torch: the gradient passes at the bounds; a NaN stays one, and has none.
    for bound, inside, beyond in ((low, "ge", "lt"), (high, "le", "gt")):
        if bound is not None:
            within = builder.pointwise("where", builder.pointwise(inside, x, bound), x, math.nan)
            x = builder.pointwise("where", builder.pointwise(beyond, x, bound), bound, within)
    return x


def _silu(builder: Builder, x: Node) -> Node:
    return builder.pointwise("mul", x, builder.pointwise("sigmoid", x))


def _addcmul(builder: Builder, x: Any, y: Any, z: Any, value: float = 1) -> Node:
    product = builder.pointwise("mul", y, z)
    return builder.pointwise("add", x, product if value == 1 else builder.pointwise("mul", product, value))


def _lerp(builder: Builder, x: Any, y: Any, weight: Any) -> Node:
    return builder.pointwise("add", x, builder.pointwise("mul", weight, builder.pointwise("sub", y, x)))


def _where(builder: Builder, condition: Any, x: Any, y: Any) -> Any:
    if not isinstance(condition, Node) or condition.kind is not Kind.POINTWISE:
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
    return builder.make(Kind.STOP, (x,), None, x.domain, x.shape, x.dtype)


def _like(value: float | None) -> Lower:
    def lower(builder: Builder, x: Node, *args: Any, dtype: Any = None, **_: Any) -> Any:
        if dtype not in (None, x.dtype):
            return NotImplemented
        return builder.full(float(args[0]) if value is None else value, x)

    return lower


def _bernoulli(builder: Builder, x: Node, keep: Any = 0.5, generator: Any = None) -> Any:
    if isinstance(keep, Node) or generator is not None:
        return NotImplemented
    return builder.make(Kind.RANDOM, (), float(keep), x.domain, x.shape, x.dtype, unique=True)


_FLOAT_COMPARISONS = {name: _binary(name) for name in ("gt", "ge", "lt", "le", "eq", "ne")}

LOWERINGS: Mapping[str, Lower] = {
    **{name: _unary(name) for name in ("neg", "exp", "expm1", "log", "sqrt", "abs", "tanh", "sigmoid")},
    **{name: _binary(name) for name in ("mul", "maximum", "minimum")},
    **_FLOAT_COMPARISONS,
    "add": _add,
    "sub": _sub,
    "rsub": lambda builder, x, y, alpha=1: _sub(builder, y, x, alpha),
    "div": _div,
    "reciprocal": lambda builder, x: builder.pointwise("div", 1.0, x),
    "rsqrt": lambda builder, x: builder.pointwise("div", 1.0, builder.pointwise("sqrt", x)),
    "square": lambda builder, x: builder.pointwise("mul", x, x),
    "pow": _power,
    "relu": _relu,
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "silu": _silu,
    "softplus": _softplus,
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": lambda builder, x, high: _clamp(builder, x, None, high),
    "hardtanh": lambda builder, x, low=-1.0, high=1.0: _clamp(builder, x, low, high),
    "addcmul": _addcmul,
    "lerp": _lerp,
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
