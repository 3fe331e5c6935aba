"""Start a compiled kernel: here, or over the threads of the process's OpenMP pool.

A kernel is a function ``(args, task, num_tasks)`` at an address; ``args`` points to 64-bit words (addresses, sizes).
After the tasks have run, the kernel is called once more with ``task = -1`` to merge what they left. The parallel loop
is compiled once for all kernels, so a kernel costs only its own, serial compilation.

Threads come from the OpenMP library that is in the process already, which is torch's. A pool of our own would compete
with it: after each torch operation torch's threads spin for a while on the cores that ours need. Without torch it is
the system's. Where there is no GNU OpenMP (macOS, Windows), Numba's pool serves.
"""

from __future__ import annotations

import ctypes
import os
import threading
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numba
from llvmlite import ir
from numba import prange, types
from numba.extending import intrinsic

from .cached import cfunc, njit
from .simd import word
from .vec import I32, I64

__all__ = ["call_gomp_parallel", "call_kernel", "launch", "launch_at", "num_tasks", "num_threads", "openmp"]

PARALLEL_FROM = 1 << 15
"""Elements of work below which starting threads costs more than it saves."""
TASKS_PER_THREAD = 6


@intrinsic
def call_kernel(typingctx: Any, address: Any, args: Any, task: Any, num_tasks: Any) -> Any:
    """Call the kernel at an address."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, values: tuple[ir.Value, ...]) -> ir.Value:
        kind = ir.FunctionType(ir.VoidType(), [I64, I64, I64])
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), values[1:])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64), codegen


@intrinsic
def call_gomp_parallel(typingctx: Any, address: Any, function: Any, data: Any, threads: Any) -> Any:
    """Call ``GOMP_parallel(function, data, threads, flags=0)``: every thread of a team runs ``function(data)``."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, values: tuple[ir.Value, ...]) -> ir.Value:
        kind = ir.FunctionType(ir.VoidType(), [I64, I64, I32, I32])
        team = builder.trunc(values[3], I32)
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), [values[1], values[2], team, I32(0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64), codegen


@njit("void(int64, int64)", nogil=True)
def _run_here(address, args):  # type: ignore[no-untyped-def]
    call_kernel(address, args, 0, 1)


@intrinsic
def _take_task(typingctx: Any, counter: Any) -> Any:
    """Return the number at ``counter`` and raise it by one, as one step."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, values: tuple[ir.Value, ...]) -> ir.Value:
        return builder.atomic_rmw("add", builder.inttoptr(values[0], I64.as_pointer()), I64(1), "monotonic")

    return types.int64(types.int64), codegen


@cfunc("void(int64)")
def _member(team):  # type: ignore[no-untyped-def]
    """What each thread of a team runs. Words of ``team``: kernel, args, tasks, number of the next task."""
    tasks = word(team, 2)
    task = _take_task(team + 24)
    while task < tasks:
        call_kernel(word(team, 0), word(team, 1), task, tasks)
        task = _take_task(team + 24)


@njit("void(int64, int64, int64, int64)", nogil=True)
def _run_on_openmp(gomp_parallel, member, team, threads):  # type: ignore[no-untyped-def]
    call_gomp_parallel(gomp_parallel, member, team, threads)
    call_kernel(word(team, 0), word(team, 1), -1, word(team, 2))


# Without a signature, so that it is compiled only where it is called: that starts Numba's pool, which, sharing OpenMP,
# would set torch's number of threads.
@njit(nogil=True, parallel=True)
def _run_on_numba(address, args, tasks):  # type: ignore[no-untyped-def]
    for task in prange(tasks):
        call_kernel(address, args, task, tasks)
    call_kernel(address, args, -1, tasks)


Run = Callable[[int, int, int, int], None]


@cache
def _parallel_run() -> Run:
    """Return ``run(kernel, args, tasks, threads)`` on the OpenMP pool in this process, or on Numba's."""
    found, member = openmp("GOMP_parallel"), _member.address
    if found is None:
        return _run_on_numba_pool
    (gomp_parallel,) = found

    def run_on_openmp(kernel: int, args: int, tasks: int, threads: int) -> None:
        team = array("q", (kernel, args, tasks, 0))
        _run_on_openmp(gomp_parallel, member, team.buffer_info()[0], threads)

    return run_on_openmp


@cache
def openmp(*functions: str) -> tuple[int, ...] | None:
    """Return the addresses of functions of GNU OpenMP in the process, else in the system's library, else None."""
    for library in (None, "libgomp.so.1"):
        try:
            loaded = ctypes.CDLL(library)
            return tuple(int(ctypes.cast(loaded[name], ctypes.c_void_p).value or 0) for name in functions)
        except (AttributeError, OSError, TypeError):
            continue
    return None


def _run_on_numba_pool(kernel: int, args: int, tasks: int, threads: int) -> None:
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    _run_on_numba(kernel, args, tasks)


class _Pool:
    """Which thread may use the pool.

    OpenMP pools survive neither a fork nor nested use, so only the main thread goes parallel: loader threads and forked
    workers run kernels serially.
    """

    owner = threading.main_thread().ident

    @classmethod
    def close(cls) -> None:
        cls.owner = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Pool.close)


def num_threads(work: int, threads: int) -> int:
    """Return how many of ``threads`` threads to use for ``work`` elements."""
    if work < PARALLEL_FROM or threads <= 1 or threading.get_ident() != _Pool.owner:
        return 1
    return threads


def num_tasks(threads: int) -> int:
    """Return into how many tasks to cut the work of ``threads`` threads.

    Several for each, taken one after the other: a thread that wakes late or shares its core does fewer of them.
    """
    return 1 if threads == 1 else TASKS_PER_THREAD * threads


def launch(address: int, args: Sequence[int], tasks: int = 1, threads: int = 1) -> None:
    """Run the kernel at ``address`` on the words ``args``, as ``tasks`` tasks on ``threads`` threads."""
    words = array("q", args)
    launch_at(address, words.buffer_info()[0], tasks, threads)


def launch_at(address: int, words: int, tasks: int = 1, threads: int = 1) -> None:
    """Run the kernel at ``address`` on the words that lie at the address ``words``."""
    if threads == 1:
        _run_here(address, words)
    else:
        _parallel_run()(address, words, tasks, threads)
