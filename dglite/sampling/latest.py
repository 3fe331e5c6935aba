"""The latest edges of nodes before a time: what models of temporal networks read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..graph import DGLGraph
from ..structure import Adjacency
from ..structure.distinct import contains
from ..structure.ids import count_of
from .arguments import numbers
from .frontier import NO_EDGES, Chosen
from .sums import ColumnCache
from .times import NO_IDS, edge_times, in_kind_of


class LatestNeighbors(NamedTuple):
    """The latest in-edges of each of n nodes, k columns, the latest in the last one.

    Attributes
    ----------
    nodes, edges
        sources and ids (n, k) of the edges; -1 in the first columns of a node that has fewer than k.
    times
        their times (n, k); 0 where there is no edge.
    """

    nodes: Tensor
    edges: Tensor
    times: Tensor


@dataclass(frozen=True)
class _TimeOrder:
    """The in-edges of each node by time: those of node v from ``indptr[v]`` up to ``indptr[v + 1]``, latest last."""

    indptr: np.ndarray
    src: np.ndarray
    edge_ids: np.ndarray
    times: np.ndarray

    @cached_property
    def entry_of(self) -> np.ndarray:
        """The entry of each edge."""
        entries = np.empty_like(self.edge_ids)
        entries[self.edge_ids] = np.arange(len(entries), dtype=entries.dtype)
        return entries


_ORDERS: ColumnCache[_TimeOrder] = ColumnCache()
_OUTWARD: ColumnCache[_TimeOrder] = ColumnCache()


def latest_neighbors(
    g: DGLGraph, nodes: Any, times: Any, k: int, edge_time: str = "t", inclusive: bool = False, etype: Any = None
) -> LatestNeighbors:
    """Return the ``k`` latest in-edges of each node before its time.

    Edges of the same time are ordered by id. The first call for an edge feature orders all edges by it; a further one
    looks up each node in logarithmic time.

    Raises DGLError: a node, the edge type or the feature does not exist, a time is NaN, there are not as many times as
    nodes, or ``k`` is below 1.

    Parameters
    ----------
    nodes
        (n,) ids; one that comes several times is looked up each time.
    times
        (n,) numbers, or one for all.
    edge_time
        edge feature with the time of each edge; an edge whose time is NaN is never among the latest.
    inclusive
        take edges of the time itself, too.
    etype
        edge type; not needed where there is one.

    Examples
    --------
    >>> import dglite, torch
    >>> g = dglite.graph(([0, 1, 2, 0], [3, 3, 3, 3]))
    >>> g.edata["t"] = torch.tensor([10, 20, 30, 40])
    >>> latest_neighbors(g, [3, 3, 0], [40, 15, 40], 2).nodes
    tensor([[ 1,  2],
            [-1,  0],
            [-1, -1]])
    """
    k, relation = count_of(k, "k", 1), g.etype_id(etype)
    ids = g.node_ids_at(nodes, g.type_graph.ends[relation][1])
    dates = _times_of_relation(g, relation, edge_time)
    at = _times_of_nodes(times, len(ids))
    order = _time_order(g, relation, edge_time, dates)
    kind = order.times.dtype
    limits = in_kind_of(at, kind) if inclusive else -in_kind_of(-at, kind)  # rounded down, or up
    ends = _places(order, ids, limits, inclusive)
    entries = ends[:, None] + np.arange(-k, 0)
    missing = entries < order.indptr[ids][:, None]
    if not len(order.src):
        empty = np.full((len(ids), k), -1, np.int64)
        return LatestNeighbors(g.ids_tensor(empty), g.ids_tensor(empty), g.as_tensor(np.zeros((len(ids), k), at.dtype)))
    entries[missing] = 0
    columns = []
    for values, filler in ((order.src, -1), (order.edge_ids, -1), (order.times, 0)):
        column = values[entries]
        column[missing] = filler
        columns.append(column)
    return LatestNeighbors(g.ids_tensor(columns[0]), g.ids_tensor(columns[1]), g.as_tensor(columns[2]))


def _times_of_nodes(times: Any, count: int) -> np.ndarray:
    """Return a time for each node, integers as int64."""
    array = active.to_numpy(times) if active.is_tensor(times) else np.asarray(times)
    if array.ndim == 0:
        array = np.full(count, array)
    array = array.astype(np.int64).reshape(-1) if array.dtype.kind in "iu" else numbers(array, count, "times")
    if len(array) != count:
        raise DGLError(f"there are {len(array)} times for {count} nodes; give one for each, or one for all")
    if (array != array).any():
        raise DGLError(f"the time at position {(array != array).argmax()} is NaN")
    return array


def _time_order(g: DGLGraph, relation: int, name: str, times: np.ndarray) -> _TimeOrder:
    """Return a relation's in-edges by node and time; made once for a column of times."""
    adjacency, column = g.adjacencies[relation], g.edge_frame_at(relation).peek(name)
    with _ORDERS.lock:
        return _ORDERS.get(adjacency, column, lambda: _ordered(adjacency, times))


