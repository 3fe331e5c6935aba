"""Edge softmax: scores that compete at a node become weights that add up to one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .. import kernels
from ..backend import RESULT, Tensor, active
from ..expr import Operand, Side
from ..opspec import Reducer
from ..structure.adjacency import Adjacency
from .operands import check_tensor, structure_of
from .sparse import sddmm, spmm

__all__ = ["edge_softmax"]


def edge_softmax(adj: Adjacency, logits: Tensor) -> Tensor:
    """Return exp(logit) / sum of exp over the edges with the same destination, ``(num_edges, *feat)``.

    Computed from the row's maximum down, so large scores do not overflow. Differentiable twice.
    """
    check_tensor(logits, adj.num_edges, "edge")
    if not active.requires_grad(logits):
        return _forward(adj, logits)
    return active.apply(_EdgeSoftmax(adj), logits)


def _heads(x: Tensor) -> int:
    return math.prod(active.shape(x)[1:])


def _forward(adj: Adjacency, logits: Tensor) -> Tensor:
    structure, index = structure_of(adj)
    logits, dtype, heads = active.contiguous(logits), active.dtype(logits), _heads(logits)
    out = active.empty(active.shape(logits), dtype, active.device(logits))
    if heads:
        addresses = active.address(logits), active.address(out)
        kernels.compiled("softmax").edge_softmax(structure, index, dtype, heads, *addresses, active.num_threads())
    return out


class _EdgeSoftmax:
    """One recorded edge softmax. Its gradient reads the result, not the logits."""

    saved = (RESULT,)

    def __init__(self, adj: Adjacency) -> None:
        self.adj = adj

    def forward(self, logits: Tensor) -> Tensor:
        return _forward(self.adj, logits)

    def backward(self, inputs: Sequence[Tensor | None], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        softmax = inputs[RESULT]
        if active.requires_grad(softmax) or active.requires_grad(grad):
            return [_differentiable_gradient(self.adj, softmax, grad)]
        structure, index = structure_of(self.adj)
        softmax, grad = active.contiguous(softmax), active.contiguous(grad)
        out, heads = active.empty(active.shape(grad), active.dtype(grad), active.device(grad)), _heads(grad)
        if heads:
            addresses = active.address(softmax), active.address(grad), active.address(out)
            gradient = kernels.compiled("softmax").edge_softmax_gradient
            gradient(structure, index, active.dtype(grad), heads, *addresses, active.num_threads())
        return [out]


def _differentiable_gradient(adj: Adjacency, softmax: Tensor, grad: Tensor) -> Tensor:
    """Return softmax * (grad - row sum of softmax * grad), written with differentiable operations."""
    weighted = spmm(adj, Operand(Side.E, 0) * Operand(Side.E, 1), Reducer.SUM, (softmax, grad))
    return sddmm(adj, Operand(Side.E, 0) * (Operand(Side.E, 1) - Operand(Side.V, 2)), (softmax, grad, weighted))
