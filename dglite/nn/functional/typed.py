"""Linear maps by type of rows or edges."""

from __future__ import annotations

from typing import Any

from ...backend import Tensor, active, framework
from ...expr import Expr, Operand, Side
from ...ops import core
from ...opspec import Reducer
from ...structure.adjacency import Adjacency
from .typed_bases import bases_in_program, sum_of_bases
from .typed_operators import typed_edges, typed_rows
from .typed_pairs import edge_pairs

_EDGE: Expr = Operand(Side.E, 0)


def typed_linear(x: Tensor, types: Any, matrices: Tensor) -> Tensor:
    """Multiply each row by the matrix of its type.

    ``x`` (rows, *batch, in), ``types`` (rows,) integers, ``matrices`` (num_types, *batch, in, out) -> (rows, *batch,
    out).
    """
    if active.compiling():
        return typed_rows(x, types, matrices)
    return core.grouped_mm(core.group_rows(types, len(matrices)), x, matrices)


def typed_sum(
    adjacency: Adjacency, x: Tensor, types: Any, matrices: Tensor, edge_weight: Tensor | None = None
) -> Tensor:
    """Return the sum over in-edges ``u -> v`` of ``w * x[u] @ matrices[type]``, (num_dst, *batch, out).

    ``x`` (num_src, *batch, in), ``types`` (num_edges,), ``matrices`` (num_types, *batch, in, out), ``edge_weight``
    (num_edges,) or (num_edges, 1). 0 for a node without in-edges.
    """
    if active.compiling():
        parts = {"x": x, "matrices": matrices}
        if edge_weight is not None:
            batch = x.shape[1:-1]
            parts["weight"] = edge_weight.reshape(-1, *(1,) * len(batch)).expand(-1, *batch)
        return typed_edges(adjacency, "y", parts, types, len(matrices))
    return edge_pairs(adjacency, types, len(matrices)).sum(x, matrices, edge_weight)


def typed_sum_of_bases(
    adjacency: Adjacency, x: Tensor, types: Any, coefficients: Tensor, bases: Tensor, edge_weight: Tensor | None = None
) -> Tensor:
    """Return :func:`typed_sum` with the matrices ``coefficients @ bases``, (num_dst, out).

    ``coefficients`` (num_types, B), ``bases`` (B, in, out).
    """
    if active.compiling():
        return bases_in_program(adjacency, x, types, coefficients, bases, edge_weight)
    return sum_of_bases(adjacency, x, types, coefficients, bases, edge_weight)


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
        count = len(score)
        scores = typed_edges(adjacency, "weight", {"x": keys, "matrices": score, "y": queries}, types, count)
        parts = {"x": values, "matrices": message, "weight": core.edge_softmax(adjacency, scores)}
        return typed_edges(adjacency, "y", parts, types, count)
    pairs = edge_pairs(adjacency, types, len(score))
    weights = core.edge_softmax(adjacency, pairs.scores(keys, score, queries))
    return pairs.sum(values, message, weights)


def edge_type_counts(adjacency: Adjacency, types: Any, num_types: int, like: Tensor) -> Tensor:
    """Return how many in-edges of each type a node has, (num_dst, num_types), of the dtype of ``like``."""
    ones = framework.eye(num_types, dtype=like.dtype, device=like.device)
    by_edge = core.take_rows(ones, types if active.compiling() else edge_pairs(adjacency, types, num_types).types)
    return core.spmm(adjacency, _EDGE, Reducer.SUM, (by_edge,))
