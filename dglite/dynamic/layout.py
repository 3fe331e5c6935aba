"""The words that kernels read, worked out once per plan up to the addresses that differ from call to call.

Every word is a constant, or a constant more than the address of something: a buffer, a state, a parameter, a table of
the graph. A call looks these addresses up, and one addition gives the words of all kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch

from ..kernels import compiled
from ..kernels.render_cell import Rows
from .ir import Domain, Kind, Node
from .recipe import Cell, Heavy, Phase, Place, Plan, Reading

__all__ = ["Chain", "Layout", "SharedSource", "StateSource", "TableSource", "Words"]

_DTYPES = {torch.float32: "float32", torch.float64: "float64"}
_ROW_KINDS = (Kind.SUM, Kind.COLLECT)


@dataclass(frozen=True)
class Chain:
    """Row kernels that run one after the other on the same rows; ``start`` is where their words are."""

    start: int
    domain: Domain
    work: int


@dataclass(frozen=True)
class StateSource:
    """A state of all vertices."""

    state: int


@dataclass(frozen=True)
class SharedSource:
    """A row that all vertices share."""

    index: int


@dataclass(frozen=True)
class TableSource:
    """The table of where parents leave their share of a state's gradient."""

    state: int
    by_slot: bool


class Words:
    """The words of all kernels of a plan in one call."""

    __slots__ = ("address", "array")

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.address = array, array.ctypes.data


class Layout:
    """The stages of a plan, row kernels gathered in chains, and what their words are made from."""

    def __init__(self, plan: Plan, slots: int) -> None:
        self.slots = slots
        self.sources: dict[Any, int] = {"nothing": 0, "words": 1}
        self._index, self._constant = list[int](), list[int]()
        self.stages: dict[Phase, list[Chain | Heavy]] = {
            phase: [self._chain(group) if isinstance(group, list) else group for group in _grouped(stages)]
            for phase, stages in plan.stages.items()
        }
        self._indices, self._constants = np.array(self._index, np.int64), np.array(self._constant, np.int64)

    def words(self, addresses: Sequence[int]) -> Words:
        """Return the words of a call, given the address of each of ``sources``; those of the words are filled in."""
        made = Words(np.empty_like(self._constants))
        bases = np.array(addresses, np.int64)
        bases[1] = made.address
        np.add(bases[self._indices], self._constants, out=made.array)
        return made

    # -- once per plan ------------------------------------------------------------------------------------------
    def _word(self, constant: int, source: Any = "nothing") -> None:
        self._index.append(self.sources.setdefault(source, len(self.sources)))
        self._constant.append(constant)

    def _chain(self, stages: list[Cell | Heavy]) -> Chain:
        """Lay down the words of a chain, then those of its kernels."""
        start = len(self._index)
        for constant in (0, 0, len(stages)):
            self._word(constant)
        for _ in stages:
            self._word(0)
            self._word(0)
        work = 0
        for i, stage in enumerate(stages):
            self._constant[start + 4 + 2 * i], self._index[start + 4 + 2 * i] = 8 * len(self._index), 1
            kernel, width = self._kernel(stage)
            self._constant[start + 3 + 2 * i] = kernel
            work += width
        first = stages[0]
        domain = first.domain if isinstance(first, Cell) else Domain.VERTEX
        return Chain(start, domain, work)

    def _kernel(self, stage: Cell | Heavy) -> tuple[int, int]:
        """Lay down the words of a kernel; return its address and about how much work a row is."""
        for _ in range(2):
            self._word(0)
        if isinstance(stage, Heavy):
            return self._sum(stage), 4 * stage.node.width
        self._word(stage.width)
        for reading in stage.readings:
            self._operand(reading)
        for place in stage.places:
            self._place(place)
        rows = tuple(reading.rows for reading in stage.readings)
        make = compiled("cell").formula_kernel
        return make(stage.formulas, rows, _DTYPES[stage.dtype], stage.width), 8 * stage.width

    def _place(self, place: Place) -> None:
        item = place.buffer.dtype.itemsize
        self._word(place.column * item, place.buffer)
        self._word(place.buffer.width * item)

    def _operand(self, reading: Reading) -> None:
        """Lay down address, row stride, address of the index and its step."""
        source = reading.source
        if isinstance(source, Place):
            self._place(source)
            self._word(0, "nothing" if reading.rows is Rows.SAME else "parents")
            self._word(int(reading.rows is not Rows.SAME))
        elif source.kind is Kind.SHARED:
            self._word(reading.column * source.dtype.itemsize, SharedSource(source.attr))
            for _ in range(3):
                self._word(0)
        else:
            self._state(source, reading.column)
            slot = source.attr[0] if source.kind is Kind.GATHER else 0
            self._word(8 * slot, "child table" if source.kind is Kind.GATHER else "children")
            self._word(self.slots if source.kind is Kind.GATHER else 1)

    def _state(self, source: Node, column: int = 0) -> None:
        state = source.attr[1] if source.kind is Kind.GATHER else source.attr
        self._word(column * source.dtype.itemsize, StateSource(state))
        self._word(source.width * source.dtype.itemsize)

    def _sum(self, stage: Heavy) -> int:
        """Lay down the words of a sum over children, or over what parents have handed on."""
        node = stage.node
        assert stage.place is not None
        self._word(node.width)
        if node.kind is Kind.COLLECT:
            rows = Rows.ADDRESSED
            self._word(0, "parent bounds")
            self._word(0)
            self._word(0)
            self._word(0, TableSource(*node.attr))
        else:
            rows = Rows.INDEXED if stage.places[0] is None else Rows.SAME
            self._word(0, "bounds")
            if stage.places[0] is None:
                self._state(node.inputs[0])
            else:
                self._place(stage.places[0])
            self._word(0, "children")
        self._place(stage.place)
        kernel: int = compiled("cell").sum_kernel(rows, _DTYPES[node.dtype], node.width)
        return kernel


def _grouped(stages: Sequence[Cell | Heavy]) -> Iterator[list[Cell | Heavy] | Heavy]:
    """Yield runs of row kernels over vertices as lists, those over edges alone in a list, other stages as they are."""

    def kind(stage: Cell | Heavy) -> object:
        if isinstance(stage, Heavy):
            return "row" if stage.node.kind in _ROW_KINDS else stage
        return "row" if stage.domain is Domain.VERTEX else id(stage)

    for _, group in groupby(stages, kind):
        run = list(group)
        if isinstance(run[0], Heavy) and run[0].node.kind not in _ROW_KINDS:
            yield run[0]
        else:
            yield run