def earlier_destinations(
    g: DGLGraph, relation: int, edges: np.ndarray, count: int, name: str, random: np.random.Generator
) -> np.ndarray:
    """Return for each edge ``count`` destinations of earlier out-edges of its source, int64; -1 if there is none.

    Raises ``DGLError``: the edge type has no feature ``name``.
    """
    times, adjacency = _times_of_relation(g, relation, name), g.adjacencies[relation]
    if not len(edges):
        return np.empty((0, count), np.int64)
    with _OUTWARD.lock:
        column = g.edge_frame_at(relation).peek(name)
        order = _OUTWARD.get(adjacency, column, lambda: _ordered(adjacency.reverse(), times))
    src, _ = adjacency.find_edges(edges)
    first = order.indptr[src].astype(np.int64)[:, None]
    sizes = _places(order, src, times[edges], False)[:, None] - first
    picks = first + (random.random((len(edges), count)) * sizes).astype(np.int64)
    destinations: np.ndarray = np.where(sizes > 0, order.src[np.minimum(picks, len(times) - 1)], -1)
    return destinations


def _times_of_relation(g: DGLGraph, relation: int, name: str) -> np.ndarray:
    times = edge_times(g, name)[relation]
    if times is None:
        raise DGLError(f"edges of type {g.etypes[relation]!r} have no feature {name!r}")
    return times


def _ordered(adjacency: Adjacency, times: np.ndarray) -> _TimeOrder:
    """Order edges by destination, then by time (NaN last), then by id, as rows of a matrix are ordered by id."""
    if (times[1:] >= times[:-1]).all():
        stored, renumbered = adjacency.csc(), None
    else:
        renumbered = np.argsort(times, kind="stable").astype(adjacency.index_dtype)
        src, dst = (ends[renumbered] for ends in adjacency.endpoints())
        sizes = adjacency.num_src, adjacency.num_dst
        stored = Adjacency.from_coo(*sizes, src, dst, adjacency.idtype, validate=False, copy=False).csc()
    ids = stored.edge_ids
    if renumbered is not None:
        ids = renumbered if ids is None else renumbered[ids]
    ids = np.arange(adjacency.num_edges, dtype=adjacency.index_dtype) if ids is None else ids
    return _TimeOrder(stored.indptr, stored.indices, ids, times[ids])


def _places(order: _TimeOrder, nodes: np.ndarray, at: np.ndarray, inclusive: bool) -> np.ndarray:
    """Return for each node the place after its last edge before a time, int64: all are sought at once, by halves."""
    low, high = order.indptr[nodes].astype(np.int64), order.indptr[nodes + 1].astype(np.int64)
    times = order.times
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        there = times[np.minimum(middle, len(times) - 1)]
        earlier = ((there <= at) if inclusive else (there < at)) & (low < high)
        low, high = np.where(earlier, middle + 1, low), np.where(earlier, high, middle)
    return low


def choose_latest(
    g: DGLGraph,
    relation: int,
    seeds: np.ndarray,
    fanout: int,
    name: str,
    dates: np.ndarray,
    at: np.ndarray,
    excluded: np.ndarray | None,
) -> Chosen:
    """Return the ``fanout`` latest in-edges of each seed that are not later than its time, -1 for all of them.

    Parameters
    ----------
    name, dates
        the edge feature of times, and its values for this relation.
    at
        time of each seed.
    excluded
        ids of edges that are treated as if they were not there.
    """
    if not len(seeds) or not len(dates):
        return NO_EDGES._replace(indptr=np.zeros(len(seeds) + 1, np.int64))
    order = _time_order(g, relation, name, dates)
    first, end = order.indptr[seeds].astype(np.int64), _places(order, seeds, at, True)
    absent = NO_IDS if excluded is None else np.sort(order.entry_of[excluded]).astype(np.int64)
    begin = _begin(first, end, fanout, absent)
    sizes = end - begin
    entries = np.arange(sizes.sum()) + np.repeat(begin - np.cumsum(sizes) + sizes, sizes)
    rows = np.repeat(np.arange(len(seeds)), sizes)
    if len(absent):
        present = ~contains(absent, entries)
        entries, rows = entries[present], rows[present]
    indptr = np.zeros(len(seeds) + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=len(seeds)), out=indptr[1:])
    index, ids = g.adjacencies[relation].index_dtype, g.adjacencies[relation].idtype
    return Chosen(order.src[entries], seeds[rows].astype(index), order.edge_ids[entries].astype(ids), indptr)


def _begin(first: np.ndarray, end: np.ndarray, fanout: int, absent: np.ndarray) -> np.ndarray:
    """Return where each seed's window begins: the last ``fanout`` entries before ``end`` that are not ``absent``."""
    if fanout < 0:
        return first
    begin = np.maximum(end - fanout, first)
    while len(absent):  # a longer window may hold further entries that are absent
        num_absent = np.searchsorted(absent, end) - np.searchsorted(absent, begin)
        longer = np.maximum(end - fanout - num_absent, first)
        if (longer == begin).all():
            break
        begin = longer
    return begin
