"""g-SpMM and g-SDDMM on the CPU: bind an expression to shapes once, then run it on addresses.

``structure`` is the 64-bit words of a compressed matrix: (indptr, indices, edge_ids or 0, num_rows, num_entries). All
arrays are dense, row after row; the caller has checked shapes and dtypes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import TypeAlias

import numpy as np

from ....expr import Expr, Side
from ....opspec import Reducer
from ...layout import BroadcastLayout, broadcast_layout
from ...render.sparse import sddmm_source, spmm_source
from ...spec import ITEM_BYTES, KernelSpec, Prefetch, SddmmSpec, SpmmSpec, spec_of
from ...words import (
    ARGMAX,
    CARRY,
    EDGE_LIST,
    FIRST_OPERAND,
    NUM_ENTRIES,
    NUM_ROWS,
    OUT,
    WORDS_PER_OPERAND,
    operand_word,
)
from ..compile.jit import block_lanes, compile_kernel
from ..run.driver import cut_rows_driver, map_driver, mode_word, rows_driver
from ..run.launch import PARALLEL_FROM, launch_at, run_here, tasks_for
from ..run.parts import part_memory
from .panels import Panels, factor_of_sources, panelled_operand

Structure: TypeAlias = "array[int]"
Shapes = tuple[tuple[int, ...], ...]
Parts = tuple[tuple[Expr, Reducer], ...]
LEAST_LANES = 4
ALIGNED = 64
NONTEMPORAL_FROM = 1 << 23
"""Bytes of a g-SDDMM's result that go past the caches, which have not room for them beside the operands."""


LISTED_EDGE = 5
"""Elements of work that reading a listed edge counts as: its rows lie anywhere, mostly on pages of their own."""


class _Bound:
    """A kernel with the arguments that shapes determine. ``layout`` owns the group tables it points to."""

    def __init__(
        self, driver: int, compiled: Callable[[], int], spec: KernelSpec, layout: BroadcastLayout, mode: int
    ) -> None:
        self.driver, self.compiled, self.layout, self.width, self.mode = driver, compiled, layout, layout.width, mode
        self.slots = [operand.slot for operand in spec.operands]

    @cached_property
    def fixed(self) -> array[int]:
        """The words behind the structure, from ``INNER`` on; the kernel is compiled when they are first read."""
        layout = self.layout
        fixed = array("q", (layout.inner, layout.groups, self.compiled(), 0, 0, 0, self.mode, layout.width))
        for slot in self.slots:
            fixed.extend((0, layout.strides[slot], layout.tables[slot].ctypes.data))
        return fixed

    def words(self, structure: Structure, operands: Sequence[int], out: int) -> array[int]:
        """Return the arguments: of each operand address, row stride and group table."""
        words = structure + self.fixed
        words[OUT] = out
        place = FIRST_OPERAND
        for slot in self.slots:
            words[place] = operands[slot]
            place += WORDS_PER_OPERAND
        return words


