"""Messages between ``send`` and ``recv``, stored as functions instead of values as long as possible."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import Tensor
from ..backend import active as backend
from ..errors import DGLError
from ..expr import Operand, Side
from ..function import MessageFunction, Reshaped
from ..ops import core
from ..structure.adjacency import Adjacency
from ..structure.distinct import distinct
from .cache import compiled
from .execute import execute
from .lower import MessageSignature, lower_message
from .relation import Relation, Snapshot, Table


class Sent:
    """What one ``send`` has left: built-in messages and the columns that they read, or a user's messages, computed.

    ``edge_ids`` are the edges, None when all. A user's function is run at once, since what it would give later may
    differ; a built-in's columns are kept as they are now, and its values are computed if they are needed.
    """

    __slots__ = ("dst", "edge_ids", "edges", "functions", "src", "table")

    def __init__(self, edge_ids: np.ndarray | None) -> None:
        self.edge_ids = edge_ids
        self.functions: tuple[MessageFunction, ...] | None = None
        self.table = self.src = self.edges = self.dst = Snapshot({})

    @classmethod
    def described(
        cls,
        functions: tuple[MessageFunction, ...],
        relation: Relation,
        edge_ids: np.ndarray | None,
        copies: bool = False,
    ) -> Sent:
        """Leave messages as descriptions; ``relation`` has all edges. An unknown column is a KeyError now.

        With ``copies``, for what a user's function was recorded to do, columns are copied: executed as written, the
        function would have read them now, whatever is written into them later.
        """
        columns: dict[Side, dict[Any, Tensor]] = {side: {} for side in Side}
        for function in functions:
            for side, name in function.fields:
                name = name.name if isinstance(name, Reshaped) else name
                column = relation.column(side, name)
                read = copies and not (side is Side.E and isinstance(function.expr, Operand))
                columns[side][name] = backend.copy(column) if read else column
        sent = cls(edge_ids)
        sent.functions = functions
        sent.src, sent.edges, sent.dst = (Snapshot(columns[side]) for side in (Side.U, Side.E, Side.V))
        return sent

    @classmethod
    def computed(cls, table: Table, edge_ids: np.ndarray | None) -> Sent:
        """Leave computed messages: row i of ``table`` is the message of edge ``edge_ids[i]``."""
        sent = cls(edge_ids)
        sent.table = Snapshot(table)
        return sent

    def describe_on(self, relation: Relation) -> MessageSignature:
        """Make ``relation``, whose edges all carry this, read it; return the message to lower, None where computed."""
        if self.functions is None:
            relation.stored = self._rows(relation.edge_rows)
        else:
            relation.src, relation.edges, relation.dst = self.src, self.edges, self.dst
        return self.functions

    def values_on(self, relation: Relation) -> Table:
        """Return the messages on the edges of ``relation``, computing those that are not yet."""
        if self.functions is None:
            return self._rows(relation.edge_rows)
        self.describe_on(relation)
        return {
            name: column
            for function in self.functions
            for name, column in execute(compiled(lower_message, function), (relation,)).items()
        }

    def _rows(self, edges: np.ndarray | None) -> Table:
        table = self.table.columns()
        if edges is None:
            return table
        rows = edges if self.edge_ids is None else _last_positions(self.edge_ids, edges)
        return {name: core.take_rows(column, rows) for name, column in table.items()}


def _last_positions(ids: np.ndarray, sought: np.ndarray) -> np.ndarray:
    """Return where each of ``sought`` stands in ``ids``; the last place where it stands more than once."""
    order = np.argsort(ids, kind="stable")
    return order[np.searchsorted(ids[order], sought, side="right") - 1]


class Inbox:
    """The stored messages of one edge type.

    A message sent over all edges is kept as it is. Only when sends are partial is there a table ``slots`` that says for
    every edge which of ``sends`` waits on it, -1 for none; ``counts`` are how many edges each still has.
    """

    def __init__(self, adjacency: Adjacency) -> None:
        self.adjacency = adjacency
        self._sends: list[Sent | None] = []
        self._counts: list[int] = []
        self._slots: np.ndarray | None = None

    def leave(self, sent: Sent) -> None:
        """Put messages on edges, in place of those that wait there."""
        if sent.edge_ids is None:
            self._sends, self._counts, self._slots = [sent], [self.adjacency.num_edges], None
            return
        slots = self._per_edge()
        edges = distinct(sent.edge_ids)
        self._release(edges)
        slots[edges] = len(self._sends)
        self._sends.append(sent)
        self._counts.append(len(edges))

    def incoming(self, relation: Relation, nodes: np.ndarray | None) -> tuple[Relation, MessageSignature]:
        """Return the relation of the stored messages into ``nodes`` (distinct ids; None for all), and what they are.

        Nodes for which nothing waits stay in the relation, without edges. Nothing is consumed.
        """
        if relation.adjacency is not self.adjacency:
            raise DGLError(
                f"messages wait on a graph of {self.adjacency.num_edges} edges that was changed after send "
                f"(it has {relation.adjacency.num_edges} edges now); send them again"
            )
        if nodes is None and self._slots is None and self._sends:
            sent = self._sends[0]
            assert sent is not None
            return relation, sent.describe_on(relation)
        slots = self._per_edge()
        part = relation.into(
            np.arange(self.adjacency.num_dst) if nodes is None else nodes, lambda edges: slots[edges] >= 0
        )
        assert part.edge_rows is not None
        owners = slots[part.edge_rows]
        present = distinct(owners).tolist()
        if len(present) == 1:
            sent = self._sends[present[0]]
            assert sent is not None
            return part, sent.describe_on(part)
        part.stored = self._collected(relation, part.edge_rows, owners, present)
        return part, None

    def consume(self, relation: Relation) -> None:
        """Take the messages on the edges of ``relation`` away."""
        if relation.edge_rows is None:
            self._sends, self._counts, self._slots = [], [], None
            return
        self._release(relation.edge_rows)
        self._per_edge()[relation.edge_rows] = -1
        if not any(self._counts):
            self._sends.clear()
            self._counts.clear()

    def _per_edge(self) -> np.ndarray:
        """Return ``slots``, made when it is first needed; a message over all edges is number 0."""
        if self._slots is None:
            self._slots = np.full(self.adjacency.num_edges, 0 if self._sends else -1, dtype=np.int32)
        return self._slots

    def _release(self, edges: np.ndarray) -> None:
        """Count down the sends whose messages on ``edges`` (distinct ids) go; let go of those that have none left."""
        owners = self._per_edge()[edges]
        for slot, count in enumerate(np.bincount(owners[owners >= 0], minlength=len(self._sends)).tolist()):
            if count:
                self._counts[slot] -= count
                if not self._counts[slot]:
                    self._sends[slot] = None

    def _collected(self, relation: Relation, edges: np.ndarray, owners: np.ndarray, present: list[int]) -> Table:
        """Return the messages of several sends as one table, row i for ``edges[i]``, with the fields that all have."""
        rows, tables = [], []
        for slot in present:
            sent = self._sends[slot]
            assert sent is not None
            where = np.flatnonzero(owners == slot)
            rows.append(where)
            tables.append(sent.values_on(relation.only(edges[where])))
        if not tables:
            return {}
        ranks = np.argsort(np.concatenate(rows))
        fields = [name for name in tables[0] if all(name in table for table in tables)]
        return {name: core.take_rows(_joined([table[name] for table in tables], name), ranks, True) for name in fields}


def _joined(parts: list[Tensor], name: str) -> Tensor:
    kinds = {(tuple(backend.shape(part)[1:]), backend.dtype(part)) for part in parts}
    if len(kinds) > 1:
        shapes = " and ".join(f"{shape} {dtype}" for shape, dtype in sorted(kinds))
        raise DGLError(f"messages {name!r} of features {shapes} wait together; send them with one shape and dtype")
    return backend.concat(parts)
