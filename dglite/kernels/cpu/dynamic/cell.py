"""Compiled cell kernels: element-wise formulas over runs of rows, and sums of rows. See :mod:`...render.rows`."""

from __future__ import annotations

from functools import lru_cache

from ....expr import Expr
from ...render.rows import RowAccess, cell_source, sum_source
from ..compile.jit import block_lanes, compile_kernel

__all__ = ["formula_kernel", "sum_kernel"]


@lru_cache(maxsize=4096)
def formula_kernel(formulas: tuple[Expr, ...], rows: tuple[RowAccess, ...], dtype: str, width: int) -> int:
    """Return the address of the kernel that computes ``formulas`` over rows of ``width`` values.

    A formula has many values in registers at a time, so its vectors are a quarter of what a sum's accumulators take.
    """
    return compile_kernel("cell", cell_source(formulas, rows, dtype, width, block_lanes(dtype) // 4))


@lru_cache(maxsize=4096)
def sum_kernel(rows: RowAccess, dtype: str, width: int) -> int:
    """Return the address of the kernel that sums rows of ``width`` values."""
    return compile_kernel("sums", sum_source(rows, dtype, width, block_lanes(dtype)))
