"""Decide all steps of a recursion at once.

The search decides step by step, each exactly. Here the decisions of all steps are one: a variable is the dimension of
a tensor in the first step, in the second, and so on, or the strategy of an operator in each, and costs are those that
`cost` counts for the whole recursion. `elimination.lower_bound` gives a number that no such plan is below, and
placements with a small sum, mostly the least.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from ..progress import progress
from .coarsen import CallSignature, Coarse, OperatorGroup, TensorShape
from .cost import OperatorStrategy, index_cuts
from .elimination import Scope, lower_bound, undominated
from .layout import nests
from .search import Policy, SearchStep, search, split_dims
from .strategy import Strategy
from .traffic import Cuts, fetched, plain, put

JointPlaces = tuple[int, ...]
"""Of a tensor, the dimension that each step splits; the rank where it is replicated."""

Option = TypeVar("Option")

Sequences = list[tuple[Strategy | None, ...]]
"""Of an operator, the strategy in each step."""


JOINT_STEPS = 3
"""Steps up to which all are decided at once: each multiplies the placements of a tensor by its dimensions."""


def search_jointly(
    coarse: Coarse, ks: Sequence[int], limit: int = 1 << 20, visits: float = math.inf
) -> tuple[float, list[SearchStep]]:
    """Return a number of bytes that no plan in a recursion sends less than, and the steps of one that sends few.

    It is for plans without replication, before operators share what they have fetched (`keeping`).

    Parameters
    ----------
    coarse : Coarse
    ks : sequence of int
        Into how many groups each step splits. A tensor has a placement for each sequence of its dimensions.
    limit : int
        Entries of the largest table.
    visits : float
        How often tables may be changed to bring the bound and the steps together.
    """
    joint = _JointTables(coarse, ks)
    least, placements, numbers = solve_tables(coarse, joint.places, joint.costs, {}, limit, visits)
    ranks = [len(group.shape) for group in coarse.tensors]
    sequences = {
        id(group): joint.sequence(group.call, numbers[i]) for i, group in enumerate(coarse.operators) if i in numbers
    }

    def policy(step: int) -> Policy:
        def choose(group: OperatorGroup, ways: list[OperatorStrategy]) -> list[OperatorStrategy]:
            sequence = sequences.get(id(group))
            return ways if sequence is None else [way for way in ways if way.strategy is sequence[step]]

        dims = [p[step] for p in placements]
        return Policy(fixed={v: None if d == ranks[v] else d for v, d in enumerate(dims)}, choose=choose)

    return least, search(coarse, ks, [policy(step) for step in range(len(ks))])


def solve_tables(
    coarse: Coarse,
    options: Callable[[TensorShape], list[Option]],
    costs: Callable[[CallSignature], list[np.ndarray]],
    tables: dict[Scope, np.ndarray],
    limit: int,
    visits: float = math.inf,
) -> tuple[float, list[Option], dict[int, int]]:
    """Return a number that no choice of an option for each tensor and operator costs less than, and a cheap choice.

    The choice is an option for each tensor group, and the number of one for each operator group that costs anything.

    Parameters
    ----------
    coarse : Coarse
    options : callable
        What may be chosen for a tensor of a shape.
    costs : callable
        Bytes of an operator for each input and output, (its own options, those of the tensor).
    tables : dict of tuple of int to array
        Further costs by the numbers of tensor groups.
    limit : int
        Entries of the largest table.
    visits : float
        See `elimination.lower_bound`.
    """
    sizes = [len(options(group.shape)) for group in coarse.tensors]
    tables = dict(tables)
    variables: dict[int, int] = {}
    groups = progress(enumerate(coarse.operators), "costs of whole recursions", "operator", len(coarse.operators))
    for number, group in groups:
        if group.trivial:
            continue
        each, strategy = costs(group.call), len(sizes)
        variables[number] = strategy
        sizes.append(len(each[0]))
        for v, cost in zip((*group.inputs, *group.outputs), each, strict=True):
            if v >= 0:
                tables[v, strategy] = tables.get((v, strategy), 0.0) + cost.T * len(group.nodes)
    least, values = lower_bound(tables, sizes, limit, visits)
    placed = [options(group.shape)[i] for group, i in zip(coarse.tensors, values, strict=False)]
    return least, placed, {number: values[v] for number, v in variables.items()}


class _JointTables:
    """The costs of operators by the placements of their tensors and their strategies in all steps."""

    def __init__(self, coarse: Coarse, ks: Sequence[int]) -> None:
        self.coarse, self.ks = coarse, tuple(ks)
        self._places: dict[TensorShape, list[JointPlaces]] = {}
        self._costs: dict[CallSignature, list[np.ndarray]] = {}
        self._sequences: dict[CallSignature, Sequences] = {}

    def sequence(self, call: CallSignature, number: int) -> tuple[Strategy | None, ...]:
        """Return the strategies of an operator step by step, by the number of a row of its costs."""
        return self._sequences[call][number]

    def places(self, shape: TensorShape) -> list[JointPlaces]:
        """Return the placements that a tensor may have after all steps."""
        if shape not in self._places:
            partial: list[tuple[JointPlaces, TensorShape]] = [((), shape)]
            for k in self.ks:
                partial = [((*p, d), _cut(s, d, k)) for p, s in partial for d in split_dims(s, k) or [len(shape)]]
            self._places[shape] = [places for places, _ in partial]
        return self._places[shape]

    def costs(self, call: CallSignature) -> list[np.ndarray]:
        """Return the bytes for each input and output, (strategies, placements), without strategies that never pay."""
        if call not in self._costs:
            sequences = strategy_sequences(call, self.ks)
            costs = [
                self._operand(sequences, side, i, shape) * size
                for side, shapes, sizes in (
                    ("inputs", call.inputs, call.input_sizes),
                    ("outputs", call.outputs, call.output_sizes),
                )
                for i, (shape, size) in enumerate(zip(shapes, sizes, strict=True))
            ]
            useful = undominated(np.concatenate(costs, axis=1))
            self._costs[call] = [cost[useful] for cost in costs]
            self._sequences[call] = [sequences[i] for i in useful]
        return self._costs[call]

    def _operand(self, sequences: Sequences, side: str, i: int, shape: TensorShape) -> np.ndarray:
        cuts = [plain(index_cuts(strategies, side, i), self.ks) for strategies in sequences]
        rows = {each: [self._elements(each, side, shape, places) for places in self.places(shape)] for each in {*cuts}}
        return np.array([rows[each] for each in cuts])

    def _elements(self, cuts: Cuts, side: str, shape: TensorShape, places: JointPlaces) -> float:
        first = tuple(-1 if d == len(shape) else d for d in places[:-1])
        count = fetched if side == "inputs" else put
        return float(count(cuts, shape, self.ks, first)[places[-1]])


def strategy_sequences(call: CallSignature, ks: Sequence[int]) -> Sequences:
    """Return the strategies that an operator may have step by step, as `cost.LocalOperator` allows them."""
    extents = {s.index: s.extent for s in call.strategies}
    partial: list[tuple[tuple[Strategy | None, ...], dict[str, int]]] = [((), extents)]
    for k in ks:
        longer = []
        for before, left in partial:
            used = [s for s in before if s is not None]
            ways = [s for s in call.strategies if left[s.index] >= k and nests(call.target, [*used, s])]
            longer += [((*before, s), left | {s.index: -(-left[s.index] // k)}) for s in ways]
            if not ways:
                longer.append(((*before, None), left))
        partial = longer
    return [strategies for strategies, _ in partial]


def _cut(shape: TensorShape, dim: int, k: int) -> TensorShape:
    return shape if dim == len(shape) else (*shape[:dim], -(-shape[dim] // k), *shape[dim + 1 :])
