"""The words that kernels read, worked out once per plan up to the addresses that differ from call to call.

Every word is a constant, or a constant more than the address of something: a buffer, a state, a parameter, a table of
the graph. A call looks these addresses up, and one addition gives the words of all kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import torch

from ...kernels import compiled
from ...kernels.render.rows import RowAccess
from .ir import GRADIENT_KINDS, Domain, Node, NodeKind
from .recipe import Cell, Heavy, Place, Reading, Role, StagePhase, Stages, rows_of_all

__all__ = ["DTYPES", "MOST_ROWS", "NOTHING", "WORDS", "StageTable", "Unsupported", "domain_of"]

DTYPES = {torch.float32: "float32", torch.float64: "float64"}
_OF_SIZE = {4: "float32", 8: "float64"}
"""What moves bits of a size."""
_ROW_KINDS = (NodeKind.SUM, NodeKind.COLLECT)
_ANY_NUMBER = 1 << 62
MOST_ROWS = 512
"""Products of more rows are the tensor library's, to which a script returns where it may."""

NOTHING, WORDS = "nothing", "words"
"""Sources of constants, and of words that tell where other words are. Other sources are buffers, tables of the graph by
their names, ("shared", i) for a tensor that all vertices share, and ("left", state, by slot) for the table of where
parents leave their share of a state's gradient."""


class Unsupported(Exception):
    """An operation that processors have no instruction for; the message names it."""


