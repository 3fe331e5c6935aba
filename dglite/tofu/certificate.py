"""A lower bound of the bytes that any plan communicates: over all steps of the recursion at once.

The search decides step by step, each exactly. Here the decisions of all steps are one: a variable is the dimension of
a tensor in the first step, in the second, and so on, or the strategy of an operator in each, and costs are those that
`cost` counts for the whole recursion. The least sum of these tables is bounded from below by `elimination.lower_bound`.

It is a bound for plans without ``memory=``, of the same groups of tensors and operators as the search (`coarsen`), in
the recursions that the search tries, before operators share what they have fetched (`keeping`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..progress import progress
from .coarsen import CallSignature, Coarse, TensorShape
from .cost import index_cuts
from .elimination import Scope, lower_bound
from .layout import nests
from .search import recursions, split_dims
from .strategy import Strategy
from .traffic import Cuts, fetched, plain, put

JointPlaces = tuple[int, ...]
"""Of a tensor, the dimension that each step splits; the rank where it is replicated."""

Sequences = list[tuple[Strategy | None, ...]]
"""Of an operator, the strategy in each step."""


MAX_FACTORS = 3
"""Prime factors of the workers: each multiplies the placements of a tensor by its dimensions."""


def least_bytes(coarse: Coarse, workers: int, limit: int = 1 << 20) -> float:
    """Return a number of bytes that no plan of the training step sends less than; see the module's first lines.

    Parameters
    ----------
    coarse : Coarse
    workers : int
    limit : int
        Entries of the largest table. The bound is exact where no larger one is needed.
    """
    return min(_JointTables(coarse, ks).bound(limit) for ks in recursions(workers))


class _JointTables:
    """The costs of operators by the placements of their tensors and their strategies in all steps."""

    def __init__(self, coarse: Coarse, ks: Sequence[int]) -> None:
        self.coarse, self.ks = coarse, tuple(ks)
        self._places: dict[TensorShape, list[JointPlaces]] = {}
        self._costs: dict[CallSignature, list[np.ndarray]] = {}

    def bound(self, limit: int) -> float:
        sizes = [len(self.places(group.shape)) for group in self.coarse.tensors]
        tables: dict[Scope, np.ndarray] = {}
        groups = self.coarse.operators
        for group in progress(groups, "costs of whole recursions", "operator", len(groups)):
            if group.trivial:
                continue
            costs = self.costs(group.call)
            strategy = len(sizes)
            sizes.append(len(costs[0]))
            for v, cost in zip((*group.inputs, *group.outputs), costs, strict=True):
                if v >= 0:
                    tables[v, strategy] = tables.get((v, strategy), 0.0) + cost.T * len(group.nodes)
        return lower_bound(tables, sizes, limit)

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
            useful = _undominated(np.concatenate(costs, axis=1))
            self._costs[call] = [cost[useful] for cost in costs]
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


def _undominated(costs: np.ndarray) -> np.ndarray:
    """Return the rows that are not at least another one everywhere."""
    left = np.unique(costs, axis=0, return_index=True)[1]
    for row in left.copy():
        others = left[left != row]
        if (costs[others] <= costs[row]).all(axis=1).any():
            left = others
    return left
