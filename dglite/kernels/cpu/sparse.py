"""g-SpMM and g-SDDMM on the CPU: bind an expression to shapes once, then run it on addresses.

``structure`` is the words of a compressed matrix: (indptr, indices, edge_ids or 0, num_rows, num_entries). All arrays
are dense, row after row; the caller has checked shapes and dtypes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from ...expr import Expr
from ...opspec import Reducer
from ..layout import Layout, broadcast_layout
from ..render import sddmm_source, spmm_source
from ..spec import ITEM_BYTES, KernelSpec, SddmmSpec, SpmmSpec, spec_of
from .driver import map_driver, mode_word, reduce_driver
from .jit import block_lanes, compile_kernel
from .launch import launch, num_tasks, num_threads

__all__ = ["SddmmKernel", "SpmmKernel", "bind_sddmm", "bind_several", "bind_spmm"]

Structure = tuple[int, int, int, int, int]
Shapes = tuple[tuple[int, ...], ...]
Parts = tuple[tuple[Expr, Reducer], ...]
LEAST_LANES = 4


class _Bound:
    """A compiled kernel with what the shapes fix of its arguments. ``layout`` owns the group tables it points to."""

    def __init__(self, driver: int, kernel: int, spec: KernelSpec, layout: Layout) -> None:
        self.driver, self.layout = driver, layout
        self.sizes = (layout.inner, layout.groups, kernel)
        self.slots = [
            (operand.slot, layout.strides[operand.slot], layout.tables[operand.slot].ctypes.data)
            for operand in spec.operands
        ]

    def operand_words(self, addresses: Sequence[int]) -> list[int]:
        """Return (address, row stride, group table) of every operand."""
        words: list[int] = []
        for slot, stride, table in self.slots:
            words += (addresses[slot], stride, table)
        return words


class SpmmKernel(_Bound):
    """Reduces the messages of every row; ``out`` is (num_rows, width), of several (reductions, num_rows, width)."""

    def __init__(self, kernel: int, spec: SpmmSpec, layout: Layout) -> None:
        super().__init__(reduce_driver.address, kernel, spec, layout)
        self.mode = mode_word(spec.dtype, spec.index, *(reducer for _, reducer in spec.parts))
        index_bytes = (4 if spec.index == "int32" else 8) * spec.num_selecting if spec.winners else 0
        self.carry_bytes = 8 + layout.width * (len(spec.parts) * ITEM_BYTES[spec.dtype] + index_bytes)

    def __call__(self, structure: Structure, operands: Sequence[int], out: int, threads: int, winners: int = 0) -> None:
        """Run. ``winners`` (num_rows, width) receives the entry that won each element, -1 in rows without entries.

        Of several reductions it is (maxima and minima, num_rows, width).
        """
        work = (structure[4] + structure[3]) * self.layout.width
        threads = num_threads(work, threads)
        tasks = num_tasks(threads, work)
        carry = np.empty(tasks * self.carry_bytes, np.uint8) if tasks > 1 else None
        carried = carry.ctypes.data if carry is not None else 0
        words = [*structure, *self.sizes, out, winners, carried, self.mode, *self.operand_words(operands)]
        launch(self.driver, words, tasks, threads)


class SddmmKernel(_Bound):
    """Computes a value for every entry; ``out`` is (num_edges, width), or (num_edges, groups) for a dot product."""

    def __init__(self, kernel: int, spec: SddmmSpec, layout: Layout) -> None:
        super().__init__(map_driver.address, kernel, spec, layout)
        self.mode = mode_word(spec.dtype, spec.index, Reducer.SUM)

    def __call__(self, structure: Structure, operands: Sequence[int], out: int, threads: int) -> None:
        """Run."""
        work = structure[4] * self.layout.width
        threads = num_threads(work, threads)
        words = [*structure, *self.sizes, out, 0, 0, self.mode, *self.operand_words(operands)]
        launch(self.driver, words, num_tasks(threads, work), threads)


@cache
def bind_spmm(
    expr: Expr, reducer: Reducer, dtype: str, index: str, shapes: Shapes, winners: bool = False
) -> SpmmKernel:
    """Return the kernel for operands with feature ``shapes``."""
    return bind_several(((expr, reducer),), dtype, index, shapes, winners)


@cache
def bind_several(parts: Parts, dtype: str, index: str, shapes: Shapes, winners: bool = False) -> SpmmKernel:
    """Return the kernel that makes several reductions in one pass over the entries.

    Accumulators share the registers with each other and with the winning entries: of two, blocks are half as long.
    """
    selecting = sum(reducer.selects for _, reducer in parts) if winners else 0
    lanes = max(block_lanes(dtype) >> (len(parts) + selecting - 1).bit_length(), LEAST_LANES)
    layout = broadcast_layout(shapes, lanes)
    (expr, reducer), *more = parts
    how = {"dtype": dtype, "index": index, "winners": winners, **spec_of(layout, lanes)}
    spec = SpmmSpec(expr=expr, reducer=reducer, more=tuple(more), **how)
    return SpmmKernel(_spmm_address(spec), spec, layout)


@cache
def bind_sddmm(expr: Expr, dtype: str, index: str, shapes: Shapes, dot: bool = False) -> SddmmKernel:
    """Return the kernel for operands with feature ``shapes``."""
    lanes = block_lanes(dtype)
    layout = broadcast_layout(shapes, lanes, dot)
    spec = SddmmSpec(expr=expr, dot=dot, dtype=dtype, index=index, **spec_of(layout, lanes))
    return SddmmKernel(_sddmm_address(spec), spec, layout)


@cache
def _spmm_address(spec: SpmmSpec) -> int:
    return compile_kernel("spmm", spmm_source(spec))


@cache
def _sddmm_address(spec: SddmmSpec) -> int:
    return compile_kernel("sddmm", sddmm_source(spec))
