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
from .ir import GRADIENT_KINDS, Node, NodeKind, OpaqueCall, RowDomain
from .recipe import BufferRole, DenseOp, KernelInput, Place, PointwiseKernel, StagePhase, Stages, rows_of_all

DTYPES = {torch.float32: "float32", torch.float64: "float64"}
"""The dtypes that kernels compute in."""
_OF_SIZE = {4: "float32", 8: "float64"}
"""What moves bits of a size."""
_REDUCTIONS = (NodeKind.REDUCE, NodeKind.COLLECT)
_ANY_NUMBER = 1 << 62
MOST_ROWS = 512
"""Products of more rows are the tensor library's, to which a script returns where it may."""

NOTHING, WORDS = "nothing", "words"
"""Sources of constants, and of words that tell where other words are. Other sources are buffers, tables of the graph by
their names, ("shared", i) for a tensor that all vertices share, and ("left", state, by slot) for the table of where
parents leave their share of a state's gradient."""


class UnsupportedOperation(Exception):
    """An operation that processors have no instruction for; the message names it."""


class StageTable:
    """The stages of some plans, row kernels gathered in chains, and what their words are made from.

    ``rows`` has one (see :mod:`dglite.kernels.cpu.dynamic.schedule`) for each. Stages without kernels are ``allowed``,
    or :class:`UnsupportedOperation` is raised for them. ``parts`` are (class, stage) that gradients of shared tensors
    are made of when the sweep is over. ``strides`` are those of matrices that all vertices share. ``kernels`` give the
    numbers of row kernels, in the place of the CPU's addresses, on a device whose products are the tensor library's.
    """

    def __init__(self, slots: int, strides: Sequence[tuple[int, ...]], allowed: bool, kernels: Any = None) -> None:
        self.slots, self._strides, self._allowed = slots, strides, allowed
        self._kernels, self._multiplies = kernels or compiled("dynamic.kernels"), kernels is None
        self.sources: dict[Any, int] = {NOTHING: 0, WORDS: 1}
        self.rows, self.parts = list[list[int]](), list[tuple[int, DenseOp]]()
        self.indices, self.constants = list[int](), list[int]()

    def add(self, c: int, stages: Stages, by_python: list[PointwiseKernel | DenseOp]) -> list[int]:
        """Lay down the stages of class ``c``; return how many rows there are after each phase.

        ``by_python`` takes those that run, or may run, without kernels.
        """
        bounds = list[int]()
        for phase in StagePhase:
            for chain in _chains(stages.get(phase, ())):
                first, waits = chain[0], phase is not StagePhase.SWEEP or not self._allowed
                if isinstance(first, DenseOp) and first.node.kind in GRADIENT_KINDS and waits:
                    self.parts.append((c, first))
                else:
                    self.rows.append(self._row(chain, by_python))
            bounds.append(len(self.rows))
        return bounds

    def number(self, source: Any) -> int:
        """Return the number of a source."""
        return self.sources.setdefault(source, len(self.sources))

    def _row(self, chain: list[PointwiseKernel | DenseOp], by_python: list[PointwiseKernel | DenseOp]) -> list[int]:
        """Lay down a chain of row kernels, or another stage alone; return its row."""
        first, lacks, number = chain[0], self.lacks(chain[0]), -1
        if lacks and not self._allowed:
            raise UnsupportedOperation(lacks)
        if self._allowed and (lacks or not _is_row_kernel(first)):
            number = len(by_python)
            by_python.append(first)
        edges = first.domain is RowDomain.EDGE
        if lacks or not (self._multiplies or _is_row_kernel(first)):
            return [-1, edges, -1, 0, 0, number]
        start, work, fixed = len(self.indices), 0, 0
        for constant in (len(chain), *[0] * (2 * len(chain))):
            self._word(constant)
        for at, stage in zip(range(start + 1, len(self.indices), 2), chain, strict=True):
            self.constants[at + 1], self.indices[at + 1] = 8 * len(self.indices), 1
            for _ in range(2):  # the run of rows
                self._word(0)
            self.constants[at], more, fixed = self._kernel(stage)
            work += more
        return [start, edges, _ANY_NUMBER if number < 0 else MOST_ROWS, work, fixed, number]

    def lacks(self, stage: PointwiseKernel | DenseOp) -> str:
        """Return what of a stage has no kernel, "" if there is one for all of it."""
        if _is_row_kernel(stage):
            return ""
        if isinstance(stage, PointwiseKernel):
            return f"{stage.dtype} inputs of a vertex program"
        node = stage.node
        if node.kind is NodeKind.MATMUL:
            by_rows = self._matrix(node.inputs[1]) is not None
            return "" if by_rows else "a product with a weight that does not lie by rows in a vertex program"
        return f"{function_name(node) or node.kind.value} in a vertex program"

    # -- words --------------------------------------------------------------------------------------------------
    def _word(self, constant: int, source: Any = NOTHING) -> None:
        self.indices.append(self.number(source))
        self.constants.append(constant)

    def _kernel(self, stage: PointwiseKernel | DenseOp) -> tuple[int, int, int]:
        """Lay down the words of a kernel after the run of rows; return its address, the work of a row, work besides."""
        if isinstance(stage, DenseOp):
            return self._product(stage) if stage.node.kind is NodeKind.MATMUL else self._reduction(stage)
        self._word(stage.width)
        for reading in stage.readings:
            self._operand(reading)
        for place in stage.places:
            self._place(place)
        rows, dtype = tuple([reading.rows for reading in stage.readings]), _OF_SIZE[stage.dtype.itemsize]
        kernel = self._kernels.formula_kernel(stage.formulas, rows, dtype, stage.width)
        return kernel, 8 * stage.width, 0

    def _product(self, stage: DenseOp) -> tuple[int, int, int]:
        node, weight = stage.node, stage.node.inputs[1]
        matrix = self._matrix(weight)
        assert matrix is not None
        by_columns, stride = matrix
        height, width = reversed(weight.shape) if by_columns else weight.shape
        for size in (height, width):
            self._word(size)
        self._place(stage.places[0])
        self._word(0, ("shared", weight.attr))
        self._word(stride * node.dtype.itemsize)
        self._place(stage.place)
        form = "dots" if node.attr is not by_columns else "sums"
        kernel = self._kernels.run_kernel(form, DTYPES[node.dtype])
        return kernel, height * width // 4, height * width

    def _matrix(self, weight: Node) -> tuple[bool, int] | None:
        """Return whether a matrix lies by columns, and how far one of its rows (columns) is from the next."""
        strides, shape = self._strides[weight.attr], weight.shape
        if len(strides) != 2 or 1 not in strides or 0 in shape:
            return None
        by_columns = strides[1] != 1 or (strides[0] == 1 and shape[0] > 1)
        return by_columns, strides[1 if by_columns else 0]

    def _reduction(self, stage: DenseOp) -> tuple[int, int, int]:
        """Lay down the words of a reduction over children, or over what parents have handed on."""
        node, rows = stage.node, RowAccess.SAME
        collects = node.kind is NodeKind.COLLECT
        self._word(node.width)
        self._word(0, "parent_bounds" if collects else "bounds")
        if collects:
            rows = RowAccess.ADDRESSED
            for _ in range(2):
                self._word(0)
        elif stage.places[0] is None:
            rows = RowAccess.INDEXED
            self._state(node.inputs[0])
        else:
            self._place(stage.places[0])
        self._word(0, ("left", *node.attr) if collects else "children")
        self._place(stage.place)
        reducer = "sum" if collects else node.attr
        kernel = self._kernels.reduce_kernel(rows, DTYPES[node.dtype], node.width, reducer)
        return kernel, 4 * node.width, 0

    def _place(self, place: Place | None) -> None:
        assert place is not None
        item = place.buffer.dtype.itemsize
        self._word(place.column * item, place.buffer)
        self._word(place.buffer.width * item)

    def _operand(self, reading: KernelInput) -> None:
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
        self._place(rows_of_all(BufferRole.SCATTER, state, source.width, source.dtype).whole.part(column, source.width))


def _chains(stages: Sequence[PointwiseKernel | DenseOp]) -> Iterator[list[PointwiseKernel | DenseOp]]:
    """Yield runs of row kernels over vertices as one, other stages alone."""
    for together, group in groupby(stages, lambda stage: _is_row_kernel(stage) and stage.domain is RowDomain.VERTEX):
        run = list(group)
        yield from [run] if together else [[stage] for stage in run]


def _is_row_kernel(stage: PointwiseKernel | DenseOp) -> bool:
    """Return whether a stage is a formula or a sum for which there is a kernel."""
    return stage.node.kind in _REDUCTIONS if isinstance(stage, DenseOp) else stage.dtype.itemsize in _OF_SIZE


def function_name(node: Node) -> str:
    """Return the name of the torch function that a node calls, or whose gradient it is; "" for other nodes."""
    is_gradient = node.kind is NodeKind.VJP
    call = node.attr[0] if is_gradient else node.attr
    name = getattr(call.function, "__name__", "function").partition(".")[0] if isinstance(call, OpaqueCall) else ""
    return f"gradient of {name}" if is_gradient else name
