"""A relation as the tape of a recording: its features are operands, its structure runs the kernels."""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..backend import Tensor
from ..backend import active as backend
from ..errors import DGLError
from ..expr import Expr, Operand, Side, compact, operands_of, renumber
from ..function import MessageFunction, Reshaped
from ..kernels.layout import broadcast_shape
from ..ops import core
from ..ops.traced import is_read
from ..opspec import Reducer
from ..recorder import (
    MAILBOX,
    MESSAGES,
    EdgeColumn,
    Mailbox,
    NodeColumn,
    Tape,
    Unrecordable,
    constants_of,
    is_boolean,
    is_rows,
    realised,
)
from ..structure.adjacency import Adjacency
from ..structure.derived import CacheKey, cache_key, variant
from ..udf import Columns, EdgeBatch, NodeBatch, checked, ends_computation
from .attention import find_attention
from .learned import note_builtins
from .plan import ColumnRead, spell
from .relation import Relation, Table, gather, has_kernels
from .watched import AllNodes, WatchedBatch, WatchedColumns, refuse_graph

MailboxField = tuple[str, Expr, Sequence[tuple[Side, Any]]]
"""A message field that is computed on the way: its name, its expression, and the columns of its operands."""

_USED_ROWS: CacheKey[np.ndarray | None] = cache_key("used rows", "the nodes with an edge, by side; None for all nodes")
_RECEIVING: CacheKey[tuple[Adjacency, np.ndarray | None, np.ndarray | None]] = cache_key(
    "receiving nodes", "the structure without nodes that receive nothing, those that receive, and each node's row"
)


