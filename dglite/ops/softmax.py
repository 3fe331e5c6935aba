"""Edge softmax: scores are normalised over the in-edges (or out-edges) of each node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backend import RESULT, Tensor, active
from ..expr import Operand, Side
from ..opspec import Reducer
from ..structure.adjacency import Adjacency
from . import fallback
from .call_cache import cache_recorded, run_cached
from .operands import check_tensor, require_alike
from .run import BACKWARD, FORWARD, run_softmax
from .sparse import sddmm_unchecked, spmm_unchecked
from .traced import GraphOp, is_read, is_traced, registered, run, traced


def edge_softmax(adj: Adjacency, logits: Tensor) -> Tensor:
    """Return exp(logit) / sum of exp over the edges with the same destination, ``(num_edges, *feat)``.

    Computed from the row's maximum down, so large scores do not overflow. Differentiable twice.
    """
    result = None if is_read(adj) else run_cached(adj, FORWARD, (logits,))
    if result is not None:
        return result
    check_tensor(logits, adj.num_edges, "edge")
    if is_traced(adj, (logits,)):
        return traced("edge_softmax", adj, "", (logits,))
    if fallback.lacks_kernels(logits):
        return fallback.edge_softmax(adj, logits)
    if not active.requires_grad(logits):
        return run_softmax(adj, FORWARD, (logits,))
    result = active.apply(EdgeSoftmax(adj), logits)
    cache_recorded(adj, FORWARD, (logits,), EdgeSoftmax)
    return result


class _PerEdge(GraphOp):
    """An operation whose inputs and result have one shape, (num_edges, *feat), and that needs no description."""

    alike = True

    def __init__(self, adj: Adjacency) -> None:
        self.adj = adj

    @classmethod
    def parse(cls, adj: Adjacency, recipe: str, needs: tuple[bool, ...]) -> _PerEdge:
        return cls(adj)

    def recipe(self) -> str:
        return ""

    def describe(self, *inputs: Tensor) -> tuple[tuple[Sequence[int], str], None]:
        for x in inputs:
            check_tensor(x, self.adj.num_edges, "edge")
        require_alike(inputs)
        return (active.shape(inputs[0]), active.dtype(inputs[0])), None


@registered
class EdgeSoftmax(_PerEdge):
    """The autograd function of edge softmax. Its gradient reads the result, not the logits."""

    name = "edge_softmax"
    saved = (RESULT,)

    @classmethod
    def run_again(cls, adj: Adjacency, recipe: str, inputs: Sequence[Tensor]) -> Tensor | None:
        return run_cached(adj, FORWARD, inputs)

    def forward(self, logits: Tensor) -> Tensor:
        return run_softmax(self.adj, FORWARD, (logits,))

    def composed(self, *inputs: Tensor) -> Tensor:
        return fallback.edge_softmax(self.adj, inputs[0])

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        return [run(EdgeSoftmaxGradient(self.adj), inputs[RESULT], grad)]


@registered
class EdgeSoftmaxGradient(_PerEdge):
    """``softmax * (grad - sum of softmax * grad over the edges with the same destination)``."""

    name = "edge_softmax_gradient"
    saved = (0, 1)

    def forward(self, softmax: Tensor, grad: Tensor) -> Tensor:
        return run_softmax(self.adj, BACKWARD, (softmax, grad))

    def composed(self, *inputs: Tensor) -> Tensor:
        total = fallback.spmm(self.adj, _PRODUCT, Reducer.SUM, inputs)
        return fallback.sddmm(self.adj, _CENTRED, (*inputs, total))

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        softmax, inner = inputs[0], inputs[1]
        of_softmax = None
        if needs[0]:
            sums = [spmm_unchecked(self.adj, _PRODUCT, Reducer.SUM, (softmax, x)) for x in (inner, grad)]
            of_softmax = sddmm_unchecked(self.adj, _OF_SOFTMAX, (grad, inner, *sums))
        # The map from the inner gradient is its own transpose.
        return [of_softmax, run(EdgeSoftmaxGradient(self.adj), softmax, grad) if needs[1] else None]


_CENTRED = Operand(Side.E, 0) * (Operand(Side.E, 1) - Operand(Side.V, 2))
_PRODUCT = Operand(Side.E, 0) * Operand(Side.E, 1)
_OF_SOFTMAX = Operand(Side.E, 0) * (Operand(Side.E, 1) - Operand(Side.V, 2)) - Operand(Side.E, 1) * Operand(Side.V, 3)
"""d/d(softmax) of the gradient, times the outer gradient e0; e1 is the inner one, v2 and v3 their weighted sums."""
