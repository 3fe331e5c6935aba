"""g-SpMM and g-SDDMM on tensors, with gradients of any order.

``spmm`` reduces an expression over the in-edges of every node; ``sddmm`` computes one for every edge. The gradient of
either is again a reduction over the reversed structure or a value per edge, so each is written with the other, on
expressions that the operator table differentiates. Gradients enter by ``spmm_unchecked`` and ``sddmm_unchecked``: what
they read has been checked, or was made here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ..backend import Tensor, active
from ..errors import DGLError
from ..expr import Constant, Expr, Operand, Side, compact, derivative, operands_of, swap_sides
from ..opspec import Reducer
from ..structure.adjacency import Adjacency
from ..structure.formats import index_dtype_for
from . import fallback
from .argmax import argmax_gradients
from .call_cache import cache_recorded, run_cached
from .degrees import DEGREE_SCALES, degree_scale
from .operands import broadcast, check_operands, reads_edges, sum_to, tensor_operand, to_common_dtype
from .run import run_sddmm, run_spmm
from .traced import GraphOp, expression_of, is_read, is_traced, postfix, registered, reversed_of, traced


# -- g-SpMM ------------------------------------------------------------------------------------------------------------
def spmm(adj: Adjacency, expr: Expr, reducer: Reducer, operands: Sequence[Tensor]) -> Tensor:
    """Return ``expr`` reduced over the in-edges of every destination node.

    Where an operand is the weights of an attention that has not been read, the sum is attention in one kernel: see
    :mod:`.scores`.

    Raises DGLError: row counts, dtypes or devices do not fit the structure or each other. Inside autocast, operands of
    several dtypes are cast to autocast's.

    Parameters
    ----------
    operands
        ``operands[slot]``, by its side: ``(num_src, *feat)``, ``(num_edges, *feat)``, ``(num_dst, *feat)`` or
        ``(1, *feat)`` for what all edges share.
        Feature axes broadcast from the right. One floating dtype; float16 and bfloat16 accumulate in float32.
    reducer
        SUM, MEAN, MAX, MIN or LOGSUMEXP. A destination without in-edges gets 0.

    Returns
    -------
    Tensor
        ``(num_dst, *broadcast feat)``. The gradient of MAX and MIN goes to the winning edge, the first among equals.
    """
    result = None if is_read(adj) else run_cached(adj, (expr, reducer), operands)
    if result is not None:
        return result
    operands = tuple([tensor_operand(x) for x in operands])
    if reducer is Reducer.LOGSUMEXP:
        return _logsumexp(adj, expr, operands)
    if is_traced(adj, operands):
        return _trace_spmm(adj, expr, reducer, operands)
    operands = check_operands(adj, expr, operands)
    if reducer is Reducer.SUM and len(operands) == 2 and active.any_deferred(*operands):
        fused = _attention(adj, expr, operands)
        if fused is not None:
            return fused
    return _spmm(adj, expr, reducer, operands)


def spmm_unchecked(adj: Adjacency, expr: Expr, reducer: Reducer, operands: Sequence[Tensor]) -> Tensor:
    """Return what :func:`spmm` does, of operands that fit."""
    result = None if is_read(adj) else run_cached(adj, (expr, reducer), operands)
    if result is not None:
        return result
    return (_trace_spmm if is_traced(adj, operands) else _spmm)(adj, expr, reducer, operands)


def _trace_spmm(adj: Adjacency, expr: Expr, reducer: Reducer, operands: Sequence[Tensor]) -> Tensor:
    operands = check_operands(adj, expr, operands)
    needed = reducer.selects and active.requires_grad(*operands)
    return traced("spmm", adj, f"{reducer.value} {int(needed)} {postfix(expr)}", operands)


def _attention(adj: Adjacency, expr: Expr, operands: Sequence[Tensor]) -> Tensor | None:
    """Return the sum computed by an unread attention among the operands, or None."""
    for slot, x in enumerate(operands):
        recipe: Any = active.recipe_of(x)
        fused: Tensor | None = None if recipe is None else recipe.weighted_sum(adj, expr, slot, operands)
        if fused is not None:
            return fused
    return None


def _spmm(adj: Adjacency, expr: Expr, reducer: Reducer, operands: Sequence[Tensor]) -> Tensor:
    if fallback.lacks_kernels(operands[0]):
        return fallback.spmm(adj, expr, reducer, operands)
    if not active.requires_grad(*operands):
        return run_spmm("bind_spmm", adj, (expr, reducer), reads_edges(expr), (), operands, None)
    needs = active.needs_grad(operands)
    result = active.apply(Spmm(adj, expr, reducer, needs), *operands)
    cache_recorded(adj, (expr, reducer), operands, lambda adj: Spmm(adj, expr, reducer, needs))
    return result


def _logsumexp(adj: Adjacency, expr: Expr, operands: Sequence[Tensor]) -> Tensor:
    """Return log(sum(exp(messages))), their maximum taken out; minus infinity where all of them are that."""
    where = active.functions["where"]
    largest = active.detach(spmm(adj, expr, Reducer.MAX, operands))
    top = where(active.functions["abs"](largest) == math.inf, 0.0, largest)
    total = spmm(adj, (expr - Operand(Side.V, len(operands))).call("exp"), Reducer.SUM, (*operands, top))
    sums = active.functions["log"](where(total == 0, 1.0, total))
    return sums + where(largest == -math.inf, largest, top)  # type: ignore[no-any-return]


@lru_cache(maxsize=1024)
def _parsed(recipe: str) -> tuple[Expr, Reducer, bool]:
    reducer, keep, expr = recipe.split(" ", 2)
    return expression_of(expr), Reducer(reducer), keep == "1"


@registered
class Spmm(GraphOp):
    """The autograd function of g-SpMM. Of a max or min it saves the argmax, a CSC entry for each element."""

    name = "spmm"

    def __init__(
        self, adj: Adjacency, expr: Expr, reducer: Reducer, needs: tuple[bool, ...], keep: bool = True
    ) -> None:
        self.adj, self.expr, self.reducer = adj, expr, reducer
        self.keeps = keep and reducer.selects
        self.saved = saved_slots((expr,), needs)

    @classmethod
    def parse(cls, adj: Adjacency, recipe: str, needs: tuple[bool, ...]) -> Spmm:
        expr, reducer, keep = _parsed(recipe)
        return cls(adj, expr, reducer, needs, keep)

    @classmethod
    def run_again(cls, adj: Adjacency, recipe: str, inputs: Sequence[Tensor]) -> Tensor | None:
        expr, reducer, keep = _parsed(recipe)
        return None if keep else run_cached(adj, (expr, reducer), inputs)

    def recipe(self) -> str:
        return f"{self.reducer.value} {int(self.keeps)} {postfix(self.expr)}"

    def describe(self, *operands: Tensor) -> tuple[tuple[Sequence[int], str], tuple[Sequence[int], str] | None]:
        adj = self.adj
        check_operands(adj, self.expr, operands)
        shape = (adj.num_dst, *broadcast(tuple(tuple(active.shape(x)[1:]) for x in operands)))
        result = shape, active.dtype(operands[0])
        if not self.keeps:  # a program is not for counts that were compared
            return result, None
        return result, (shape, str(index_dtype_for(adj.num_src, adj.num_dst, adj.num_edges)))

    def forward(self, *operands: Tensor) -> Tensor:
        self.shapes = [tuple(active.shape(x)) for x in operands]
        if self.keeps:
            shape = broadcast(tuple([tuple(active.shape(x)[1:]) for x in operands]))
            index = str(self.adj.index_dtype)
            self.aux = active.empty((self.adj.num_dst, *shape), index, active.device(operands[0]))
        reduction, edges = (self.expr, self.reducer), reads_edges(self.expr)
        return run_spmm("bind_spmm", self.adj, reduction, edges, (), operands, self.aux)

    def composed(self, *operands: Tensor) -> Tensor:
        return fallback.spmm(self.adj, self.expr, self.reducer, operands)

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        if self.keeps:
            return argmax_gradients(self.adj, self.expr, self.aux, inputs, self.shapes, grad, needs)
        if self.reducer.selects:
            raise DGLError(
                "this program was recorded without gradients, so it does not keep which edges the result of "
                f"{self.reducer.value} is of: run it inside of torch.no_grad(), or record it outside of that"
            )
        if self.reducer is Reducer.MEAN:
            grad = mean_gradient(self.adj, grad)
        operands = [*inputs[:-1], grad]
        grads: list[Tensor | None] = [None] * len(needs)
        for slot, needed in enumerate(needs):
            if needed:
                grads[slot] = gradient(self.adj, (self.expr,), slot, operands, self.shapes[slot], Side.V)
        return grads


# -- g-SDDMM -----------------------------------------------------------------------------------------------------------
def sddmm(adj: Adjacency, expr: Expr, operands: Sequence[Tensor], dot: bool = False) -> Tensor:
    """Return ``expr`` for every edge, in edge-id order.

    Raises DGLError as for :func:`spmm`.

    Parameters
    ----------
    operands
        As for :func:`spmm`.
    dot
        Sum the last feature axis and keep it with length 1; rows of one number each, (N,), have none to sum.

    Returns
    -------
    Tensor
        ``(num_edges, *broadcast feat)``.
    """
    result = None if is_read(adj) else run_cached(adj, (expr, dot), operands)
    return sddmm_unchecked(adj, expr, check_operands(adj, expr, operands), dot) if result is None else result


def sddmm_unchecked(adj: Adjacency, expr: Expr, operands: Sequence[Tensor], dot: bool = False) -> Tensor:
    """Return what :func:`sddmm` does, of operands that fit."""
    result = None if is_read(adj) else run_cached(adj, (expr, dot), operands)
    if result is not None:
        return result
    dot = dot and any(len(active.shape(x)) > 1 for x in operands)
    return (_trace_sddmm if is_traced(adj, operands) else _sddmm)(adj, expr, operands, dot)


def _trace_sddmm(adj: Adjacency, expr: Expr, operands: Sequence[Tensor], dot: bool) -> Tensor:
    return traced("sddmm", adj, f"{int(dot)} {postfix(expr)}", to_common_dtype(operands))


def _sddmm(adj: Adjacency, expr: Expr, operands: Sequence[Tensor], dot: bool) -> Tensor:
    if fallback.lacks_kernels(operands[0]):
        return fallback.sddmm(adj, expr, operands, dot)
    if not active.requires_grad(*operands):
        return run_sddmm(adj, expr, operands, dot)
    needs = active.needs_grad(operands)
    result = active.apply(_Sddmm(adj, expr, dot, needs), *operands)
    cache_recorded(adj, (expr, dot), operands, lambda adj: _Sddmm(adj, expr, dot, needs))
    return result


@registered
class _Sddmm(GraphOp):
    """The autograd function of g-SDDMM."""

    name = "sddmm"

    def __init__(self, adj: Adjacency, expr: Expr, dot: bool, needs: tuple[bool, ...]) -> None:
        self.adj, self.expr, self.dot = adj, expr, dot
        self.saved = saved_slots((expr,), needs)

    @classmethod
    def parse(cls, adj: Adjacency, recipe: str, needs: tuple[bool, ...]) -> _Sddmm:
        dot, expr = recipe.split(" ", 1)
        return cls(adj, expression_of(expr), dot == "1", needs)

    @classmethod
    def run_again(cls, adj: Adjacency, recipe: str, inputs: Sequence[Tensor]) -> Tensor | None:
        dot, expr = recipe.split(" ", 1)
        return run_cached(adj, (expression_of(expr), dot == "1"), inputs)

    def recipe(self) -> str:
        return f"{int(self.dot)} {postfix(self.expr)}"

    def describe(self, *operands: Tensor) -> tuple[tuple[Sequence[int], str], None]:
        check_operands(self.adj, self.expr, operands)
        feat = broadcast(tuple(tuple(active.shape(x)[1:]) for x in operands))
        shape = (self.adj.num_edges, *(feat[:-1] + (1,) if self.dot else feat))
        return (shape, active.dtype(operands[0])), None

    def forward(self, *operands: Tensor) -> Tensor:
        self.shapes = [tuple(active.shape(x)) for x in operands]
        return run_sddmm(self.adj, self.expr, operands, self.dot)

    def composed(self, *operands: Tensor) -> Tensor:
        return fallback.sddmm(self.adj, self.expr, operands, self.dot)

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        operands = [*inputs[:-1], grad]
        grads: list[Tensor | None] = [None] * len(needs)
        for slot, needed in enumerate(needs):
            if needed:
                shapes = self.shapes if self.dot else None
                grads[slot] = gradient(self.adj, (self.expr,), slot, operands, self.shapes[slot], Side.E, shapes)
        return grads


# -- gradients ---------------------------------------------------------------------------------------------------------
def mean_gradient(adj: Any, grad: Tensor) -> Tensor:
    """Return the gradient of the sums from the gradient of the means, (num_dst, *feat)."""
    return active.times(grad, mean_scale(adj, grad))


def mean_scale(adj: Any, grad: Tensor) -> Tensor:
    """Return one over the in-degree of every destination, as ``grad`` is multiplied by it."""
    scale = degree_scale(adj, DEGREE_SCALES["1 / in"], active.dtype(grad), active.device(grad))
    return active.reshape(scale, (adj.num_dst,) + (1,) * (len(active.shape(grad)) - 1))


@lru_cache(maxsize=1024)
def saved_slots(exprs: tuple[Expr, ...], needs: tuple[bool, ...]) -> tuple[int, ...]:
    """Return the slots that the gradients of the needed operands read."""
    slots = {
        inner.slot
        for expr in exprs
        for operand in operands_of(expr)
        if needs[operand.slot]
        for inner in operands_of(derivative(expr, operand))
    }
    return tuple(sorted(slots))


@lru_cache(maxsize=1024)
def _gradient_expr(
    exprs: tuple[Expr, ...], slot: int, num_operands: int, side: Side
) -> tuple[Side, Expr, tuple[int, ...]]:
    """Return the side of operand ``slot``, d(loss)/d(operand) for one edge, and the slots that it reads.

    The gradients of the results are the operands from ``num_operands`` on, on ``side``.
    """
    target = next((x for expr in exprs for x in operands_of(expr) if x.slot == slot), None)
    total: Expr = Constant(0.0)
    if target is None:
        return side, total, ()
    for i, expr in enumerate(exprs):
        total = total + derivative(expr, target) * Operand(side, num_operands + i)
    return target.side, *compact(total)


def gradient(
    adj: Adjacency,
    exprs: tuple[Expr, ...],
    slot: int,
    operands: Sequence[Any],
    shape: tuple[int, ...],
    side: Side,
    dotted: Sequence[tuple[int, ...]] | None = None,
) -> Tensor:
    """Return d(loss)/d(operand ``slot``), of ``shape``, with differentiable operations.

    ``operands``: of ``exprs``, then the gradient of each result, whether sums over edges or values of edges.
    For a dot product ``dotted`` holds the shapes of its operands: where the derivative does not depend on an operand
    with the summed axis, the gradient is stretched along it.
    """
    owner, grad, slots = _gradient_expr(exprs, slot, len(operands) - len(exprs), side)
    if not slots:  # the derivative is 0 everywhere
        like = operands[-1]
        return active.full(shape, 0.0, active.dtype(like), active.device(like))
    used = [operands[i] for i in slots]
    if dotted is not None:
        wide = broadcast(tuple(tuple(feat[1:]) for feat in dotted))
        if broadcast(tuple(tuple(active.shape(x)[1:]) for x in used)) != wide:
            used[-1] = active.broadcast_to(used[-1], wide)
    if owner is Side.E:
        return _sddmm_to(adj, grad, used, shape)
    if owner is Side.U:
        return sum_to(spmm_unchecked(reversed_of(adj), swap_sides(grad), Reducer.SUM, used), shape)
    total = spmm_unchecked(adj, grad, Reducer.SUM, used)
    if owner is Side.G:
        total = active.sum(total, 0, keepdims=True)
    return sum_to(total, shape)


def _sddmm_to(adj: Adjacency, expr: Expr, operands: Sequence[Any], shape: tuple[int, ...]) -> Tensor:
    """Return ``expr`` for every edge, summed over the axes in which ``shape`` is shorter than the result.

    When these are the last axes the kernel sums as it goes, and the wide result is never stored.
    """
    wide = broadcast(tuple(tuple(active.shape(x)[1:]) for x in operands))
    target = (1,) * (len(wide) - len(shape) + 1) + tuple(shape[1:])
    first = next((axis for axis in range(len(wide)) if target[axis] == 1 and math.prod(target[axis:]) == 1), len(wide))
    if target == wide or target[:first] != wide[:first] or wide[first:] == target[first:]:
        return sum_to(sddmm_unchecked(adj, expr, operands), shape)
    flat = [_merge_tail(x, wide, first) for x in operands]
    if any(x is None for x in flat):
        return sum_to(sddmm_unchecked(adj, expr, operands), shape)
    return active.reshape(sddmm_unchecked(adj, expr, flat, dot=True), shape)


def _merge_tail(x: Tensor, wide: tuple[int, ...], first: int) -> Any:
    """Return ``x`` with its feature axes from ``first`` on merged into one; None where they broadcast in part."""
    rows, *feat = active.shape(x)
    feat = [1] * (len(wide) - len(feat)) + feat
    if tuple(feat[first:]) != wide[first:] and math.prod(feat[first:]) != 1:
        return None
    return active.reshape(x, (rows, *feat[:first], math.prod(feat[first:])))
