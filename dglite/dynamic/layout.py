"""The words that kernels read, worked out once per plan up to the addresses that differ from call to call.

Every word is a constant, or a constant more than the address of something: a buffer, a state, a parameter, a table of
the graph. A call looks these addresses up, and one addition gives the words of all kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch

from ..kernels import compiled
from ..kernels.render_cell import RowAccess
from .ir import Domain, Node, NodeKind
from .recipe import Cell, Heavy, Place, Reading, VertexPlan

__all__ = ["NOTHING", "WORDS", "GradientSource", "SharedSource", "StageTable", "StateSource", "TableSource"]

_DTYPES = {torch.float32: "float32", torch.float64: "float64"}
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
class GradientSource:
    """The gradient of what all vertices share."""

    index: int


@dataclass(frozen=True)
class TableSource:
    """The table of where parents leave their share of a state's gradient."""

    state: int
    by_slot: bool


class StageTable:
    """The stages of a plan, row kernels gathered in chains, and what their words are made from.

    ``stages`` has a row (see :mod:`dglite.kernels.cpu.schedule`) for each, those of phase p from ``bounds[p]`` on;
    ``own`` are those that can run without kernels. ``strides`` are those of matrices that all vertices share.
    """

    def __init__(self, plan: VertexPlan, slots: int, strides: Sequence[tuple[int, ...]]) -> None:
        self.slots, self._strides = slots, strides
        self.sources: dict[Any, int] = {NOTHING: 0, WORDS: 1}
        self.own: list[Heavy] = []
        self._index, self._constant = list[int](), list[int]()
        rows, self.bounds = list[list[int]](), [0]
        for stages in plan.stages.values():
            for group in _grouped(stages):
                row = self._chain(group) if isinstance(group, list) else self._heavy(group)
                if row is not None:
                    rows.append(row)
            self.bounds.append(len(rows))
        columns = compiled("schedule").STAGE_COLUMNS
        self.stages = np.array(rows, np.int64).reshape(len(rows), columns)
        self.indices, self.constants = np.array(self._index, np.int64), np.array(self._constant, np.int64)

    # -- words --------------------------------------------------------------------------------------------------
    def _word(self, constant: int, source: Any = NOTHING) -> None:
        self._index.append(self.sources.setdefault(source, len(self.sources)))
        self._constant.append(constant)

    def _stage(self, kernels: int, adds: int = 0) -> int:
        """Lay down the words of a stage, but for its kernels; return where they are."""
        start = len(self._index)
        for constant in (kernels, adds, *[0] * (2 * kernels)):
            self._word(constant)
        return start

    def _enter(self, start: int, i: int) -> None:
        """Let the i-th kernel of a stage read the words from here on, first the run of rows."""
        self._constant[start + 3 + 2 * i], self._index[start + 3 + 2 * i] = 8 * len(self._index), 1
        for _ in range(2):
            self._word(0)

    def _chain(self, stages: list[Cell | Heavy]) -> list[int]:
        """Lay down a chain of row kernels; return its row."""
        start, work = self._stage(len(stages)), 0
        for i, stage in enumerate(stages):
            self._enter(start, i)
            kernel, width = self._kernel(stage)
            self._constant[start + 2 + 2 * i] = kernel
            work += width
        first = stages[0]
        domain = first.domain if isinstance(first, Cell) else Domain.VERTEX
        return [start, domain is Domain.EDGE, _ANY_NUMBER, -1, work, 0, -1]

    def _heavy(self, stage: Heavy) -> list[int] | None:
        """Lay down a product of few rows, where there is a kernel for it; return the stage's row, None for none."""
        self.own.append(stage)
        node = stage.node
        gradient = -1
        if node.kind in (NodeKind.WEIGHT_GRAD, NodeKind.COLUMN_SUM):
            gradient = node.attr
        elif node.kind is NodeKind.VJP and stage.place is None:
            gradient = node.inputs[node.attr[1]].attr
        domain = node.domain if node.domain is not Domain.SHARED else _domain_of(node)
        found = _PRODUCTS[node.kind](self, stage) if node.kind in _PRODUCTS else None
        start, most, work, fixed = found or (-1, -1, 0, 0)
        return [start, domain is Domain.EDGE, most, gradient, work, fixed, len(self.own) - 1]

    def _matrix(self, index: int, shape: Sequence[int]) -> tuple[bool, int] | None:
        """Return whether a matrix lies by columns, and the bytes from one of its rows (columns) to the next."""
        strides = self._strides[index]
        if len(strides) != 2 or 1 not in strides or 0 in shape:
            return None
        by_columns = strides[1] != 1 or (strides[0] == 1 and shape[0] > 1)
        return by_columns, strides[1 if by_columns else 0]

    def _product(self, stage: Heavy) -> tuple[int, int, int, int] | None:
        products, weight, dtype = compiled("product"), stage.node.inputs[1], stage.node.dtype
        known = self._matrix(weight.attr, weight.shape)
        if known is None:
            return None
        by_columns, stride = known
        turned = stage.node.attr is not by_columns
        height, width = reversed(weight.shape) if by_columns else weight.shape
        kernel = products.product_kernel(_DTYPES[dtype], width, turned)
        if not kernel:
            return None
        start = self._single(kernel, 0, (height, width))
        self._place(stage.places[0])
        self._word(0, SharedSource(weight.attr))
        self._word(stride * dtype.itemsize)
        self._place(stage.place)
        for _ in range(2):  # nothing is added
            self._word(0)
        most = products.MOST_ROWS_TURNED if turned else products.MOST_ROWS
        return start, most, height * width // 4, height * width

    def _weight_gradient(self, stage: Heavy) -> tuple[int, int, int, int] | None:
        products, node = compiled("product"), stage.node
        known = self._matrix(node.attr, node.shape)
        if known is None:
            return None
        height, width = reversed(node.shape) if known[0] else node.shape
        kernel = products.outer_kernel(_DTYPES[node.dtype], width)
        if not kernel:
            return None
        left, right = reversed(stage.places) if known[0] else stage.places
        start = self._single(kernel, 10, (height, width))
        self._place(left)
        self._word(0, GradientSource(node.attr))
        self._word(width * node.dtype.itemsize)
        self._place(right)
        self._word(0)
        return start, products.MOST_ROWS_OUTER, height * width // 4, height * width

    def _column_sum(self, stage: Heavy) -> tuple[int, int, int, int] | None:
        node = stage.node
        known = self._matrix(node.attr, node.shape) if len(node.shape) == 2 else (False, 0)
        kernel = compiled("product").column_sum_kernel(_DTYPES[node.dtype], node.width) if node.width else 0
        if known is None or known[0] or not kernel:
            return None
        start = self._single(kernel, 6, (node.width,))
        self._place(stage.places[0])
        self._word(0, GradientSource(node.attr))
        self._word(0)
        return start, _ANY_NUMBER, node.width, 0

    def _single(self, kernel: int, adds: int, sizes: Sequence[int]) -> int:
        """Lay down a stage of one kernel, up to the sizes that it reads; return where."""
        start = self._stage(1, adds)
        self._constant[start + 2] = kernel
        self._enter(start, 0)
        for size in sizes:
            self._word(size)
        return start

    def _kernel(self, stage: Cell | Heavy) -> tuple[int, int]:
        """Lay down the words of a kernel; return its address and about how much work a row is."""
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
            self._word(8 * slot, "child table" if source.kind is NodeKind.GATHER else "children")
            self._word(self.slots if source.kind is NodeKind.GATHER else 1)

    def _state(self, source: Node, column: int = 0) -> None:
        state = source.attr[1] if source.kind is NodeKind.GATHER else source.attr
        self._word(column * source.dtype.itemsize, StateSource(state))
        self._word(source.width * source.dtype.itemsize)

    def _sum(self, stage: Heavy) -> int:
        """Lay down the words of a sum over children, or over what parents have handed on."""
        node = stage.node
        assert stage.place is not None
        self._word(node.width)
        if node.kind is NodeKind.COLLECT:
            rows = RowAccess.ADDRESSED
            self._word(0, "parent bounds")
            self._word(0)
            self._word(0)
            self._word(0, TableSource(*node.attr))
        else:
            rows = RowAccess.INDEXED if stage.places[0] is None else RowAccess.SAME
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


def _domain_of(node: Node) -> Domain:
    """Return what the rows are of which a gradient is a sum."""
    return next(x.domain for x in node.inputs if x.domain is not Domain.SHARED)


_PRODUCTS: dict[NodeKind, Callable[[StageTable, Heavy], tuple[int, int, int, int] | None]] = {
    NodeKind.MATMUL: StageTable._product,
    NodeKind.WEIGHT_GRAD: StageTable._weight_gradient,
    NodeKind.COLUMN_SUM: StageTable._column_sum,
}
"""What lays down a stage's words: returns where they are, for how many rows, work of a row and besides; or None."""
