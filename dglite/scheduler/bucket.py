"""Degree buckets: nodes with equally many messages, for which a user's function is called once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..backend import Tensor
from ..backend import active as backend
from ..errors import DGLError
from ..expr import Side
from ..function import ReduceFunction
from ..ops import core
from ..ops.traced import is_read
from ..structure.adjacency import Adjacency
from ..structure.compressed import expand_ranges, scattered
from ..structure.derived import CacheKey, cache_key
from ..udf import Columns, EdgeBatch, NodeBatch, call_with_batch, checked, function_name
from .relation import CopyOnWriteGuard, Relation, Table, gather


class Buckets:
    """The order in which a relation's destination nodes and edges fall into buckets of one in-degree.

    Nodes are ordered by degree, then id; their edges follow in that order, a node's edges by edge id. Bucket i is a
    run of ``node_sizes[i]`` nodes of degree ``degrees[i]``, with a run of ``edge_sizes[i]`` edges. Nodes without edges
    come first and are in no bucket. Either order is one permutation: moving a column, or its gradient, is one kernel.
    """

    def __init__(self, adjacency: Adjacency) -> None:
        csc, in_degrees = adjacency.csc(), adjacency.in_degrees()
        self._csc = csc
        self._num_src, self._idtype = adjacency.num_src, adjacency.idtype
        self.nodes: np.ndarray = np.argsort(in_degrees, kind="stable")
        """All nodes, those without edges first."""
        degrees, starts = np.unique(in_degrees[self.nodes], return_index=True)
        sizes = np.diff(starts, append=len(in_degrees))
        first = 1 if len(degrees) and degrees[0] == 0 else 0
        self.num_empty = int(sizes[0]) if first else 0
        """How many nodes have no edges."""
        self.receivers = self.nodes[self.num_empty :]
        """The nodes with edges, bucket after bucket."""
        self.degrees: list[int] = degrees[first:].tolist()
        self.node_sizes: list[int] = sizes[first:].tolist()
        self.edge_sizes: list[int] = (degrees * sizes)[first:].tolist()
        self._counts = in_degrees[self.receivers]
        self._positions = expand_ranges(csc.indptr[self.receivers], self._counts)

    def __len__(self) -> int:
        return len(self.degrees)

    @cached_property
    def edges(self) -> np.ndarray:
        """Edge ids, bucket after bucket."""
        edge_ids = self._csc.edge_ids
        return self._positions if edge_ids is None else edge_ids[self._positions].astype(np.int64, copy=False)

    @cached_property
    def adjacency(self) -> Adjacency:
        """The relation with its edges renumbered in bucket order."""
        sources = self._csc.indices[self._positions]
        receivers = np.repeat(self.receivers, self._counts)
        return Adjacency.from_coo(
            self._num_src, len(self.nodes), sources, receivers, idtype=self._idtype, validate=False
        )

    @cached_property
    def _edges_in_place(self) -> bool:
        return bool((self.edges == np.arange(len(self.edges))).all())

    @cached_property
    def _nodes_in_place(self) -> bool:
        return bool((self.nodes == np.arange(len(self.nodes))).all())

    @cached_property
    def _edge_ranks(self) -> np.ndarray:
        return _inverse(self.edges)

    @cached_property
    def _node_ranks(self) -> np.ndarray:
        return _inverse(self.nodes)

    def edges_in(self, x: Tensor, guard: CopyOnWriteGuard) -> Tensor:
        """Bring (num_edges, *feat) from edge order to bucket order; where these are one, ``x`` is lent as it is."""
        return guard(x) if self._edges_in_place else core.take_rows(x, self.edges, permutation=True)

    def edges_out(self, x: Tensor) -> Tensor:
        """Bring (num_edges, *feat) from bucket order to edge order."""
        return x if self._edges_in_place else core.take_rows(x, self._edge_ranks, permutation=True)

    def nodes_out(self, x: Tensor) -> Tensor:
        """Bring (num_nodes, *feat) from the order of ``nodes`` to node order."""
        return x if self._nodes_in_place else core.take_rows(x, self._node_ranks, permutation=True)


_BUCKETS: CacheKey[Buckets] = cache_key(
    "buckets", "the nodes of each in-degree, for functions that are called per degree"
)


def buckets_of(adjacency: Adjacency) -> Buckets:
    """Return the buckets of a relation, made once and kept with it.

    Raises ``DGLError``: a program is recorded for graphs of any size, whose degrees are not known.
    """
    if is_read(adjacency):
        raise DGLError(
            "a program for graphs of any size cannot call a function once for the nodes of each in-degree. Reduce the "
            "mailbox by sum(1), mean(1), max(1) or min(1), or use a built-in reducer other than fn.prod; "
            "dglite.explain says why a function is not recorded"
        )
    buckets = adjacency.cache.get(_BUCKETS)
    if buckets is None:
        buckets = adjacency.cache[_BUCKETS] = Buckets(adjacency)
    return buckets


def _inverse(permutation: np.ndarray) -> np.ndarray:
    return scattered(np.arange(len(permutation), dtype=permutation.dtype), permutation)


def reduce_in_buckets(
    function: Callable[[NodeBatch], Any], relation: Relation, names: Collection[str], column: Callable[[str], Tensor]
) -> Table:
    """Call a user's reduce function once per bucket; nodes without messages get the initializer's values.

    ``column(name)`` gives message field ``name``, one of ``names``, in bucket order. Without any message the function
    is not called, and the table has no columns.
    """
    buckets = buckets_of(relation.adjacency)
    mailboxes = _cut("messages", names, column, buckets)
    columns = _cut_nodes(relation, buckets)
    rows = relation.node_ids(buckets.receivers)
    results = []
    start = 0
    for size, data, mailbox in zip(buckets.node_sizes, columns, mailboxes, strict=True):
        ids = functools.partial(relation.ids, rows[start : start + size])
        batch = NodeBatch(data, mailbox, size, ids, relation.etype[2], relation.slice_of_graph)
        results.append(checked(call_with_batch(function, batch, "nodes"), (size,), "nodes", relation.device, function))
        start += size

    def whole(name: str) -> Tensor:
        parts = [table[name] for table in results]
        if buckets.num_empty:
            parts.insert(0, relation.initial(name, buckets.num_empty, parts[0]))
        return buckets.nodes_out(_joined(parts, name, function))

    return {name: whole(name) for name in _common_names(results, function)}


def product_in_buckets(function: ReduceFunction, relation: Relation, messages: Tensor) -> Table:
    """Multiply the messages of each node, given in bucket order; 0 without messages. Exact with zeros among them."""
    buckets = buckets_of(relation.adjacency)
    shape = backend.shape(messages)[1:]
    parts = [backend.full((buckets.num_empty, *shape), 0.0, backend.dtype(messages), backend.device(messages))]
    for rows, size, degree in zip(
        backend.split(messages, buckets.edge_sizes), buckets.node_sizes, buckets.degrees, strict=True
    ):
        parts.append(backend.prod(backend.reshape(rows, (size, degree, *shape)), 1))
    return {function.out_field: buckets.nodes_out(backend.concat(parts))}


def group_edges(function: Callable[[EdgeBatch], Any], relation: Relation, by: Side) -> Table:
    """Call a user's function on edges in buckets (nodes, degree), nodes being their ends ``by`` (``U`` or ``V``)."""
    adjacency = relation.adjacency
    buckets = buckets_of(adjacency.reverse() if by is Side.U else adjacency)
    edges = buckets.edges
    ordered = buckets.adjacency.reverse() if by is Side.U else buckets.adjacency
    guard = CopyOnWriteGuard(function)
    parts = zip(
        _cut(
            "source nodes", relation.src.keys(), lambda k: gather(ordered, Side.U, relation.column(Side.U, k)), buckets
        ),
        _cut("edges", relation.edges.keys(), lambda k: buckets.edges_in(relation.column(Side.E, k), guard), buckets),
        _cut(
            "destination nodes",
            relation.dst.keys(),
            lambda k: gather(ordered, Side.V, relation.column(Side.V, k)),
            buckets,
        ),
        strict=True,
    )
    results = []
    start = 0
    for columns, nodes, degree in zip(parts, buckets.node_sizes, buckets.degrees, strict=True):
        size = nodes * degree
        ids = functools.partial(relation.end_ids, edges[start : start + size])
        result = function(EdgeBatch(*columns, size, ids, relation.etype, relation.slice_of_graph))
        table = checked(result, (nodes, degree), "groups and of edges in each", relation.device, function)
        results.append({name: backend.reshape(x, (size, *backend.shape(x)[2:])) for name, x in table.items()})
        start += size
    return {
        name: buckets.edges_out(_joined([table[name] for table in results], name, function))
        for name in _common_names(results, function)
    }


