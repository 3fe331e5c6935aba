"""The operations that deferred columns understand, with the signatures that tensor libraries give them.

An operation returns ``NotImplemented`` where its arguments are beyond it; the column is computed then.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..backend import active as backend
from ..expr import Call, Constant, write_out_powers
from ..opspec import COMPARISONS, OPERATORS
from .combine import LARGEST, Table, combine, is_truth, reshaped, rowwise, settled
from .deferred import Column, Tape, is_deferred

__all__ = ["MESSAGES"]

MESSAGES = Table()
"""Operations on columns of a batch of edges, and inside a mailbox."""


# -- element-wise ------------------------------------------------------------------------------------------------------
def _plain(op: str, arity: int) -> Callable[..., Any]:
    if arity == 1:
        return lambda tape, input: combine(tape, op, input)
    return lambda tape, input, other: combine(tape, op, input, other)


for _name in ("exp", "expm1", "log", "sqrt", "abs", "sign", "tanh", "sigmoid"):
    MESSAGES.add(_name)(_plain(_name, 1))
for _name in ("mul", "maximum", "minimum", *COMPARISONS):
    MESSAGES.add(_name)(_plain(_name, 2))


@MESSAGES.add("pos", "contiguous")
def _same(tape: Tape, input: Any) -> Any:
    return input


@MESSAGES.add("add")
def _add(tape: Tape, input: Any, other: Any, *, alpha: float = 1) -> Any:
    return combine(tape, "add", input, other) if alpha == 1 else NotImplemented


def _are_numbers(*args: Any) -> bool:
    """Whether no argument holds truths, which can be neither subtracted nor negated."""
    return not any(type(arg) is Column and is_truth(arg) for arg in args)


@MESSAGES.add("sub")
def _sub(tape: Tape, input: Any, other: Any, *, alpha: float = 1) -> Any:
    return combine(tape, "sub", input, other) if alpha == 1 and _are_numbers(input, other) else NotImplemented


@MESSAGES.add("neg")
def _neg(tape: Tape, input: Any) -> Any:
    return combine(tape, "neg", input) if _are_numbers(input) else NotImplemented


@MESSAGES.add("truediv")
def _div(tape: Tape, input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    return combine(tape, "div", input, other) if rounding_mode is None else NotImplemented


@MESSAGES.add("reciprocal")
def _reciprocal(tape: Tape, input: Any) -> Any:
    return combine(tape, "div", 1.0, input)


@MESSAGES.add("square")
def _square(tape: Tape, input: Any) -> Any:
    return combine(tape, "mul", input, input)


@MESSAGES.add("rsqrt")
def _rsqrt(tape: Tape, input: Any) -> Any:
    return _then(tape, combine(tape, "sqrt", input), lambda root: combine(tape, "div", 1.0, root))


@MESSAGES.add("pow")
def _pow(tape: Tape, input: Any, exponent: Any) -> Any:
    if type(input) is not Column or isinstance(exponent, bool) or not isinstance(exponent, int | float):
        return NotImplemented
    if is_truth(input) or not math.isfinite(exponent):
        return NotImplemented
    column = settled(tape, input)
    if exponent == int(exponent) and not 1 <= abs(exponent) <= 32:
        return NotImplemented
    expr = Call(OPERATORS["power"], (column._expr, Constant(float(exponent))))
    if write_out_powers(expr).size > LARGEST:  # type: ignore[attr-defined]
        return NotImplemented
    return Column(tape, expr, column._feat, column._dtype)


def _then(tape: Tape, result: Any, step: Callable[[Column], Any]) -> Any:
    return result if result is NotImplemented else step(result)


def _chosen(tape: Tape, condition: Any, yes: Any, no: Any) -> Any:
    return condition if condition is NotImplemented else combine(tape, "where", condition, yes, no, truths=1)


@MESSAGES.add("relu")
def _relu(tape: Tape, input: Any, inplace: bool = False) -> Any:
    return NotImplemented if inplace else _chosen(tape, combine(tape, "le", input, 0.0), 0.0, input)


@MESSAGES.add("leaky_relu")
def _leaky_relu(tape: Tape, input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    if inplace:
        return NotImplemented
    low = combine(tape, "mul", Constant(float(negative_slope)), input)
    return _then(tape, low, lambda low: _chosen(tape, combine(tape, "gt", input, 0.0), input, low))


@MESSAGES.add("elu")
def _elu(tape: Tape, input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """The exponential sees nothing above 0, where it could overflow and spoil the gradient."""
    above = combine(tape, "gt", input, 0.0)
    if inplace or above is NotImplemented:
        return NotImplemented
    low = _then(tape, _chosen(tape, above, 0.0, input), lambda x: combine(tape, "expm1", x))
    low = _then(tape, low, lambda x: combine(tape, "mul", Constant(float(alpha)), x))
    return _then(tape, low, lambda x: _chosen(tape, above, input, x))


@MESSAGES.add("silu")
def _silu(tape: Tape, input: Any, inplace: bool = False) -> Any:
    gate = NotImplemented if inplace else combine(tape, "sigmoid", input)
    return _then(tape, gate, lambda gate: combine(tape, "mul", input, gate))


@MESSAGES.add("softplus")
def _softplus(tape: Tape, input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return combine(tape, "softplus", input) if (beta, threshold) == (1, 20) else NotImplemented


@MESSAGES.add("logsigmoid", "log_sigmoid")
def _logsigmoid(tape: Tape, input: Any) -> Any:
    inner = _then(tape, combine(tape, "neg", input), lambda x: combine(tape, "softplus", x))
    return _then(tape, inner, lambda x: combine(tape, "neg", x))


@MESSAGES.add("clamp")
def _clamp(tape: Tape, input: Any, min: Any = None, max: Any = None) -> Any:
    """A NaN stays one, and has no gradient."""
    result: Any = NotImplemented if min is None and max is None else input
    for bound, relation in ((min, "lt"), (max, "gt")):
        if result is NotImplemented or isinstance(bound, Column):
            return NotImplemented
        if bound is not None:
            if not isinstance(bound, int | float):
                return NotImplemented
            inside = {"lt": "ge", "gt": "le"}[relation]
            within = _chosen(tape, combine(tape, inside, result, bound), result, math.nan)
            result = _chosen(tape, combine(tape, relation, result, bound), bound, within)
    return result


@MESSAGES.add("clamp_min")
def _clamp_min(tape: Tape, input: Any, min: Any) -> Any:
    return _clamp(tape, input, min)


@MESSAGES.add("clamp_max")
def _clamp_max(tape: Tape, input: Any, max: Any) -> Any:
    return _clamp(tape, input, None, max)


@MESSAGES.add("where")
def _where(tape: Tape, condition: Any, input: Any, other: Any) -> Any:
    return combine(tape, "where", condition, input, other, truths=1)


@MESSAGES.add("masked_fill")
def _masked_fill(tape: Tape, input: Any, mask: Any, value: Any) -> Any:
    return combine(tape, "where", mask, value, input, truths=1)


@MESSAGES.add("to", "type")
def _to(tape: Tape, input: Any, dtype: Any) -> Any:
    """Only what changes nothing: the kernels compute in one dtype."""
    return input if type(input) is Column and dtype is tape.dtypes.get(str(input._dtype)) else NotImplemented


@MESSAGES.add("type_as")
def _type_as(tape: Tape, input: Any, other: Any) -> Any:
    return _to(tape, input, getattr(other, "dtype", None))


def _cast(wanted: str) -> Callable[..., Any]:
    return lambda tape, input: input if type(input) is Column and input._dtype == wanted else NotImplemented


for _name, _dtype in (("float", "float32"), ("double", "float64"), ("half", "float16"), ("bfloat16", "bfloat16")):
    MESSAGES.add(_name)(_cast(_dtype))


# -- over the last feature axis and on feature axes --------------------------------------------------------------------
@MESSAGES.add("sum")
def _sum(tape: Tape, input: Any, dim: Any = None, keepdim: bool = False, *, axis: Any = None) -> Any:
    dim = axis if dim is None else dim
    if type(input) is not Column or is_truth(input) or not _is_last(tape, input, dim):
        return NotImplemented
    column = settled(tape, input)
    feat = column._feat[:-1]
    kept = "keep" if keepdim else "drop"
    return Column(tape, column._expr, (*feat, 1) if keepdim else feat, column._dtype, kept)


def _is_last(tape: Tape, column: Column, dim: Any) -> bool:
    """Whether ``dim`` is the last feature axis."""
    axes = tape.lead + len(column._feat)
    if isinstance(dim, list | tuple) and len(dim) == 1:
        dim = dim[0]
    return bool(column._feat) and isinstance(dim, int) and not isinstance(dim, bool) and dim in (-1, axes - 1)


@MESSAGES.add("unsqueeze")
def _unsqueeze(tape: Tape, input: Any, dim: int) -> Any:
    axis = _feature_axis(tape, input, dim, extra=1)
    if axis is None:
        return NotImplemented
    return tape.unsqueezed(settled(tape, input), axis)


@MESSAGES.add("squeeze")
def _squeeze(tape: Tape, input: Any, dim: int) -> Any:
    axis = _feature_axis(tape, input, dim)
    if axis is None or input._feat[axis] != 1:
        return NotImplemented
    feat = (*input._feat[:axis], *input._feat[axis + 1 :])
    return reshaped(tape, input, feat)


def _feature_axis(tape: Tape, column: Any, dim: Any, extra: int = 0) -> int | None:
    """Return which feature axis ``dim`` counts; None for an axis in front of them."""
    if type(column) is not Column or not isinstance(dim, int):
        return None
    axes = tape.lead + len(column._feat) + extra
    if not -axes <= dim < axes or dim % axes < tape.lead:
        return None
    return dim % axes - tape.lead


@MESSAGES.add("view", "reshape")
def _view(tape: Tape, input: Any, *shape: Any) -> Any:
    if len(shape) == 1 and isinstance(shape[0], list | tuple):
        shape = tuple(shape[0])
    if tape.lead != 1 or type(input) is not Column or not all(type(size) is int for size in shape):
        return NotImplemented
    if not shape or shape[0] not in (-1, tape.num_edges):
        return NotImplemented
    feat, count = shape[1:], math.prod(input._feat)
    if -1 in feat and (shape[0] == -1 or feat.count(-1) > 1 or 0 in feat):
        return NotImplemented
    known = math.prod(size for size in feat if size != -1)
    feat = tuple(count // known if size == -1 else size for size in feat)
    if math.prod(feat) != count or count == 0:
        return NotImplemented
    return reshaped(tape, input, feat)


@MESSAGES.add("getitem")
def _getitem(tape: Tape, input: Any, key: Any) -> Any:
    """Select on feature axes: every leading axis must be taken whole."""
    if type(input) is not Column or type(key) is not tuple:
        return NotImplemented
    if any(part is not None and part is not Ellipsis and type(part) not in (int, slice) for part in key):
        return NotImplemented
    whole = slice(None)
    if key[0] is not Ellipsis and (len(key) < tape.lead or any(part != whole for part in key[: tape.lead])):
        return NotImplemented
    features = key[1:] if key[0] is Ellipsis else key[tape.lead :]
    if key[0] is Ellipsis:
        features = (Ellipsis, *features)
        if sum(part is not None and part is not Ellipsis for part in features) > len(input._feat):
            return NotImplemented
    if all(part is None or part == whole for part in features):  # nothing but axes of length 1, added with None
        result = settled(tape, input)
        for axis, part in enumerate(features):
            result = tape.unsqueezed(result, axis) if part is None else result
        return result
    return rowwise(tape, input, lambda x: x[(whole, *features)])


@MESSAGES.add("linear")
def _linear(tape: Tape, input: Any, weight: Any, bias: Any = None) -> Any:
    if type(input) is not Column or not input._feat or is_deferred(weight) or is_deferred(bias):
        return NotImplemented
    return rowwise(tape, input, lambda x: backend.linear(x, weight, bias))


def _is_matrix(x: Any) -> bool:
    return backend.is_tensor(x) and not is_deferred(x) and len(backend.shape(x)) == 2


@MESSAGES.add("matmul")
def _matmul(tape: Tape, input: Any, other: Any) -> Any:
    """A row times a matrix that all edges share."""
    if type(input) is not Column or not input._feat or not _is_matrix(other):
        return NotImplemented
    return rowwise(tape, input, lambda x: x @ other)
