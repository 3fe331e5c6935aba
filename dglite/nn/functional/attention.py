"""Attention over neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from ...backend import Tensor, active
from ...expr import Expr, Operand, Side
from ...ops import core
from ...ops.core import edge_softmax
from ...opspec import Reducer
from ...structure.adjacency import Adjacency
from .convolution import reduce_neighbours
from .edges import reduce_edges
from .given import by_head

LEAST_SCALE = 1e-3
"""From which on products may be divided by a score's factor again for the factor's gradient."""
_SOURCE: Expr = Operand(Side.U, 0)
_PRODUCT: Expr = Operand(Side.U, 0) * Operand(Side.V, 1)


def attention(
    adjacency: Adjacency,
    scoring: core.Attention,
    feat: Tensor,
    operands: Sequence[Tensor],
    edge_weight: Tensor | None = None,
    get_attention: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return the attention's result, (num_dst, *heads, d), and its weights as applied if they are asked for.

    Weights, (num_edges, *heads, 1), exist only with ``get_attention``; otherwise one kernel does it all. What is
    dropped is the same either way. See ``ops/attention.py`` for the operands.
    """
    scoring = scoring.seeded()
    if not get_attention:
        return core.attention(adjacency, scoring, feat, operands, edge_weight), None
    weights = core.attention_weights(adjacency, scoring, feat, operands, edge_weight)
    return reduce_neighbours(adjacency, feat, Reducer.SUM, weights), weights


def attention_by_scores(
    adjacency: Adjacency, feat: Tensor, scores: Tensor, edge_weight: Tensor | None = None, get_attention: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Return what :func:`attention` does, of scores (num_edges, *heads) that exist."""
    heads = active.shape(scores)[1:]
    nothing = [
        active.full((count, *heads), 0.0, active.dtype(scores), active.device(scores))
        for count in (adjacency.num_src, adjacency.num_dst)
    ]
    scoring = core.Attention(core.Score.ADDITIVE, slope=1.0, edges=True)
    return attention(adjacency, scoring, feat, (*nothing, scores), edge_weight, get_attention)


def attention_with_edges(
    adjacency: Adjacency,
    scoring: core.Attention,
    feat: Tensor,
    operands: Sequence[Tensor],
    edge_feat: Tensor,
    get_attention: bool = False,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return what :func:`attention` does, with the sum of ``edge_feat``, (num_dst, *heads, f), by the same weights.

    ``edge_feat`` (num_edges, f) is the same for all heads. ``scoring`` has ``edges`` and ``edge_features``; the last of
    ``operands`` is the edges' term of the scores, (num_edges, *heads).
    """
    scoring, operands = scoring.seeded(), (*operands, edge_feat)
    if not get_attention:
        return *core.attention_with_edges(adjacency, scoring, feat, operands), None
    weights = core.attention_weights(adjacency, scoring, feat, operands)
    nodes = reduce_neighbours(adjacency, feat, Reducer.SUM, weights)
    return nodes, reduce_edges(adjacency, edge_feat[:, None, :], Reducer.SUM, weights), weights


def cosine_attention(adjacency: Adjacency, source: Tensor, destination: Tensor, beta: Tensor) -> Tensor:
    """Return the mean of in-edges' ``source``, weighted by the softmax of ``beta`` times the cosines, one kernel.

    source (num_src, *heads, d), destination (num_dst, *heads, d), beta (1,) -> (num_dst, *heads, d); 0 for a node
    without in-edges.
    """
    lengths, keys = _unit_vectors(source)
    queries = keys if destination is source else _unit_vectors(destination)[1]
    if source.ndim != 2:
        scores = core.sddmm(adjacency, _PRODUCT, (keys, beta * queries), dot=True)
        return reduce_neighbours(adjacency, source, Reducer.SUM, edge_softmax(adjacency, scores))
    # The kernel multiplies by beta where that is a number at hand: a tensor less as large as the features is kept.
    scale = beta.item() if active.on_cpu(beta) and not _is_symbolic(source, beta) else 0.0
    if abs(scale) < LEAST_SCALE:
        scale, queries = 1.0, beta * queries
    else:
        queries = active.apply(_Factor(scale), queries, beta)
    # The kernel's keys are its values: unit vectors are, and an edge's weight is the length of its source.
    weight = core.sddmm(adjacency, _SOURCE, (lengths,))
    scoring = core.Attention(core.Score.DOT, scale=scale)
    result = core.attention(adjacency, scoring, by_head(keys, 1), (by_head(queries, 1),), weight)
    return result.reshape(adjacency.num_dst, source.shape[-1])


def _is_symbolic(*tensors: Tensor) -> bool:
    """Whether a number read of these would be lost to what torch traces or transforms."""
    return active.compiling() or active.needs_operator(tensors)


class _Factor:
    """``x * factor / value`` where ``value`` is what the factor is: x itself, with the gradients of the product."""

    saved = (0, 1)

    def __init__(self, value: float) -> None:
        self.value = value

    def forward(self, x: Tensor, factor: Tensor) -> Tensor:
        return x

    def backward(self, inputs: Sequence[Tensor | None], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        x, factor, _ = inputs
        assert x is not None
        assert factor is not None
        if any(active.requires_grad(tensor) for tensor in (x, factor, grad)):
            return active.gradients(lambda x, factor: x * (factor / self.value), (x, factor), grad, needs)
        total = None
        if needs[1]:  # not a dot product: its last bits would depend on the number of threads
            products = active.times(grad, x)
            total = (active.sum(products, tuple(range(len(active.shape(x))))) / self.value).reshape(factor.shape)
        return [grad if needs[0] else None, total]


def _unit_vectors(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the lengths along the last axis, which is kept, and x over them; a vector of length 0 stays 0."""
    lengths = x.norm(dim=-1, keepdim=True)
    return lengths, x * (1 / lengths.clamp(min=1e-12))