class StageTable:
    """The stages of some plans, row kernels gathered in chains, and what their words are made from.

    ``rows`` has one (see :mod:`dglite.kernels.cpu.dynamic.schedule`) for each. Stages without kernels are ``allowed``,
    or :class:`Unsupported` is raised for them. ``parts`` are (class, stage) that gradients of shared tensors are made
    of when the sweep is over. ``strides`` are those of matrices that all vertices share.
    """

    def __init__(self, slots: int, strides: Sequence[tuple[int, ...]], allowed: bool) -> None:
        self.slots, self._strides, self._allowed = slots, strides, allowed
        self.sources: dict[Any, int] = {NOTHING: 0, WORDS: 1}
        self.rows, self.parts = list[list[int]](), list[tuple[int, Heavy]]()
        self.indices, self.constants = list[int](), list[int]()

    def add(self, c: int, stages: Stages, own: list[Cell | Heavy]) -> list[int]:
        """Lay down the stages of class ``c``; return how many rows there are after each phase.

        ``own`` takes those that run, or may run, without kernels.
        """
        self._class, self._own, bounds = c, own, list[int]()
        for phase in StagePhase:
            for group in _grouped(stages.get(phase, ())):
                row = self._chain(group) if isinstance(group, list) else self._heavy(group)
                if row is not None:
                    self.rows.append(row)
            bounds.append(len(self.rows))
        return bounds

    def number(self, source: Any) -> int:
        """Return the number of a source."""
        return self.sources.setdefault(source, len(self.sources))

    # -- words --------------------------------------------------------------------------------------------------
    def _word(self, constant: int, source: Any = NOTHING) -> None:
        self.indices.append(self.number(source))
        self.constants.append(constant)

    def _stage(self, kernels: int) -> int:
        """Lay down the words of a stage, but for its kernels; return where they are."""
        start = len(self.indices)
        for constant in (kernels, *[0] * (2 * kernels)):
            self._word(constant)
        return start

    def _enter(self, start: int, i: int, kernel: int) -> None:
        """Let the i-th kernel of a stage read the words from here on, first the run of rows."""
        self.constants[start + 1 + 2 * i] = kernel
        self.constants[start + 2 + 2 * i], self.indices[start + 2 + 2 * i] = 8 * len(self.indices), 1
        for _ in range(2):
            self._word(0)

    def _chain(self, stages: list[Cell | Heavy]) -> list[int]:
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

    def _heavy(self, stage: Cell | Heavy) -> list[int] | None:
        """Lay down a product; return the stage's row, None for part of a gradient that waits for the sweep's end."""
        if isinstance(stage, Cell):
            return self._without_kernel(stage, stage.domain, f"{stage.dtype} inputs")
        node = stage.node
        if node.kind in GRADIENT_KINDS and (stage.phase is not StagePhase.SWEEP or not self._allowed):
            self.parts.append((self._class, stage))
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
        products, start = compiled("dynamic.kernels"), self._stage(1)
        self._enter(start, 0, products.run_kernel(form, DTYPES[node.dtype]))
        for size in (height, width):
            self._word(size)
        self._place(stage.places[0])
        self._word(0, ("shared", weight.attr))
        self._word(stride * node.dtype.itemsize)
        self._place(stage.place)
        most, own = MOST_ROWS if self._allowed else _ANY_NUMBER, -1
        if self._allowed:
            own = len(self._own)
            self._own.append(stage)
        return [start, domain is Domain.EDGE, most, height * width // 4, height * width, own]

    def _without_kernel(self, stage: Cell | Heavy, domain: Domain, what: str) -> list[int]:
        if not self._allowed:
            raise Unsupported(
                f"{what} in a vertex program" if isinstance(stage, Heavy) else f"{what} of a vertex program"
            )
        self._own.append(stage)
        return [-1, domain is Domain.EDGE, -1, 0, 0, len(self._own) - 1]

    def _matrix(self, index: int, shape: Sequence[int]) -> tuple[bool, int] | None:
        """Return whether a matrix lies by columns, and how far one of its rows (columns) is from the next."""
        strides = self._strides[index]
        if len(strides) != 2 or 1 not in strides or 0 in shape:
            return None
        by_columns = strides[1] != 1 or (strides[0] == 1 and shape[0] > 1)
        return by_columns, strides[1 if by_columns else 0]

    def _kernel_of(self, stage: Cell | Heavy) -> tuple[int, int]:
        """Return the address of the kernel of rows, and about how much work a row is."""
        make = compiled("dynamic.kernels")
        if isinstance(stage, Heavy):
            width, dtype = stage.node.width, DTYPES[stage.node.dtype]
            return make.sum_kernel(_summed_rows(stage), dtype, width), 4 * width
        rows = tuple([reading.rows for reading in stage.readings])
        return make.formula_kernel(stage.formulas, rows, _OF_SIZE[stage.dtype.itemsize], stage.width), 8 * stage.width

    def _lay(self, stage: Cell | Heavy) -> None:
        """Lay down the words of a kernel of rows, after those of the run."""
        if isinstance(stage, Heavy):
            self._sum(stage)
            return
        self._word(stage.width)
        for reading in stage.readings:
            self._operand(reading)
        for place in stage.places:
            self._place(place)

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
            self._word(0, reading.index or NOTHING)
            self._word(int(reading.index is not None))
        elif source.kind is NodeKind.SHARED:
            self._word(reading.column * source.dtype.itemsize, ("shared", source.attr))
            for _ in range(3):
                self._word(0)
        else:
            self._state(source, reading.column)
            slot = source.attr[0] if source.kind is NodeKind.GATHER else 0
            self._word(8 * slot, "child_table" if source.kind is NodeKind.GATHER else "children")
            self._word(self.slots if source.kind is NodeKind.GATHER else 1)

    def _state(self, source: Node, column: int = 0) -> None:
        state = source.attr[1] if source.kind is NodeKind.GATHER else source.attr
        self._place(rows_of_all(Role.SCATTER, state, source.width, source.dtype).whole.part(column, source.width))

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
        self._word(0, ("left", *node.attr) if collects else "children")
        self._place(stage.place)


def _summed_rows(stage: Heavy) -> RowAccess:
    """Return which rows a sum takes."""
    if stage.node.kind is NodeKind.COLLECT:
        return RowAccess.ADDRESSED
    return RowAccess.INDEXED if stage.places[0] is None else RowAccess.SAME


def _grouped(stages: Sequence[Cell | Heavy]) -> Iterator[list[Cell | Heavy] | Cell | Heavy]:
    """Yield runs of row kernels over vertices as lists, those over edges alone in a list, other stages as they are."""

    def kind(stage: Cell | Heavy) -> object:
        if isinstance(stage, Heavy):
            return "row" if stage.node.kind in _ROW_KINDS else stage
        if stage.dtype.itemsize not in _OF_SIZE:
            return stage
        return "row" if stage.domain is Domain.VERTEX else id(stage)

    for key, group in groupby(stages, kind):
        run = list(group)
        if isinstance(key, Cell | Heavy):
            yield key
        else:
            yield run


def domain_of(node: Node) -> Domain:
    """Return what the rows are of which a gradient is a sum."""
    return next(x.domain for x in node.inputs if x.domain is not Domain.SHARED)
