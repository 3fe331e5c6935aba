"""Known ways to partition a training step, for comparison. All use the same cost function.

Each takes the coarsened step and the number of workers, and returns the decisions of each step as `search` does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping

import numpy as np

from .coarsen import Coarse, OperatorGroup
from .cost import OperatorStrategy
from .search import Policy, SearchStep, SplitDim, StepSearch, factors, search
from .strategy import Region, Strategy


def all_row_greedy(coarse: Coarse, workers: int) -> list[SearchStep]:
    """Split every tensor along its first dimension, or the first that is long enough; operators follow."""
    return search(coarse, [workers], Policy(fixed=_first_dims(coarse, workers)))


def _first_dims(coarse: Coarse, k: int) -> dict[int, SplitDim]:
    fixed: dict[int, SplitDim] = {}
    for number, group in enumerate(coarse.tensors):
        dims = [d for d, size in enumerate(group.shape) if size >= k]
        fixed[number] = dims[0] if dims else None
    return fixed


def spartan(coarse: Coarse, workers: int) -> list[SearchStep]:
    """Split the largest tensor in the way that is cheapest for its operators, then the next largest."""
    return search(coarse, [workers], Policy(assign=_largest_first))


def _largest_first(step: StepSearch) -> list[int]:
    tables = step.tables()
    scopes_of: dict[int, list[tuple[int, ...]]] = {}
    for scope in tables:
        for v in scope:
            scopes_of.setdefault(v, []).append(scope)
    size = [len(g.nodes) * math.prod(g.shape) for g in step.coarse.tensors]
    values: dict[int, int] = {}
    for v in sorted(range(len(size)), key=lambda i: -size[i]):
        cost = np.zeros(len(step.domains[v]))
        for scope in scopes_of.get(v, ()):
            table = tables[scope][tuple(values.get(u, slice(None)) for u in scope)]
            free = [u for u in scope if u not in values]
            cost += table.min(axis=tuple(i for i, u in enumerate(free) if u != v))
        values[v] = int(np.argmin(cost))
    return [values[v] for v in range(len(size))]


def equal_chop(coarse: Coarse, workers: int) -> list[SearchStep]:
    """Split each tensor along one dimension into as many parts as there are workers, as well as that can be done."""
    return search(coarse, [workers])


def icml18(coarse: Coarse, workers: int) -> list[SearchStep]:
    """Search without strategies that reduce outputs (Jia et al., ICML 2018)."""

    def concatenating(_: OperatorGroup, ways: list[OperatorStrategy]) -> list[OperatorStrategy]:
        return [w for w in ways if w.strategy is None or {*w.strategy.combine} <= {"concat"}] or ways

    return search(coarse, factors(workers), Policy(choose=concatenating))


def data_parallel(coarse: Coarse, workers: int) -> list[SearchStep]:
    """Replicate parameters and the optimizer's state; split the batch; all-reduce gradients."""
    fixed = _by_batch(coarse) | dict.fromkeys(_weights(coarse))
    return search(coarse, [workers], Policy(whole=True, fixed=fixed))


def fsdp(coarse: Coarse, workers: int) -> list[SearchStep]:
    """Split parameters along their first dimension and gather them for each use; split the batch; scatter gradients."""
    by_rows = _first_dims(coarse, workers)
    plan = data_parallel(coarse, workers)[0]
    numbers = {id(group): number for number, group in enumerate(coarse.operators)}
    weights = _weights(coarse)
    captured = coarse.captured
    split = {coarse.group_of[n] for n in (*captured.parameters.values(), *captured.state.values())}
    fixed = {v: p for v, p in enumerate(plan.placements) if v not in weights} | {v: by_rows[v] for v in split}

    def same(group: OperatorGroup, ways: list[OperatorStrategy]) -> list[OperatorStrategy]:
        if not group.call.heavy and not weights.isdisjoint((*group.inputs, *group.outputs)):
            return ways
        previous = plan.ways[numbers[id(group)]]
        return [way for way in ways if way.number == previous.number] or ways

    return search(coarse, [workers], Policy(whole=True, fixed=fixed, choose=same))


