"""Products of a few rows with a matrix, and their gradients. See :mod:`..render_product`."""

from __future__ import annotations

from functools import lru_cache

from ..render_product import column_sum_source, outer_source, product_source
from .jit import block_lanes, compile_kernel

__all__ = ["MOST_ROWS", "MOST_ROWS_OUTER", "MOST_ROWS_TURNED", "column_sum_kernel", "outer_kernel", "product_kernel"]

MOST_ROWS, MOST_ROWS_TURNED, MOST_ROWS_OUTER = 24, 48, 24
"""From more rows on a GEMM is faster than the product, the product with a turned matrix, the gradient of a matrix."""


def _lanes(dtype: str, width: int) -> int:
    """Return how many values a vector has, 0 where rows of so many values are not full vectors."""
    lanes = block_lanes(dtype) // 8
    return 0 if width % lanes else lanes


@lru_cache(maxsize=64)
def product_kernel(dtype: str, width: int, turned: bool) -> int:
    """Return the address of the kernel for matrices of ``width`` columns; 0 where rows are not full vectors."""
    lanes = _lanes(dtype, width)
    return lanes and compile_kernel("product", product_source(dtype, lanes, turned))


@lru_cache(maxsize=64)
def outer_kernel(dtype: str, width: int) -> int:
    """Return the address of the kernel for gradients of matrices of ``width`` columns; 0 where there is none."""
    lanes = _lanes(dtype, width)
    return lanes and compile_kernel("outer", outer_source(dtype, lanes))


@lru_cache(maxsize=64)
def column_sum_kernel(dtype: str, width: int) -> int:
    """Return the address of the kernel that sums rows of ``width`` values; 0 where there is none."""
    lanes = _lanes(dtype, width)
    return lanes and compile_kernel("column_sum", column_sum_source(dtype, lanes))
