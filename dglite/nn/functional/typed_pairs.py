"""Edges that have one end and the type in common share work: they meet at a *pair*, (destination, type) or (source,
type), and a pair's rows are multiplied once, however many edges it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...backend import Tensor, active
from ...expr import Expr, Operand, Side
from ...ops import core
from ...opspec import Reducer
from ...structure.adjacency import Adjacency
from ...structure.derived import CacheKey, cache_key
from ...structure.distinct import numbered
from ...structure.ids import integer_array
from .convolution import reduce_neighbours

_PRODUCT: Expr = Operand(Side.U, 0) * Operand(Side.V, 1)


@dataclass(frozen=True, eq=False)
class EdgePairs:
    """The edges of a relation, meeting at pairs of a node and an edge type.

    ``arriving`` leads from sources to pairs, ``leaving`` from pairs to destinations. Of pairs of destinations the first
    has all edges and the second one for each pair; of pairs of sources it is the other way round. ``groups`` are the
    pairs' types; pairs are in order of them. ``nodes`` is each pair's node, ``types`` each edge's type.
    """

    of_destinations: bool
    arriving: Adjacency
    leaving: Adjacency
    groups: core.Groups
    nodes: core.RowIndex
    types: core.RowIndex

    def sum(self, x: Tensor, matrices: Tensor, weight: Tensor | None = None) -> Tensor:
        """Return the sum over in-edges of ``weight * x[u] @ matrices[type]``, (num_dst, *batch, out)."""
        first, second = (weight, None) if self.of_destinations else (None, weight)
        reduced = reduce_neighbours(self.arriving, x, Reducer.SUM, first)
        return reduce_neighbours(self.leaving, core.grouped_mm(self.groups, reduced, matrices), Reducer.SUM, second)

    def scores(self, x: Tensor, matrices: Tensor, y: Tensor) -> Tensor:
        """Return ``x[u] @ matrices[type] @ y[v]`` of every edge, (num_edges, *batch, 1)."""
        if self.of_destinations:
            y = core.grouped_mm(self.groups, core.take_rows(y, self.nodes), active.swap_last(matrices))
            return core.sddmm(self.arriving, _PRODUCT, (x, y), dot=True)
        x = core.grouped_mm(self.groups, core.take_rows(x, self.nodes), matrices)
        return core.sddmm(self.leaving, _PRODUCT, (x, y), dot=True)

    def outer(self, x: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Return the sums over the edges of each type of ``weight * x[u]``, turned, times ``y[v]``."""
        if self.of_destinations:
            x, y = reduce_neighbours(self.arriving, x, Reducer.SUM, weight), core.take_rows(y, self.nodes)
        else:
            x, y = core.take_rows(x, self.nodes), reduce_neighbours(self.leaving.reverse(), y, Reducer.SUM, weight)
        return core.grouped_outer(self.groups, x, y)


_EDGE_PAIRS: CacheKey[tuple[Any, Any, int, EdgePairs]] = cache_key(
    "edge pairs", "the pairs of node and edge type, with the types that they were computed from"
)


def edge_pairs(adjacency: Adjacency, types: Any, num_types: int) -> EdgePairs:
    """Return the pairs that are fewer, those of destinations or those of sources; kept with the structure.

    Raises ``DGLError`` for types that are no integers from 0 to ``num_types - 1``, one for each edge.
    """
    cached = adjacency.cache.get(_EDGE_PAIRS)
    version = active.version(types) if active.is_tensor(types) else None
    if cached is not None and cached[0] is types and cached[1:3] == (version, num_types) and version is not None:
        return cached[3]
    numbers = integer_array(types, "edge types")
    core.group_rows(numbers, num_types, "edge types")
    pairs = _make_pairs(adjacency, numbers, num_types)
    adjacency.cache[_EDGE_PAIRS] = (types, version, num_types, pairs)
    return pairs


def _ends(adjacency: Adjacency) -> list[tuple[np.ndarray, int]]:
    src, dst = adjacency.endpoints()
    return [(src, adjacency.num_src), (dst, adjacency.num_dst)]


def _pairs(types: np.ndarray, nodes: np.ndarray, num_nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the node and the type of every pair, in order of types and nodes, and the pair of each edge."""
    keys, pair_of_edge = numbered(types * max(num_nodes, 1) + nodes)
    return keys % max(num_nodes, 1), keys // max(num_nodes, 1), pair_of_edge


def _make_pairs(adjacency: Adjacency, edge_types: np.ndarray, num_types: int) -> EdgePairs:
    type_of_edge = edge_types.astype(np.int64)
    sides = [_pairs(type_of_edge, nodes, count) for nodes, count in _ends(adjacency)]
    of_destinations = len(sides[1][0]) <= len(sides[0][0])
    nodes, types, pair_of_edge = sides[of_destinations]
    src, dst = adjacency.endpoints()
    num_pairs, places = len(nodes), np.arange(len(nodes))
    if of_destinations:
        arriving = Adjacency.from_coo(adjacency.num_src, num_pairs, src, pair_of_edge, validate=False)
        leaving = Adjacency.from_coo(num_pairs, adjacency.num_dst, places, nodes, validate=False)
    else:
        arriving = Adjacency.from_coo(adjacency.num_src, num_pairs, nodes, places, validate=False)
        leaving = Adjacency.from_coo(num_pairs, adjacency.num_dst, pair_of_edge, dst, validate=False)
    groups = core.group_rows(types, num_types)
    return EdgePairs(of_destinations, arriving, leaving, groups, core.RowIndex(nodes), core.RowIndex(edge_types))
