"""Several reductions of the same messages in one pass over the edges.

Their gradient is one pass, too: sums and means of functions of the same operands are together one g-SpMM on the
reversed structure, of the sum of what each contributes. Maxima and minima go by their argmax, see :mod:`.argmax`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from operator import add
from typing import Any

from ..backend import Tensor, active
from ..expr import Expr, Side
from ..opspec import Reducer
from ..structure.adjacency import Adjacency
from ..structure.formats import index_dtype_for
from . import fallback
from .argmax import argmax_gradients
from .operands import broadcast, check_operands, reads_edges
from .run import run_spmm
from .sparse import gradient, mean_gradient, saved_slots, spmm
from .traced import GraphOp, expression_of, is_traced, postfix, registered, traced

Parts = tuple[tuple[Expr, Reducer], ...]
"""Expressions and how each is reduced."""
MOST_AT_ONCE = 8
"""Reductions of one kernel: more would not find room for their accumulators in registers."""


def spmm_several(adj: Adjacency, parts: Parts, operands: Sequence[Tensor]) -> list[Tensor]:
    """Return several expressions of the same operands, each reduced over the in-edges of every destination node.

    An entry's operands are read once for all of them. More than ``MOST_AT_ONCE`` are cut into several passes.

    Raises DGLError as for :func:`~.sparse.spmm`.

    Parameters
    ----------
    parts
        Expressions with SUM, MEAN, MAX or MIN. The sum of squares is the SUM of ``m * m``.
    operands
        As for :func:`~.sparse.spmm`.

    Returns
    -------
    list of Tensor
        For each part ``(num_dst, *broadcast feat)``, feat being broadcast over all operands. A destination without
        in-edges gets 0. Gradients of any order, as of :func:`~.sparse.spmm`.
    """
    if len(parts) == 1:
        ((expr, reducer),) = parts
        return [spmm(adj, expr, reducer, operands)]
    if len(parts) > MOST_AT_ONCE or not parts:
        cut = range(0, len(parts), MOST_AT_ONCE)
        return [x for i in cut for x in spmm_several(adj, parts[i : i + MOST_AT_ONCE], operands)]
    operands = check_operands(adj, _together(parts), operands)
    if is_traced(adj, operands):
        needed = active.requires_grad(*operands)
        return [active.copy(x) for x in traced("spmm_several", adj, _recipe(parts, needed), operands)]
    if fallback.lacks_kernels(operands[0]):
        feat = _feat(operands)
        return [active.broadcast_to(fallback.spmm(adj, *part, operands), feat) for part in parts]
    if not active.requires_grad(*operands):
        return list(active.unbind(_run(adj, parts, operands, None)))
    op = _SpmmSeveral(adj, parts, active.needs_grad(operands))
    return list(active.unbind(active.apply(op, *operands)))


@lru_cache(maxsize=1024)
def _together(parts: Parts) -> Expr:
    """Return an expression of the operands of all parts."""
    return reduce(add, (expr for expr, _ in parts))


def _feat(operands: Sequence[Tensor]) -> tuple[int, ...]:
    return broadcast(tuple(tuple(active.shape(x)[1:]) for x in operands))


def _recipe(parts: Parts, keep: bool) -> str:
    return f"{int(keep)};" + ";".join(f"{reducer.value} {postfix(expr)}" for expr, reducer in parts)


def _run(adj: Adjacency, parts: Parts, operands: Sequence[Tensor], argmax: Tensor | None) -> Tensor:
    """Return (parts, num_dst, *feat)."""
    edges = reads_edges(_together(parts))
    return run_spmm("bind_several", adj, (parts,), edges, (len(parts),), operands, argmax)


@registered
class _SpmmSeveral(GraphOp):
    """The autograd function. It saves the winning CSC entries, (number of max and min reductions, num_dst, *feat)."""

    name = "spmm_several"
    batch_axis = 2

    def __init__(self, adj: Adjacency, parts: Parts, needs: tuple[bool, ...], keep: bool = True) -> None:
        self.adj, self.parts = adj, parts
        self.selecting = sum(reducer.selects for _, reducer in parts) if keep else 0
        self.saved = saved_slots(tuple(expr for expr, _ in parts), needs)

    @classmethod
    def parse(cls, adj: Adjacency, recipe: str, needs: tuple[bool, ...]) -> _SpmmSeveral:
        keep, *texts = recipe.split(";")
        split = [text.split(" ", 1) for text in texts]
        return cls(adj, tuple((expression_of(expr), Reducer(name)) for name, expr in split), needs, keep == "1")

    def recipe(self) -> str:
        return _recipe(self.parts, self.selecting > 0)

    def describe(self, *operands: Tensor) -> tuple[tuple[Sequence[int], str], tuple[Sequence[int], str] | None]:
        adj = self.adj
        check_operands(adj, _together(self.parts), operands)
        rows = (adj.num_dst, *_feat(operands))
        result = (len(self.parts), *rows), active.dtype(operands[0])
        if not self.selecting:  # a program is not for counts that were compared
            return result, None
        return result, ((self.selecting, *rows), str(index_dtype_for(adj.num_src, adj.num_dst, adj.num_edges)))

    def forward(self, *operands: Tensor) -> Tensor:
        if self.selecting:
            shape = (self.selecting, self.adj.num_dst, *_feat(operands))
            self.aux = active.empty(shape, str(self.adj.index_dtype), active.device(operands[0]))
        self.shapes = [tuple(active.shape(x)) for x in operands]
        return _run(self.adj, self.parts, operands, self.aux)

    def composed(self, *operands: Tensor) -> Tensor:
        feat = _feat(operands)
        return active.stack(
            [active.broadcast_to(fallback.spmm(self.adj, *part, operands), feat) for part in self.parts]
        )

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        *operands, _ = inputs
        sums, extrema = list[tuple[Expr, Tensor]](), list[tuple[Expr, Tensor]]()
        for (expr, reducer), part_grad in zip(self.parts, grad, strict=True):
            part_grad = mean_gradient(self.adj, part_grad) if reducer is Reducer.MEAN else part_grad
            (extrema if reducer.selects else sums).append((expr, part_grad))
        grads: list[Tensor | None] = [None] * len(needs)
        if sums:
            exprs = tuple(expr for expr, _ in sums)
            with_grads = [*operands, *(part_grad for _, part_grad in sums)]
            for slot, needed in enumerate(needs):
                if needed:
                    grads[slot] = gradient(self.adj, exprs, slot, with_grads, self.shapes[slot], Side.V)
        argmaxes: Any = self.aux if extrema else ()
        for (expr, part_grad), argmax in zip(extrema, argmaxes, strict=True):
            more = argmax_gradients(self.adj, expr, argmax, operands, self.shapes, part_grad, needs)
            grads = [x if y is None else y if x is None else x + y for x, y in zip(grads, more, strict=True)]
        return grads
