"""Attention over neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from ...backend import Tensor
from ...expr import Expr, Operand, Side
from ...ops import core
from ...ops.core import edge_softmax
from ...opspec import Reducer
from ...structure.adjacency import Adjacency
from ..base import nn
from .convolution import reduce_neighbours
from .given import by_head

__all__ = ["attention", "cosine_attention"]

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
