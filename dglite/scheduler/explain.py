"""Show what a call would do: the semantic plan, the plan that runs, its kernels, formats, bytes and reasons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

from ..backend import active as backend
from ..errors import DGLError
from ..expr import Operand, Side
from ..function import MessageFunction, ReduceFunction
from ..kernels.layout import broadcast_layout, broadcast_shape
from ..ops import core
from ..recorder import Unrecordable
from ..structure.adjacency import Adjacency
from ..tables import bytes_text, html_card, html_table, html_text, text_table
from ..udf import function_name
from .after import apply_after
from .bucket import buckets_of
from .learned import bucket, why_as_written, why_bucketed
from .lower import MessageSignature, lower_edges, lower_update
from .plan import (
    Apply,
    ApplyAfter,
    BucketReduce,
    ColumnRead,
    CopyColumn,
    EdgeCompute,
    EdgeScores,
    Field,
    FusedReduce,
    Instruction,
    Plan,
    ReduceOnce,
    RunEdgeUDF,
    Source,
    TakeColumn,
    UserFunction,
    Write,
)
from .record import applier_of, messages_of, reducer_of
from .relation import Relation
from .rewrite import rewrite
from .tape import reduce_once

ColumnKind = tuple[tuple[int, ...], str] | None
"""Feature shape and dtype of a column; None where only a run of a user's function could tell."""

_ITEM_BYTES = {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}
_LANES = 64
_HEAD = ("instruction", "kernel", "format", "reads", "writes")


@dataclass(frozen=True)
class Line:
    """One instruction that runs. ``read`` and ``written`` are estimated bytes, None where a user's function decides."""

    instruction: Instruction
    kernel: str
    sparse_format: str
    read: int | None
    written: int | None
    reason: str


@dataclass(frozen=True)
class Explanation:
    """What :func:`explain` found; ``str()`` of it is a table, and a notebook shows it as HTML."""

    title: str
    legend: tuple[str, ...]
    semantic: Plan
    executable: Plan
    lines: tuple[Line, ...]

    @property
    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (str(line.instruction), line.kernel, line.sparse_format, bytes_text(line.read), bytes_text(line.written))
            for line in self.lines
        ]

    def __str__(self) -> str:
        text = [self.title, *self.legend, "", "what is meant", *(f"  {step}" for step in self.semantic.steps), ""]
        head, *rows = text_table(_HEAD, self._rows)
        text += ["what is run", f"  {head}"]
        for row, line in zip(rows, self.lines, strict=True):
            text.append(f"  {row}")
            if line.reason:
                text.append(f"      {line.reason}")
        return "\n".join(text)

    def _repr_html_(self) -> str:
        meant = html_text("\n".join(map(str, self.semantic.steps)))
        table = html_table(_HEAD, self._rows, numbers=[3, 4], notes=[line.reason for line in self.lines])
        return html_card(self.title, self.legend, meant, table)

    __repr__ = __str__


def explain(g: Any, message: Any, reduce: Any = None, apply: Any = None, etype: Any = None) -> Explanation:
    """Explain ``g.update_all(message, reduce, apply, etype=etype)``, or ``g.apply_edges(message)`` without ``reduce``.

    Nothing is written and no kernel is run. Users' functions that may be recorded are called, on columns without values
    where that is enough to see what they do. A degree count and the CSC are made if the graph has none yet.

    Raises ``DGLError`` or ``KeyError``: what the call itself would raise for its functions and the columns that
    built-ins read.
    """
    state = backend.random_state()
    try:
        return _explained(g, message, reduce, apply, etype)
    finally:
        backend.restore_random_state(state)


def _explained(g: Any, message: Any, reduce: Any, apply: Any, etype: Any) -> Explanation:
    index = g.etype_id(etype)
    canonical = g.canonical_etypes[index]
    nodes = g.dst_frame(canonical)
    relation = Relation(
        g.adjacencies[index], g.src_frame(canonical), g.edge_frame(canonical), nodes, nodes, canonical, g.device, g
    )
    functions = (message, reduce, apply)
    messages = messages_of(message, 0, relation, reduce is not None)
    semantic, executable, lines, why = _planned(functions, messages, relation)
    recorded = (not isinstance(messages, UserFunction), why is None and why_bucketed(reduce) is None, True)
    reasons = (why_as_written(messages, message), why or why_bucketed(reduce), None)
    legend = tuple(
        f"f{slot} is {_name(function)}{_recording(recorded[slot], reasons[slot]) if slot < 2 else ''}"
        for slot, function in enumerate(functions)
        if callable(function) and not isinstance(function, MessageFunction | ReduceFunction)
    )
    names = [_name(function) for function in functions if function is not None]
    verb = "apply_edges" if reduce is None else "update_all"
    adjacency = relation.adjacency
    title = (
        f"{verb}({', '.join(names)}) over {':'.join(canonical)}: {adjacency.num_src} source nodes, "
        f"{adjacency.num_edges} edges, {adjacency.num_dst} destination nodes"
    )
    return Explanation(title, legend, semantic, executable, lines)