def _weights(coarse: Coarse) -> set[int]:
    """Return the groups of parameters, their gradients and the optimizer's state, and of views of them."""
    captured = coarse.captured
    groups = {coarse.group_of[n] for n in (*captured.parameters.values(), *captured.state.values())}
    for group in coarse.operators:
        if getattr(group.call.target, "is_view", False) and group.inputs[0] in groups:
            groups.update(v for v in group.outputs if v >= 0)
    return groups


def _by_batch(coarse: Coarse) -> dict[int, SplitDim]:
    """Return the dimensions of the examples, followed from the first one of the inputs through the operators."""
    captured = coarse.captured
    dims: dict[int, SplitDim] = {coarse.group_of[node]: 0 for node in captured.data}
    weights = _weights(coarse)
    for group in coarse.operators:
        strategy = _along(group, dims)
        if strategy is not None:
            split: dict[int, SplitDim] = {
                v: d for v, d in _output_dims(group, strategy).items() if v not in weights and d is not None
            }
            dims = split | dims
    return dims | {coarse.group_of[node]: None for node in captured.buffers.values()}


def _along(group: OperatorGroup, dims: Mapping[int, SplitDim]) -> Strategy | None:
    """Return the strategy that cuts the inputs of an operator as they are cut, if any is."""
    cuts = [(i, dims[v]) for i, v in enumerate(group.inputs) if dims.get(v) is not None]
    strategies = group.call.strategies if cuts else ()
    return next((s for s in strategies if all(_cut_dim(s.inputs[i]) == d for i, d in cuts)), None)


def _output_dims(group: OperatorGroup, strategy: Strategy) -> dict[int, SplitDim]:
    """Return the dimension along which a strategy makes each output, None where it makes all of it or partial sums."""
    regions = zip(group.outputs, strategy.outputs, strategy.combine, strict=True)
    return {v: _cut_dim(region) if combine == "concat" else None for v, region, combine in regions if v >= 0}


def _cut_dim(region: Region) -> int | None:
    return next((d for d, span in enumerate(region) if span is not None), None)


def megatron(coarse: Coarse, workers: int) -> list[SearchStep]:
    """Split products with weights by columns where their input is whole, and by rows where it is split (Shoeybi, 2019).

    From the inputs on, which are whole, operators are followed: what a product makes by columns is split in the
    operators after it, until one is by rows, whose partial sums are added up, or cannot be split so. Embeddings are
    split by columns and gathered.
    """
    weights = _weights(coarse)
    fixed: dict[int, SplitDim] = {coarse.group_of[node]: None for node in coarse.captured.data}
    dims = dict(fixed)
    for group in coarse.operators:
        if group.nodes[0].meta["phase"] == "forward" and not weights.issuperset(group.inputs):
            strategy = _along(group, dims) or _by_columns(group, weights, workers)
            for i, v in enumerate(group.inputs):
                if v in weights:
                    rank = len(coarse.tensors[v].shape)
                    fixed.setdefault(v, _cut_dim(strategy.inputs[i]) if strategy else rank - 1 if rank > 1 else None)
            output_dims = _output_dims(group, strategy) if strategy else dict.fromkeys(group.outputs)
            dims = output_dims | dims
    for group in reversed(coarse.operators):  # views of weights
        if weights.issuperset(group.inputs) and group.outputs[0] in fixed:
            cut = fixed[group.outputs[0]]
            same = [s for s in group.call.strategies if cut is not None and _cut_dim(s.outputs[0]) == cut]
            fixed.setdefault(group.inputs[0], _cut_dim(same[0].inputs[0]) if same else None)
    return search(coarse, [workers], Policy(replicate=True, fixed=fixed, weight=1e-6))


def _by_columns(group: OperatorGroup, weights: Collection[int], workers: int) -> Strategy | None:
    """Return the strategy of a product that cuts weights and the output, but no other input."""
    for s in group.call.strategies if group.call.heavy else ():
        cut = {v for v, region in zip(group.inputs, s.inputs, strict=True) if _cut_dim(region) is not None}
        if s.extent >= workers and cut and cut <= {*weights} and {*s.combine} == {"concat"}:
            return s
    return None


BASELINES: dict[str, Callable[[Coarse, int], list[SearchStep]]] = {
    "AllRow-Greedy": all_row_greedy,
    "Spartan": spartan,
    "EqualChop": equal_chop,
    "ICML18": icml18,
    "data parallel": data_parallel,
    "FSDP": fsdp,
    "Megatron": megatron,
}
