"""What a strategy of an operator communicates in one step of the recursion, by how its tensors are split.

A step splits each tensor over ``k`` groups of workers: along one dimension, or not at all (*replicated*). An operator
fetches what it needs of an input beyond what its group holds. What it makes is sent to the groups that hold it; partial
outputs are reduced and scattered, which is all-reduced where the output is replicated. All numbers are bytes received,
summed over the ``k`` groups.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .coarsen import CallSignature, TensorShape
from .library.graph import Neighbors
from .strategy import Region, RowSpan, Strategy

__all__ = ["LocalOperator", "Way", "bounds"]


def bounds(extent: int, k: int) -> list[tuple[int, int]]:
    """Return the ``k`` parts of ``range(extent)``, as even as can be."""
    return [(j * extent // k, (j + 1) * extent // k) for j in range(k)]


@dataclass(frozen=True, eq=False)
class Way:
    """One way to run an operator over ``k`` groups, and its costs.

    Attributes
    ----------
    strategy : Strategy or None
        None if every group does all of it.
    number : int
        Its place among the operator's strategies; -1 for None.
    inputs, outputs : tuple of arrays
        Bytes for each tensor by the dimension along which it is split, and last if it is replicated.
    """

    strategy: Strategy | None
    number: int
    inputs: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]

    def fetched(self, placements: Sequence[int]) -> float:
        """Return the bytes fetched of inputs that are split as ``placements`` says."""
        return sum(float(v[p]) for v, p in zip(self.inputs, placements, strict=True))


class LocalOperator:
    """An operator as one group of workers sees it after some steps: its shapes, and what a further step costs."""

    def __init__(
        self,
        call: CallSignature,
        extents: tuple[int, ...],
        inputs: tuple[TensorShape, ...],
        outputs: tuple[TensorShape, ...],
    ):
        self.call, self.extents, self.inputs, self.outputs = call, extents, inputs, outputs
        self._ways: dict[tuple[int, bool], list[Way]] = {}
        self._next: dict[tuple[int, int], LocalOperator] = {}

    @classmethod
    def whole(cls, call: CallSignature) -> LocalOperator:
        """Return the operator before the first step."""
        return cls(call, tuple(s.extent for s in call.strategies), call.inputs, call.outputs)

    def ways(self, k: int, light_whole: bool = False) -> list[Way]:
        """Return the ways to split it over ``k`` groups.

        Doing all of it in every group is among them if nothing else is, and, with ``light_whole``, if it is not heavy.
        """
        key = (k, light_whole)
        if key not in self._ways:
            found = [self._way(n, k) for n, s in enumerate(self.call.strategies) if self.extents[n] >= k]
            if not found or (light_whole and not self.call.heavy):
                found.append(self._whole_way(k))
            self._ways[key] = found
        return self._ways[key]

    def after(self, number: int, k: int) -> LocalOperator:
        """Return what one group has to do after a step with strategy ``number``."""
        if number < 0:
            return self
        if (number, k) not in self._next:
            strategy, extent = self.call.strategies[number], self.extents[number]
            extents = tuple(
                -(-e // k) if s.index == strategy.index else e
                for s, e in zip(self.call.strategies, self.extents, strict=True)
            )
            inputs = tuple(_shrunk(r, shape, extent, k) for r, shape in zip(strategy.inputs, self.inputs, strict=True))
            outputs = tuple(
                _shrunk(r, shape, extent, k) for r, shape in zip(strategy.outputs, self.outputs, strict=True)
            )
            self._next[number, k] = LocalOperator(self.call, extents, inputs, outputs)
        return self._next[number, k]

    def _way(self, number: int, k: int) -> Way:
        strategy, extent, call = self.call.strategies[number], self.extents[number], self.call
        fetch = tuple(
            _fetched(region, shape, extent, k) * size
            for region, shape, size in zip(strategy.inputs, self.inputs, call.input_sizes, strict=True)
        )
        put = tuple(
            (_made if combine == "concat" else _reduced)(region, shape, extent, k) * size
            for combine, region, shape, size in zip(
                strategy.combine, strategy.outputs, self.outputs, call.output_sizes, strict=True
            )
        )
        return Way(strategy, number, fetch, put)

    def _whole_way(self, k: int) -> Way:
        fetch = [
            np.array([(k - 1) * math.prod(shape) * size] * len(shape) + [0.0])
            for shape, size in zip(self.inputs, self.call.input_sizes, strict=True)
        ]
        return Way(None, -1, tuple(fetch), tuple(np.zeros(len(shape) + 1) for shape in self.outputs))


def _rows(span: RowSpan | None, lo: int, hi: int, size: int, held: tuple[int, int]) -> tuple[int, int]:
    """Return how many rows of a dimension the part ``[lo, hi)`` has to do with, and how many of them are held."""
    if span is None:
        return size, held[1] - held[0]
    if isinstance(span, Neighbors):
        return _neighbors(span, lo, hi, size, held)
    first, last = span.rows(lo, hi, size)
    return last - first, max(min(last, held[1]) - max(first, held[0]), 0)


def _neighbors(span: Neighbors, lo: int, hi: int, size: int, held: tuple[int, int]) -> tuple[int, int]:
    """Count rows of a graph: exactly in the first step, and as if they were spread evenly in those after it."""
    ids = span.ids(lo, hi)
    if not size or len(ids) == 0 or ids[-1] < size:
        return len(ids), int(np.searchsorted(ids, held[1]) - np.searchsorted(ids, held[0]))
    return min(len(ids), size), min(len(ids), size) * (held[1] - held[0]) // size


@lru_cache(maxsize=100_000)
def _fetched(region: Region, shape: TensorShape, extent: int, k: int) -> np.ndarray:
    """Return the elements that are needed beyond those held, by the dimension along which the tensor is split."""
    total = np.zeros(len(shape) + 1)
    for j, (lo, hi) in enumerate(bounds(extent, k)):
        rows = [_rows(span, lo, hi, n, bounds(n, k)[j]) for span, n in zip(region, shape, strict=True)]
        volume = math.prod(count for count, _ in rows)
        for d, (count, common) in enumerate(rows):
            total[d] += volume - (volume // count * common if count else 0)
    return total


@lru_cache(maxsize=100_000)
def _made(region: Region, shape: TensorShape, extent: int, k: int) -> np.ndarray:
    """Return the elements that groups are to hold and have not made."""
    total = np.zeros(len(shape) + 1)
    volume = math.prod(shape)
    for j, (lo, hi) in enumerate(bounds(extent, k)):
        rows = [_rows(span, lo, hi, n, bounds(n, k)[j]) for span, n in zip(region, shape, strict=True)]
        made = math.prod(count for count, _ in rows)
        total[-1] += volume - made
        for d, (count, common) in enumerate(rows):
            first, last = bounds(shape[d], k)[j]
            held = volume // shape[d] * (last - first) if shape[d] else 0
            total[d] += held - (made // count * common if count else 0)
    return total


@lru_cache(maxsize=100_000)
def _reduced(region: Region, shape: TensorShape, extent: int, k: int) -> np.ndarray:
    """Return the elements that a reduction sends: each to one group, or to all and back."""
    total = np.full(len(shape) + 1, float((k - 1) * math.prod(shape)))
    total[-1] *= 2
    return total


@lru_cache(maxsize=100_000)
def _shrunk(region: Region, shape: TensorShape, extent: int, k: int) -> TensorShape:
    """Return the shape of one group's part, without the halo, which each step fetches anew."""
    sizes = []
    for span, size in zip(region, shape, strict=True):
        if span is None:
            sizes.append(size)
            continue
        lo, hi = 0, -(-extent // k)
        rows = (span.stop[1] - span.start[1]) * hi
        if rows <= 0 or isinstance(span, Neighbors):
            rows = span.count(lo, hi, size)
        sizes.append(max(1, min(size, math.ceil(rows))))
    return tuple(sizes)