def _planned(
    functions: Sequence[Any], messages: MessageSignature, relation: Relation
) -> tuple[Plan, Plan, tuple[Line, ...], str | None]:
    """Return what is meant, what is run, its lines, and why the reduce function turned out not to be recordable."""
    _, reduce, apply = functions
    refused, why = set[int](), None
    while True:
        if reduce is None:
            semantic = lower_edges(messages)
        else:
            applied = applier_of(apply, 2, relation)
            semantic = lower_update(messages, reducer_of(reduce, 1, relation, messages, refused), applied)
        executable = rewrite(semantic)
        try:
            return semantic, executable, _Accountant(relation, functions).lines(executable), why
        except Unrecordable as error:
            refused.add(id(reduce))
            why = error.reason
            if error.lasting:
                bucket(reduce, why)


class _Accountant:
    """Follows column shapes through a plan and counts the bytes that each instruction moves."""

    def __init__(self, relation: Relation, functions: Sequence[Any]) -> None:
        self.relation, self.functions = relation, functions
        self.kinds: dict[int, dict[str, ColumnKind]] = {}

    def lines(self, plan: Plan) -> tuple[Line, ...]:
        lines = []
        for step, reason in zip(plan.steps, plan.reasons, strict=True):
            if isinstance(step, FusedReduce):
                lines.append(self._fused_reduce(step, reason))
            elif isinstance(step, TakeColumn):
                self.kinds[step.out] = {step.field.name: self._kind(step.field)}
                lines.append(Line(step, "no copy", "", 0, 0, reason))
            elif isinstance(step, CopyColumn):
                lines.append(self._copy_column(step, reason))
            elif isinstance(step, EdgeCompute):
                lines.append(self._edge_compute(step, reason))
            elif isinstance(step, EdgeScores):
                lines.append(self._edge_scores(step, reason))
            elif isinstance(step, BucketReduce):
                lines.append(self._bucket_reduce(step, reason))
            elif isinstance(step, ReduceOnce):
                lines.append(self._reduce_once(step, reason))
            elif isinstance(step, ApplyAfter):
                lines.append(self._apply_after(step, reason))
            elif isinstance(step, RunEdgeUDF | Apply):
                lines.append(Line(step, "user function", "", None, None, reason))
            elif isinstance(step, Write):
                lines.append(Line(step, "out of place", "", 0, 0, reason))
        return tuple(lines)

    def _fused_reduce(self, step: FusedReduce, reason: str) -> Line:
        kinds = [self._kind(source) for source in step.operands]
        shape, pattern = _broadcast(kinds)
        self.kinds[step.out] = {field: shape for *_, field in step.parts}
        adjacency = self.relation.adjacency
        sides = [Side.E if isinstance(source, Field) else source.side for source in step.operands]
        read = _total(
            [_structure_bytes(adjacency), *(self._rows_bytes(s, k) for s, k in zip(sides, kinds, strict=True))]
        )
        reducers = ", ".join(reducer.value for _, reducer, _ in step.parts)
        kernel = "attention" if not step.more and self._is_attention(step) else f"g-SpMM {reducers}, {pattern}"
        written = _times(adjacency.num_dst * len(step.parts), shape)
        return Line(step, kernel, "CSC; CSR in backward", read, written, reason)

    def _apply_after(self, step: ApplyAfter, reason: str) -> Line:
        """Call the function on a reduced column without values, unless its messages are known to a run alone."""
        line, log = self._fused_reduce(step.reduce, reason), list[str]()
        operands = [self.relation.column(x.side, x.name) for x in step.reduce.operands if isinstance(x, ColumnRead)]
        if len(operands) == len(step.reduce.operands):
            apply_after(self.functions[step.function.slot], self.relation, step.reduce, operands, log)
        note = f"then, in the kernel: {log[0]}" if log else "its function runs on the result: not element by element"
        return replace(line, instruction=step, reason=f"{reason}; {note}")

    def _is_attention(self, step: FusedReduce) -> bool:
        """Whether an operand is the weights of an attention that have not been computed yet."""
        columns = [self.relation.column(x.side, x.name) for x in step.operands if isinstance(x, ColumnRead)]
        adjacency = self.relation.adjacency
        return len(columns) == len(step.operands) and core.is_fused_attention(
            adjacency, step.expr, step.reducer, columns
        )

    def _copy_column(self, step: CopyColumn, reason: str) -> Line:
        kind = self._kind(step.column)
        self.kinds[step.out] = {step.out_field: kind}
        if step.column.side is Side.E:
            return Line(step, "no copy", "", 0, 0, reason)
        adjacency = self.relation.adjacency
        moved = _times(adjacency.num_edges, kind)
        read = _total([_structure_bytes(adjacency), moved])
        return Line(step, "row gather", "CSC; CSR in backward", read, moved, reason)

    def _edge_scores(self, step: EdgeScores, reason: str) -> Line:
        terms = [self.relation.column(column.side, column.name) for column in step.terms]
        if not core.can_defer_scores(self.relation.adjacency, terms):
            expr = reduce(add, (Operand(column.side, i) for i, column in enumerate(step.terms)))
            computed = EdgeCompute(step.out, step.relation, expr, step.terms, False, step.out_field)
            return self._edge_compute(computed, "not the scores of an attention, or few: computed at once")
        self.kinds[step.out] = {step.out_field: self._kind(step.left)}
        return Line(step, "none yet", "", 0, 0, reason)

    def _edge_compute(self, step: EdgeCompute, reason: str) -> Line:
        kinds = [self._kind(source) for source in step.operands]
        shape, pattern = _broadcast(kinds)
        if step.dot and shape is not None and shape[0]:
            shape = ((*shape[0][:-1], 1), shape[1])
        self.kinds[step.out] = {step.out_field: shape}
        adjacency = self.relation.adjacency
        sides = [source.side for source in step.operands if isinstance(source, ColumnRead)]
        read = _total(
            [_structure_bytes(adjacency), *(self._rows_bytes(s, k) for s, k in zip(sides, kinds, strict=True))]
        )
        written = _times(adjacency.num_edges, shape)
        return Line(
            step, f"g-SDDMM{' dot' if step.dot else ''}, {pattern}", "CSC; CSR in backward", read, written, reason
        )

    def _bucket_reduce(self, step: BucketReduce, reason: str) -> Line:
        kinds = [self._kind(column) for _, column in step.columns]
        kinds += [kind for register in step.messages for kind in self.kinds.get(register, {"": None}).values()]
        num_edges = self.relation.adjacency.num_edges
        moved = _total([_times(num_edges, kind) for kind in kinds])
        count = len(buckets_of(self.relation.adjacency))
        calls = f"{count} bucket{'' if count == 1 else 's'}"
        kernel = (
            f"user function, {calls}" if isinstance(step.function, UserFunction) else f"{step.function.name}, {calls}"
        )
        return Line(step, kernel, "CSC", moved, moved, f"{reason}, {calls}")

    def _reduce_once(self, step: ReduceOnce, reason: str) -> Line:
        """Call the function on a mailbox without values, unless its messages are known to a run alone."""
        log: list[str] = []
        kernel = "user function, once"
        if not step.messages:
            fields = [(name, expr, [(c.side, c.name) for c in columns]) for name, expr, columns in step.fields]
            reduce_once(self.functions[step.function.slot], self.relation, fields, {}, log)
            kernel += f" over {'; '.join(log)}" if log else ""
        return Line(step, kernel, "CSC; CSR in backward", None, None, reason)

    def _kind(self, source: Source) -> ColumnKind:
        if isinstance(source, Field):
            return self.kinds.get(source.register, {}).get(source.name)
        column = self.relation.column(source.side, source.name)
        return tuple(backend.shape(column)[1:]), backend.dtype(column)

    def _rows_bytes(self, side: Side, kind: ColumnKind) -> int | None:
        """Count what a kernel reads of an operand: a source or edge row for each edge, a destination row once."""
        adjacency = self.relation.adjacency
        return _times(adjacency.num_dst if side is Side.V else adjacency.num_edges, kind)


