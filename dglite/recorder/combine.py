"""Combine columns, tensors and numbers in one expression: which become operands, and which do not fit."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from ..backend import Tensor
from ..backend import active as backend
from ..expr import Call, Constant, Expr, Operand, Side, operands_of
from ..formulas import ALIASES
from ..kernels.layout import broadcast_shape
from ..opspec import COMPARISONS, OPERATORS
from .deferred import EdgeColumn, Tape, is_deferred, real
from .numbers import NodeNumber
from .rows import is_rows

LARGEST = 48
"""Operators in one expression, written out. Beyond it a column is computed, or kernels would take long to compile."""
FLOATS = ("float32", "float64", "float16", "bfloat16")


class OperationTable:
    """Operations by name. Names may be written as methods of Python's data model, ``__mul__`` for ``mul``."""

    def __init__(self, *others: OperationTable) -> None:
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

    @property
    def names(self) -> frozenset[str]:
        """The names of the operations, other spellings included."""
        aliases = (alias for alias, name in ALIASES.items() if name in self._entries)
        return frozenset(self._entries).union(aliases)

    def find(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Callable[..., Any] | None:
        """Return the operation if it accepts these arguments, else None."""
        name = name.strip("_") if name.startswith("__") else name
        entry = self._entries.get(ALIASES.get(name, name))
        if entry is None or len(args) > entry[1] or not kwargs.keys() <= entry[2]:
            return None
        return entry[0]


def is_boolean(column: EdgeColumn) -> bool:
    """Whether the column is boolean."""
    return column.feat_dtype is None


def settled(tape: Tape, column: EdgeColumn) -> EdgeColumn:
    """Return the column with nothing left to do but element-wise work.

    A column that is summed over its last axis is computed; a computed column is replaced by its tensor.
    """
    if column.computed is not None:
        return column if is_boolean(column) else tape.capture(Side.E, column.computed)
    if column.summed is None:
        return column
    if column._settled is None:
        column._settled = tape.capture(Side.E, tape.compute(column))
    return column._settled


def stored(tape: Tape, column: EdgeColumn) -> EdgeColumn:
    """Return the column with nothing left to do at all: its values lie in memory."""
    column = settled(tape, column)
    return column if isinstance(column.expr, Operand) else tape.capture(Side.E, tape.compute(column))


def combine(tape: Tape, op: str | Callable[..., Any], *args: Any, truths: int = 0) -> Any:
    """Return an operator, or an expression, of columns, tensors and numbers; or ``NotImplemented``.

    The first ``truths`` arguments must be truths.
    """
    if not all(type(arg) is EdgeColumn and is_boolean(arg) for arg in args[:truths]):
        return NotImplemented
    columns = [arg for arg in args if type(arg) is EdgeColumn]
    dtypes = {column.feat_dtype for column in columns} - {None}
    axes = {len(column.feat) for column in columns}
    if len(dtypes) > 1 or len(axes) != 1 or any(column.tape is not tape for column in columns):
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
    expr = exprs[0].call(op, *exprs[1:]) if isinstance(op, str) else op(*exprs)
    if expr is None or not operands_of(expr) or (isinstance(expr, Call) and expr.size > LARGEST):
        return NotImplemented
    truth = isinstance(expr, Call) and expr.op.name in COMPARISONS
    return EdgeColumn(tape, expr, feat, None if truth else dtype)


def _float_of(args: tuple[Any, ...]) -> str | None:
    """Return the dtype of the tensors among the operands of truths."""
    for arg in args:
        x = real(arg) if is_rows(arg) else arg
        if backend.is_tensor(x) and not is_deferred(x) and backend.dtype(x) in FLOATS:
            return backend.dtype(x)
    return None


def _operand(tape: Tape, arg: Any, dtype: str, axes: int, truth: bool) -> tuple[Expr, tuple[int, ...]] | None:
    """Return an argument as (expression, feature shape); None where it does not fit."""
    if type(arg) is EdgeColumn:
        whole = settled(tape, arg)
        if is_boolean(whole) and not truth:
            return Call(OPERATORS["where"], (whole.expr, Constant(1.0), Constant(0.0))), whole.feat
        return whole.expr, whole.feat
    if type(arg) is Constant:
        return arg, ()
    if isinstance(arg, int | float) and not isinstance(arg, bool):
        return _number(tape, float(arg), dtype), ()
    if type(arg) is NodeNumber:
        numbers = tape.capture(Side.V, arg.beside(dtype, tape.tensor_device, axes))
        return numbers.expr, numbers.feat
    if is_rows(arg) or (not is_deferred(arg) and backend.is_tensor(arg)):
        column = _of_nodes(tape, real(arg), dtype, axes) if is_rows(arg) else _captured(tape, arg, dtype, axes)
        return None if column is None else (column.expr, column.feat)
    return None


_MANTISSA = {"float16": 11, "bfloat16": 8}
"""Bits of a number in each 16-bit dtype."""


def _number(tape: Tape, value: float, dtype: str) -> Expr:
    """Return a number as what kernels are given in the columns' dtype.

    They compute 16-bit columns in float32, so such a number is given as the sum of two. One beyond float16's range is
    written into the kernel.
    """
    if (value in tape.literals and str(value) != "-0.0") or not math.isfinite(value):
        return Constant(value)
    parts = [value]
    if dtype in _MANTISSA and value:
        mantissa, exponent = math.frexp(value)
        bits = _MANTISSA[dtype]
        high = math.ldexp(round(math.ldexp(mantissa, bits)), exponent - bits)
        if dtype == "float16" and not 2.0**-14 <= abs(high) <= 65504:
            return Constant(value)
        parts = [high, value - high] if value != high else parts
    exprs = [tape.capture(Side.G, backend.full((1,), part, dtype, tape.tensor_device)).expr for part in parts]
    return exprs[0] if len(exprs) == 1 else Call(OPERATORS["add"], tuple(exprs))


def _captured(tape: Tape, x: Tensor, dtype: str, axes: int) -> EdgeColumn | None:
    """Return a tensor of the function's own as a column: of the edges, or shared by all."""
    shape = tuple(backend.shape(x))
    if backend.device(x) != tape.device:
        return None
    if backend.dtype(x) != dtype:
        if shape or backend.dtype(x) not in FLOATS:
            return None
        x = backend.astype(x, dtype)  # a tensor without axes does not decide the dtype of a result
    lead = len(shape) - axes
    if lead <= 0 or (lead <= tape.lead and set(shape[:lead]) == {1}):
        return tape.capture(Side.G, backend.reshape(x, (1, *shape[max(lead, 0) :])))
    return tape.capture(Side.E, x) if lead == tape.lead == 1 and shape[0] == tape.num_edges else None


def _of_nodes(tape: Tape, x: Tensor, dtype: str, axes: int) -> EdgeColumn | None:
    """Return rows of the receiving nodes as a column of their mailbox; they have an axis for the messages."""
    shape = tuple(backend.shape(x))
    if len(shape) != axes + 2 or shape[1] != 1 or backend.dtype(x) != dtype:
        return None
    return tape.capture(Side.V, backend.reshape(x, (shape[0], *shape[2:])))


def reshaped(tape: Tape, column: EdgeColumn, feat: tuple[int, ...]) -> Any:
    """Return the column with features of another shape, of as many elements."""
    column = settled(tape, column)
    if isinstance(column.expr, Operand) and not is_boolean(column):
        return EdgeColumn(tape, tape.reshaped(column.expr, feat), feat, column.feat_dtype)
    return rowwise(tape, column, lambda x: backend.reshape(x, (backend.shape(x)[0], *feat)))


def rowwise(tape: Tape, column: EdgeColumn, function: Callable[[Tensor], Tensor]) -> Any:
    """Apply what works on each row alone where the rows are: on the nodes, if the column depends on one end only."""
    if is_boolean(column):
        return NotImplemented
    side, result = tape.by_rows(settled(tape, column), function)
    if backend.dtype(result) not in FLOATS or backend.shape(result)[0] != tape.num_rows[side]:
        return NotImplemented
    return tape.capture(side, result)
