"""Which slice of each tensor a worker holds, and which part of each operator it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import DGLError
from .library.graph import Neighbors
from .slices import TensorSlice
from .strategy import Region, Strategy


class Layout:
    """Which slice of each tensor a worker holds, and which part of each operator it has.

    Parameters
    ----------
    steps : sequence of int
        Into how many groups each step of the recursion splits a group of workers.
    """

    def __init__(self, steps: Sequence[int]) -> None:
        self.steps = tuple(steps)
        self.workers = 1
        for k in steps:
            self.workers *= k
        self.digits = [self._digits(w) for w in range(self.workers)]

    def _digits(self, worker: int) -> tuple[int, ...]:
        digits = []
        for k in reversed(self.steps):
            digits.append(worker % k)
            worker //= k
        return tuple(reversed(digits))

    def tile(self, shape: Sequence[int], placement: Sequence[int | None], worker: int) -> TensorSlice:
        """Return the slice of a tensor of ``shape`` that a worker holds."""
        rows = [(0, int(n)) for n in shape]
        for k, d, j in zip(self.steps, placement, self.digits[worker], strict=True):
            if d is not None:
                rows[d] = _cut(rows[d], k, j)
        return tuple(rows)

    def cuts(self, strategies: Sequence[Strategy | None], worker: int) -> tuple[SliceAxis, ...]:
        """Return the part of an operator that a worker has: a range for each index that is split."""
        axes: dict[str, SliceAxis] = {}
        for k, strategy, j in zip(self.steps, strategies, self.digits[worker], strict=True):
            if strategy is not None:
                before = axes.get(strategy.index, SliceAxis(strategy, 0, strategy.extent))
                axes[strategy.index] = SliceAxis(before.strategy, *_cut((before.lo, before.hi), k, j))
        return tuple(axes.values())

    def distance(self, source: int, target: int) -> tuple[int, int]:
        """Return a key that is least for the source with the fastest link, spread over sources of one speed."""
        a, b = self.digits[source], self.digits[target]
        shared = next((i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y), len(a))
        return -shared, (source - target) % self.workers


@dataclass(frozen=True)
class SliceAxis:
    """The part ``[lo, hi)`` of a strategy's index."""

    strategy: Strategy
    lo: int
    hi: int


def _cut(rows: tuple[int, int], k: int, j: int) -> tuple[int, int]:
    lo, n = rows[0], rows[1] - rows[0]
    return lo + j * n // k, lo + (j + 1) * n // k


def slice_of_regions(cuts: Sequence[tuple[Region, int, int]], shape: Sequence[int], name: str) -> TensorSlice:
    """Return the slice of a tensor that several cuts leave; no two may cut one dimension."""
    spans: list[Any] = [None] * len(shape)
    for region, lo, hi in cuts:
        for d, span in enumerate(region):
            if span is None:
                continue
            if spans[d] is not None:
                raise DGLError(f"{name} is split by two indices that share a dimension, which cannot be run")
            spans[d] = span.ids(lo, hi) if isinstance(span, Neighbors) else span.rows(lo, hi, shape[d])
    return tuple((0, int(n)) if rows is None else rows for rows, n in zip(spans, shape, strict=True))


def nests(target: Any, strategies: Sequence[Strategy]) -> bool:
    """Return whether an operator can be run split by all of these strategies at once.

    Two indices may not share a dimension, nor reduce an output in two ways. By rows of windows, the paddings of a part
    of a part would replace those of the part; by destinations and edges, its graph would.
    """
    by_index = {s.index: s for s in strategies}
    if len(by_index) < 2:
        return True
    for regions in zip(*((*s.inputs, *s.outputs) for s in by_index.values()), strict=True):
        if any(sum(span is not None for span in spans) > 1 for spans in zip(*regions, strict=True)):
            return False
    kinds = zip(*(s.combine for s in by_index.values()), strict=True)
    if any(len({*kind} - {"concat"}) > 1 for kind in kinds):
        return False
    name = str(target)
    if "pad" in name or ("dglite" in name and {"v", "e"} <= by_index.keys()):
        return False
    return not (("conv" in name or "pool" in name) and any(index.startswith("x") for index in by_index))
