"""Linear maps by type of rows or edges.

Edges that have one end and the type in common share work: they meet at a *pair*, (destination, type) or (source, type),
and a pair's rows are multiplied once, however many edges it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...backend import Tensor, active, framework
from ...expr import Expr, Operand, Side
from ...ops import core
from ...opspec import Reducer
from ...structure.adjacency import Adjacency
from ...structure.derived import CacheKey, cache_key
from ...structure.distinct import numbered
from ...structure.ids import integer_array
from .convolution import reduce_neighbours

_SOURCE: Expr = Operand(Side.U, 0)
_EDGE: Expr = Operand(Side.E, 0)
_EDGE_PRODUCT: Expr = Operand(Side.E, 0) * Operand(Side.V, 1)
_WEIGHTED_EDGE: Expr = Operand(Side.E, 0) * Operand(Side.E, 1)
_PRODUCT: Expr = Operand(Side.U, 0) * Operand(Side.V, 1)


def typed_linear(x: Tensor, types: Any, matrices: Tensor, presorted: bool = False) -> Tensor:
    """Multiply each row by the matrix of its type.

    ``x`` (rows, *batch, in), ``types`` (rows,) integers, ``matrices`` (num_types, *batch, in, out) -> (rows, *batch,
    out). In a program that torch compiles each row is multiplied by the matrices of all types.
    """
    if active.compiling():
        return _rows_of_types(x, framework.arange(x.shape[0], device=x.device), types, matrices)
    return core.grouped_mm(core.group_rows(types, len(matrices)), x, matrices)


def _rows_of_types(x: Tensor, rows: Tensor, types: Any, matrices: Tensor) -> Tensor:
    """Return ``x[rows[i]] @ matrices[types[i]]`` for every i, as a program for any number of rows computes it."""
    types, count = framework.as_tensor(types, device=x.device), matrices.shape[0]
    active.require(((types >= 0) & (types < count)).all(), f"a type is none of the numbers from 0 to {count - 1}")
    products = framework.einsum("n...i,t...io->nt...o", x, matrices)
    return products.flatten(0, 1).index_select(0, rows * count + types)  # type: ignore[no-any-return]


def _of_sources(adjacency: Adjacency, x: Tensor, types: Any, matrices: Tensor) -> Tensor:
    return _rows_of_types(x, active.to_device(adjacency.tensors[0], x.device).long(), types, matrices)


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


_EDGE_PAIRS: CacheKey[tuple[Any, Any, int, EdgePairs]] = cache_key(
    "edge pairs", "the pairs of node and edge type, with the types that they were computed from"
)


def edge_pairs(adjacency: Adjacency, types: Any, num_types: int) -> EdgePairs:
    """Return the pairs that are fewer, those of destinations or those of sources; kept with the structure.

    Raises ``DGLError`` for types that are no integers from 0 to ``num_types - 1``, one for each edge.
    """
    known = adjacency.cache.get(_EDGE_PAIRS)
    version = active.version(types) if active.is_tensor(types) else None
    if known is not None and known[0] is types and known[1:3] == (version, num_types) and version is not None:
        return known[3]
    given = integer_array(types, "edge types")
    core.group_rows(given, num_types, "edge types")
    found = _made(adjacency, given, num_types)
    adjacency.cache[_EDGE_PAIRS] = (types, version, num_types, found)
    return found


def _ends(adjacency: Adjacency) -> list[tuple[np.ndarray, int]]:
    src, dst = adjacency.endpoints()
    return [(src, adjacency.num_src), (dst, adjacency.num_dst)]


def _pairs(types: np.ndarray, nodes: np.ndarray, num_nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the node and the type of every pair, in order of types and nodes, and the pair of each edge."""
    keys, pair_of_edge = numbered(types * max(num_nodes, 1) + nodes)
    return keys % max(num_nodes, 1), keys // max(num_nodes, 1), pair_of_edge


def _made(adjacency: Adjacency, given: np.ndarray, num_types: int) -> EdgePairs:
    numbers = given.astype(np.int64)
    sides = [_pairs(numbers, nodes, count) for nodes, count in _ends(adjacency)]
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
    return EdgePairs(of_destinations, arriving, leaving, groups, core.RowIndex(nodes), core.RowIndex(given))


