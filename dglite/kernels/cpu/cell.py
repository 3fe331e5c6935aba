"""Compiled cell kernels: element-wise formulas over runs of rows, and sums of rows. See :mod:`..render_cell`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from llvmlite import ir
from numba import cfunc, types
from numba.extending import intrinsic

from ...expr import Expr
from ..render_cell import Rows, cell_source, cell_spec, sum_source, sum_spec
from .jit import block_lanes, compile_kernel
from .launch import PARALLEL_FROM, call_kernel, launch_at, num_tasks, num_threads
from .simd import word
from .vec import I64

__all__ = ["formula_kernel", "run_chain", "sum_kernel"]


@lru_cache(maxsize=4096)
def formula_kernel(formulas: tuple[Expr, ...], rows: tuple[Rows, ...], dtype: str, width: int) -> int:
    """Return the address of the kernel that computes ``formulas`` over rows of ``width`` values.

    A formula has many values in registers at a time, so its vectors are a quarter of what a sum's accumulators take.
    """
    return compile_kernel("cell", cell_source(cell_spec(formulas, rows, dtype, width, block_lanes(dtype) // 4)))


@lru_cache(maxsize=4096)
def sum_kernel(rows: Rows, dtype: str, width: int) -> int:
    """Return the address of the kernel that sums rows of ``width`` values."""
    return compile_kernel("sums", sum_source(sum_spec(rows, dtype, width, block_lanes(dtype))))


@intrinsic
def _put_word(typingctx: Any, address: Any, i: Any, value: Any) -> Any:
    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        builder.store(args[2], builder.gep(builder.inttoptr(args[0], I64.as_pointer()), [args[1]]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@cfunc("void(int64, int64, int64)", cache=True)
def _chain(args, task, num_tasks):  # type: ignore[no-untyped-def]
    """Run kernels one after the other on the same rows. Words: first row, last row, number, (kernel, its words) ..."""
    for i in range(word(args, 2)):
        words = word(args, 4 + 2 * i)
        _put_word(words, 0, word(args, 0))
        _put_word(words, 1, word(args, 1))
        call_kernel(word(args, 3 + 2 * i), words, task, num_tasks)


def run_chain(words: int, work: int, threads: int) -> None:
    """Run the kernels of a chain, whose words lie at an address; ``work`` is about how many elements they do.

    A task runs all of them on its share of the rows, so a kernel may read what those before it wrote to the same row.
    """
    if work < PARALLEL_FROM or threads == 1:
        launch_at(_CHAIN, words)
        return
    used = num_threads(work, threads)
    launch_at(_CHAIN, words, num_tasks(used), used)


_CHAIN = _chain.address
