"""A reduction over in-edges fused with what follows at each node: a bias, a residual, ReLU.

The kernel that has a row's sum in registers adds to it before it is written; else each step reads and writes the
result again. Backward starts with the epilogue's gradient, which needs the result alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ..backend import Tensor, active
from ..expr import Expr, Side, operands_of
from ..opspec import Reducer
from ..structure.adjacency import Adjacency
from . import fallback
from .biases import RELU, bias_gradient
from .call_cache import lookup, run_cached, store
from .epilogue_plan import (
    ONE,
    SUMS,
    After,
    EpiloguePlan,
    added_terms,
    epilogue_of,
    epilogue_plan,
    every_operand,
    split_factor,
)
from .operands import broadcast, check_operands, evaluated, sum_to, to_common_dtype
from .products import product, product_forward, product_gradients
from .run import run_spmm
from .sparse import gradient, mean_scale, spmm
from .traced import GraphOp, expression_of, is_traced, postfix, registered, traced


def spmm_epilogue(
    adj: Adjacency,
    expr: Expr,
    reducer: Reducer,
    operands: Sequence[Tensor],
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    relu: bool = False,
    weight: Tensor | None = None,
) -> Tensor:
    """Return ``relu(reduced + bias + residual)``, what :func:`~.sparse.spmm` returns being ``reduced``.

    Parameters
    ----------
    weight
        ``(in, out)``. The first operand, ``(num_src, in)``, is multiplied by it before.
    bias
        ``(*feat)``, added to every row; a destination without in-edges gets it, too.
    residual
        ``(num_dst, *feat)``.
    relu
        Whether negative elements become 0.

    It is one kernel of a sum or mean on a CPU for features of one axis, where no operand is deferred, and in programs
    that are recorded without gradients; elsewhere the steps follow each other. Gradients of any order; errors are those
    of :func:`~.sparse.spmm`.
    """
    if bias is None and residual is None and not relu:
        return spmm(adj, expr, reducer, _projected(operands, weight))
    signature = None if is_traced(adj) else active.signature((*operands, weight, bias, residual))
    key = expr, reducer, relu, signature
    cached: EpiloguePlan | str | None = None if signature is None else lookup(adj, key)
    if cached is _IN_PLACE:
        result = spmm(adj, expr, reducer, _projected(operands, weight))
        for x in (bias, residual):
            if x is not None:
                result += x
        return result.relu() if relu else result  # type: ignore[no-any-return]
    more: list[Any] = [] if bias is None else [active.reshape(bias, (1, *active.shape(bias)))]
    more += [] if residual is None else [residual]
    if active.compiling() and reducer in SUMS and not active.requires_grad(*operands, *more):
        operands = (*_projected(operands, weight), *more)
        return _SpmmEpilogue(adj, expr, reducer, (bias is not None, residual is not None, relu), ()).traced(operands)
    follows = bias is not None, residual is not None, relu
    plan = cached or _planned(adj, expr, reducer, operands, weight, more, follows) or _STEPS
    if isinstance(plan, str):
        result = _unfused(adj, expr, reducer, _projected(operands, weight), more, relu)
        if cached is None and signature is not None:
            in_place = reducer in SUMS and _agree((result, *more)) and not active.any_deferred(*operands)
            store(adj, key, _IN_PLACE if in_place else plan)
        return result
    if weight is not None and plan.of_product:
        operands = (operands[0], weight, *operands[1:], *more)
    else:
        operands = (*_projected(operands, weight), *more)
    if cached is None:
        rows = (operands[0][:, :1], *operands[2:]) if plan.of_product else operands
        checked = check_operands(adj, plan.every, rows)
        operands = operands if plan.of_product else checked
        if signature is not None:
            store(adj, key, plan)
    return active.apply((_SpmmOfProduct if plan.of_product else _SpmmThen)(adj, plan), *operands)


def _projected(operands: Sequence[Tensor], weight: Tensor | None) -> Sequence[Tensor]:
    """Return the operands, the first one times ``weight``."""
    return operands if weight is None else (product(operands[0], weight), *operands[1:])


def _unfused(
    adj: Adjacency, expr: Expr, reducer: Reducer, operands: Sequence[Tensor], more: Sequence[Tensor], relu: bool
) -> Tensor:
    if active.autocast_dtype() is not None:  # or a residual may widen the result
        count, operands = len(operands), to_common_dtype((*operands, *more))
        operands, more = operands[:count], operands[count:]
    result = spmm(adj, expr, reducer, operands)
    for x in more:
        if reducer in SUMS and _agree((result, x)) and not is_traced(adj, (result, x)):
            result += x  # in place: a sum keeps no result
        else:
            result = result + x
    return result.relu() if relu else result


_STEPS, _IN_PLACE = "in steps", "in steps, in place"
"""In place of a plan, where no kernel does all of it: what follows a sum may be added to its memory."""


def spmm_then(adj: Adjacency, expr: Expr, reducer: Reducer, operands: Sequence[Tensor], after: After) -> Tensor:
    """Return what ``after`` makes of a reduction, where :func:`is_one_kernel`."""
    operands = check_operands(adj, every_operand(expr, after), operands)
    return active.apply(_SpmmThen(adj, epilogue_plan(expr, reducer, after, active.needs_grad(operands))), *operands)


def is_one_kernel(
    adj: Adjacency, reducer: Reducer, operands: Sequence[Tensor], more: Sequence[Tensor], factors: Sequence[Tensor] = ()
) -> bool:
    """Whether a kernel reduces ``operands`` and does what follows with ``more``: see :func:`spmm_epilogue`.

    ``factors`` are those of a product that is the first operand.
    """
    if (
        reducer not in SUMS
        or is_traced(adj, (*operands, *more, *factors))
        or active.any_deferred(*operands)
        or not active.on_cpu(operands[0])
        or fallback.lacks_kernels(operands[0])
        or not _agree((operands[0], *more))
    ):
        return False
    feat = broadcast(tuple(tuple(active.shape(x)[1:]) for x in operands))
    return len(feat) == 1 and all(tuple(active.shape(x)[1:]) in (feat, (1,), ()) for x in more)


def _planned(
    adj: Adjacency,
    expr: Expr,
    reducer: Reducer,
    operands: Sequence[Tensor],
    weight: Tensor | None,
    more: Sequence[Tensor],
    follows: tuple[bool, bool, bool],
) -> EpiloguePlan | None:
    """Return the plan of one kernel for all of it, or None. ``follows``: whether there is a bias, a residual, a ReLU.

    A product and the kernel after it are recorded as one call where there is no gradient of other operands.
    """
    (x, *others), of_product = operands, False
    if weight is not None:
        if len(active.shape(x)) != 2:
            return None
        recorded = len(more) > 0 and active.requires_grad(x, weight) and not active.requires_grad(*others)
        of_product = recorded and active.is_pooled(x, weight)
    if weight is None:
        one_kernel = is_one_kernel(adj, reducer, operands, more)
    else:
        one_kernel = is_one_kernel(adj, reducer, (weight, *others), more, (x,))
    if not one_kernel:
        return None
    inner, factor = split_factor(expr)
    if active.requires_grad(*[operands[operand.slot] for operand in operands_of(factor)]):
        inner, factor = expr, ONE
    bias, residual, relu = follows
    after = After(added_terms(len(operands), bias, residual), RELU if relu else None, factor)
    first = (x, weight) if of_product else (weight if weight is not None and active.requires_grad(weight) else x,)
    return epilogue_plan(inner, reducer, after, active.needs_grad((*first, *others, *more)), of_product)


def _agree(tensors: Sequence[Tensor]) -> bool:
    """Whether tensors are of one dtype, or will be inside autocast."""
    dtypes = [active.dtype(x) for x in tensors]
    return dtypes.count(dtypes[0]) == len(dtypes) or active.autocast_dtype() is not None


class _SpmmThen:
    """The autograd function. Of an activation it saves the result, which tells its gradient."""

    def __init__(self, adj: Adjacency, plan: EpiloguePlan) -> None:
        self.adj, self.plan, self.saved = adj, plan, plan.saved

    def forward(self, *operands: Any) -> Tensor:
        self.shapes = [tuple(active.shape(x)) for x in operands]
        return run_spmm("bind_epilogue", self.adj, self.plan.reduction, self.plan.edges, (), operands, None)

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        *operands, result = inputs
        slopes, count, expr = self.plan.slopes, self.plan.count, self.plan.expr
        bias = [slot for slot in slopes if needs[slot] and self._is_bias(slot, active.shape(grad)[1:])]
        factor = self._factor(operands, grad) if True in needs[:count] else None
        others = any(needs[slot] for slot in slopes if slot not in bias)
        activation = self.plan.after.activation or RELU
        grad, sums = bias_gradient(grad, result, bool(bias), activation, None if others else factor)
        grads: list[Tensor | None] = [None] * len(needs)
        for slot, (side, slope) in slopes.items():
            if slot in bias:
                grads[slot] = active.reshape(sums, self.shapes[slot])
            elif needs[slot]:
                grads[slot] = _to_operand(side, slope, operands, grad, self.shapes[slot])
        if others and factor is not None:
            grad = active.times(grad, factor)
        with_grad: list[Any] = [*operands[:count], grad]
        for slot in range(count):
            if needs[slot]:
                grads[slot] = gradient(self.adj, (expr,), slot, with_grad, self.shapes[slot], Side.V)
        return grads

    def _is_bias(self, slot: int, feat: Sequence[int]) -> bool:
        """Whether the gradient of an operand is the sum of all rows' gradients."""
        return self.plan.slopes[slot] == (Side.G, ONE) and tuple(self.shapes[slot][1:]) == tuple(feat)

    def _factor(self, operands: Sequence[Tensor | None], like: Tensor) -> Tensor | None:
        """Return what a row's sum is multiplied by, None for 1; of a mean one over the in-degree is part of it."""
        factor, reducer = self.plan.after.factor, self.plan.reducer
        value = None if factor == ONE else evaluated(factor, operands)
        if reducer is Reducer.MEAN:
            scale = mean_scale(self.adj, like)
            return scale if value is None else scale * value
        if value is None or active.is_tensor(value):
            return value
        return active.full((1, 1), value, active.dtype(like), active.device(like))


