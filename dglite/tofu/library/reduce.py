"""Reductions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ..operator import OperatorCall, OperatorPart, SplitRule, rule
from ..tdl import Expression, IndexedFunction, Max, Min, Prod, Sum, TensorSymbol, describe, over
from .common import fitted, index_names, outer, slices

aten = torch.ops.aten


def _reduced(
    call: OperatorCall, reduce: Callable[[IndexedFunction], Expression], dims: tuple[int, ...], scale: float = 1.0
) -> SplitRule:
    """Return the rule of a reduction over ``dims``."""
    rank = len(call.shape("self"))
    free = [d for d in range(rank) if d not in dims]
    keepdim = len(call.outputs[0]) == rank and bool(dims)
    names = index_names(rank)

    def element(x: TensorSymbol) -> IndexedFunction:
        def at(*i: Any) -> Expression:
            bound = dict(zip(range(rank) if keepdim else free, i, strict=True))

            def inner(*j: Any) -> Expression:
                where = bound | dict(zip(dims, j, strict=True))
                return x[tuple(where[d] for d in range(rank))]

            value = reduce(over([f"r{d}" for d in dims], inner))
            return value if scale == 1 else scale * value

        return over([names[d] for d in (range(rank) if keepdim else free)], at)

    return SplitRule(describe(element))


REDUCTIONS: dict[Any, Callable[[IndexedFunction], Expression]] = {
    aten.sum: Sum,
    aten.prod: Prod,
    aten.amax: Max,
    aten.max: Max,
    aten.any: Max,
    aten.amin: Min,
    aten.min: Min,
}


@rule(*REDUCTIONS)
def reduction(call: OperatorCall) -> SplitRule | None:
    """Return the rule of a reduction; a maximum along a dimension also tells where it is."""
    packet = call.target.overloadpacket
    if packet in (aten.max, aten.min) and "dim" in call.arguments:
        return along_dim(call)
    return _reduced(call, REDUCTIONS[packet], call.dims())


@rule(aten.mean)
def mean(call: OperatorCall) -> SplitRule:
    dims = call.dims()
    count = math.prod(call.shape("self")[d] for d in dims)

    def local(part: OperatorPart, arguments: dict[str, Any]) -> Any:
        if part.strategy.combine != ("sum",):
            return part.run(arguments)
        keep = arguments.get("keepdim", False)
        return aten.sum.dim_IntList(arguments["self"], list(dims), keep, dtype=arguments["dtype"]) / count

    total = _reduced(call, Sum, dims, 1.0 / max(count, 1))
    return SplitRule(total.description, local=local)


@rule(aten.argmax, aten.argmin, aten.sort, aten.topk, aten.cumsum, aten.cumprod, aten.median)
@rule(aten.var, aten.var_mean, aten.kthvalue, aten.logcumsumexp, aten.cummax, aten.cummin)
def along_dim(call: OperatorCall) -> SplitRule:
    """Return the rule of a function of all rows of some dimensions."""
    rank = len(call.shape("self"))
    whole = call.dims() if "dim" in call.arguments else tuple(range(rank))
    names = outer(rank, whole)
    return slices(call, [names], [fitted(shape, names) for shape in call.outputs])
