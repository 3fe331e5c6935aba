"""Fuses an apply function after a sum or mean into the reduction's kernel.

The function is called once, on columns of which the reduced one has no values yet. What it makes of it remembers a
formula; where it wants values, the reduction is run, and the function continues with a tensor. If what it returns is an
activation of the reduced column times factors plus terms, of the nodes or shared by all, the kernel writes that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from ..backend import Tensor, library_of
from ..backend import active as backend
from ..expr import Call, Constant, Expr, Operand, Side, compact, derivative, operands_of, renumber
from ..formulas import FORMULAS
from ..ops import core
from ..ops.operands import broadcast, evaluated
from ..recorder import MESSAGES, EdgeColumn, Tape, Unrecordable, constants_of, is_boolean, realised
from ..udf import Columns, NodeBatch, call_with_batch, checked
from .learned import bucket
from .plan import ColumnRead, FusedReduce, spell
from .relation import Relation, Table, has_kernels
from .tape import refuse_graph

_REDUCED = Operand(Side.E, 0)
"""The reduced column. Its rows are nodes, where the rows of a message's tape are edges."""
_ONE = Constant(1.0)


class _RowsTape(Tape):
    """A tape whose operands are columns of the receiving nodes, the first of which is still to be reduced."""

    def __init__(
        self, relation: Relation, step: FusedReduce, operands: Sequence[Tensor], function: Any, log: list[str] | None
    ) -> None:
        size = relation.adjacency.num_dst
        super().__init__(MESSAGES, 1, size, {Side.E: size, Side.G: 1}, relation.device, constants_of(function))
        self.relation, self.step, self.operands, self.log = relation, step, operands, log
        feat = broadcast(tuple(tuple(backend.shape(x)[1:]) for x in operands))
        self.operand((Side.E, step.out_field), operands[0])
        self.tensors[0] = None
        self.reduced = EdgeColumn(self, _REDUCED, feat, backend.dtype(operands[0]))

    def tensor(self, slot: int) -> Tensor:
        if self.tensors[slot] is None:
            reduction = self.relation, self.step, self.operands
            self.tensors[slot] = _reduced(*reduction) if self.log is None else self._without_values()
        return self.tensors[slot]

    def _without_values(self) -> Tensor:
        like = self.operands[0]
        return backend.full((self.num_edges, *self.reduced.feat), 0.0, backend.dtype(like), backend.device(like))

    def feat_of(self, slot: int) -> tuple[int, ...]:
        return self.reduced.feat if slot == 0 else super().feat_of(slot)

    @property
    def tensor_type(self) -> type:
        return library_of(self.operands).tensor_type

    @property
    def tensor_device(self) -> Any:
        return backend.device(self.operands[0])

    def compute(self, column: EdgeColumn) -> Tensor:
        expr, slots = compact(column.expr)
        values = [self.tensor(slot) for slot in slots]
        axes = max(len(backend.shape(x)) for x in values)
        values = [_with_axes(x, axes) for x in values]
        result = values[0] if isinstance(expr, Operand) else evaluated(expr, values)
        if column.summed is not None:
            result = backend.sum(result, axes - 1, keepdims=column.summed == "keep")
        shape = (self.num_edges, *column.feat)
        return result if tuple(backend.shape(result)) == shape else backend.broadcast_to(result, column.feat)

    def by_rows(self, column: EdgeColumn, function: Callable[[Tensor], Tensor]) -> tuple[Side, Tensor]:
        return Side.E, function(self.compute(column))

    def in_kernel(self, column: EdgeColumn) -> Tensor | None:
        """Return the column's values from one kernel, None where that does not make them or the sum is known."""
        if self.tensors[0] is not None or column.summed is not None or column.feat != self.reduced.feat:
            return None
        parts = _split(column.expr)
        if parts is None or (parts.activation is not None and core.slope_of(parts.activation) is None):
            return None
        step, count = self.step, len(self.operands)
        slots = sorted({x.slot for part in (parts.factor, parts.added) for x in operands_of(part or _ONE)})
        more, adjacency = [self.tensor(slot) for slot in slots], self.relation.adjacency
        if backend.requires_grad(*(self.tensor(x.slot) for x in operands_of(parts.factor))):
            return None  # its gradient needs the sum, which is not stored
        if not core.is_one_kernel(adjacency, step.reducer, self.operands, more):
            return None
        if self.log is not None:
            self.log.append(self.spelled(column))
            return self._without_values()
        places = {slot: count + i for i, slot in enumerate(slots)}
        factor, added = (
            None if part is None else _of_nodes(renumber(part, places)) for part in (parts.factor, parts.added)
        )
        after = core.After(added, parts.activation, factor or _ONE)
        return core.spmm_then(adjacency, step.expr, step.reducer, (*self.operands, *more), after)

    def spelled(self, column: EdgeColumn) -> str:
        """Return the column's formula."""
        return spell(column.expr, [ColumnRead(Side.V, name) for _, name in self.sources])


