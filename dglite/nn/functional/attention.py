"""Attention over neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from ...backend import Tensor, active
from ...expr import Expr, Operand, Side
from ...ops import core
from ...ops.core import edge_softmax
from ...opspec import Reducer
from ...structure.adjacency import Adjacency
from ..base import nn
from .convolution import reduce_neighbours
from .edges import reduce_edges
from .given import by_head

__all__ = ["attention", "attention_by_scores", "attention_with_edges", "cosine_attention"]

_SOURCE: Expr = Operand(Side.U, 0)
_PRODUCT: Expr = Operand(Side.U, 0) * Operand(Side.V, 1)


def attention(
    adjacency: Adjacency,
    how: core.Attention,
    feat: Tensor,
    operands: Sequence[Tensor],
    edge_weight: Tensor | None = None,
    get_attention: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return the attention's result, (num_dst, *heads, d), and its weights as applied if they are asked for.

    Weights, (num_edges, *heads, 1), exist only with ``get_attention``; otherwise one kernel does it all. What is
    dropped is the same either way. See ``ops/attention.py`` for the operands.
    """
    how = how.seeded()
    if not get_attention:
        return core.attention(adjacency, how, feat, operands, edge_weight), None
    weights = core.attention_weights(adjacency, how, feat, operands, edge_weight)
    return reduce_neighbours(adjacency, feat, Reducer.SUM, weights), weights


def attention_by_scores(
    adjacency: Adjacency,
    feat: Tensor,
    scores: Tensor,
    edge_weight: Tensor | None = None,
    get_attention: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return what :func:`attention` does, of scores (num_edges, *heads) that exist."""
    heads = active.shape(scores)[1:]
    nothing = [
        active.full((count, *heads), 0.0, active.dtype(scores), active.device(scores))
        for count in (adjacency.num_src, adjacency.num_dst)
    ]
    how = core.Attention(core.Score.ADDITIVE, slope=1.0, edges=True)
    return attention(adjacency, how, feat, (*nothing, scores), edge_weight, get_attention)


def attention_with_edges(
    adjacency: Adjacency,
    how: core.Attention,
    feat: Tensor,
    operands: Sequence[Tensor],
    edge_feat: Tensor,
    get_attention: bool = False,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return what :func:`attention` does, with the sum of ``edge_feat``, (num_dst, *heads, f), by the same weights.

    ``edge_feat`` (num_edges, f) is the same for all heads. ``how`` has ``edges`` and ``edge_features``; the last of
    ``operands`` is the edges' term of the scores, (num_edges, *heads).
    """
    how, operands = how.seeded(), (*operands, edge_feat)
    if not get_attention:
        return *core.attention_with_edges(adjacency, how, feat, operands), None
    weights = core.attention_weights(adjacency, how, feat, operands)
    nodes = reduce_neighbours(adjacency, feat, Reducer.SUM, weights)
    return nodes, reduce_edges(adjacency, edge_feat[:, None, :], Reducer.SUM, weights), weights


def cosine_attention(adjacency: Adjacency, source: Tensor, destination: Tensor, beta: Tensor) -> Tensor:
    """Return the mean of in-edges' ``source``, weighted by the softmax of ``beta`` times the cosines, one kernel.

    source (num_src, *heads, d), destination (num_dst, *heads, d), beta (1,) -> (num_dst, *heads, d); 0 for a node
    without in-edges.
    """
    normalize = nn.functional.normalize
    queries = beta * normalize(destination, dim=-1)
    if source.ndim == 2:
        # The kernel's keys are its values: unit vectors are, and an edge's weight is the length of its source.
        length = core.sddmm(adjacency, _SOURCE, (source.norm(dim=-1, keepdim=True),))
        unit = by_head(normalize(source, dim=-1), 1)
        return core.attention(adjacency, core.Attention(core.Score.DOT), unit, (by_head(queries, 1),), length)[:, 0]
    scores = core.sddmm(adjacency, _PRODUCT, (normalize(source, dim=-1), queries), dot=True)
    return reduce_neighbours(adjacency, source, Reducer.SUM, edge_softmax(adjacency, scores))
