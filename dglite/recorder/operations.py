"""The operations that deferred columns understand, with the signatures that tensor libraries give them.

An operation returns ``NotImplemented`` where its arguments are beyond it; the column is computed then.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from ..backend import Tensor
from ..backend import active as backend
from ..expr import Call, Constant, Expr, Side
from ..kernels.layout import broadcast_shape
from ..opspec import COMPARISONS, OPERATORS
from .deferred import Column, Tape, is_deferred

__all__ = ["LARGEST", "MESSAGES", "Table", "is_truth", "settled"]

LARGEST = 48
"""Operators in one expression, written out. Beyond it a column is computed, or kernels would take long to compile."""

_FLOATS = ("float32", "float64", "float16", "bfloat16")
_ALIASES = {
    "absolute": "abs",
    "divide": "truediv",
    "div": "truediv",
    "true_divide": "truediv",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "not_equal": "ne",
    "multiply": "mul",
    "negative": "neg",
    "subtract": "sub",
    "positive": "pos",
    "clip": "clamp",
}


class Table:
    """Operations by name. Names may be written as methods of Python's data model, ``__mul__`` for ``mul``."""

    def __init__(self, *others: Table) -> None:
        self._entries: dict[str, tuple[Callable[..., Any], int, frozenset[str]]] = {}
        for other in others:
            self._entries |= other._entries

    def add(self, *names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register the decorated ``operation(tape, *args, **kwargs)`` under ``names``."""

        def register(operation: Callable[..., Any]) -> Callable[..., Any]:
            parameters = list(inspect.signature(operation).parameters.values())[1:]
            most = 100 if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(parameters)
            entry = operation, most, frozenset(p.name for p in parameters)
            self._entries.update(dict.fromkeys(names, entry))
            return operation

        return register

    def find(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Callable[..., Any] | None:
        """Return the operation if it takes so many arguments and such keywords."""
        name = name.strip("_") if name.startswith("__") else name
        entry = self._entries.get(_ALIASES.get(name, name))
        if entry is None or len(args) > entry[1] or not kwargs.keys() <= entry[2]:
            return None
        return entry[0]


MESSAGES = Table()
"""Operations on columns of a batch of edges, and inside a mailbox."""


def is_truth(column: Column) -> bool:
    """Whether the column holds truths rather than numbers."""
    return column._dtype is None


# -- combining ---------------------------------------------------------------------------------------------------------
def settled(tape: Tape, column: Column) -> Column:
    """Return the column with nothing left to sum: a column that is summed over its last axis is computed."""
    if column._summed is None:
        return column
    return tape.capture(Side.E, tape.compute(column))


def combine(tape: Tape, op: str, *args: Any, truths: int = 0) -> Any:
    """Return ``op`` of columns, tensors and numbers, or ``NotImplemented``; the first ``truths`` must be truths."""
    if not all(type(arg) is Column and is_truth(arg) for arg in args[:truths]):
        return NotImplemented
    columns = [arg for arg in args if type(arg) is Column]
    dtypes = {column._dtype for column in columns} - {None}
    axes = {len(column._feat) for column in columns}
    if len(dtypes) > 1 or len(axes) != 1 or any(column._tape is not tape for column in columns):
        return NotImplemented
    dtype = next(iter(dtypes), None) or _float_of(args)
    if dtype is None:
        return NotImplemented
    exprs: list[Expr] = []
    feats: list[tuple[int, ...]] = []
    for place, arg in enumerate(args):
        operand = _operand(tape, arg, dtype, axes.copy().pop(), place < truths)
        if operand is None:
            return NotImplemented
        exprs.append(operand[0])
        feats.append(operand[1])
    try:
        feat = broadcast_shape(tuple(feats))
    except ValueError:
        return NotImplemented  # the library's own error, on tensors
    expr = Call(OPERATORS[op], tuple(exprs))
    if expr.size > LARGEST:
        return NotImplemented
    return Column(tape, expr, feat, None if op in COMPARISONS else dtype)


def _float_of(args: tuple[Any, ...]) -> str | None:
    """Return the dtype of the tensors among the operands of truths."""
    for arg in args:
        if backend.is_tensor(arg) and not is_deferred(arg) and backend.dtype(arg) in _FLOATS:
            return backend.dtype(arg)
    return None


def _operand(tape: Tape, arg: Any, dtype: str, axes: int, truth: bool) -> tuple[Expr, tuple[int, ...]] | None:
    """Return an argument as (expression, feature shape); None where it does not fit."""
    if type(arg) is Column:
        whole = settled(tape, arg)
        if is_truth(whole) and not truth:
            return Call(OPERATORS["where"], (whole._expr, Constant(1.0), Constant(0.0))), whole._feat
        return whole._expr, whole._feat
    if type(arg) is Constant:
        return arg, ()
    if isinstance(arg, int | float) and not isinstance(arg, bool):
        return _number(tape, float(arg), dtype), ()
    if not is_deferred(arg) and backend.is_tensor(arg):
        column = _captured(tape, arg, dtype, axes)
        return None if column is None else (column._expr, column._feat)
    return None


def _number(tape: Tape, value: float, dtype: str) -> Expr:
    if value in tape.literals or not math.isfinite(value):
        return Constant(value)
    return tape.capture(Side.G, backend.full((1,), value, dtype, tape.device))._expr


def _captured(tape: Tape, x: Tensor, dtype: str, axes: int) -> Column | None:
    """Return a tensor of the function's own as a column: of the edges, of the receiving nodes, or shared by all."""
    shape = tuple(backend.shape(x))
    if backend.device(x) != tape.device:
        return None
    if backend.dtype(x) != dtype:
        if shape or backend.dtype(x) not in _FLOATS:
            return None
        x = backend.astype(x, dtype)  # a tensor without axes does not decide the dtype of a result
    lead = len(shape) - axes
    if lead <= 0 or (lead <= tape.lead and set(shape[:lead]) == {1}):
        return tape.capture(Side.G, backend.reshape(x, (1, *shape[max(lead, 0) :])))
    if lead != tape.lead:
        return None
    if tape.lead == 1:
        return tape.capture(Side.E, x) if shape[0] == tape.num_edges else None
    if shape[:2] == (tape.num_rows[Side.V], 1):
        return tape.capture(Side.V, backend.reshape(x, (shape[0], *shape[2:])))
    return None


def rowwise(tape: Tape, column: Column, function: Callable[[Tensor], Tensor]) -> Any:
    """Apply what works on each row alone where the rows are: on the nodes, if the column depends on one end only."""
    if is_truth(column):
        return NotImplemented
    side, rows = tape.by_rows(settled(tape, column))
    result = function(rows)
    if backend.dtype(result) not in _FLOATS or backend.shape(result)[0] != backend.shape(rows)[0]:
        return NotImplemented
    return tape.capture(side, result)


# -- element-wise ------------------------------------------------------------------------------------------------------
def _plain(op: str, arity: int) -> Callable[..., Any]:
    if arity == 1:
        return lambda tape, input: combine(tape, op, input)
    return lambda tape, input, other: combine(tape, op, input, other)


for _name in ("neg", "exp", "log", "sqrt", "abs", "sign", "tanh", "sigmoid"):
    MESSAGES.add(_name)(_plain(_name, 1))
for _name in ("mul", "maximum", "minimum", *COMPARISONS):
    MESSAGES.add(_name)(_plain(_name, 2))


@MESSAGES.add("pos", "contiguous")
def _same(tape: Tape, input: Any) -> Any:
    return input


@MESSAGES.add("add")
def _add(tape: Tape, input: Any, other: Any, *, alpha: float = 1) -> Any:
    return combine(tape, "add", input, other) if alpha == 1 else NotImplemented


@MESSAGES.add("sub")
def _sub(tape: Tape, input: Any, other: Any, *, alpha: float = 1) -> Any:
    return combine(tape, "sub", input, other) if alpha == 1 else NotImplemented


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
    if exponent == 0.5:
        return combine(tape, "sqrt", column)
    if exponent == int(exponent) and 1 <= abs(exponent) <= 16:
        expr = _power(column._expr, abs(int(exponent)))
        if isinstance(expr, Call) and expr.size > LARGEST:
            return NotImplemented
        result = Column(tape, expr, column._feat, column._dtype)
        return result if exponent > 0 else combine(tape, "div", 1.0, result)
    expr = Call(OPERATORS["power"], (column._expr, Constant(float(exponent))))
    return Column(tape, expr, column._feat, column._dtype) if exponent else NotImplemented


def _power(x: Expr, exponent: int) -> Expr:
    """Return x to a whole power by repeated squaring."""
    if exponent == 1:
        return x
    half = _power(x, exponent // 2)
    square = Call(OPERATORS["mul"], (half, half))
    return Call(OPERATORS["mul"], (square, x)) if exponent % 2 else square


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
    low = _then(tape, _chosen(tape, above, 0.0, input), lambda x: combine(tape, "exp", x))
    low = _then(tape, low, lambda x: combine(tape, "sub", x, 1.0))
    low = _then(tape, low, lambda x: combine(tape, "mul", Constant(float(alpha)), x))
    return _then(tape, low, lambda x: _chosen(tape, above, input, x))


@MESSAGES.add("silu")
def _silu(tape: Tape, input: Any, inplace: bool = False) -> Any:
    gate = NotImplemented if inplace else combine(tape, "sigmoid", input)
    return _then(tape, gate, lambda gate: combine(tape, "mul", input, gate))


@MESSAGES.add("softplus")
def _softplus(tape: Tape, input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return combine(tape, "softplus", input) if (beta, threshold) == (1, 20) else NotImplemented


@MESSAGES.add("logsigmoid")
def _logsigmoid(tape: Tape, input: Any) -> Any:
    inner = _then(tape, combine(tape, "neg", input), lambda x: combine(tape, "softplus", x))
    return _then(tape, inner, lambda x: combine(tape, "neg", x))


@MESSAGES.add("clamp")
def _clamp(tape: Tape, input: Any, min: Any = None, max: Any = None) -> Any:
    result: Any = input
    for bound, relation in ((min, "lt"), (max, "gt")):
        if result is NotImplemented or isinstance(bound, Column):
            return NotImplemented
        if bound is not None:
            if not isinstance(bound, int | float):
                return NotImplemented
            result = _chosen(tape, combine(tape, relation, result, bound), bound, result)
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


@MESSAGES.add("float", "double", "half", "bfloat16", "to", "type_as")
def _cast(tape: Tape, input: Any, dtype: Any = None) -> Any:
    """Only what changes nothing is a cast here: the kernels compute in one dtype."""
    if type(input) is not Column or is_truth(input):
        return NotImplemented
    wanted = {"float32", None} if dtype is None else {getattr(dtype, "dtype", dtype)}
    same = input._dtype in wanted or tape.dtypes.get(str(input._dtype)) in wanted
    return input if same else NotImplemented


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
    return bool(column._feat) and isinstance(dim, int) and not isinstance(dim, bool) and dim % axes == axes - 1


@MESSAGES.add("unsqueeze")
def _unsqueeze(tape: Tape, input: Any, dim: int) -> Any:
    axis = _feature_axis(tape, input, dim, extra=1)
    if axis is None:
        return NotImplemented
    feat = (*input._feat[:axis], 1, *input._feat[axis:])
    return rowwise(tape, input, lambda x: backend.reshape(x, (backend.shape(x)[0], *feat)))


@MESSAGES.add("squeeze")
def _squeeze(tape: Tape, input: Any, dim: int) -> Any:
    axis = _feature_axis(tape, input, dim)
    if axis is None or input._feat[axis] != 1:
        return NotImplemented
    feat = (*input._feat[:axis], *input._feat[axis + 1 :])
    return rowwise(tape, input, lambda x: backend.reshape(x, (backend.shape(x)[0], *feat)))


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
    return rowwise(tape, input, lambda x: backend.reshape(x, (backend.shape(x)[0], *feat)))


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
