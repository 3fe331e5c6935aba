"""Compiled kernels of products of some rows with a matrix, and of their gradients. See :mod:`...render.matrix`."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ...render.matrix import matrix_source, run_source
from ..compile.jit import block_lanes, compile_kernel

__all__ = ["ADD", "MOST_ROWS", "SET", "matrix_kernel", "run_kernel"]

MOST_ROWS = {"sums": 24, "dots": 48, "outer": 24}
"""From more rows on a GEMM is faster."""
_PAIRS = {name: np.array([[0.0, 1.0], [1.0, 1.0]], name) for name in ("float32", "float64")}
SET = {name: pairs.ctypes.data for name, pairs in _PAIRS.items()}
ADD = {name: SET[name] + pairs.strides[0] for name, pairs in _PAIRS.items()}
"""Addresses of what is kept of a gradient, and of the scale of what is added."""


@lru_cache(maxsize=256)
def matrix_kernel(form: str, dtype: str) -> int:
    """Return the address of the kernel of a form."""
    return compile_kernel("matrix", matrix_source(form, dtype, block_lanes(dtype) // 8))


@lru_cache(maxsize=64)
def run_kernel(form: str, dtype: str) -> int:
    """Return the address of the kernel of ``dots`` or ``sums`` for a run of rows."""
    return compile_kernel("matrix", run_source(form, dtype, block_lanes(dtype) // 8))