class SpmmKernel(_Bound):
    """Reduces the messages of every row; ``out`` is (num_rows, width), of several (reductions, num_rows, width).

    ``panels`` computes wide rows of few sources, None if the expression does not allow it. ``weights`` is the slot
    of the only operand of edges where that is a number for each, else -1.
    """

    def __init__(self, spec: SpmmSpec, layout: BroadcastLayout) -> None:
        reducers = (reducer for _, reducer in spec.parts)
        mode = mode_word(spec.dtype, spec.index, *reducers, epilogue=spec.epilogue is not None)
        super().__init__(rows_driver.address, lambda: _spmm_address(spec), spec, layout, mode)
        index_bytes = (4 if spec.index == "int32" else 8) * spec.num_selecting if spec.argmax else 0
        self.part_bytes = layout.width * (len(spec.parts) * ITEM_BYTES[spec.dtype] + index_bytes)
        self.half = ITEM_BYTES[spec.dtype] == 2
        weights = [x.slot for x in spec.operands if x.side is Side.E]
        self.weights = weights[0] if len(weights) == 1 and layout.strides[weights[0]] == 1 else -1
        self.spec, operand, self.others = spec, panelled_operand(spec), dict[Prefetch, SpmmKernel]()
        self.panels = None if operand is None else Panels(spec, layout.width, operand, _spmm_address)

    def prefetching(self, prefetch: Prefetch) -> SpmmKernel:
        """Return the kernel that prefetches ``prefetch``; this one prefetches all."""
        if prefetch is Prefetch.ALL:
            return self
        kernel = self.others.get(prefetch)
        if kernel is None:
            kernel = self.others[prefetch] = SpmmKernel(replace(self.spec, prefetch=prefetch), self.layout)
        return kernel

    @cached_property
    def of_scaled_sources(self) -> tuple[SpmmKernel, int, int]:
        """The kernel for sources that have been multiplied by their factors, and the slots of sources and factors."""
        operand = panelled_operand(self.spec)
        assert operand is not None
        factor, spec = factor_of_sources(self.spec, operand)
        assert factor is not None
        return SpmmKernel(spec, self.layout), operand.slot, factor.slot

    def cuts_rows(self, longest: int) -> bool:
        """Whether a row of ``longest`` entries is cut."""
        return part_memory(1, longest, self.width, self.part_bytes, self.half) is not None

    def bound_to(self, structure: Structure, threads: Callable[[], int], longest: int) -> Callable[..., None]:
        """Return a function of the addresses of operands, result and argmax that runs this on ``structure``.

        ``longest`` is the number of entries of its longest row. A small call copies words that are prepared here, once.
        """
        if (structure[NUM_ENTRIES] + structure[NUM_ROWS]) * self.width >= PARALLEL_FROM:
            cuts = self.cuts_rows(longest)
            return lambda operands, out, argmax=0: self(structure, operands, out, threads(), argmax, cuts)
        words, driver = self.words(structure, [0] * (max(self.slots, default=0) + 1), 0), self.driver
        places = [(operand_word(i), slot) for i, slot in enumerate(self.slots)]

        def run(operands: Sequence[int], out: int, argmax: int = 0) -> None:
            call_words = words[:]
            call_words[OUT], call_words[ARGMAX] = out, argmax
            for place, slot in places:
                call_words[place] = operands[slot]
            run_here(driver, call_words.buffer_info()[0])

        return run

    def in_panels(
        self,
        structure: Structure,
        num_sources: int,
        operands: Sequence[int],
        out: int,
        threads: int,
        argmax: int,
        scratch: int,
    ) -> None:
        """Run by ``panels``, in memory at the address ``scratch``."""
        assert self.panels is not None
        words = self.words(structure, operands, out)
        words[ARGMAX] = argmax
        self.panels.run(words, num_sources, scratch, threads)

    def __call__(
        self,
        structure: Structure,
        operands: Sequence[int],
        out: int,
        threads: int,
        argmax: int = 0,
        cuts: bool = True,
    ) -> None:
        """Run. ``argmax`` (num_rows, width) receives the entry that each element came from, -1 in rows without entries.

        Of several reductions it is (number of max and min reductions, num_rows, width). ``cuts`` is False if no row is
        so long that it is cut.
        """
        words = self.words(structure, operands, out)
        words[ARGMAX] = argmax
        work = (structure[NUM_ENTRIES] + structure[NUM_ROWS]) * self.width
        if work < PARALLEL_FROM:
            launch_at(self.driver, words.buffer_info()[0])
            return
        driver, (tasks, threads) = self.driver, tasks_for(work, threads)
        memory = part_memory(tasks, structure[NUM_ENTRIES], self.width, self.part_bytes, self.half) if cuts else None
        if memory is not None:
            tasks, first_words, size = memory
            carry = np.empty(size, np.int64)  # most of its pages are never touched
            carry[: len(first_words)] = first_words
            words[CARRY], driver = carry.ctypes.data, cut_rows_driver.address
        launch_at(driver, words.buffer_info()[0], tasks, threads)


