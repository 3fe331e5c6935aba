"""Fetched tensors that a worker keeps for later operators that need the same rows.

Products of one layer read the same input, and the backward pass reads weights and inputs that the forward pass has
fetched. Two fetches are equal if the same rows of the same values are needed of them, be it through views: a weight is
read transposed in one pass and as it is in the other. A result is kept from one use to the next where what is then held
fits into the memory; those that save most for what they take, and for how long, come first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.fx import Node

from .coarsen import Coarse
from .cost import index_cuts
from .nodes import VIEWS, operands_of
from .search import SearchStep
from .traffic import plain

aten = torch.ops.aten

Permutation = tuple[int, ...]
Use = tuple[Node, int]
"""An operator, and the number of one of its operands."""


@dataclass(frozen=True)
class KeptFetches:
    """Fetches that are not made because an earlier one has been kept.

    Attributes
    ----------
    first : dict of Use to (Use, Permutation)
        The fetch whose result is used instead, and the permutation of its dimensions that is needed.
    bytes : list of float
        What all workers receive less, by the steps of the recursion.
    by_operator : dict of int to float
        The same by operator groups.
    peak : int
        Bytes that a worker holds at most.
    """

    first: dict[Use, tuple[Use, Permutation]] = field(default_factory=dict)
    bytes: list[float] = field(default_factory=list)
    by_operator: dict[int, float] = field(default_factory=dict)
    peak: int = 0


class _Fetch(NamedTuple):
    number: int
    use: Use
    group: int
    order: Permutation
    received: tuple[float, ...]
    size: int


def share_fetches(coarse: Coarse, steps: Sequence[SearchStep], profile: np.ndarray, memory: float) -> KeptFetches:
    """Return which fetches are kept.

    Parameters
    ----------
    coarse : Coarse
    steps : sequence of SearchStep
    profile : ndarray
        Bytes held while each node of the graph runs, without what is kept; see `memory.memory_profile`.
    memory : float
        Bytes that may be held.
    """
    equal: dict[Any, list[_Fetch]] = {}
    for key, fetch in _fetches(coarse, steps):
        equal.setdefault(key, []).append(fetch)
    gaps: list[tuple[float, _Fetch, _Fetch]] = []
    for uses in equal.values():
        uses.sort(key=lambda fetch: (fetch.number, fetch.use[1]))
        for before, after in itertools.pairwise(uses):
            gaps.append((before.size * (after.number - before.number) / sum(after.received), before, after))
    usage, saved, by_operator = profile.copy(), [0.0] * len(steps), dict[int, float]()
    source: dict[Use, _Fetch] = {}
    for _, before, after in sorted(gaps, key=lambda gap: (gap[0], gap[2].number, gap[2].use[1])):
        span = usage[before.number + 1 : after.number]
        if len(span) and span.max() + before.size > memory:
            continue
        span += before.size
        source[after.use] = before
        saved = [a + b for a, b in zip(saved, after.received, strict=True)]
        by_operator[after.group] = by_operator.get(after.group, 0.0) + sum(after.received)
    return KeptFetches(_firsts(itertools.chain(*equal.values()), source), saved, by_operator, int(usage.max(initial=0)))


def _firsts(fetches: Iterable[_Fetch], source: dict[Use, _Fetch]) -> dict[Use, tuple[Use, Permutation]]:
    firsts: dict[Use, tuple[Use, Permutation]] = {}
    for fetch in fetches:
        first = fetch
        while first.use in source:
            first = source[first.use]
        if first is not fetch:
            firsts[fetch.use] = first.use, tuple(first.order.index(d) for d in fetch.order)
    return firsts


def _fetches(coarse: Coarse, steps: Sequence[SearchStep]) -> Iterator[tuple[Any, _Fetch]]:
    """Yield what is fetched, with a key that is equal where the same rows of the same values are."""
    ks = tuple(step.k for step in steps)
    number = {node: i for i, node in enumerate(coarse.captured.graph.nodes)}
    values: dict[Node, tuple[Any, Permutation]] = {}
    for g, group in enumerate(coarse.operators):
        ways = [step.ways[g] for step in steps]
        placed = [step.placed(group) for step in steps]
        local = steps[-1].after(g, group) if steps else None
        for i in range(len(group.inputs)):
            received = tuple(float(way.inputs[i][p[i]]) for way, p in zip(ways, placed, strict=True))
            if local is None or sum(received) <= 0:
                continue
            cuts = plain(index_cuts([way.strategy for way in ways], "inputs", i), ks)
            names = {name: j for j, name in enumerate(dict.fromkeys(cut.name for cut in cuts if cut))}
            size = math.prod(local.inputs[i]) * group.call.input_sizes[i]
            for node in group.nodes:
                root, order = _value(operands_of(node)[i], values)
                back = [order.index(d) for d in range(len(order))]
                rows = [c and (names[c.name], c.extent, tuple(c.region[d] for d in back)) for c in cuts]
                yield (root, *rows), _Fetch(number[node], (node, i), g, order, received, size)


def _value(node: Node, values: dict[Node, tuple[Any, Permutation]]) -> tuple[Any, Permutation]:
    """Return the node whose values a tensor has up to the order of dimensions, and that order."""
    if node not in values:
        same = tuple(range(node.meta["val"].dim()))
        values[node] = node, same
        if node.target is aten.permute.default:
            root, order = _value(node.args[0], values)  # type: ignore[arg-type]
            values[node] = root, tuple(order[d] for d in node.args[1])  # type: ignore[union-attr, index, misc]
        elif node.target in VIEWS:
            root, order = _value(node.args[0], values)  # type: ignore[arg-type]
            if order == tuple(range(len(order))):
                source = root[0] if isinstance(root, tuple) else root
                shape = tuple(node.meta["val"].shape)
                values[node] = source if shape == tuple(source.meta["val"].shape) else (source, shape), same
            else:
                values[node] = node, same
    return values[node]