def _cut(label: str, names: Collection[str], column: Callable[[str], Tensor], buckets: Buckets) -> list[Columns]:
    """Return for each bucket its columns (nodes, degree, *feat); ``column`` gives a column in bucket order, once."""
    pieces: dict[str, Sequence[Tensor]] = {}

    def part(index: int, name: str) -> Tensor:
        if name not in pieces:
            pieces[name] = backend.split(column(name), buckets.edge_sizes)
        rows = pieces[name][index]
        return backend.reshape(rows, (buckets.node_sizes[index], buckets.degrees[index], *backend.shape(rows)[1:]))

    return [Columns(label, names, functools.partial(part, index)) for index in range(len(buckets))]


def _cut_nodes(relation: Relation, buckets: Buckets) -> list[Columns]:
    """Return for each bucket the columns of its nodes."""
    rows = relation.node_ids(buckets.receivers)
    pieces: dict[str, Sequence[Tensor]] = {}

    def part(index: int, name: str) -> Tensor:
        if name not in pieces:
            pieces[name] = backend.split(core.take_rows(relation.nodes[name], rows), buckets.node_sizes)
        return pieces[name][index]

    names = relation.nodes.keys()
    return [Columns("nodes", names, functools.partial(part, index)) for index in range(len(buckets))]


def _common_names(results: list[dict[str, Tensor]], function: Callable[..., Any]) -> list[str]:
    """Return the columns that the function returned, which must be the same for every bucket."""
    names = list(results[0]) if results else []
    for table in results:
        if table.keys() != set(names):
            raise DGLError(
                f"function {function_name(function)} returned columns {names} for one bucket of nodes "
                f"and {list(table)} for another; it must return the same columns every time"
            )
    return names


def _joined(parts: list[Tensor], name: str, function: Callable[..., Any]) -> Tensor:
    """Return the buckets' results as one column."""
    if len(parts) == 1:
        return parts[0]
    kinds = [(tuple(backend.shape(part)[1:]), backend.dtype(part)) for part in parts]
    if kinds != kinds[:1] * len(kinds):  # in a program, sizes are symbols or tensors, and in no set
        texts = {f"(rows, {', '.join(map(str, shape))}) {dtype}" for shape, dtype in kinds}
        shapes = " and ".join(sorted(texts))
        raise DGLError(
            f"function {function_name(function)} returned {name!r} as {shapes} for different buckets of nodes; "
            "its feature shape and dtype must not depend on how many messages a node has"
        )
    return backend.concat(parts)
