"""A lower bound of the bytes that any plan communicates, over all steps of the recursion at once.

The search decides step by step, each exactly. Here all steps are one decision: a variable is into how many parts each
dimension of a tensor is cut in the end, or each index of an operator. Which steps do so is left out. What a worker
needs of an operand and holds of it overlap most where both are cut by the same steps, so an operator receives at least
what it would then. The least sum of these costs is bounded from below by `elimination.lower_bound`.

It is a bound for the same groups of tensors and operators as the search (`coarsen`), in all recursions, before
operators share what they have fetched (`keeping`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np
from torch.fx import Node

from .coarsen import CallSignature, Coarse, TensorShape
from .elimination import Scope, undominated
from .joint import solve_tables
from .layout import nests
from .memory import lifetimes
from .slices import SMALL
from .strategy import PLAIN, RowSpan, Strategy

PartCounts = tuple[int, ...]
"""Into how many parts each dimension or index is cut, and last how many workers have the same part."""


PRICES = [4.0**power for power in range(-10, 3)]
"""What a byte of memory is tried to cost in each worker, in bytes sent."""


def least_bytes(coarse: Coarse, workers: int, memory: float | None = None, limit: int = 1 << 18) -> float:
    """Return a number of bytes that no plan of the training step sends less than; see the module's first lines.

    With ``memory`` tensors may be replicated. What workers then hold more than it, at the time when most tensors are
    alive, is added to the bytes at some price: no price gives more than the least bytes of a plan that fits.

    Parameters
    ----------
    coarse : Coarse
    workers : int
    memory : float, optional
        Bytes that a worker may hold.
    limit : int
        Entries of the largest table. The bound is the least of the module's problem where no larger one is needed.
    """
    relaxed = _RelaxedCosts(coarse, workers, memory is not None)
    if memory is None:
        return relaxed.bound({}, limit)
    alive, least = _most_alive(coarse), 0.0
    low, high = 0, len(PRICES) - 1
    while low <= high:  # bounds rise with the price, then fall
        middle = (low + high) // 2
        pair = [relaxed.priced(alive, memory, price, limit) for price in PRICES[middle : middle + 2]]
        least = max(least, *pair)
        low, high = (middle + 1, high) if pair[-1] > pair[0] else (low, middle - 1)
    return least


def _most_alive(coarse: Coarse) -> dict[int, dict[int, int]]:
    """Return the tensors that are in memory when most are: how many of each tensor group and element size."""
    alive = {node for node in coarse.captured.graph.nodes if node.op == "placeholder" and node in coarse.group_of}
    bytes_alive = sum(map(_bytes, alive))
    most, best = bytes_alive, set(alive)
    for _, outputs, dead in lifetimes(coarse):
        freed, new = alive.intersection(dead), set(outputs).difference(dead)
        alive = (alive - freed) | new
        bytes_alive += sum(map(_bytes, new)) - sum(map(_bytes, freed))
        if bytes_alive > most:
            most, best = bytes_alive, set(alive)
    count: dict[int, dict[int, int]] = {}
    for node in best:
        sizes = count.setdefault(coarse.group_of[node], {})
        sizes[node.meta["val"].element_size()] = sizes.get(node.meta["val"].element_size(), 0) + 1
    return count


def _bytes(node: Node) -> int:
    return int(node.meta["val"].numel() * node.meta["val"].element_size())


class _RelaxedCosts:
    """The least costs of operators by the cuts of their tensors and of their indices."""

    def __init__(self, coarse: Coarse, workers: int, replicate: bool) -> None:
        self.coarse, self.workers, self.replicate = coarse, workers, replicate
        self._cuts: dict[TensorShape, list[PartCounts]] = {}
        self._costs: dict[CallSignature, list[np.ndarray]] = {}

    def bound(self, tables: dict[Scope, np.ndarray], limit: int) -> float:
        """Return the least costs, with further tables of tensor groups."""
        return solve_tables(self.coarse, self.tensor_cuts, self.costs, tables, limit)[0]

    def priced(self, alive: dict[int, dict[int, int]], memory: float, price: float, limit: int) -> float:
        """Return the least costs with a price of what workers hold of tensors, beyond a memory."""
        price *= self.workers
        tables: dict[Scope, np.ndarray] = {
            (v,): self._largest_parts(self.coarse.tensors[v].shape).prod(axis=1)
            * price
            * sum(s * n for s, n in sizes.items())
            for v, sizes in alive.items()
        }
        return self.bound(tables, limit) - price * memory

    def tensor_cuts(self, shape: TensorShape) -> list[PartCounts]:
        """Return the cuts that a tensor may have; what could be cut further is, unless it may be replicated."""
        if shape not in self._cuts:
            self._cuts[shape] = [
                cuts
                for cuts in factorizations(self.workers, shape)
                if self.replicate
                or cuts[-1] == 1
                or all(-(-n // c) < cuts[-1] for n, c in zip(shape, cuts, strict=False))
            ]
        return self._cuts[shape]

    def costs(self, call: CallSignature) -> list[np.ndarray]:
        """Return the bytes for each input and output, (cuts of indices, cuts of it), without cuts that never pay."""
        if call not in self._costs:
            cuts = list(operator_cuts(call, self.workers, self.replicate and not call.heavy))
            costs = [
                self._fetched(call, cuts, i, shape) * size
                for i, (shape, size) in enumerate(zip(call.inputs, call.input_sizes, strict=True))
            ] + [
                self._put(call, cuts, i, shape) * size
                for i, (shape, size) in enumerate(zip(call.outputs, call.output_sizes, strict=True))
            ]
            useful = undominated(np.concatenate(costs, axis=1))
            self._costs[call] = [cost[useful] for cost in costs]
        return self._costs[call]

    def _fetched(self, call: CallSignature, cuts: Sequence[PartCounts], i: int, shape: TensorShape) -> np.ndarray:
        """Return the elements that all workers receive of an input at least: what they need and cannot hold."""
        mean, most = self._rows(call, cuts, shape, lambda s: s.inputs[i])
        return np.maximum(self.workers * (mean.prod(axis=1)[:, None] - self._common(most, shape)), 0.0)

    def _put(self, call: CallSignature, cuts: Sequence[PartCounts], i: int, shape: TensorShape) -> np.ndarray:
        """Return the elements that all workers receive of an output at least: what they hold and cannot make."""
        _, most = self._rows(call, cuts, shape, lambda s: s.outputs[i])
        common = self.workers * self._common(most, shape)
        copies = np.array([c[-1] for c in self.tensor_cuts(shape)], float)
        size = math.prod(shape)
        parts = np.array([
            math.prod(c for c, s in zip(each, call.strategies, strict=False) if s.combine[i] != "concat")
            for each in cuts
        ], float)[:, None]  # fmt: skip
        received = np.maximum(parts * copies * size - common, 0.0)
        if size < SMALL or copies.max() == 1:
            return received
        # copies are made of pieces, each reduced by one of the workers that have the same
        pieces = np.maximum(parts * size - np.minimum(common, size), 0.0) + (copies - 1) * size
        return np.where(parts > 1, np.minimum(received, pieces), received)

    def _common(self, most: np.ndarray, shape: TensorShape) -> np.ndarray:
        """Return the most elements that lie in what a worker has to do with and in what it holds."""
        return np.minimum(most[:, None], self._largest_parts(shape)[None]).prod(axis=2)

    def _largest_parts(self, shape: TensorShape) -> np.ndarray:
        """Return the sizes of the largest part of a tensor, (cuts, dimensions)."""
        cuts = self.tensor_cuts(shape)
        sizes = [[-(-n // c) for n, c in zip(shape, each, strict=False)] for each in cuts]
        return np.array(sizes, float).reshape(len(cuts), len(shape))

    def _rows(
        self,
        call: CallSignature,
        cuts: Sequence[PartCounts],
        shape: TensorShape,
        region: Callable[[Strategy], Sequence],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of each dimension that a part has to do with, in the mean, and at most where parts differ."""
        mean, most = np.tile(np.array(shape, float), (2, len(cuts), 1))
        for number, each in enumerate(cuts):
            for count, strategy in zip(each, call.strategies, strict=False):
                for d, span in enumerate(region(strategy)) if count > 1 else ():
                    if span is not None:
                        mean[number, d], most[number, d] = _span_rows(span, strategy.extent, count, shape[d])
        return mean, most


