"""The operations that deferred columns support, with the signatures of tensor libraries.

An operation returns ``NotImplemented`` where its arguments are beyond it; the column is computed then.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from ..backend import active as backend
from ..expr import Call, Constant, Expr, write_out_powers
from ..formulas import FORMULAS, Formula
from ..opspec import OPERATORS
from .combine import LARGEST, OperationTable, combine, is_boolean, reshaped, rowwise, settled
from .deferred import EdgeColumn, Tape, is_deferred

MESSAGES = OperationTable()
"""Operations on columns of a batch of edges, and inside a mailbox."""


# -- element-wise ------------------------------------------------------------------------------------------------------
def _by_formula(formula: Formula) -> Callable[..., Any]:
    """Return the operation of a formula; like torch's functions, it may be asked to work in place."""

    def operation(tape: Tape, *args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        try:
            operands, options = formula.arguments(*args, **kwargs)
        except TypeError:  # a last argument that is torch's ``inplace``
            return NotImplemented
        if inplace or (formula.name in _OF_NUMBERS and not _are_numbers(*operands.values())):
            return NotImplemented
        if any(x is not None and not isinstance(x, int | float | str) for x in options.values()):
            return NotImplemented

        def expression(*exprs: Expr) -> Any:
            return formula.expression(**dict(zip(operands, exprs, strict=True)), **options)

        return combine(tape, expression, *operands.values())

    parameters = list(formula.signature.parameters.values())
    flag = inspect.Parameter("inplace", inspect.Parameter.KEYWORD_ONLY, default=False)
    operation.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("tape", inspect.Parameter.POSITIONAL_OR_KEYWORD), *parameters, flag]
    )
    return operation


_OF_NUMBERS = ("neg", "sub", "rsub")


def _are_numbers(*args: Any) -> bool:
    """Whether no argument is boolean, which can be neither subtracted nor negated."""
    return not any(type(arg) is EdgeColumn and is_boolean(arg) for arg in args)


for _name, _formula in FORMULAS.items():
    MESSAGES.add(_name)(_by_formula(_formula))


@MESSAGES.add("pos", "contiguous")
def _same(tape: Tape, input: Any) -> Any:
    return input


@MESSAGES.add("pow")
def _pow(tape: Tape, input: Any, exponent: Any) -> Any:
    if type(input) is not EdgeColumn or isinstance(exponent, bool) or not isinstance(exponent, int | float):
        return NotImplemented
    if is_boolean(input) or not math.isfinite(exponent):
        return NotImplemented
    column = settled(tape, input)
    if exponent == int(exponent) and not 1 <= abs(exponent) <= 32:
        return NotImplemented
    expr = Call(OPERATORS["power"], (column.expr, Constant(float(exponent))))
    if write_out_powers(expr).size > LARGEST:  # type: ignore[attr-defined]
        return NotImplemented
    return EdgeColumn(tape, expr, column.feat, column.feat_dtype)


@MESSAGES.add("where")
def _where(tape: Tape, condition: Any, input: Any, other: Any) -> Any:
    return combine(tape, "where", condition, input, other, truths=1)


@MESSAGES.add("masked_fill")
def _masked_fill(tape: Tape, input: Any, mask: Any, value: Any) -> Any:
    return combine(tape, "where", mask, value, input, truths=1)


@MESSAGES.add("to", "type")
def _to(tape: Tape, input: Any, dtype: Any) -> Any:
    """Only what changes nothing: the kernels compute in one dtype."""
    return input if type(input) is EdgeColumn and dtype is tape.dtypes.get(str(input.feat_dtype)) else NotImplemented


@MESSAGES.add("type_as")
def _type_as(tape: Tape, input: Any, other: Any) -> Any:
    return _to(tape, input, getattr(other, "dtype", None))


def _cast(dtype: str) -> Callable[..., Any]:
    return lambda tape, input: input if type(input) is EdgeColumn and input.feat_dtype == dtype else NotImplemented


for _name, _dtype in (("float", "float32"), ("double", "float64"), ("half", "float16"), ("bfloat16", "bfloat16")):
    MESSAGES.add(_name)(_cast(_dtype))


# -- over the last feature axis and on feature axes --------------------------------------------------------------------
@MESSAGES.add("sum")
def _sum(tape: Tape, input: Any, dim: Any = None, keepdim: bool = False, *, axis: Any = None) -> Any:
    dim = axis if dim is None else dim
    if type(input) is not EdgeColumn or is_boolean(input) or not _is_last(tape, input, dim):
        return NotImplemented
    column = settled(tape, input)
    feat = column.feat[:-1]
    axis_mode = "keep" if keepdim else "drop"
    return EdgeColumn(tape, column.expr, (*feat, 1) if keepdim else feat, column.feat_dtype, axis_mode)


