"""Known ways to partition a training step, for comparison. All use the same cost function.

Each takes the coarsened step and the number of workers, and returns the decisions of each step as `search` does.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .coarsen import Coarse, OperatorGroup
from .cost import OperatorStrategy
from .search import Policy, SearchStep, SplitDim, StepSearch, factors, search
from .strategy import Region

COLUMNS = ("q_proj", "k_proj", "v_proj", "qkv", "gate_proj", "up_proj", "in_proj", "fc1", "c_attn", "c_fc", "linear1")
ROWS = ("o_proj", "out_proj", "down_proj", "fc2", "c_proj", "linear2")
VOCABULARY = ("embed", "lm_head", "wte", "head")


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
        for strategy in group.call.strategies:
            cuts = [_cut_dim(region) for region in strategy.inputs]
            matches = [(dims[v], cut) for v, cut in zip(group.inputs, cuts, strict=True) if v in dims]
            if matches and all(dim == cut for dim, cut in matches):
                for v, region, combine in zip(group.outputs, strategy.outputs, strategy.combine, strict=True):
                    if v >= 0 and v not in weights and combine == "concat" and _cut_dim(region) is not None:
                        dims.setdefault(v, _cut_dim(region))
                break
    return dims | {coarse.group_of[node]: None for node in captured.buffers.values()}


def _cut_dim(region: Region) -> int | None:
    return next((d for d, span in enumerate(region) if span is not None), None)


def megatron(coarse: Coarse, workers: int) -> list[SearchStep]:
    """Split a transformer's first products by columns and the second by rows, embeddings by the vocabulary.

    Layers are recognised by the usual names (``q_proj``, ``o_proj``, ``up_proj``, ``down_proj``, ``fc1``, ...). Norms,
    and what flows between blocks, are replicated.
    """
    fixed: dict[int, SplitDim] = {}
    for name, node in coarse.captured.parameters.items():
        group = coarse.group_of[node]
        matrix = node.meta["val"].dim() == 2
        if any(word in name for word in COLUMNS) or (matrix and any(word in name for word in VOCABULARY)):
            fixed[group] = 0
        elif matrix and any(word in name for word in ROWS):
            fixed[group] = 1
        else:
            fixed[group] = None
    for node in coarse.captured.data:
        fixed[coarse.group_of[node]] = None
    return search(coarse, [workers], Policy(replicate=True, fixed=fixed, weight=1e-6))


BASELINES: dict[str, Callable[[Coarse, int], list[SearchStep]]] = {
    "AllRow-Greedy": all_row_greedy,
    "Spartan": spartan,
    "EqualChop": equal_chop,
    "ICML18": icml18,
    "data parallel": data_parallel,
    "FSDP": fsdp,
}
"""Those that apply to any module."""