@lru_cache(maxsize=100_000)
def _span_rows(span: RowSpan, extent: int, count: int, size: int) -> tuple[float, int]:
    """Return how many rows each of ``count`` parts of an index has to do with: in the mean, and the most."""
    if span == PLAIN:
        return size / count, -(-size // count)
    rows = [span.count(j * extent // count, (j + 1) * extent // count, size) for j in range(count)]
    return sum(rows) / count, max(rows)


def operator_cuts(call: CallSignature, workers: int, whole: bool) -> Iterator[PartCounts]:
    """Yield the cuts of an operator's indices that `cost.LocalOperator` allows in some recursion.

    ``whole`` says whether workers may do the same though they could share it.
    """
    for cuts in factorizations(workers, tuple(s.extent for s in call.strategies)):
        used = [s for s, count in zip(call.strategies, cuts, strict=False) if count > 1]
        if not nests(call.target, used):
            continue
        further = [
            s
            for s, count in zip(call.strategies, cuts, strict=False)
            if -(-s.extent // count) >= cuts[-1] and nests(call.target, [*used, s])
        ]
        if whole or cuts[-1] == 1 or not further:
            yield cuts


@lru_cache(maxsize=10_000)
def factorizations(workers: int, extents: tuple[int, ...]) -> list[PartCounts]:
    """Return all ways to write ``workers`` as a product of parts of the extents, and of a rest."""
    if not extents:
        return [(workers,)]
    counts = [c for c in range(1, workers + 1) if workers % c == 0 and _is_reached(extents[0], c)]
    return [(c, *others) for c in counts for others in factorizations(workers // c, extents[1:])]


def _is_reached(extent: int, count: int) -> bool:
    """Return whether some steps cut an extent into ``count`` parts, the largest of which has rows for each step."""
    primes = [p for p in range(2, count + 1) if count % p == 0 and all(p % q for q in range(2, p))]
    return count <= max(extent, 1) or any(
        -(-extent // (count // p)) >= p and _is_reached(extent, count // p) for p in primes
    )
