"""A reduction over in-edges and what follows of it at each node, in one pass: a bias, a residual, ReLU.

The kernel that has a row's sum in registers adds to it before it is written; else each step reads and writes the
result again. The gradient begins with that of the epilogue, which needs no more than the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ..backend import RESULT, Tensor, active
from ..expr import Expr, Operand, Side
from ..kernels.spec import REDUCED
from ..opspec import Reducer
from ..structure.adjacency import Adjacency
from . import fallback
from .operands import broadcast, check_operands, reads_edges
from .products import bias_gradient
from .sparse import gradient, mean_gradient, run_spmm, saved_slots, spmm
from .traced import is_traced

__all__ = ["spmm_epilogue"]


def spmm_epilogue(
    adj: Adjacency,
    expr: Expr,
    reducer: Reducer,
    operands: Sequence[Tensor],
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    relu: bool = False,
) -> Tensor:
    """Return ``relu(reduced + bias + residual)``, what :func:`~.sparse.spmm` returns being ``reduced``.

    Parameters
    ----------
    bias
        ``(*feat)``, added to every row; a destination without in-edges gets it, too.
    residual
        ``(num_dst, *feat)``.
    relu
        Whether negative elements become 0.

    It is one kernel of a sum or mean on a CPU for features of one axis, where nothing waits and no compiler traces;
    elsewhere the steps follow each other. Gradients of any order; errors are those of :func:`~.sparse.spmm`.
    """
    if bias is None and residual is None and not relu:
        return spmm(adj, expr, reducer, operands)
    more: list[Any] = [] if bias is None else [active.reshape(bias, (1, *active.shape(bias)))]
    more += [] if residual is None else [residual]
    if reducer not in _SUMS or not _is_one_kernel(adj, operands, more):
        result = spmm(adj, expr, reducer, operands)
        for x in more:
            if reducer in _SUMS and _agree((result, x)):
                result += x  # in place: a sum keeps no result
            else:
                result = result + x
        return result.relu() if relu else result
    epilogue, every = _epilogue(expr, len(operands), bias is not None, residual is not None, relu)
    operands = check_operands(adj, every, (*operands, *more))
    op = _SpmmEpilogue(adj, expr, reducer, epilogue, len(more), relu, tuple(map(active.requires_grad, operands)))
    return active.apply(op, *operands)


def _is_one_kernel(adj: Adjacency, operands: Sequence[Tensor], more: Sequence[Tensor]) -> bool:
    if is_traced(adj) or active.waits(*operands) or not active.on_cpu(operands[0]):
        return False
    if fallback.lacks_kernels(operands[0]) or not _agree((operands[0], *more)):
        return False
    feat = broadcast(tuple(tuple(active.shape(x)[1:]) for x in operands))
    return len(feat) == 1 and all(tuple(active.shape(x)[1:]) == feat for x in more)


def _agree(tensors: Sequence[Tensor]) -> bool:
    """Whether tensors are of one dtype, or will be inside autocast."""
    dtypes = [active.dtype(x) for x in tensors]
    return dtypes.count(dtypes[0]) == len(dtypes) or active.autocast_dtype() is not None


_SUMS = (Reducer.SUM, Reducer.MEAN)


@lru_cache(maxsize=1024)
def _epilogue(expr: Expr, num_operands: int, bias: bool, residual: bool, relu: bool) -> tuple[Expr, Expr]:
    """Return the epilogue, and an expression of all operands; those of the epilogue follow the others."""
    sides = [Side.G] * bias + [Side.V] * residual
    total: Expr = REDUCED
    for i, side in enumerate(sides):
        total, expr = total + Operand(side, num_operands + i), expr + Operand(side, num_operands + i)
    return total.call("le", 0.0).call("where", 0.0, total) if relu else total, expr


class _SpmmEpilogue:
    """One recorded call. Of ReLU it keeps the result, which is 0 where the gradient is."""

    def __init__(
        self,
        adj: Adjacency,
        expr: Expr,
        reducer: Reducer,
        epilogue: Expr,
        num_more: int,
        relu: bool,
        needs: tuple[bool, ...],
    ) -> None:
        self.adj, self.expr, self.reducer, self.epilogue = adj, expr, reducer, epilogue
        self.num_more, self.relu = num_more, relu
        self.saved = (*saved_slots((expr,), needs), *((RESULT,) if relu else ()))

    def forward(self, *operands: Tensor) -> Tensor:
        self.shapes = [tuple(active.shape(x)) for x in operands]
        what, edges = (self.expr, self.reducer, self.epilogue), reads_edges(self.expr)
        return run_spmm("bind_epilogue", self.adj, what, edges, (), operands, None)

    def backward(self, inputs: Sequence[Tensor | None], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        *given, result = inputs
        first = len(given) - self.num_more
        grads: list[Tensor | None] = [None] * len(needs)
        biases = [
            needs[slot] and self.shapes[slot][0] == 1 != active.shape(grad)[0] for slot in range(first, len(needs))
        ]
        grad, sums = bias_gradient(grad, result if self.relu else None, any(biases))
        for slot, is_bias in enumerate(biases, first):
            if needs[slot]:
                grads[slot] = active.reshape(sums, self.shapes[slot]) if is_bias else grad
        if self.reducer is Reducer.MEAN:
            grad = mean_gradient(self.adj, grad)
        operands: list[Any] = [*given[:first], grad]
        for slot in range(first):
            if needs[slot]:
                grads[slot] = gradient(self.adj, (self.expr,), slot, operands, self.shapes[slot], Side.V)
        return grads