def _with_axes(x: Tensor, axes: int) -> Tensor:
    rows, *feat = backend.shape(x)
    return backend.reshape(x, (rows, *(1,) * (axes - 1 - len(feat)), *feat))


class _Affine:
    """An expression as ``activation(reduced * factor + added)``."""

    def __init__(self, factor: Expr, added: Expr | None, activation: Any) -> None:
        self.factor, self.added, self.activation = factor, added, activation


@lru_cache(maxsize=1024)
def _split(expr: Expr) -> _Affine | None:
    """Return the parts of an expression of the reduced column; None for other expressions and the column itself."""
    activation, inner = _activation_of(expr)
    if _REDUCED not in operands_of(inner) or expr == _REDUCED:
        return None
    factor = derivative(inner, _REDUCED)
    if _REDUCED in operands_of(factor):
        return None
    added = _at_zero(inner)
    return _Affine(factor, None if added == Constant(0.0) else added, activation)


def _activation_of(expr: Expr) -> tuple[Any, Expr]:
    """Return the outermost activation as a name with options, and what it is applied to."""
    if isinstance(expr, Call) and expr.op.name in ("tanh", "sigmoid"):
        return (expr.op.name, ()), expr.args[0]
    if isinstance(expr, Call) and expr.op.name == "where" and isinstance(expr.args[0], Call):
        inner, low = expr.args[0].args[0], expr.args[2]
        slope = low.args[0] if isinstance(low, Call) and isinstance(low.args[0], Constant) else Constant(0.0)
        assert isinstance(slope, Constant)
        activations: list[core.Activation] = [("relu", ()), ("elu", ())]
        activations += [("leaky_relu", (("negative_slope", slope.value),))] if slope.value > 0 else []
        for name, options in activations:
            if FORMULAS[name].expression(inner, **dict(options)) == expr:
                return (name, options), inner
    return None, expr


def _at_zero(expr: Expr) -> Expr:
    """Return an expression with 0 in the place of the reduced column."""
    if expr == _REDUCED:
        return Constant(0.0)
    if not isinstance(expr, Call) or _REDUCED not in operands_of(expr):
        return expr
    first, *others = map(_at_zero, expr.args)
    return -first if expr.op.name == "neg" else first.call(expr.op.name, *others)


def _of_nodes(expr: Expr) -> Expr:
    """Return an expression of rows as one of destination nodes."""
    if isinstance(expr, Operand):
        return Operand(Side.V, expr.slot) if expr.side is Side.E else expr
    return Call(expr.op, tuple(map(_of_nodes, expr.args))) if isinstance(expr, Call) else expr


def apply_after(
    function: Any, relation: Relation, step: FusedReduce, operands: Sequence[Tensor], log: list[str] | None = None
) -> Table:
    """Return what ``function`` makes of the receiving nodes, ``step`` being the reduction before it.

    With ``log`` no kernel is run: it receives what becomes part of one, and the result is meaningless.
    """
    if not all(has_kernels(x) and backend.dtype(x) == backend.dtype(operands[0]) for x in operands):
        return apply_as_written(function, relation, {step.out_field: _reduced(relation, step, operands)})
    tape = _RowsTape(relation, step, operands, function, log)
    batch = relation.node_batch(function, {})
    columns = batch.data

    def read(name: str) -> Any:
        if name == step.out_field:
            return tape.reduced
        x = columns[name]
        return tape.column(Side.E, name, x) if has_kernels(x) and backend.dtype(x) == tape.reduced.feat_dtype else x

    node_columns = Columns("nodes", {*columns, step.out_field}, read)
    deferred = NodeBatch(node_columns, batch.mailbox, batch.batch_size(), batch.nodes, batch.ntype, refuse_graph)
    state = backend.random_state()
    try:
        result = function(deferred)
        if deferred.data.changes:
            raise Unrecordable("it changes the columns of its batch")
    except Unrecordable as refused:
        backend.restore_random_state(state)
        if refused.lasting:
            bucket(function, refused.reason)
        return apply_as_written(function, relation, {step.out_field: tape.tensor(0)})
    if isinstance(result, dict):
        result = {name: _value(tape, value, len(result)) for name, value in result.items()}
    return checked(result, (batch.batch_size(),), "nodes", relation.device, function)


def apply_as_written(function: Any, relation: Relation, table: Table) -> Table:
    """Return what ``function`` makes of the receiving nodes, the columns of ``table`` over their own."""
    batch = relation.node_batch(function, table)
    return checked(call_with_batch(function, batch, "nodes"), (batch.batch_size(),), "nodes", relation.device, function)


def _reduced(relation: Relation, step: FusedReduce, operands: Sequence[Tensor]) -> Tensor:
    return core.spmm(relation.adjacency, step.expr, step.reducer, operands)


def _value(tape: _RowsTape, value: Any, count: int) -> Any:
    """Return a result of the function as a tensor. If there are several, each would need its own reduction."""
    if type(value) is not EdgeColumn or value.tape is not tape or value.computed is not None or is_boolean(value):
        return realised(value)
    result = tape.in_kernel(value) if count == 1 else None
    return realised(value) if result is None else result