@lru_cache(maxsize=1024)
def _parsed(recipe: str) -> tuple[Expr, Reducer, tuple[bool, bool, bool]]:
    reducer, follows, expr = recipe.split(" ", 2)
    bias, residual, relu = (flag == "1" for flag in follows)
    return expression_of(expr), Reducer(reducer), (bias, residual, relu)


@lru_cache(maxsize=1024)
def _reduction(expr: Expr, reducer: Reducer, count: int, follows: tuple[bool, bool, bool]) -> tuple[Any, ...]:
    """Return the reduction under which a kernel of ``count`` operands and what follows is cached."""
    (inner, factor), (bias, residual, relu) = split_factor(expr), follows
    return inner, reducer, epilogue_of(After(added_terms(count, bias, residual), RELU if relu else None, factor))


@registered
class _SpmmEpilogue(GraphOp):
    """:func:`spmm_epilogue` in a program that was recorded without gradients. A gradient is that of the steps.

    Its inputs are the operands, then the bias, (1, *feat), and the residual, if any.
    """

    name = "spmm_epilogue"

    def __init__(
        self, adj: Adjacency, expr: Expr, reducer: Reducer, follows: tuple[bool, bool, bool], needs: tuple[bool, ...]
    ) -> None:
        self.adj, self.expr, self.reducer, self.follows, self.saved = adj, expr, reducer, follows, range(len(needs))

    @classmethod
    def parse(cls, adj: Adjacency, recipe: str, needs: tuple[bool, ...]) -> _SpmmEpilogue:
        return cls(adj, *_parsed(recipe), needs)

    @classmethod
    def run_again(cls, adj: Adjacency, recipe: str, inputs: Sequence[Tensor]) -> Tensor | None:
        expr, reducer, follows = _parsed(recipe)
        return run_cached(adj, _reduction(expr, reducer, len(inputs) - sum(follows[:2]), follows), inputs)

    def recipe(self) -> str:
        return self._recipe(self.follows)

    def with_relu(self) -> str:
        return self._recipe((*self.follows[:2], True))

    def _recipe(self, follows: Sequence[bool]) -> str:
        return f"{self.reducer.value} {''.join([str(int(flag)) for flag in follows])} {postfix(self.expr)}"

    def traced(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return the result as part of the program that a compiler reads."""
        return traced(self.name, self.adj, self.recipe(), self._checked(inputs))

    def _checked(self, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        bias, residual, _ = self.follows
        added = added_terms(len(inputs) - bias - residual, bias, residual)
        return check_operands(self.adj, every_operand(self.expr, After(added)), inputs)

    def _apart(self, inputs: Sequence[Tensor]) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """Return the operands of the reduction, and the terms added to it."""
        bias, residual, _ = self.follows
        count = len(inputs) - bias - residual
        return inputs[:count], inputs[count:]

    def describe(self, *inputs: Tensor) -> tuple[tuple[Sequence[int], str], None]:
        self._checked(inputs)
        feat = broadcast(tuple([tuple(active.shape(x)[1:]) for x in inputs]))
        return ((self.adj.num_dst, *feat), active.dtype(inputs[0])), None

    def forward(self, *inputs: Tensor) -> Tensor:
        operands, more = self._apart(inputs)
        bias, residual, relu = self.follows
        return spmm_epilogue(
            *(self.adj, self.expr, self.reducer, operands, more[0][0] if bias else None),
            *(more[-1] if residual else None, relu),
        )

    def composed(self, *inputs: Tensor) -> Tensor:
        operands, more = self._apart(inputs)
        result = sum(more, fallback.spmm(self.adj, self.expr, self.reducer, operands))
        return result.relu() if self.follows[2] else result

    def backward(self, inputs: Sequence[Tensor | None], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        def steps(*inputs: Tensor) -> Tensor:
            operands, more = self._apart(inputs)
            return _unfused(self.adj, self.expr, self.reducer, operands, more, self.follows[2])

        return active.gradients(steps, inputs[:-1], grad, needs)


class _SpmmOfProduct(_SpmmThen):
    """One whose first operand is the product of features and a weight, which come in its place."""

    def forward(self, x: Tensor, weight: Tensor, *operands: Tensor) -> Tensor:
        return super().forward(product_forward(x, weight), *operands)

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        x, weight, *more = inputs
        of_product: Any
        of_product, *grads = super().backward((None, *more), grad, (True, *needs[2:]))
        return [*product_gradients(x, weight, of_product, needs[:2]), *grads]


def _to_operand(
    side: Side, slope: Expr, operands: Sequence[Tensor | None], grad: Tensor, shape: tuple[int, ...]
) -> Tensor:
    """Return the gradient of an operand of the added terms, of ``shape``."""
    grad = grad if slope == ONE else grad * evaluated(slope, operands)
    if side is Side.G and active.shape(grad)[0] != 1:
        grad = active.sum(grad, 0, keepdims=True)
    return sum_to(grad, shape)
