"""One edge type during a run: the edges taking part, the features that messages read, the receiving nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..backend import Tensor
from ..backend import active as backend
from ..errors import DGLError
from ..expr import Operand, Side
from ..frame import NID, NTYPE, Frame
from ..function import FieldName
from ..ops import core
from ..ops.operands import FLOATS
from ..ops.traced import is_read
from ..recorder import may_write
from ..structure.adjacency import Adjacency
from ..structure.compressed import expand_ranges
from ..udf import Columns, EdgeBatch, NodeBatch

Table = Mapping[str, Tensor]
"""Columns by name, all with the same number of rows."""

_COPY = {side: Operand(side, 0) for side in (Side.U, Side.V)}
FEW_EDGES = 1024
"""Edges up to which compressing them takes longer than a kernel saves."""
_NO_MAILBOX = Columns("messages", (), dict[str, Tensor]().__getitem__)
_WIDE = ("float32", "float64")
_SIDES = {Side.U: "source nodes", Side.E: "edges", Side.V: "destination nodes"}


class ColumnStore(Protocol):
    """Where a message's columns are read: a frame, or the snapshot that ``send`` took of one."""

    def peek(self, name: str) -> Tensor | None:
        """Return the column called ``name``, or None."""

    def keys(self) -> Collection[str]:
        """Return the names of the columns."""


class Snapshot:
    """Columns as they were at ``send``: those that a lazy message reads, or the messages themselves.

    A feature that is replaced meanwhile does no harm, since the old tensor is held here. One that is written in place
    is noticed by its version, and reading it raises DGLError.
    """

    __slots__ = ("_columns", "_versions")

    def __init__(self, columns: Table) -> None:
        self._versions = {name: backend.version(column) for name, column in columns.items()}
        self._columns: Mapping[str, Tensor] = {  # writes to a column without a version would not be noticed
            name: backend.copy(column) if self._versions[name] is None else column for name, column in columns.items()
        }

    def peek(self, name: str) -> Tensor | None:
        """Return the column called ``name``, or None."""
        column = self._columns.get(name)
        if column is not None and backend.version(column) != self._versions[name]:
            raise DGLError(
                f"{name!r} was written in place between send and recv, so the message that it is part of is lost; "
                f"give the graph a new tensor instead, as in data[{name!r}] = data[{name!r}] + 1"
            )
        return column

    def keys(self) -> Collection[str]:
        """Return the names of the columns."""
        return self._columns.keys()

    def columns(self) -> dict[str, Tensor]:
        """Return all columns."""
        return {name: column for name in self._columns if (column := self.peek(name)) is not None}


