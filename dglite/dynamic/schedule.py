"""All classes of one direction as one schedule: what is kept from call to call, and what each call fills in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..kernels import compiled
from .layout import NOTHING, WORDS, StageTable
from .order import Order
from .recipe import Heavy

__all__ = ["Lines", "Template"]

Own = Callable[[int, int, bool], None]
"""Runs a stage without kernels: (first row, last row, whether it adds to a gradient that has been begun)."""


@dataclass
class Lines:
    """A schedule for one graph: its lines, which of them are not kernels, and the work in one.

    ``touched`` tells of each shared tensor what adds to its gradient: 0 nothing, 2 kernels among others, else 1.
    """

    lines: np.ndarray
    own: np.ndarray
    touched: list[int]
    work: int


class Template:
    """The stages of several classes, and the words of their kernels up to addresses.

    ``sources`` are what a call has to find the addresses of, ``own`` the stages that may have to run without kernels,
    each with its class.
    """

    def __init__(self, layouts: Mapping[int, StageTable], backward: bool, num_shared: int) -> None:
        """Put the classes' words and stages one after the other."""
        kernels = compiled("schedule")
        known: dict[Any, int] = {NOTHING: 0, WORDS: 1}
        indices, constants, stages, bounds = list[np.ndarray](), list[np.ndarray](), list[np.ndarray](), [0]
        self.own: list[tuple[int, Heavy]] = []
        words = 0
        for c, layout in layouts.items():
            numbers = np.array([known.setdefault(source, len(known)) for source in layout.sources], np.int64)
            indices.append(numbers[layout.indices])
            constants.append(layout.constants + 8 * words * (layout.indices == layout.sources[WORDS]))
            rows = layout.stages.copy()
            rows[:, kernels.START] += words * (rows[:, kernels.START] >= 0)
            rows[:, kernels.OWN] += len(self.own) * (rows[:, kernels.OWN] >= 0)
            stages.append(rows)
            bounds += [bounds[-1] + at for at in layout.bounds[1:]]
            self.own += [(c, stage) for stage in layout.own]
            words += len(layout.constants)
        self.sources, self._backward, self._num_shared = list(known), backward, num_shared
        self._indices, self._constants = np.concatenate(indices), np.concatenate(constants)
        self._stages, self._bounds = np.concatenate(stages), np.array(bounds, np.int64)
        self._classes = np.array(list(layouts), np.int64)

    def lines(self, order: Order) -> Lines:
        """Return the schedule for a graph."""
        lines, own, touched, work = compiled("schedule").arrange(
            self._stages,
            self._bounds,
            self._classes,
            order.classes,
            order.class_bounds,
            order.segments,
            order.segment_edges,
            self._backward,
            self._num_shared,
        )
        return Lines(lines, own, touched.tolist(), work)

    def words(self, addresses: Sequence[int], threads: int) -> np.ndarray:
        """Return the words of each thread, (threads, words), given the address of each source but for the words."""
        made = np.empty((threads, len(self._constants)), np.int64)
        bases = np.array(addresses, np.int64)
        at, size = made.ctypes.data, made.strides[0]
        for thread in range(threads):
            bases[1] = at + thread * size
            np.add(bases[self._indices], self._constants, out=made[thread])
        return made

    def run(self, schedule: Lines, words: np.ndarray, run_of: Callable[[int, Heavy], Own]) -> None:
        """Go through the lines; ``run_of`` returns what runs a stage of a class without kernels."""
        kernels = compiled("schedule")
        done, bound = 0, dict[int, Own]()
        for at in schedule.own.tolist():
            if at > done:
                kernels.run_lines(words, schedule.lines, done, at)
            _, first, last, adds, number = schedule.lines[at].tolist()
            if number not in bound:
                bound[number] = run_of(*self.own[number])
            bound[number](first, last, bool(adds))
            done = at + 1
        if done < len(schedule.lines):
            kernels.run_lines(words, schedule.lines, done, len(schedule.lines))
