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

from ...expr import Operand, Side
from ...kernels import compiled
from ...kernels.render.rows import RowAccess
from .ir import GRADIENT_KINDS, Domain, Node, NodeKind
from .recipe import Cell, Heavy, Place, Reading, StagePhase, VertexPlan

__all__ = ["DTYPES", "NOTHING", "WORDS", "Move", "SharedSource", "StageTable", "StateSource", "TableSource"]
__all__ += ["Unsupported", "domain_of"]

DTYPES = {torch.float32: "float32", torch.float64: "float64"}
_OF_SIZE = {4: "float32", 8: "float64"}
"""What moves bits of a size."""
_ROW_KINDS = (NodeKind.SUM, NodeKind.COLLECT)
_ANY_NUMBER = 1 << 62

NOTHING, WORDS = "nothing", "words"
"""Sources of constants, and of words that tell where other words are."""


@dataclass(frozen=True)
class StateSource:
    """A state of all vertices."""

    state: int


@dataclass(frozen=True)
class SharedSource:
    """A row that all vertices share, or a matrix."""

    index: int


@dataclass(frozen=True)
class TableSource:
    """The table of where parents leave their share of a state's gradient."""

    state: int
    by_slot: bool


class Unsupported(Exception):
    """An operation that processors have no instruction for; the message names it."""


@dataclass
class Move:
    """Copies rows of ``source`` that an index picks, or adds them to rows that are there."""

    width: int
    dtype: torch.dtype
    source: Any
    index: Any
    into: Any
    adds: bool = False
    domain: Domain = Domain.VERTEX