class RelationTape(Mailbox):
    """A tape whose operands are the columns of a relation."""

    def __init__(self, relation: Relation, literals: frozenset[float], adjacency: Adjacency | None = None) -> None:
        self.relation, self.adjacency = relation, adjacency or relation.adjacency
        adj = self.adjacency
        rows = {Side.U: adj.num_src, Side.E: adj.num_edges, Side.V: adj.num_dst, Side.G: 1}
        lead, operations = (1, MESSAGES) if adjacency is None else (2, MAILBOX)
        super().__init__(operations, lead, adj.num_edges, rows, relation.device, literals)
        self.captured += relation.captured  # by these numbers the relation's messages know them
        self.log: list[str] | None = None
        self._softmaxes: dict[int, EdgeColumn] = {}
        self.counted = False
        """Whether the function asked how many messages nodes have: what it does with a number may then raise."""

    def edge_batch(self) -> EdgeBatch:
        """Return the relation's batch of edges with deferred columns."""
        batch = self.relation.edge_batch()
        return WatchedBatch(
            self,
            self._deferred("source nodes", Side.U, batch.src),
            self._deferred("edges", Side.E, batch.data),
            self._deferred("destination nodes", Side.V, batch.dst),
            batch.batch_size(),
            batch.edges,
            batch.canonical_etype,
            refuse_graph,
        )

    def _deferred(self, label: str, side: Side, columns: Columns) -> Columns:
        def read(name: str) -> Any:
            tensor = self.relation.column(side, name)
            if has_kernels(tensor):
                return self.column(side, name, tensor)
            self.cacheable = False
            return columns[name]

        return WatchedColumns(self, label, columns.keys(), read)

    def scheme(self) -> tuple[tuple[Side, str, tuple[int, ...], str], ...]:
        """Return the feature columns that were read: (side, name, shape of a row, dtype)."""
        scheme = []
        for (side, name), x in zip(self.sources, self.tensors, strict=True):
            if isinstance(name, Reshaped):
                scheme.append((side, name.name, tuple(name.stored), backend.dtype(x)))
            elif isinstance(name, str):
                scheme.append((side, name, tuple(backend.shape(x)[1:]), backend.dtype(x)))
        return tuple(dict.fromkeys(scheme))

    def message(self, function: str, field: str, value: Any) -> MessageFunction:
        """Return what the function gave for ``field`` as a message."""
        if type(value) is not EdgeColumn or is_boolean(value) or value.computed is not None:
            value = self.capture(Side.E, realised(value))
        expr, slots = compact(value.expr)
        fields = tuple(self.sources[slot] for slot in slots)
        return MessageFunction(function, expr, fields, field, value.summed is not None, value.summed != "drop")

    def used_rows(self, side: Side) -> np.ndarray | None:
        if side is Side.E or is_read(self.adjacency):
            return None
        key = variant(_USED_ROWS, side)
        if key not in self.adjacency.cache:
            degrees = self.adjacency.out_degrees() if side is Side.U else self.adjacency.in_degrees()
            used = np.flatnonzero(degrees)
            self.adjacency.cache[key] = None if len(used) == len(degrees) else used
        return self.adjacency.cache[key]

    # -- kernels ------------------------------------------------------------------------------------------------
    def _operands(self, column: EdgeColumn) -> tuple[Expr, list[Tensor]]:
        expr, slots = compact(column.expr)
        return expr, [self.tensor(slot) for slot in slots]

    def _noted(self, kernel: str, num_rows: int, column: EdgeColumn) -> Tensor:
        """Note in the log a kernel that would run; return zeros of the features of its result, a column."""
        assert self.log is not None
        self.log.append(kernel)
        return backend.full((num_rows, *column.feat), 0.0, str(column.feat_dtype), self.tensor_device)

    def compute(self, column: EdgeColumn) -> Tensor:
        if is_boolean(column):
            return self.compute(EdgeColumn(self, column.expr.call("where", 1.0, 0.0), column.feat, "")) != 0
        expr, operands = self._operands(column)
        if self.log is not None:
            return self._noted(f"g-SDDMM of {self.spelled(column)}", self.num_edges, column)
        if column.summed is None and isinstance(expr, Operand):
            return operands[0] if expr.side is Side.E else gather(self.adjacency, expr.side, operands[0])
        values = core.sddmm(self.adjacency, expr, operands, dot=column.summed is not None)
        return backend.reshape(values, (self.num_edges, *column.feat))

    def reduce(self, reducer: Reducer, column: EdgeColumn) -> Tensor:
        attention = self._attention(column) if reducer is Reducer.SUM and self._softmaxes else None
        if attention is not None:
            return attention
        expr, operands = self._operands(column)
        if self.log is not None:
            return self._noted(f"g-SpMM {reducer.value} of {self.spelled(column)}", self.num_rows[Side.V], column)
        return core.spmm(self.adjacency, expr, reducer, operands)

    def degrees(self) -> np.ndarray | Tensor:
        self.counted = True
        if is_read(self.adjacency):
            degrees = core.degree_scale(self.adjacency, core.DEGREE_SCALES["in"], "float64", self.tensor_device)
            return backend.reshape(degrees, (-1,)).clip(1)
        return self.adjacency.in_degrees()

    def joins(self, column: EdgeColumn, other: EdgeColumn) -> bool:
        """Whether both columns have the same shape and share operands; an attention has its own kernel."""
        if self._softmaxes or is_boolean(other) or (column.feat, column.feat_dtype) != (other.feat, other.feat_dtype):
            return False
        slots = {operand.slot for operand in operands_of(column.expr)}
        return any(operand.slot in slots for operand in operands_of(other.expr))

    def reduce_several(self, parts: Sequence[tuple[Reducer, EdgeColumn]]) -> list[Tensor]:
        if len(parts) == 1:
            return [self.reduce(*parts[0])]
        slots = sorted({operand.slot for _, column in parts for operand in operands_of(column.expr)})
        if self.log is not None:
            names = ", ".join(f"{reducer.value} of {self.spelled(column)}" for reducer, column in parts)
            return [self._noted(f"g-SpMM {names} in one pass", self.num_rows[Side.V], parts[0][1])] * len(parts)
        places = {slot: i for i, slot in enumerate(slots)}
        exprs = tuple((renumber(column.expr, places), reducer) for reducer, column in parts)
        return core.spmm_several(self.adjacency, exprs, [self.tensor(slot) for slot in slots])

    def _attention(self, column: EdgeColumn) -> Tensor | None:
        """Return the reduction by the fused attention kernel if the column is an attention, else None."""
        pattern = find_attention(column.expr, {slot: scores.expr for slot, scores in self._softmaxes.items()})
        if pattern is None:
            return None
        left, right, edge, slope = pattern.score
        slots = (left, right) if edge is None else (left, right, edge)
        x, *terms = (self.tensors[slot] for slot in (pattern.x, *slots))
        feat = tuple(backend.shape(x)[1:])
        if not feat or feat != column.feat or any(backend.shape(y)[1:] != (*feat[:-1], 1) for y in terms):
            return None
        if self.log is not None:
            return self._noted(f"attention of {self.spelled(column)}", self.num_rows[Side.V], column)
        heads = feat[:-1] or (1,)
        x = backend.reshape(x, (backend.shape(x)[0], *heads, feat[-1]))
        terms = [backend.reshape(y, (backend.shape(y)[0], *heads)) for y in terms]
        options = core.Attention(core.Score.ADDITIVE, slope, edges=edge is not None)
        result = core.attention(self.adjacency, options, x, terms)
        return backend.reshape(result, (self.num_rows[Side.V], *feat))

    def softmax(self, column: EdgeColumn) -> EdgeColumn:
        """Return a softmax that is computed when it is needed on the edges: inside attention it never is."""
        slot = len(self.sources)
        self.sources.append((Side.E, "softmax" if self.log is None else f"softmax({self.spelled(column)})"))
        self.tensors.append(None)
        self._softmaxes[slot] = column
        return EdgeColumn(self, Operand(Side.E, slot), column.feat, column.feat_dtype)

    def feat_of(self, slot: int) -> tuple[int, ...]:
        return self._softmaxes[slot].feat if slot in self._softmaxes else super().feat_of(slot)

    def reshaped(self, operand: Operand, feat: tuple[int, ...]) -> Operand:
        scores = self._softmaxes.get(operand.slot)
        if scores is None or self.tensors[operand.slot] is not None:
            return super().reshaped(operand, feat)
        axis = next((i for i, size in enumerate(feat) if (*feat[:i], *feat[i + 1 :]) == scores.feat), None)
        if axis is None or feat[axis] != 1:
            return super().reshaped(operand, feat)
        return self.softmax(self.unsqueezed(scores, axis)).operand

    def tensor(self, slot: int) -> Tensor:
        if self.tensors[slot] is None:
            scores = self._softmaxes[slot]
            if self.log is not None:
                self.tensors[slot] = self._noted(f"edge softmax of {self.spelled(scores)}", self.num_edges, scores)
            else:
                self.tensors[slot] = core.edge_softmax(self.adjacency, self.compute(scores))
        return self.tensors[slot]

    def spelled(self, column: EdgeColumn) -> str:
        """Return the column's formula."""
        return spell(column.expr, [ColumnRead(side, name) for side, name in self.sources])


