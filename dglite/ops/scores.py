"""Attention written step by step, with deferred edge scores: scores, softmax, dropout, and a weighted sum at the end.

``edge_scores`` and ``edge_softmax`` give tensors that are computed when something reads them. Where nothing but
:func:`.sparse.spmm` does, which asks them for the sum, the steps have become attention in one kernel, and nothing of
the size of edges x heads has existed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from ..backend import Tensor, Watch, active
from ..expr import Call, Expr, Operand, Side
from ..opspec import Reducer
from ..structure.adjacency import Adjacency
from . import fallback, softmax, sparse
from .attention import MOST_HEADS, Attention, Score, apply_dropout, attention, leaky_relu
from .operands import FLOATS
from .traced import is_traced

WORTH_DEFERRING = 1 << 14
"""Minimum number of score elements at which saving a kernel outweighs the cost of a deferred tensor, some 50 us."""

_ADD: Expr = Operand(Side.U, 0) + Operand(Side.V, 1)
_THREE: Expr = _ADD + Operand(Side.E, 2)
_WEIGHTED: Expr = Operand(Side.U, 0) * Operand(Side.E, 1)


@dataclass(frozen=True, eq=False)
class EdgeAttention:
    """Scores leaky_relu(left[u] + right[v]) of edges, or the weights that softmax and dropout make of them.

    ``sources``, left and right, have shape (rows, *heads, 1) or (rows, *heads). With ``options.edges`` there
    is a third, a term of the edge. ``before`` is the step that this one was made of.
    """

    adj: Adjacency
    sources: tuple[Tensor, ...]
    options: Attention
    normalised: bool = False
    before: EdgeAttention | None = None
    watch: Watch = field(default_factory=Watch)

    @property
    def shape(self) -> tuple[int, ...]:
        """(num_edges, *heads[, 1])."""
        return (self.adj.num_edges, *active.shape(self.sources[0])[1:])

    def leaky_relu(self, slope: float) -> EdgeAttention | None:
        """Return the scores with this slope below 0, or None if they have a slope already or are weights."""
        if self.normalised or self.options.slope != 1.0:
            return None
        return self._next(options=replace(self.options, slope=slope))

    def plus(self, term: Tensor) -> EdgeAttention | None:
        """Return the scores with a term of the edge added, or None after another term, a slope or a softmax."""
        if self.normalised or self.options.slope != 1.0 or self.options.edges:
            return None
        if not _is_term(self.adj, self.sources[0], term):
            return None
        return self._next(sources=(*self.sources, active.copy(term)), options=replace(self.options, edges=True))

    def softmax(self) -> EdgeAttention | None:
        """Return the weights, or None if these are weights already."""
        return None if self.normalised else self._next(normalised=True)

    def dropout(self, p: float) -> EdgeAttention | None:
        """Return the weights, dropped with probability ``p`` by a seed that is drawn now; None for scores."""
        if not self.normalised or self.options.dropout:
            return None
        return self._next(options=replace(self.options, dropout=p).seeded())

    def _next(self, **changes: Any) -> EdgeAttention:
        return replace(self, before=self, watch=Watch(), **changes)

    def on(self, sources: Sequence[Tensor]) -> EdgeAttention:
        """Return the same steps on other sources."""
        return replace(self, sources=tuple(sources))

    def weighted_sum(self, adj: Adjacency, expr: Expr, slot: int, operands: Sequence[Tensor]) -> Tensor | None:
        """Return the sum over in-edges of ``expr``, in which this is operand ``slot``; None if that needs values."""
        x = operands[1 - slot]
        wide = self.takes(adj, expr, slot, x)
        if wide is None:
            return None
        for operand in operands:
            active.pass_by(operand)
        flat = [active.reshape(side, (active.shape(side)[0], wide[1])) for side in self.sources]
        result = attention(adj, self.options, active.reshape(x, wide), flat, steps=self)
        return active.reshape(result, (adj.num_dst, *active.shape(x)[1:]))

    def takes(self, adj: Adjacency, expr: Expr, slot: int, x: Tensor) -> tuple[int, int, int] | None:
        """Return the shape in which attention takes ``x`` if ``expr`` is its sum weighted by these, else None."""
        if self.adj is not adj or not self.normalised or not _is_weighted(expr, slot):
            return None
        left = self.sources[0]
        wide = _wide(tuple(active.shape(left)[1:]), tuple(active.shape(x)))
        return wide if wide is not None and wide[0] == adj.num_src and active.dtype(x) == active.dtype(left) else None

    def compute(self, *sources: Tensor) -> Tensor:
        """Return the values, differentiable by way of the steps before."""
        adj, before = self.adj, self.before
        if before is None:
            return _computed(adj, sources, self.options.slope)
        values = active.watched(before.compute(*sources[: len(before.sources)]), before.watch)
        if len(before.sources) < len(sources):
            return values + sources[-1]
        if not self.normalised:
            return leaky_relu(values, self.options.slope)
        flat = active.reshape(values, (adj.num_edges, math.prod(self.shape[1:]), 1))
        weights = apply_dropout(adj, self.options, flat) if before.normalised else softmax.edge_softmax(adj, flat)
        return active.reshape(weights, self.shape)

    def composed(self, adj: Adjacency, options: Attention, inputs: Sequence[Tensor]) -> Tensor:
        """Return the sum of sources with these weights; inputs are x, (num_src, heads, d), and flat sources."""
        x, *flat = inputs
        feat = self.shape[1:]
        sources = [active.reshape(side, (active.shape(side)[0], *feat)) for side in flat]
        weights = active.watched(self.compute(*sources), self.watch)
        weights = active.reshape(weights, (adj.num_edges, math.prod(feat), 1))
        return sparse.spmm(adj, _WEIGHTED, Reducer.SUM, (x, weights))

    def wants_step_gradients(self) -> bool:
        """Whether the gradient of this or of an earlier step is asked for."""
        return bool(self.watch) or (self.before is not None and self.before.wants_step_gradients())


def edge_scores(adj: Adjacency, terms: Sequence[Tensor], slope: float = 1.0) -> Tensor:
    """Return leaky_relu(left[u] + right[v]) for every edge ``u -> v``, which may be computed when it is read.

    ``terms`` are left, (num_src, *heads, 1) or (num_src, *heads), right, the same for destinations, and perhaps a term
    of the edge, the same for edges. Raises ``DGLError`` as ``sddmm`` does.
    """
    if is_traced(adj, terms) or not can_defer_scores(adj, terms):
        return _computed(adj, terms, slope)
    # Copies, a number for each node and head: whatever the user does to the columns in place, the scores are those of
    # now, and so is what attention keeps for its gradient.
    copies = {id(x): active.copy(x) for x in terms}
    sources = tuple([copies[id(x)] for x in terms])
    return active.defer(EdgeAttention(adj, sources, Attention(Score.ADDITIVE, slope, edges=len(terms) == 3)))


def can_defer_scores(adj: Adjacency, terms: Sequence[Tensor]) -> bool:
    """Whether :func:`edge_scores` defers them: the kernel takes them, one number for each head, and there are many."""
    if not all(map(active.is_tensor, terms)):
        return False
    left, right, *edge = terms
    feat, dtype = tuple(active.shape(left)[1:]), active.dtype(left)
    heads = math.prod(feat)
    return (
        (len(feat) < 2 or feat[-1] == 1)
        and feat == tuple(active.shape(right)[1:])
        and (active.shape(left)[0], active.shape(right)[0]) == (adj.num_src, adj.num_dst)
        and dtype in FLOATS
        and dtype == active.dtype(right)
        and active.device(left) == active.device(right)
        and 0 < heads <= MOST_HEADS
        and adj.num_edges * heads >= WORTH_DEFERRING
        and not adj.few_edges  # deferring copies a row for every node
        and active.can_defer(left)
        and active.can_defer(right)
        and not fallback.lacks_kernels(left)
        and all(_is_term(adj, left, term) for term in edge)
    )


def _is_term(adj: Adjacency, left: Tensor, term: Tensor) -> bool:
    """Whether ``term`` has a number for each edge where ``left`` has one for each source; no kernel of a GPU."""
    return (
        active.is_tensor(term)
        and tuple(active.shape(term)) == (adj.num_edges, *active.shape(left)[1:])
        and active.dtype(term) == active.dtype(left)
        and active.on_cpu(term)
        and active.can_defer(term)
    )


def _computed(adj: Adjacency, terms: Sequence[Tensor], slope: float) -> Tensor:
    """Return the scores now. With a term of the edge they may be of any width, and one kernel makes them."""
    if len(terms) == 3:
        return sparse.sddmm(adj, _three(slope), terms)
    scores = sparse.sddmm(adj, _ADD, terms)
    return scores if slope == 1.0 else leaky_relu(scores, slope)


@lru_cache(maxsize=64)
def _three(slope: float) -> Expr:
    return _THREE if slope == 1.0 else _THREE.call("gt", 0.0).call("where", _THREE, _THREE * slope)


def edge_softmax(adj: Adjacency, logits: Tensor) -> Tensor:
    """Return what :func:`.softmax.edge_softmax` does; of scores that has not been read, deferred weights, too."""
    recipe = active.recipe_of(logits)
    if isinstance(recipe, EdgeAttention) and recipe.adj is adj:
        weights = recipe.softmax()
        if weights is not None:
            active.pass_by(logits)
            return active.defer(weights)
    return softmax.edge_softmax(adj, logits)


def is_fused_attention(adj: Adjacency, expr: Expr, reducer: Reducer, operands: Sequence[Tensor]) -> bool:
    """Whether :func:`.sparse.spmm` would do attention in one kernel."""
    if reducer is not Reducer.SUM or len(operands) != 2:
        return False
    recipes = [active.recipe_of(x) for x in operands]
    return any(
        isinstance(recipe, EdgeAttention) and recipe.takes(adj, expr, slot, operands[1 - slot]) is not None
        for slot, recipe in enumerate(recipes)
    )


@lru_cache(maxsize=64)
def _is_weighted(expr: Expr, slot: int) -> bool:
    """Whether the expression is a source's feature times the edge's operand ``slot``."""
    if not isinstance(expr, Call) or expr.op.name != "mul":
        return False
    return set(expr.args) == {Operand(Side.E, slot), Operand(Side.U, 1 - slot)}


def _wide(score: tuple[int, ...], x: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return ``x``, (rows, *feat), as (rows, heads, d) where each of its heads has one score, else None."""
    rows, feat = x[0], x[1:]
    if feat == score:  # each element is a head
        return rows, math.prod(feat), 1
    if score and score[-1] == 1 and feat[:-1] == score[:-1] and feat:
        return rows, math.prod(score), feat[-1]
    return None