class StageTable:
    """The stages of a plan, row kernels gathered in chains, and what their words are made from.

    ``stages`` has a row (see :mod:`dglite.kernels.cpu.dynamic.schedule`) for each, those of phase p from ``bounds[p]``
    on. ``own`` are those that run, or may run, without kernels, where that is ``allowed``, else :class:`Unsupported` is
    raised for those. ``parts`` are what gradients of shared tensors are made of when the sweep is over. ``strides`` are
    those of matrices that all vertices share.
    """

    def __init__(self, plan: VertexPlan, slots: int, strides: Sequence[tuple[int, ...]], allowed: bool) -> None:
        self.slots, self._strides, self._allowed = slots, strides, allowed
        self.sources: dict[Any, int] = {NOTHING: 0, WORDS: 1}
        self.own: list[Heavy | Move] = []
        self.parts: list[Heavy] = []
        self._index, self._constant = list[int](), list[int]()
        rows, self.bounds = list[list[int]](), [0]
        for stages in plan.stages.values():
            for group in _grouped(stages):
                row = self._chain(group) if isinstance(group, list) else self._heavy(group)
                if row is not None:
                    rows.append(row)
            self.bounds.append(len(rows))
        columns = compiled("dynamic.schedule").STAGE_COLUMNS
        self.stages = np.array(rows, np.int64).reshape(len(rows), columns)
        self.indices, self.constants = np.array(self._index, np.int64), np.array(self._constant, np.int64)

    # -- words --------------------------------------------------------------------------------------------------
    def _word(self, constant: int, source: Any = NOTHING) -> None:
        self._index.append(self.sources.setdefault(source, len(self.sources)))
        self._constant.append(constant)

    def _stage(self, kernels: int) -> int:
        """Lay down the words of a stage, but for its kernels; return where they are."""
        start = len(self._index)
        for constant in (kernels, *[0] * (2 * kernels)):
            self._word(constant)
        return start

    def _enter(self, start: int, i: int, kernel: int) -> None:
        """Let the i-th kernel of a stage read the words from here on, first the run of rows."""
        self._constant[start + 1 + 2 * i] = kernel
        self._constant[start + 2 + 2 * i], self._index[start + 2 + 2 * i] = 8 * len(self._index), 1
        for _ in range(2):
            self._word(0)

    def _chain(self, stages: list[Cell | Heavy | Move]) -> list[int]:
        """Lay down a chain of row kernels; return its row."""
        start, work = self._stage(len(stages)), 0
        for i, stage in enumerate(stages):
            kernel, width = self._kernel_of(stage)
            self._enter(start, i, kernel)
            self._lay(stage)
            work += width
        first = stages[0]
        domain = Domain.VERTEX if isinstance(first, Heavy) else first.domain
        return [start, domain is Domain.EDGE, _ANY_NUMBER, work, 0, -1]

    def _heavy(self, stage: Heavy | Move) -> list[int] | None:
        """Lay down a product; return the stage's row, None for part of a gradient that waits for the sweep's end."""
        if isinstance(stage, Move):
            return self._without_kernel(stage, stage.domain, f"{stage.dtype} inputs")
        node = stage.node
        if node.kind in GRADIENT_KINDS and (stage.phase is not StagePhase.SWEEP or not self._allowed):
            self.parts.append(stage)
            return None
        domain = node.domain if node.domain is not Domain.SHARED else domain_of(node)
        if node.kind is not NodeKind.MATMUL:
            name = getattr(getattr(node.attr, "function", None), "__name__", node.kind.value)
            return self._without_kernel(stage, domain, name)
        weight = node.inputs[1]
        known = self._matrix(weight.attr, weight.shape)
        if known is None:
            return self._without_kernel(stage, domain, "a product with a weight that does not lie by rows")
        by_columns, stride = known
        height, width = reversed(weight.shape) if by_columns else weight.shape
        form = "dots" if node.attr is not by_columns else "sums"
        products, start = compiled("dynamic.matrix"), self._stage(1)
        self._enter(start, 0, products.run_kernel(form, DTYPES[node.dtype]))
        for size in (height, width):
            self._word(size)
        self._place(stage.places[0])
        self._word(0, SharedSource(weight.attr))
        self._word(stride * node.dtype.itemsize)
        self._place(stage.place)
        most, own = products.MOST_ROWS[form] if self._allowed else _ANY_NUMBER, -1
        if self._allowed:
            own = len(self.own)
            self.own.append(stage)
        return [start, domain is Domain.EDGE, most, height * width // 4, height * width, own]

    def _without_kernel(self, stage: Heavy | Move, domain: Domain, what: str) -> list[int]:
        if not self._allowed:
            raise Unsupported(
                f"{what} in a vertex program" if isinstance(stage, Heavy) else f"{what} of a vertex program"
            )
        self.own.append(stage)
        return [-1, domain is Domain.EDGE, -1, 0, 0, len(self.own) - 1]

    def _matrix(self, index: int, shape: Sequence[int]) -> tuple[bool, int] | None:
        """Return whether a matrix lies by columns, and how far one of its rows (columns) is from the next."""
        strides = self._strides[index]
        if len(strides) != 2 or 1 not in strides or 0 in shape:
            return None
        by_columns = strides[1] != 1 or (strides[0] == 1 and shape[0] > 1)
        return by_columns, strides[1 if by_columns else 0]

    def _kernel_of(self, stage: Cell | Heavy | Move) -> tuple[int, int]:
        """Return the address of the kernel of rows, and about how much work a row is."""
        make = compiled("dynamic.cell")
        if isinstance(stage, Move):
            first, second = Operand(Side.E, 0), Operand(Side.E, 1)
            formula, *rows = (
                (second + first, RowAccess.INDEXED, RowAccess.SAME) if stage.adds else (first, RowAccess.INDEXED)
            )
            dtype = _OF_SIZE[stage.dtype.itemsize]
            return make.formula_kernel((formula,), tuple(rows), dtype, stage.width), 8 * stage.width
        if isinstance(stage, Heavy):
            return make.sum_kernel(
                _summed_rows(stage), DTYPES[stage.node.dtype], stage.node.width
            ), 4 * stage.node.width
        rows = [reading.rows for reading in stage.readings]
        return make.formula_kernel(stage.formulas, tuple(rows), DTYPES[stage.dtype], stage.width), 8 * stage.width

    def _lay(self, stage: Cell | Heavy | Move) -> None:
        """Lay down the words of a kernel of rows, after those of the run."""
        if isinstance(stage, Heavy):
            self._sum(stage)
            return
        self._word(stage.width)
        if isinstance(stage, Cell):
            for reading in stage.readings:
                self._operand(reading)
            for place in stage.places:
                self._place(place)
            return
        row = stage.width * stage.dtype.itemsize
        words = [(0, stage.source), (row, NOTHING), (0, stage.index), (1, NOTHING)]
        words += [(0, stage.into), (row, NOTHING), (0, NOTHING), (0, NOTHING)] if stage.adds else []
        for word in (*words, (0, stage.into), (row, NOTHING)):
            self._word(*word)

    def _place(self, place: Place | None) -> None:
        assert place is not None
        item = place.buffer.dtype.itemsize
        self._word(place.column * item, place.buffer)
        self._word(place.buffer.width * item)

    def _operand(self, reading: Reading) -> None:
        """Lay down address, row stride, address of the index and its step."""
        source = reading.source
        if isinstance(source, Place):
            self._place(source)
            self._word(0, NOTHING if reading.rows is RowAccess.SAME else "parents")
            self._word(int(reading.rows is not RowAccess.SAME))
        elif source.kind is NodeKind.SHARED:
            self._word(reading.column * source.dtype.itemsize, SharedSource(source.attr))
            for _ in range(3):
                self._word(0)
        else:
            self._state(source, reading.column)
            slot = source.attr[0] if source.kind is NodeKind.GATHER else 0
            self._word(8 * slot, "child_table" if source.kind is NodeKind.GATHER else "children")
            self._word(self.slots if source.kind is NodeKind.GATHER else 1)

    def _state(self, source: Node, column: int = 0) -> None:
        state = source.attr[1] if source.kind is NodeKind.GATHER else source.attr
        self._word(column * source.dtype.itemsize, StateSource(state))
        self._word(source.width * source.dtype.itemsize)

    def _sum(self, stage: Heavy) -> None:
        """Lay down the words of a sum over children, or over what parents have handed on."""
        node, collects = stage.node, stage.node.kind is NodeKind.COLLECT
        self._word(node.width)
        self._word(0, "parent_bounds" if collects else "bounds")
        if collects:
            self._word(0)
            self._word(0)
        elif stage.places[0] is None:
            self._state(node.inputs[0])
        else:
            self._place(stage.places[0])
        self._word(0, TableSource(*node.attr) if collects else "children")
        self._place(stage.place)


def _summed_rows(stage: Heavy) -> RowAccess:
    """Return which rows a sum takes."""
    if stage.node.kind is NodeKind.COLLECT:
        return RowAccess.ADDRESSED
    return RowAccess.INDEXED if stage.places[0] is None else RowAccess.SAME


def _grouped(stages: Sequence[Cell | Heavy | Move]) -> Iterator[list[Cell | Heavy | Move] | Heavy | Move]:
    """Yield runs of row kernels over vertices as lists, those over edges alone in a list, other stages as they are."""

    def kind(stage: Cell | Heavy | Move) -> object:
        if isinstance(stage, Heavy):
            return "row" if stage.node.kind in _ROW_KINDS else stage
        if isinstance(stage, Move) and stage.dtype.itemsize not in _OF_SIZE:
            return stage
        return "row" if stage.domain is Domain.VERTEX else id(stage)

    for key, group in groupby(stages, kind):
        run = list(group)
        if isinstance(key, Heavy | Move):
            yield key
        else:
            yield run


def domain_of(node: Node) -> Domain:
    """Return what the rows are of which a gradient is a sum."""
    return next(x.domain for x in node.inputs if x.domain is not Domain.SHARED)