def _broadcast(kinds: list[ColumnKind]) -> tuple[ColumnKind, str]:
    """Return the kind of an element-wise result, and how its operands are read along the feature axes."""
    if any(kind is None for kind in kinds):
        return None, "shape known when it runs"
    shapes = tuple(kind[0] for kind in kinds if kind is not None)
    dtype = kinds[0][1] if kinds[0] is not None else ""
    try:
        shape = broadcast_shape(shapes)
    except ValueError:
        raise DGLError(f"feature shapes {' and '.join(map(str, shapes))} do not broadcast") from None
    patterns = broadcast_layout(shapes, _LANES).patterns
    return (shape, dtype), f"{dtype} {' x '.join(pattern.value for pattern in patterns)}"


def _times(rows: int, kind: ColumnKind) -> int | None:
    return None if kind is None else rows * math.prod(kind[0]) * _ITEM_BYTES.get(kind[1], 4)


def _total(parts: list[int | None]) -> int | None:
    return None if any(part is None for part in parts) else sum(part for part in parts if part is not None)


def _structure_bytes(adjacency: Adjacency) -> int:
    csc = adjacency.csc()
    ids = csc.edge_ids if csc.has_edge_ids else None  # not made for the sake of an explanation
    edge_ids = 0 if ids is None else ids.nbytes
    return csc.indptr.nbytes + csc.indices.nbytes + edge_ids


def _recording(recorded: bool, reason: str | None) -> str:
    """Say whether a user's function is recorded, and why not."""
    return ", recorded" if recorded else f", executed as written, without fusion: {reason}"


def _name(function: Any) -> str:
    if isinstance(function, MessageFunction | ReduceFunction):
        return str(function)
    if isinstance(function, list | tuple):
        return f"[{', '.join(map(_name, function))}]"
    return function_name(function)
