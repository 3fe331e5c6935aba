"""Products of a few rows with a matrix, on the threads of the process's pool. See :mod:`..render_product`."""

from __future__ import annotations

from functools import lru_cache

from ..render_product import product_source
from .jit import block_lanes, compile_kernel
from .launch import PARALLEL_FROM, launch_at, num_threads

__all__ = ["MOST_ROWS", "product_kernel", "run_product"]

MOST_ROWS = 8
"""From more rows on a GEMM is faster."""


@lru_cache(maxsize=64)
def product_kernel(dtype: str, width: int, turned: bool) -> int:
    """Return the address of the kernel for matrices of ``width`` columns; 0 where rows are not full vectors."""
    lanes = block_lanes(dtype) // 8
    return 0 if width % lanes else compile_kernel("product", product_source(dtype, lanes, turned))


def run_product(kernel: int, words: int, work: int, threads: int) -> None:
    """Run a product on the words at an address; ``work`` is the number of elements of the matrix."""
    used = num_threads(work, threads) if work >= PARALLEL_FROM and threads > 1 else 1
    launch_at(kernel, words, used, used)
