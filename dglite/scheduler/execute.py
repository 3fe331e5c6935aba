"""Run a plan: one handler per executable instruction, and a loop that decides nothing."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..backend import Tensor
from ..backend import active as backend
from ..errors import DGLError
from ..expr import Side
from ..frame import Frame
from ..ops import core
from ..opspec import Reducer
from ..udf import call_with_batch, checked
from .after import apply_after, apply_as_written
from .bucket import buckets_of, group_edges, product_in_buckets, reduce_in_buckets
from .learned import log_unfused
from .plan import (
    Apply,
    ApplyAfter,
    BucketReduce,
    ColumnRead,
    CopyColumn,
    CrossReduce,
    EdgeCompute,
    EdgeScores,
    FusedReduce,
    GroupEdges,
    Instruction,
    Plan,
    ReduceOnce,
    RunEdgeUDF,
    Source,
    StoredMessages,
    TakeColumn,
    UserFunction,
    Write,
)
from .relation import CopyOnWriteGuard, Relation, Table, gather
from .tape import reduce_once


class Run:
    """One execution: the relations and functions of the call, and the tables made so far."""

    __slots__ = ("changes", "functions", "relations", "tables")

    def __init__(self, relations: Sequence[Relation], functions: Sequence[Any], tables: dict[int, Table]) -> None:
        self.relations = relations
        self.functions = functions
        self.tables = tables
        self.changes: list[tuple[Frame, Mapping[str, Tensor | None]]] = []
        """Columns of all edges that functions set or removed in their batches; None is a removed one."""

    def keep_changes(self) -> None:
        """Write ``changes`` to the graph."""
        while self.changes:
            frame, changes = self.changes.pop()
            frame.change(changes)

    def operands(self, sources: Sequence[Source], relation: Relation) -> list[Tensor]:
        """Return operands: feature columns, or message fields that earlier steps have computed."""
        operands = []
        for source in sources:
            if isinstance(source, ColumnRead):
                operands.append(relation.column(source.side, source.name))
                continue
            table = self.tables[source.register]
            if source.name not in table:
                raise missing_field(source.name, table)
            operands.append(table[source.name])
        return operands

    def merged(self, registers: tuple[int, ...]) -> Table:
        """Return the columns of several tables as one; where two have a column, the later one counts."""
        if len(registers) == 1:
            return self.tables[registers[0]]
        return {name: column for register in registers for name, column in self.tables[register].items()}


def execute(
    plan: Plan, relations: Sequence[Relation], functions: Sequence[Any] = (), tables: dict[int, Table] | None = None
) -> Table:
    """Run ``plan`` over ``relations`` with the user's ``functions``; return the table of its last instruction.

    Registers that ``tables`` has are not computed again; it receives the others.
    Only ``Write`` changes a graph and it comes last, so a failure before it leaves the graph as it was.
    """
    run = Run(relations, functions, {} if tables is None else tables)
    table: Table = {}
    for step in plan.steps:
        if step.out in run.tables:
            table = run.tables[step.out]
        else:
            table = run.tables[step.out] = HANDLERS[type(step)](step, relations[step.relation], run)
    run.keep_changes()
    return table


def missing_field(name: str, field_names: Any) -> DGLError:
    """Return the error of a reduce function that reads a message field which is not there."""
    listed = ", ".join(map(repr, field_names)) or "none"
    return DGLError(f"the reduce function reads message field {name!r}, but the messages have: {listed}")


def _stored_messages(step: StoredMessages, relation: Relation, run: Run) -> Table:
    return relation.stored


def _edge_compute(step: EdgeCompute, relation: Relation, run: Run) -> Table:
    operands = run.operands(step.operands, relation)
    values = core.sddmm(relation.adjacency, step.expr, operands, step.dot)
    if not step.keepdim:
        values = backend.reshape(values, backend.shape(values)[:-1])
    return {step.out_field: values}


def _edge_scores(step: EdgeScores, relation: Relation, run: Run) -> Table:
    terms = run.operands(step.terms, relation)
    return {step.out_field: core.edge_scores(relation.adjacency, terms, step.slope)}


def _copy_column(step: CopyColumn, relation: Relation, run: Run) -> Table:
    column = relation.column(step.column.side, step.column.name)
    return {
        step.out_field: column if step.column.side is Side.E else gather(relation.adjacency, step.column.side, column)
    }


def _run_edge_udf(step: RunEdgeUDF, relation: Relation, run: Run) -> Table:
    function = run.functions[step.function.slot]
    if not step.function.few_edges:
        log_unfused(function, False)
    batch = relation.edge_batch(function)
    table = checked(
        call_with_batch(function, batch, "edges"), (batch.batch_size(),), "edges", relation.device, function
    )
    if batch.data.changes and relation.edge_rows is None and isinstance(relation.edges, Frame):
        run.changes.append((relation.edges, batch.data.changes))
    return table


def _group_edges(step: GroupEdges, relation: Relation, run: Run) -> Table:
    return group_edges(run.functions[step.function.slot], relation, step.by)


def _fused_reduce(step: FusedReduce, relation: Relation, run: Run) -> Table:
    operands = run.operands(step.operands, relation)
    if not step.more:
        return {step.out_field: core.spmm(relation.adjacency, step.expr, step.reducer, operands)}
    parts = tuple([(expr, reducer) for expr, reducer, _ in step.parts])
    results = core.spmm_several(relation.adjacency, parts, operands)
    return {field: x for (*_, field), x in zip(step.parts, results, strict=True)}


def _take_column(step: TakeColumn, relation: Relation, run: Run) -> Table:
    (column,) = run.operands((step.field,), relation)
    return {step.field.name: column}


def _bucket_reduce(step: BucketReduce, relation: Relation, run: Run) -> Table:
    function = step.function
    guard = CopyOnWriteGuard(run.functions[function.slot] if isinstance(function, UserFunction) else None)
    buckets = buckets_of(relation.adjacency)
    direct = dict(step.columns)
    tables = run.merged(step.messages) if step.messages else {}

    def column(name: str) -> Tensor:
        source = direct.get(name)
        if source is None:
            return buckets.edges_in(tables[name], guard)
        rows = relation.column(source.side, source.name)
        return buckets.edges_in(rows, guard) if source.side is Side.E else gather(buckets.adjacency, source.side, rows)

    names = [*tables, *direct]
    if isinstance(function, UserFunction):
        log_unfused(run.functions[function.slot], True)
        return reduce_in_buckets(run.functions[function.slot], relation, names, column)
    if function.msg_field not in names:
        raise missing_field(function.msg_field, names)
    return product_in_buckets(function, relation, column(function.msg_field))


def _reduce_once(step: ReduceOnce, relation: Relation, run: Run) -> Table:
    fields = [(name, expr, [(column.side, column.name) for column in operands]) for name, expr, operands in step.fields]
    return reduce_once(run.functions[step.function.slot], relation, fields, run.merged(step.messages))


def _apply(step: Apply, relation: Relation, run: Run) -> Table:
    return apply_as_written(run.functions[step.function.slot], relation, run.merged(step.tables))


def _apply_after(step: ApplyAfter, relation: Relation, run: Run) -> Table:
    operands = run.operands(step.reduce.operands, relation)
    return apply_after(run.functions[step.function.slot], relation, step.reduce, operands)


def _cross_reduce(step: CrossReduce, relation: Relation, run: Run) -> Table:
    tables = [run.merged(group) for group in step.groups]
    if step.reducer != "stack" and len(tables) == 1:
        return tables[0]
    merged: dict[str, Tensor] = {}
    for name in dict.fromkeys(name for table in tables for name in table):
        columns = [table[name] for table in tables if name in table]
        if isinstance(step.reducer, UserFunction):
            function = run.functions[step.reducer.slot]
            size = relation.adjacency.num_dst
            merged |= checked({name: function(columns)}, (size,), "nodes", relation.device, function)
        elif step.over:
            owners = [run.relations[index] for index, table in zip(step.over, tables, strict=True) if name in table]
            merged[name] = _extremum(Reducer(step.reducer), columns, owners)
        else:
            merged[name] = _CROSS_REDUCERS[step.reducer](columns)
    return merged


def _extremum(reducer: Reducer, columns: list[Tensor], owners: list[Relation]) -> Tensor:
    """Return the extremum of the relations' extrema, each counting only for nodes to which it brings messages."""
    anything = np.zeros(owners[0].adjacency.num_dst, dtype=bool)
    candidates = []
    for column, owner in zip(columns, owners, strict=True):
        receives = owner.adjacency.in_degrees() > 0
        anything |= receives
        candidates.append(_filled(column, np.flatnonzero(~receives), reducer.identity))
    return _filled(_CROSS_REDUCERS[reducer.value](candidates), np.flatnonzero(~anything), 0.0)


