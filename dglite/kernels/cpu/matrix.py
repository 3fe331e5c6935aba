"""Compiled kernels of what processors do to matrices. See :mod:`..render_matrix`."""

from __future__ import annotations

from functools import lru_cache

from ..render_matrix import matrix_source, run_source
from .jit import block_lanes, compile_kernel

__all__ = ["matrix_kernel", "run_kernel"]


@lru_cache(maxsize=256)
def matrix_kernel(form: str, dtype: str) -> int:
    """Return the address of the kernel of a form."""
    return compile_kernel("matrix", matrix_source(form, dtype, block_lanes(dtype) // 8))


@lru_cache(maxsize=64)
def run_kernel(form: str, dtype: str) -> int:
    """Return the address of the kernel of ``dots`` or ``sums`` for a run of rows."""
    return compile_kernel("matrix", run_source(form, dtype, block_lanes(dtype) // 8))