@dataclass
class _MailboxColumns:
    """The columns of a deferred mailbox: ``fields`` (expression, sources) are computed, those of ``table`` exist.

    ``read`` collects the columns that a function has asked for.
    """

    tape: RelationTape
    relation: Relation
    receivers: np.ndarray | None
    fields: Mapping[str, tuple[Expr, Sequence[tuple[Side, Any]]]]
    table: Table
    read: dict[str, EdgeColumn] = field(default_factory=dict)

    def column(self, name: str) -> EdgeColumn:
        """Return a column. ``Unrecordable`` for messages of a dtype that kernels lack."""
        if name in self.fields:
            expr, sources = self.fields[name]
            self.read[name] = _mailbox_column(self.tape, self.relation, expr, sources, self.receivers)
        elif has_kernels(self.table[name]):
            self.read[name] = self.tape.capture(Side.E, self.table[name])
        else:
            raise Unrecordable(f"message {name!r} is of dtype {backend.dtype(self.table[name])}", lasting=False)
        return self.read[name]


def reduce_once(
    function: Any, relation: Relation, fields: Sequence[MailboxField], table: Table, log: list[str] | None = None
) -> Table:
    """Call a reduce function once, on a deferred mailbox of all nodes that receive messages.

    ``fields`` are computed on the way, the columns of ``table`` are messages that exist. Nodes without messages get the
    initializer's values. With ``log`` no kernel is run: it receives what would be, and the result is meaningless.

    Raises ``Unrecordable``: the function uses the mailbox in a way that has no kernel, or draws random numbers. Nothing
    has changed then.
    """
    traced = is_read(relation.adjacency)
    adjacency, receivers, order = _receiving(relation)
    tape = RelationTape(relation, constants_of(function), adjacency)
    tape.log = log
    messages = _MailboxColumns(
        tape, relation, receivers, {name: (expr, sources) for name, expr, sources in fields}, table
    )
    nodes = None if traced else relation.node_ids(np.arange(adjacency.num_dst) if receivers is None else receivers)
    batch = AllNodes(
        Columns("nodes", relation.nodes.keys(), lambda name: _rows_of(relation, name, receivers)),
        Columns("messages", [*table, *messages.fields], messages.column),
        adjacency.num_dst,
        lambda: NodeColumn(_node_ids(relation, nodes)),
        relation.etype[2],
        refuse_graph,
    )
    state = backend.random_state()
    try:
        result = _called(function, batch, tape)
        if not isinstance(result, dict) or not all(map(is_rows, result.values())):
            raise Unrecordable("it returns something else than rows of reduced messages")
        whole = checked(realised(result), (adjacency.num_dst,), "nodes", relation.device, function)
        if backend.random_state() != state:
            raise Unrecordable("it draws random numbers")
    except Unrecordable as refused:
        backend.restore_random_state(state)
        refused.function, refused.reason = function, refused.reason + _line_of(refused, function)
        raise
    note_builtins(function, result, messages.read)
    if traced:
        return {name: _where_received(relation, name, x) for name, x in whole.items()}
    if order is None:
        return whole
    missing = relation.adjacency.num_dst - adjacency.num_dst
    return {
        name: core.take_rows(backend.concat([relation.initial(name, missing, x), x]), order, permutation=True)
        for name, x in whole.items()
    }