class SddmmKernel(_Bound):
    """Computes a value for every entry; ``out`` is (num_edges, width), or (num_edges, groups) for a dot product."""

    def __init__(self, spec: SddmmSpec, layout: BroadcastLayout) -> None:
        mode = mode_word(spec.dtype, spec.index, Reducer.SUM)
        super().__init__(map_driver.address, lambda: _sddmm_address(spec), spec, layout, mode)
        self.spec, self.others = spec, dict[tuple[bool, bool], SddmmKernel]()
        aligned = not spec.dot and layout.inner * ITEM_BYTES[spec.dtype] % ALIGNED == 0
        self.bytes_past_caches = layout.width * ITEM_BYTES[spec.dtype] if aligned else 0

    def fitted(self, structure: Structure, out: int) -> SddmmKernel:
        """Return the kernel for edges in their order, where the structure lists them, and for a result so large."""
        listed = structure[NUM_ROWS] == EDGE_LIST
        nontemporal = structure[NUM_ENTRIES] * self.bytes_past_caches >= NONTEMPORAL_FROM and out % ALIGNED == 0
        if not (listed or nontemporal):
            return self
        key = listed, nontemporal
        if key not in self.others:
            self.others[key] = SddmmKernel(replace(self.spec, listed=listed, nontemporal=nontemporal), self.layout)
        return self.others[key]

    def bound_to(self, structure: Structure, threads: Callable[[], int]) -> Callable[..., None]:
        """Return a function of the addresses of operands and of the result that runs this on ``structure``."""
        return lambda operands, out, argmax=0: self(structure, operands, out, threads())

    def __call__(self, structure: Structure, operands: Sequence[int], out: int, threads: int) -> None:
        """Run."""
        words = self.fitted(structure, out).words(structure, operands, out)
        edge_work = self.width + LISTED_EDGE * (structure[NUM_ROWS] == EDGE_LIST)
        launch_at(self.driver, words.buffer_info()[0], *tasks_for(structure[NUM_ENTRIES] * edge_work, threads))


@cache
def bind_spmm(expr: Expr, reducer: Reducer, dtype: str, index: str, shapes: Shapes, argmax: bool = False) -> SpmmKernel:
    """Return the kernel for operands with feature ``shapes``."""
    return bind_several(((expr, reducer),), dtype, index, shapes, argmax)


@cache
def bind_epilogue(
    expr: Expr, reducer: Reducer, epilogue: Expr, dtype: str, index: str, shapes: Shapes, argmax: bool = False
) -> SpmmKernel:
    """Return the kernel whose sum or mean goes through ``epilogue``, see :class:`~..spec.SpmmSpec`."""
    assert not reducer.selects
    return _bound(((expr, reducer),), epilogue, dtype, index, shapes, argmax)


@cache
def bind_several(parts: Parts, dtype: str, index: str, shapes: Shapes, argmax: bool = False) -> SpmmKernel:
    """Return the kernel that makes several reductions in one pass over the entries.

    Accumulators share the registers with each other and with the winning entries: of two, blocks are half as long.
    """
    return _bound(parts, None, dtype, index, shapes, argmax)


def _bound(parts: Parts, epilogue: Expr | None, dtype: str, index: str, shapes: Shapes, argmax: bool) -> SpmmKernel:
    selecting = sum(reducer.selects for _, reducer in parts) if argmax else 0
    lanes = max(block_lanes(dtype) >> (len(parts) + selecting - 1).bit_length(), LEAST_LANES)
    layout = broadcast_layout(shapes, lanes)
    (expr, reducer), *more = parts
    options = {"dtype": dtype, "index": index, "argmax": argmax, **spec_of(layout, lanes)}
    spec = SpmmSpec(expr=expr, reducer=reducer, more=tuple(more), epilogue=epilogue, **options)
    return SpmmKernel(spec, layout)


@cache
def bind_sddmm(expr: Expr, dtype: str, index: str, shapes: Shapes, dot: bool = False) -> SddmmKernel:
    """Return the kernel for operands with feature ``shapes``."""
    lanes = block_lanes(dtype)
    layout = broadcast_layout(shapes, lanes, dot)
    spec = SddmmSpec(expr=expr, dot=dot, dtype=dtype, index=index, **spec_of(layout, lanes))
    return SddmmKernel(spec, layout)


@cache
def _spmm_address(spec: SpmmSpec) -> int:
    return compile_kernel("spmm", spmm_source(spec))


@cache
def _sddmm_address(spec: SddmmSpec) -> int:
    return compile_kernel("sddmm", sddmm_source(spec))
