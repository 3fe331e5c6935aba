"""The communication of an operator's strategies in one step of the recursion, given how its tensors are split.

A step splits each tensor over ``k`` groups of workers: along one dimension, or not at all (*replicated*). An operator
fetches what it needs of an input beyond what its worker holds. What it makes is sent to the workers that hold it;
partial outputs are reduced and scattered, which is all-reduced where the output is replicated. `traffic` counts what
execution will send, from the same rows; a step costs what all workers receive more than they did before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .coarsen import CallSignature, TensorShape
from .layout import nests
from .library.graph import Neighbors
from .strategy import Combine, Region, Strategy
from .traffic import IndexCut, fetched, put

PlacesOfTensors = tuple[tuple[int, ...], ...]
"""For each input and output the dimensions along which it is split, step by step; -1 where it is not."""


@dataclass(frozen=True, eq=False)
class OperatorStrategy:
    """One way to run an operator over ``k`` groups, and its costs.

    Attributes
    ----------
    strategy : Strategy or None
        None if every group does all of it.
    number : int
        Its place among the operator's strategies; -1 for None.
    inputs, outputs : tuple of arrays
        Bytes that all workers receive more than before the step, for each tensor by the dimension along which it is
        split, and last if it is replicated.
    """

    strategy: Strategy | None
    number: int
    inputs: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]

    def price(self, placements: Sequence[int]) -> float:
        """Return the bytes where tensors are split as ``placements`` says; -1 is a tensor that nothing reads."""
        costs = (*self.inputs, *self.outputs)
        return sum(float(v[p]) for v, p in zip(costs, placements, strict=True) if p >= 0)


class LocalOperator:
    """An operator after some steps: how it and its tensors have been split, and what a further step costs.

    Attributes
    ----------
    extents : tuple of int
        How many values of each strategy's index a worker has.
    inputs, outputs : tuple of shapes
        Of what a worker's part has to do with.
    """

    def __init__(self, call: CallSignature) -> None:
        self.call = call
        self.extents = tuple(s.extent for s in call.strategies)
        self.inputs, self.outputs = call.inputs, call.outputs
        self._ks: tuple[int, ...] = ()
        self._numbers: tuple[int, ...] = ()
        self._places: PlacesOfTensors = ((),) * (len(call.inputs) + len(call.outputs))
        self._spent = (0.0,) * len(self._places)
        self._ways: dict[tuple[int, bool], list[OperatorStrategy]] = {}
        self._next: dict[tuple[int, ...], LocalOperator] = {}

    def ways(self, k: int, light_whole: bool = False) -> list[OperatorStrategy]:
        """Return the ways to split it over ``k`` groups, those that can be run with the strategies of former steps.

        Doing all of it in every group is among them if nothing else is, and, with ``light_whole``, if it is not heavy.
        """
        key = (k, light_whole)
        if key not in self._ways:
            call = self.call
            before = [call.strategies[n] for n in self._numbers if n >= 0]
            ways = [
                self._way(n, k)
                for n, s in enumerate(call.strategies)
                if self.extents[n] >= k and nests(call.target, [*before, s])
            ]
            if not ways or (light_whole and not call.heavy):
                ways.append(self._way(-1, k))
            self._ways[key] = ways
        return self._ways[key]

    def after(self, way: OperatorStrategy, k: int, placements: Sequence[int]) -> LocalOperator:
        """Return what is left after a step, in which its inputs and outputs have been split as ``placements`` says."""
        key = (way.number, k, *placements)
        if key not in self._next:
            self._next[key] = self._after(way, k, placements)
        return self._next[key]

    def _after(self, way: OperatorStrategy, k: int, placements: Sequence[int]) -> LocalOperator:
        call = self.call
        new = LocalOperator(call)
        new._ks, new._numbers = (*self._ks, k), (*self._numbers, way.number)
        ranks = [len(shape) for shape in (*call.inputs, *call.outputs)]
        steps = [-1 if p == rank else p for p, rank in zip(placements, ranks, strict=True)]
        new._places = tuple((*before, p) for before, p in zip(self._places, steps, strict=True))
        costs = (*way.inputs, *way.outputs)
        new._spent = tuple(old + v[p] for old, v, p in zip(self._spent, costs, placements, strict=True))
        new.extents, new.inputs, new.outputs = self.extents, self.inputs, self.outputs
        if way.strategy is not None:
            s, extent = way.strategy, self.extents[way.number]
            new.extents = tuple(
                -(-e // k) if other.index == s.index else e
                for other, e in zip(call.strategies, self.extents, strict=True)
            )
            new.inputs = tuple(_shrunk(r, n, extent, k) for r, n in zip(s.inputs, self.inputs, strict=True))
            new.outputs = tuple(_shrunk(r, n, extent, k) for r, n in zip(s.outputs, self.outputs, strict=True))
        return new

    def _way(self, number: int, k: int) -> OperatorStrategy:
        call, ks, count = self.call, (*self._ks, k), len(self.inputs)
        strategies = [None if n < 0 else call.strategies[n] for n in (*self._numbers, number)]
        fetch = tuple(
            fetched(index_cuts(strategies, "inputs", i), call.inputs[i], ks, self._places[i]) * size - self._spent[i]
            for i, size in enumerate(call.input_sizes)
        )
        places, spent = self._places[count:], self._spent[count:]
        sent = tuple(
            put(index_cuts(strategies, "outputs", i), call.outputs[i], ks, places[i]) * size - spent[i]
            for i, size in enumerate(call.output_sizes)
        )
        return OperatorStrategy(strategies[-1], number, fetch, sent)


def index_cuts(strategies: Sequence[Strategy | None], side: str, i: int) -> tuple[IndexCut | None, ...]:
    """Return what each step's strategy says of one input or output, the ``i``-th of ``side``."""
    cuts: list[IndexCut | None] = []
    for s in strategies:
        combine: Combine = s.combine[i] if s and side == "outputs" else "concat"
        cuts.append(IndexCut(s.index, s.extent, getattr(s, side)[i], combine) if s else None)
    return tuple(cuts)


def _shrunk(region: Region, shape: TensorShape, extent: int, k: int) -> TensorShape:
    """Return the shape of one group's part, without the halo."""
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