def _called(function: Any, batch: NodeBatch, tape: RelationTape) -> Any:
    try:
        return function(batch)
    except Unrecordable:
        raise
    except Exception as error:  # in a bucket it raises this again, or it does not: tensors can do more
        if ends_computation(error):
            raise
        reason = f"it raised {type(error).__name__} on a deferred mailbox"
        raise Unrecordable(reason, lasting=tape.counted) from error


def _receiving(relation: Relation) -> tuple[Adjacency, np.ndarray | None, np.ndarray | None]:
    """Return the relation's structure without nodes that receive nothing, and the others; None if that is all.

    The third gives every node its row in a table of first the nodes that receive nothing, then the others.
    """
    adjacency = relation.adjacency
    if is_read(adjacency):
        return adjacency, None, None
    cached = adjacency.cache.get(_RECEIVING)
    if cached is None:
        degrees = adjacency.in_degrees()
        receivers = np.flatnonzero(degrees)
        cached = adjacency, None, None
        if len(receivers) < adjacency.num_dst:
            csc = adjacency.csc()
            indptr = np.append(csc.indptr[receivers], csc.indptr[-1:])
            compressed = Adjacency.from_csc(
                adjacency.num_src, len(receivers), indptr, csc.indices, csc.edge_ids, idtype=adjacency.idtype
            )
            cached = compressed, receivers, np.argsort(np.concatenate([np.flatnonzero(degrees == 0), receivers]))
        cached = adjacency.cache.setdefault(_RECEIVING, cached)
    return cached


def _where_received(relation: Relation, name: str, rows: Tensor) -> Tensor:
    """Return rows of nodes that received messages, and the initializer's for others, in a program for any graph."""
    adjacency, axes = relation.adjacency, len(backend.shape(rows))
    degrees = core.degree_scale(adjacency, core.DEGREE_SCALES["in"], "float32", backend.device(rows))
    received = backend.reshape(degrees, (adjacency.num_dst, *(1,) * (axes - 1))) > 0
    return backend.functions["where"](received, rows, relation.initial(name, adjacency.num_dst, rows))


def _node_ids(relation: Relation, nodes: np.ndarray | None) -> Tensor:
    if nodes is None:
        raise DGLError("a program for graphs of any size cannot tell a reduce function the ids of its nodes")
    return relation.ids(nodes)


def _rows_of(relation: Relation, name: str, receivers: np.ndarray | None) -> NodeColumn:
    if receivers is None and relation.node_rows is None:
        return NodeColumn(relation.nodes[name], stored=True)
    nodes = np.arange(relation.adjacency.num_dst) if receivers is None else receivers
    return NodeColumn(core.take_rows(relation.nodes[name], relation.node_ids(nodes)))


def _mailbox_column(
    tape: Tape, relation: Relation, expr: Expr, sources: Sequence[tuple[Side, Any]], receivers: np.ndarray | None
) -> EdgeColumn:
    """Return a message field, an expression over columns of the relation, as a column of the mailbox."""
    slots, feats, dtypes = {}, [], set()
    for position, (side, name) in enumerate(sources):
        tensor = relation.column(side, name)
        if not has_kernels(tensor):
            reason = f"messages are made of {side.value}.{name}, of dtype {backend.dtype(tensor)}"
            raise Unrecordable(reason, lasting=False)
        if side is Side.V and receivers is not None:
            tensor = core.take_rows(tensor, receivers)
        slots[position] = tape.operand((side, name), tensor).slot
        feats.append(tuple(backend.shape(tensor)[1:]))
        dtypes.add(backend.dtype(tensor))
    try:
        feat = broadcast_shape(tuple(feats))
    except ValueError:
        raise Unrecordable("the features of a message do not broadcast", lasting=False) from None
    if len(dtypes) > 1:
        raise Unrecordable(f"messages are made of {' and '.join(sorted(dtypes))}", lasting=False)
    whole = expr if list(slots) == list(slots.values()) else renumber(expr, slots)
    return EdgeColumn(tape, whole, feat, dtypes.pop())


def _line_of(error: Exception, function: Any) -> str:
    """Return where a user's function was when it could not be recorded, ": line 3, return ..."; "" if it is unknown."""
    code: Any = getattr(function, "__code__", None)
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code is not code:
        trace = trace.tb_next
    if trace is None:
        return ""
    text = linecache.getline(code.co_filename, trace.tb_lineno).strip()
    return f": line {trace.tb_lineno}, {text:.80}" if text else ""