class Relation:
    """The active edges of one edge type, with the columns around them.

    ``adjacency`` holds the active edges, numbered from 0, from all source nodes to the receiving nodes, numbered from 0
    too; ``edge_rows`` and ``node_rows`` are their ids in the graph, None where they are all of them. ``src``,
    ``edges`` and ``dst`` are what messages read; ``nodes`` is the frame of the receiving nodes, which reducers read and
    write. ``stored`` is the table of messages that ``send`` has left on these edges; ``captured`` are tensors that a
    recorded function brought along, which messages read by number; ``gathered`` are rows of columns that were gathered
    already, by side and name. ``graph`` is handed to users' functions as it is.
    """

    __slots__ = (
        "adjacency",
        "captured",
        "device",
        "dst",
        "edge_rows",
        "edges",
        "etype",
        "gathered",
        "graph",
        "node_rows",
        "nodes",
        "src",
        "stored",
    )

    def __init__(
        self,
        adjacency: Adjacency,
        src: ColumnStore,
        edges: ColumnStore,
        dst: ColumnStore,
        nodes: Frame,
        etype: tuple[str, str, str],
        device: Any,
        graph: Any,
        edge_rows: np.ndarray | None = None,
        node_rows: np.ndarray | None = None,
    ) -> None:
        self.adjacency = adjacency
        self.src = src
        self.edges = edges
        self.dst = dst
        self.nodes = nodes
        self.etype = etype
        self.device = device
        self.graph = graph
        self.edge_rows = edge_rows
        self.node_rows = node_rows
        self.stored: Table = {}
        self.captured: Sequence[Tensor] = ()
        self.gathered: dict[tuple[Side, str], Tensor] = {}

    def has_column(self, side: Side, name: str) -> bool:
        """Whether messages can read this column."""
        store = self.src if side is Side.U else self.edges if side is Side.E else self.dst
        return name in store.keys()  # noqa: SIM118

    def peek(self, side: Side, name: str) -> Tensor | None:
        """Return a whole column of a side's frame, or None."""
        return (self.src if side is Side.U else self.edges if side is Side.E else self.dst).peek(name)

    def column(self, side: Side, name: FieldName) -> Tensor:
        """Return a column for messages: rows of all sources, of the active edges, or of the receiving nodes."""
        if not isinstance(name, str):
            if isinstance(name, int):
                return self.captured[name]
            x = self.column(side, name.name)
            return backend.reshape(x, (backend.shape(x)[0], *name.feat))
        if side is Side.U:
            store, rows = self.src, None
        elif side is Side.E:
            store, rows = self.edges, self.edge_rows
        else:
            store, rows = self.dst, self.node_rows
        if rows is not None and (side, name) in self.gathered:
            return self.gathered[side, name]
        column = store.peek(name)
        if column is None:
            names = ", ".join(map(repr, store.keys())) or "none"
            raise KeyError(f"no column {name!r} on the {_SIDES[side]} of {self.etype}; there are: {names}")
        if rows is None:
            return column
        rows_of_edges = self.gathered[side, name] = core.take_rows(column, rows)
        return rows_of_edges

    @property
    def has_edges(self) -> bool:
        """Whether there are edges; in a program for graphs of any size, whether there may be."""
        return is_read(self.adjacency) or self.adjacency.num_edges > 0

    def initial(self, name: str, num_rows: int, like: Tensor) -> Tensor:
        """Return ``num_rows`` initial rows of a receiving column, with the dtype and device of ``like``."""
        return self.nodes.initial(name, num_rows, backend.shape(like)[1:], like.dtype, backend.device(like))

    def write(self, side: Side, table: Table) -> None:
        """Write columns to the receiving nodes (``V``) or to the active edges (``E``)."""
        frame, rows = (self.edges, self.edge_rows) if side is Side.E else (self.nodes, self.node_rows)
        assert isinstance(frame, Frame)
        if rows is not None:
            frame.set_rows(rows, dict(table))
        elif len(table) == 1:
            for name, column in table.items():
                frame[name] = column
        else:
            frame.update(table)

    def edge_batch(self, function: Any = None) -> EdgeBatch:
        """Return the active edges as one batch for ``function``; the gradient of a gathered column is a fused kernel.

        Without ``function`` it is for one that does not write into what it is given.
        """
        adjacency, guard = self.adjacency, CopyOnWriteGuard(function)

        def of_edge(name: str) -> Tensor:
            column = self.column(Side.E, name)
            if self.edge_rows is None:
                return guard(column)
            return self.gathered.pop((Side.E, name))  # the function may write into it

        def of_source(name: str) -> Tensor:
            return gather(adjacency, Side.U, self.column(Side.U, name))

        def of_destination(name: str) -> Tensor:
            return gather(adjacency, Side.V, self.column(Side.V, name))

        return EdgeBatch(
            Columns("source nodes", self.src.keys(), of_source),
            Columns("edges", self.edges.keys(), of_edge),
            Columns("destination nodes", self.dst.keys(), of_destination),
            adjacency.num_edges,
            self.end_ids,
            self.etype,
            self.slice_of_graph,
        )

    def node_batch(self, function: Any, table: Table) -> NodeBatch:
        """Return the receiving nodes as one batch for ``function``, the columns of ``table`` over their own."""
        rows, size = self.node_rows, self.adjacency.num_dst
        return node_batch(function, self.nodes, rows, size, self.etype[2], self.ids, table, self.slice_of_graph)

    def slice_of_graph(self) -> Any:
        """Return the graph with this edge type alone, sharing its frames."""
        return self.graph if len(self.graph.canonical_etypes) == 1 else self.graph[self.etype]

    def ids(self, array: np.ndarray) -> Tensor:
        """Return node or edge ids as a fresh tensor of the graph's index type."""
        device = self.device if backend.guest is None else self._columns_device()
        return backend.from_numpy(np.array(array, dtype=self.adjacency.idtype), device)

    def _columns_device(self) -> Any:
        """Return the device as the library of the columns has it."""
        for store in (self.src, self.edges, self.dst):
            for name in store.keys():  # noqa: SIM118
                if name not in (NID, NTYPE):
                    return backend.device(store.peek(name))
        return self.device

    def node_ids(self, nodes: np.ndarray) -> np.ndarray:
        """Return the graph's ids of the given receiving nodes."""
        return nodes if self.node_rows is None else self.node_rows[nodes]

    def end_ids(self, edges: np.ndarray | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return the graph's ids (sources, destinations, edges) of the given active edges, or of all, as tensors."""
        src, dst = self.adjacency.endpoints()
        rows = np.arange(len(src)) if self.edge_rows is None else self.edge_rows
        if edges is not None:
            src, dst, rows = src[edges], dst[edges], rows[edges]
        return self.ids(src), self.ids(self.node_ids(dst)), self.ids(rows)

    def only(self, edge_ids: np.ndarray) -> Relation:
        """Return the relation with these edges alone, in this order, and the nodes that they reach."""
        subset = self.adjacency.subset(edge_ids)
        if subset.adjacency is self.adjacency:
            return self
        return self._with(subset.adjacency, subset.edge_ids, subset.dst_ids.astype(np.int64, copy=False))

    def among(self, edge_ids: np.ndarray) -> Relation:
        """Return the relation with these edges alone, in this order, and all its nodes."""
        adjacency = self.adjacency
        if len(edge_ids) == adjacency.num_edges and np.array_equal(edge_ids, np.arange(len(edge_ids))):
            return self
        src, dst = adjacency.endpoints()
        ends = src[edge_ids], dst[edge_ids]
        part = Adjacency.from_coo(adjacency.num_src, adjacency.num_dst, *ends, adjacency.idtype, False, copy=False)
        return self._with(part, edge_ids, None)

    def into(self, nodes: np.ndarray, keep: Callable[[np.ndarray], np.ndarray] | None = None) -> Relation:
        """Return the relation with the in-edges of ``nodes`` alone (distinct ids); those without edges stay in it.

        ``keep`` tells of edge ids which of them may take part.
        """
        adjacency = self.adjacency
        csc = adjacency.csc()
        starts = csc.indptr[nodes]
        counts = csc.indptr[nodes + 1] - starts
        positions = expand_ranges(starts, counts)
        edge_ids = positions if csc.edge_ids is None else csc.edge_ids[positions]
        if keep is not None:
            mask = keep(edge_ids)
            counts = np.bincount(np.repeat(np.arange(len(nodes)), counts)[mask], minlength=len(nodes))
            positions, edge_ids = positions[mask], edge_ids[mask]
        indptr = np.zeros(len(nodes) + 1, dtype=np.int64)
        np.cumsum(counts, out=indptr[1:])
        part = Adjacency.from_csc(
            adjacency.num_src, len(nodes), indptr, csc.indices[positions], idtype=adjacency.idtype
        )
        return self._with(part, edge_ids.astype(np.int64, copy=False), nodes)

    def _with(self, adjacency: Adjacency, edge_rows: np.ndarray, node_rows: np.ndarray | None) -> Relation:
        return Relation(
            adjacency,
            self.src,
            self.edges,
            self.dst,
            self.nodes,
            self.etype,
            self.device,
            self.graph,
            edge_rows,
            node_rows,
        )


def has_kernels(x: Tensor) -> bool:
    """Whether kernels compute with ``x`` what the functions of its library do.

    Autocast changes what those do with numbers of half precision: some then take float32.
    """
    dtype = backend.dtype(x)
    return dtype in _WIDE or (dtype in FLOATS and backend.autocast_dtype() is None)


def gather(adjacency: Adjacency, side: Side, column: Tensor) -> Tensor:
    """Return the row of each edge's source (``U``) or destination (``V``); its gradient is one g-SpMM.

    A few edges that were chosen for this once are not compressed for a kernel.
    """
    traced = is_read(adjacency)
    few = not traced and adjacency.num_edges <= FEW_EDGES and adjacency.formats == ("coo",)
    floats = backend.dtype(column) in FLOATS
    if traced and not floats:
        return backend.take(column, adjacency.tensors[side is Side.V])
    if floats and not few:
        return core.sddmm(adjacency, _COPY[side], (column,))
    ends = adjacency.endpoints()[0 if side is Side.U else 1].astype(np.int64, copy=False)
    return core.take_rows(column, ends) if floats else backend.take(column, ends)


class CopyOnWriteGuard:
    """Gives columns that may be the graph's own memory to a user's function; None is one that does not write.

    A function that may write into them gets copies: what it does not return leaves no trace in the graph.
    """

    __slots__ = ("_function", "_writes")

    def __init__(self, function: Any) -> None:
        self._function = function
        self._writes: bool | None = False if function is None else None

    def __call__(self, column: Tensor) -> Tensor:
        if self._writes is None:
            self._writes = may_write(self._function)
        return backend.copy(column) if self._writes else column


def node_batch(
    function: Any,
    frame: Frame,
    rows: np.ndarray | None,
    size: int,
    ntype: str,
    ids: Callable[[np.ndarray], Tensor],
    table: Table,
    graph: Callable[[], Any],
) -> NodeBatch:
    """Return the ``size`` nodes ``rows`` of ``frame`` (None: all) as a batch for ``function``.

    The columns of ``table`` are over the frame's own; ``graph`` returns the graph that the nodes are of.
    """

    guard = CopyOnWriteGuard(function)

    def read(name: str) -> Tensor:
        column = table.get(name)
        if column is None and rows is not None:
            return core.take_rows(frame[name], rows)
        return guard(frame[name] if column is None else column)

    names = {*frame.keys(), *table} if table else frame.keys()
    return NodeBatch(
        Columns("nodes", names, read),
        _NO_MAILBOX,
        size,
        lambda: ids(np.arange(size) if rows is None else rows),
        ntype,
        graph,
    )