def _filled(x: Tensor, rows: np.ndarray, value: float) -> Tensor:
    if not len(rows):
        return x
    shape = (len(rows), *backend.shape(x)[1:])
    return backend.put(x, rows, backend.full(shape, value, backend.dtype(x), backend.device(x)))


def _write(step: Write, relation: Relation, run: Run) -> Table:
    table = run.merged(step.tables)
    run.keep_changes()  # before what the function returned
    relation.write(step.side, table)
    return table


_CROSS_REDUCERS: dict[Any, Callable[[list[Tensor]], Tensor]] = {
    "sum": lambda xs: functools.reduce(operator.add, xs),
    "mean": lambda xs: functools.reduce(operator.add, xs) / len(xs),
    "max": lambda xs: backend.max(backend.stack(xs), 0),
    "min": lambda xs: backend.min(backend.stack(xs), 0),
    "stack": lambda xs: backend.stack(xs, 1),
}

HANDLERS: dict[type[Instruction], Callable[[Any, Relation, Run], Table]] = {
    StoredMessages: _stored_messages,
    CopyColumn: _copy_column,
    EdgeCompute: _edge_compute,
    EdgeScores: _edge_scores,
    RunEdgeUDF: _run_edge_udf,
    GroupEdges: _group_edges,
    FusedReduce: _fused_reduce,
    TakeColumn: _take_column,
    BucketReduce: _bucket_reduce,
    ReduceOnce: _reduce_once,
    Apply: _apply,
    ApplyAfter: _apply_after,
    CrossReduce: _cross_reduce,
    Write: _write,
}
