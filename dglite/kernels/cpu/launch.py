"""Start a compiled kernel: here, or over the threads of Numba's pool.

A kernel is a function ``(args, task, num_tasks)`` at an address; ``args`` points to 64-bit words (addresses, sizes).
After the tasks have run, the kernel is called once more with ``task = -1`` to merge what they left. The one parallel
loop is compiled once for all kernels, so a kernel costs only its own, serial compilation.
"""

from __future__ import annotations

import os
import threading
from array import array
from collections.abc import Sequence
from typing import Any

import numba
from llvmlite import ir
from numba import njit, prange, types
from numba.extending import intrinsic

from .vec import I64

__all__ = ["launch", "num_tasks"]

PARALLEL_FROM = 1 << 15
"""Elements of work below which starting threads costs more than it saves."""


@intrinsic
def _call(typingctx: Any, address: Any, args: Any, task: Any, num_tasks: Any) -> Any:
    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, values: tuple[ir.Value, ...]) -> ir.Value:
        kind = ir.FunctionType(ir.VoidType(), [I64, I64, I64])
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), values[1:])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64), codegen


@njit("void(int64, int64)", nogil=True, cache=True)
def _run_here(address, args):  # type: ignore[no-untyped-def]
    _call(address, args, 0, 1)


@njit("void(int64, int64, int64)", nogil=True, parallel=True, cache=True)
def _run_threads(address, args, tasks):  # type: ignore[no-untyped-def]
    for task in prange(tasks):
        _call(address, args, task, tasks)
    _call(address, args, -1, tasks)


class _Pool:
    """Whether this thread may use the pool, and how many threads it is set to.

    OpenMP pools survive neither a fork nor nested use, so only the thread that imported this module goes parallel:
    loader threads and forked workers run kernels serially.
    """

    owner = threading.main_thread().ident
    limit = numba.config.NUMBA_NUM_THREADS
    current = 0

    @classmethod
    def close(cls) -> None:
        cls.owner = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Pool.close)


def num_tasks(work: int, threads: int) -> int:
    """Return over how many tasks to spread ``work`` elements when ``threads`` threads may be used."""
    if work < PARALLEL_FROM or threads <= 1 or threading.get_ident() != _Pool.owner:
        return 1
    return min(threads, _Pool.limit)


def launch(address: int, args: Sequence[int], tasks: int = 1) -> None:
    """Run the kernel at ``address`` on the words ``args``."""
    words = array("q", args)
    if tasks == 1:
        _run_here(address, words.buffer_info()[0])
        return
    if tasks != _Pool.current:
        numba.set_num_threads(tasks)
        _Pool.current = tasks
    _run_threads(address, words.buffer_info()[0], tasks)
