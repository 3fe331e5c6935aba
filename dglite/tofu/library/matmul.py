"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .. import sums  # noqa: F401  (registers sum_mm)
from ..operator import OperatorCall, OperatorPart, SplitRule, rule
from ..tdl import Expression, IndexedFunction, Sum, TensorSymbol, describe, over
from .common import broadcast, index_names, slices

aten = torch.ops.aten


PRODUCTS: dict[Any, Callable[[TensorSymbol, TensorSymbol], Callable[..., Expression]]] = {
    aten.mm: lambda a, b: lambda i, j: Sum(lambda k: a[i, k] * b[k, j]),
    aten.bmm: lambda a, b: lambda n, i, j: Sum(lambda k: a[n, i, k] * b[n, k, j]),
    aten.mv: lambda a, x: lambda i: Sum(lambda k: a[i, k] * x[k]),
}
ADDED = {aten.addmm: aten.mm, aten.addmv: aten.mv}
"""Products that something is added to."""


@rule(*PRODUCTS)
def product(call: OperatorCall) -> SplitRule:
    return SplitRule(describe(PRODUCTS[call.target.overloadpacket]))


@rule(*ADDED)
def added(call: OperatorCall) -> SplitRule:
    """Return the rule of ``beta * self + alpha * product``."""
    product, rank = PRODUCTS[ADDED[call.target.overloadpacket]], len(call.outputs[0])

    def element(c: TensorSymbol, a: TensorSymbol, b: TensorSymbol) -> IndexedFunction:
        def at(*i: Any) -> Expression:
            return call["beta"] * c[broadcast(call.inputs[0], i)] + call["alpha"] * product(a, b)(*i)

        return over("ij"[:rank], at)

    def local(part: OperatorPart, arguments: dict[str, Any]) -> Any:
        once = part.strategy.combine == ("sum",) and not part.adds
        return part.run(arguments, beta=0) if once else part.run(arguments)

    return SplitRule(describe(element), additive=True, local=local)


@rule(torch.ops.dglite.sum_mm)
def sum_mm(call: OperatorCall) -> SplitRule:
    """Return the rule of a sum of products: the index ``k`` counts equal shares of their inner dimensions."""
    count = len(call.inputs) // 2
    inner = [columns for _, columns in call.inputs[:count]]
    shares = math.gcd(*inner)
    within = {f"k{n}": columns // shares for n, columns in enumerate(inner) if columns > shares}

    def product(a: TensorSymbol, b: TensorSymbol, n: int, i: Any, j: Any) -> Expression:
        def at(k: Any, *rest: Any) -> Expression:
            k = inner[n] // shares * k + sum(rest)
            return a[i, k] * b[k, j]

        return Sum(over(["k", *[name for name in within if name == f"k{n}"]], at))

    def element(*x: TensorSymbol) -> IndexedFunction:
        def at(i: Any, j: Any) -> Expression:
            first, *others = (product(x[n], x[count + n], n, i, j) for n in range(count))
            for term in others:
                first = first + term
            return first

        return over("ij", at)

    names = [f"{side}{n}" for side in "ab" for n in range(count)]
    return SplitRule(describe(element, names), extents={"k": shares, **within}, keep=[*within])


@rule("transformers::grouped_mm_fallback")
def grouped(call: OperatorCall) -> SplitRule:
    """Return the rule of products of runs of rows with the matrices of their experts, as transformers computes them.

    Which rows belong to an expert depends on data, so only the columns and the inner dimension are split.
    """
    return slices(call, [(None, "k"), (None, "k", "j"), (None,)], [(None, "j", "+k")])


@rule("transformers::grouped_mm_fallback_backward")
def grouped_backward(call: OperatorCall) -> SplitRule:
    """Return the rule of the gradients of rows and matrices."""
    inputs = [(None, "k"), (None, "k", "j"), (None,), (None, "j")]
    return slices(call, inputs, [(None, "k", "+j"), (None, "k", "j")])


@rule(aten.matmul)
def matmul(call: OperatorCall) -> SplitRule | None:
    """Return the rule of a product of stacks of matrices, whose leading dimensions broadcast."""
    if min(len(shape) for shape in call.inputs) < 2:
        return None
    batch = index_names(len(call.outputs[0]) - 2, "n")

    def element(a: TensorSymbol, b: TensorSymbol) -> IndexedFunction:
        def at(*i: Any) -> Expression:
            *n, row, column = i
            left, right = (broadcast(shape[:-2], n) for shape in call.inputs)
            return Sum(lambda k: a[(*left, row, k)] * b[(*right, k, column)])

        return over([*batch, "i", "j"], at)

    return SplitRule(describe(element))