def typed_sum(
    adjacency: Adjacency, x: Tensor, types: Any, matrices: Tensor, edge_weight: Tensor | None = None
) -> Tensor:
    """Return the sum over in-edges ``u -> v`` of ``w * x[u] @ matrices[type]``, (num_dst, *batch, out).

    ``x`` (num_src, *batch, in), ``types`` (num_edges,), ``matrices`` (num_types, *batch, in, out), ``edge_weight``
    (num_edges,) or (num_edges, 1). 0 for a node without in-edges. In a program that torch compiles every source is
    multiplied by all matrices, and messages are stored.
    """
    if active.compiling():
        messages = _of_sources(adjacency, x, types, matrices)
        if edge_weight is not None:
            messages = messages * edge_weight.reshape(-1, *(1,) * (messages.ndim - 1))
        return core.spmm(adjacency, _EDGE, Reducer.SUM, (messages,))
    pairs = edge_pairs(adjacency, types, len(matrices))
    first, second = (edge_weight, None) if pairs.of_destinations else (None, edge_weight)
    product = core.grouped_mm(pairs.groups, reduce_neighbours(pairs.arriving, x, Reducer.SUM, first), matrices)
    return reduce_neighbours(pairs.leaving, product, Reducer.SUM, second)


def typed_sum_of_bases(
    adjacency: Adjacency, x: Tensor, types: Any, coefficients: Tensor, bases: Tensor, edge_weight: Tensor | None = None
) -> Tensor:
    """Return :func:`typed_sum` with the matrices ``coefficients @ bases``, (num_dst, out).

    ``coefficients`` (num_types, B), ``bases`` (B, in, out). Where nodes times bases are fewer than the pairs of nodes
    and types, neighbours are added up once for each basis, in one pass over the edges, and multiplied by it.
    """
    num_bases, width, out = active.shape(bases)
    pairs = None if active.compiling() else edge_pairs(adjacency, types, len(coefficients))
    if pairs is not None and adjacency.num_dst * num_bases > pairs.groups.num_rows:
        matrices = (coefficients @ bases.reshape(num_bases, width * out)).reshape(len(coefficients), width, out)
        return typed_sum(adjacency, x, types, matrices, edge_weight)
    weights = core.take_rows(coefficients, types if pairs is None else pairs.types)[:, :, None]
    if edge_weight is not None:
        weights = weights * edge_weight.reshape(-1, 1, 1)
    total = reduce_neighbours(adjacency, x[:, None, :], Reducer.SUM, weights)
    return total.reshape(adjacency.num_dst, num_bases * width) @ bases.reshape(num_bases * width, out)


def typed_attention(
    adjacency: Adjacency, keys: Tensor, queries: Tensor, values: Tensor, types: Any, score: Tensor, message: Tensor
) -> Tensor:
    """Return attention whose keys and values go through matrices of each edge's type, (num_dst, heads, d).

    The score of an edge ``u -> v`` is ``keys[u] @ score[type] @ queries[v]``; the result is the sum of ``values[u] @
    message[type]``, weighted by the softmax of the scores over all in-edges. keys and values (num_src, heads, d),
    queries (num_dst, heads, d), score and message (num_types, heads, d, d). Per edge there are scores only, never
    features.
    """
    if active.compiling():
        per_edge = _of_sources(adjacency, keys, types, score)
        scores = core.sddmm(adjacency, _EDGE_PRODUCT, (per_edge, queries), dot=True)
        messages = _of_sources(adjacency, values, types, message)
        return core.spmm(adjacency, _WEIGHTED_EDGE, Reducer.SUM, (messages, core.edge_softmax(adjacency, scores)))
    pairs = edge_pairs(adjacency, types, len(score))
    if pairs.of_destinations:
        turned = core.grouped_mm(pairs.groups, core.take_rows(queries, pairs.nodes), active.swap_last(score))
        scores = core.sddmm(pairs.arriving, _PRODUCT, (keys, turned), dot=True)
        met = reduce_neighbours(pairs.arriving, values, Reducer.SUM, core.edge_softmax(adjacency, scores))
        return reduce_neighbours(pairs.leaving, core.grouped_mm(pairs.groups, met, message), Reducer.SUM)
    turned = core.grouped_mm(pairs.groups, core.take_rows(keys, pairs.nodes), score)
    messages = core.grouped_mm(pairs.groups, core.take_rows(values, pairs.nodes), message)
    scores = core.sddmm(pairs.leaving, _PRODUCT, (turned, queries), dot=True)
    return reduce_neighbours(pairs.leaving, messages, Reducer.SUM, core.edge_softmax(adjacency, scores))


def edge_type_counts(adjacency: Adjacency, types: Any, num_types: int, like: Tensor) -> Tensor:
    """Return how many in-edges of each type a node has, (num_dst, num_types), of the dtype of ``like``."""
    ones = framework.eye(num_types, dtype=like.dtype, device=like.device)
    by_edge = core.take_rows(ones, types if active.compiling() else edge_pairs(adjacency, types, num_types).types)
    return core.spmm(adjacency, _EDGE, Reducer.SUM, (by_edge,))