def _is_last(tape: Tape, column: EdgeColumn, dim: Any) -> bool:
    """Whether ``dim`` is the last feature axis."""
    axes = tape.lead + len(column.feat)
    if isinstance(dim, list | tuple) and len(dim) == 1:
        dim = dim[0]
    return bool(column.feat) and isinstance(dim, int) and not isinstance(dim, bool) and dim in (-1, axes - 1)


@MESSAGES.add("unsqueeze")
def _unsqueeze(tape: Tape, input: Any, dim: int) -> Any:
    axis = _feature_axis(tape, input, dim, extra=1)
    if axis is None:
        return NotImplemented
    return tape.unsqueezed(settled(tape, input), axis)


@MESSAGES.add("squeeze")
def _squeeze(tape: Tape, input: Any, dim: int) -> Any:
    axis = _feature_axis(tape, input, dim)
    if axis is None or input.feat[axis] != 1:
        return NotImplemented
    feat = (*input.feat[:axis], *input.feat[axis + 1 :])
    return reshaped(tape, input, feat)


def _feature_axis(tape: Tape, column: Any, dim: Any, extra: int = 0) -> int | None:
    """Return which feature axis ``dim`` counts; None for an axis in front of them."""
    if type(column) is not EdgeColumn or not isinstance(dim, int):
        return None
    axes = tape.lead + len(column.feat) + extra
    if not -axes <= dim < axes or dim % axes < tape.lead:
        return None
    return dim % axes - tape.lead


@MESSAGES.add("view", "reshape")
def _view(tape: Tape, input: Any, *shape: Any) -> Any:
    if len(shape) == 1 and isinstance(shape[0], list | tuple):
        shape = tuple(shape[0])
    if tape.lead != 1 or type(input) is not EdgeColumn or not all(type(size) is int for size in shape):
        return NotImplemented
    if not shape or shape[0] not in (-1, tape.num_edges):
        return NotImplemented
    feat, count = shape[1:], math.prod(input.feat)
    if -1 in feat and (shape[0] == -1 or feat.count(-1) > 1 or 0 in feat):
        return NotImplemented
    product = math.prod(size for size in feat if size != -1)
    feat = tuple(count // product if size == -1 else size for size in feat)
    if math.prod(feat) != count or count == 0:
        return NotImplemented
    return reshaped(tape, input, feat)


@MESSAGES.add("getitem")
def _getitem(tape: Tape, input: Any, key: Any) -> Any:
    """Select on feature axes: every leading axis must be taken whole."""
    if type(input) is not EdgeColumn or type(key) is not tuple:
        return NotImplemented
    if any(part is not None and part is not Ellipsis and type(part) not in (int, slice) for part in key):
        return NotImplemented
    whole = slice(None)
    if key[0] is not Ellipsis and (len(key) < tape.lead or any(part != whole for part in key[: tape.lead])):
        return NotImplemented
    features = key[1:] if key[0] is Ellipsis else key[tape.lead :]
    if key[0] is Ellipsis:
        features = (Ellipsis, *features)
        if sum(part is not None and part is not Ellipsis for part in features) > len(input.feat):
            return NotImplemented
    if all(part is None or part == whole for part in features):  # nothing but axes of length 1, added with None
        result = settled(tape, input)
        for axis, part in enumerate(features):
            result = tape.unsqueezed(result, axis) if part is None else result
        return result
    return rowwise(tape, input, lambda x: x[(whole, *features)])


@MESSAGES.add("linear")
def _linear(tape: Tape, input: Any, weight: Any, bias: Any = None) -> Any:
    if type(input) is not EdgeColumn or not input.feat or is_deferred(weight) or is_deferred(bias):
        return NotImplemented
    return rowwise(tape, input, lambda x: backend.linear(x, weight, bias))


def _is_matrix(x: Any) -> bool:
    return backend.is_tensor(x) and not is_deferred(x) and len(backend.shape(x)) == 2


@MESSAGES.add("matmul")
def _matmul(tape: Tape, input: Any, other: Any) -> Any:
    """A row times a matrix that all edges share."""
    if type(input) is not EdgeColumn or not input.feat or not _is_matrix(other):
        return NotImplemented
    return rowwise(tape, input, lambda x: x @ other)
