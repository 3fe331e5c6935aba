"""Launch a compiled kernel: on this thread, or on the threads of the process's OpenMP pool.

A kernel is a function ``(args, task, num_tasks)`` at an address; ``args`` points to 64-bit words (addresses, sizes).
After the tasks have run, the kernel is called once more with ``task = -1`` to merge what they left. The parallel loop
is compiled once for all kernels, so a kernel costs only its own, serial compilation.

Threads come from the OpenMP library that is in the process already, which is torch's. A pool of our own would compete
with it: after each torch operation torch's threads spin for a while on the cores that ours need. Without torch it is
the system's library. Without GNU OpenMP (macOS, Windows) kernels use threads of our own (:mod:`.threads`). One Python
thread at a time uses the pool; another one runs its tasks itself, the same ones, so that results do not depend on it.

Tasks are rows in order, and each thread begins with the same share of them in every kernel: so it reads rows that it
wrote itself, which are in the caches near its core. Then it takes tasks of other threads.
"""

from __future__ import annotations

import ctypes
import os
import struct
from array import array
from collections.abc import Sequence
from functools import cache

from llvmlite import ir

from ..compile.written import Kernel
from ..lanes.atomic import call_at, put_word, word_at
from ..lanes.simd import word
from ..lanes.types import I32, I64, boolean, int64, none
from ..lanes.values import call_address, intrinsic
from .threads import mail_address, run_on_threads, start_threads, thread_number

PARALLEL_FROM = 1 << 15
"""Elements of work below which starting threads costs more than it saves."""
TASKS_PER_THREAD = 6
NEXT = 7
"""The first of a team's words that hold each thread's next task."""
_NO_TASK = array("q", (0,))
WORK_PER_CALL = 1 << 25
"""Elements of work for each thread after which a kernel returns to Python, for signals: a tenth of a second or so."""


@intrinsic(none, int64, int64, int64, int64)
def _call_gomp_parallel(builder: ir.IRBuilder, address: ir.Value, *call: ir.Value) -> None:
    """Call ``GOMP_parallel(function, data, threads, flags=0)``: every thread of a team runs ``function(data)``."""
    function, data, threads = call
    call_address(builder, ir.VoidType(), address, [function, data, builder.trunc(threads, I32), I32(0)])


@intrinsic(int64, int64)
def _take_task(builder: ir.IRBuilder, counter: ir.Value) -> ir.Value:
    """Return the number at ``counter`` and raise it by one, as one step."""
    return builder.atomic_rmw("add", word_at(builder, counter), I64(1), "monotonic")


@intrinsic(boolean, int64)
def _take_pool(builder: ir.IRBuilder, pool: ir.Value) -> ir.Value:
    """Set the word at ``pool`` from 0 to 1, as one step; return whether it was 0."""
    place = word_at(builder, pool)
    return builder.extract_value(builder.cmpxchg(place, I64(0), I64(1), "acquire", "monotonic"), 1)


@intrinsic(none, int64)
def _give_pool(builder: ir.IRBuilder, pool: ir.Value) -> None:
    """Set the word at ``pool`` to 0; count in the next one."""
    place = word_at(builder, pool)
    count = builder.gep(place, [I64(1)])
    builder.store(builder.add(builder.load(count), I64(1)), count)
    builder.store_atomic(I64(0), place, "release", 8)


@Kernel
def _run_here(address: int, args: int) -> None:
    call_at(address, args, 0, 1)


run_here = _run_here.entry(0, 0)
"""``run_here(address, args)``: run the kernel at an address as one task on the words that lie at ``args``."""


@Kernel
def member(team: int, number: int) -> None:
    """What each thread of a team runs. Words of ``team``: kernel, args, tasks, number of the first task, and of the one
    at which to stop, threads, the function that tells a thread's number, then the next task of each thread."""
    tasks, first, stop, threads = word(team, 2), word(team, 3), word(team, 4), word(team, 5)
    me = thread_number(word(team, 6), number)
    for turn in range(threads):
        owner = (me + turn) % threads
        next_task, last = team + 8 * (NEXT + owner), first + (stop - first) * (owner + 1) // threads
        task = _take_task(next_task)
        while task < last:
            call_at(word(team, 0), word(team, 1), task, tasks)
            task = _take_task(next_task)


# The pool is taken and given back without Python in between: an interrupt there would leave it taken.
@Kernel
def _run_team(gomp_parallel: int, member: int, team: int, threads: int, pool: int) -> None:
    if threads > 1 and _take_pool(pool):
        if gomp_parallel != 0:
            _call_gomp_parallel(gomp_parallel, member, team, threads)
        else:
            run_on_threads(word(pool, 2), member, team, threads)
        _give_pool(pool)
    else:
        call_at(member, team, 0)


@Kernel
def _run_tasks(gomp_parallel: int, member: int, team: int, threads: int, pool: int) -> None:
    first, stop = word(team, 3), word(team, 4)
    for thread in range(threads):
        put_word(team, NEXT + thread, first + (stop - first) * thread // threads)
    _run_team(gomp_parallel, member, team, threads, pool)
    if word(team, 4) == word(team, 2):
        call_at(word(team, 0), word(team, 1), -1, word(team, 2))


class _Pool:
    """Who may use the threads: whoever finds them free, one at a time.

    ``words``: whether they are taken, how often they were used, and where threads of our own have their words. A forked
    child finds them taken for ever: threads do not survive a fork.
    """

    words = array("q", (0, 0, mail_address()))
    address = words.buffer_info()[0]
    closed = False

    @classmethod
    def close(cls) -> None:
        cls.words[0], cls.closed = 1, True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Pool.close)


def parallel_launches() -> int:
    """Return how often the threads of the pool were used in this process."""
    return _Pool.words[1]


def run_team(member: int, team: int, threads: int) -> None:
    """Let each of ``threads`` threads call the function (team, number) at ``member``, see :mod:`.threads`.

    Where another thread of Python uses the pool it is this one alone: a single call must do all that there is to do.
    """
    _run_team(pool_functions(threads)[0], member, team, threads, _Pool.address)


def pool_functions(threads: int) -> tuple[int, ...]:
    """Return the addresses of OpenMP's functions that start a team of ``threads`` threads and tell a thread's number; 0
    for both without OpenMP: the threads are our own then."""
    functions = openmp("GOMP_parallel", "omp_get_thread_num")
    if functions is not None:
        return functions
    if not _Pool.closed:
        start_threads(threads)
    return 0, 0


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


def num_threads(work: int, threads: int) -> int:
    """Return how many of ``threads`` threads to use for ``work`` elements."""
    return 1 if work < PARALLEL_FROM or threads <= 1 or _Pool.closed else threads


def num_calls(work: int, threads: int = 1) -> int:
    """Return into how many calls to cut ``work`` elements: Python sees to an interrupt after each of them."""
    return 1 + work // (WORK_PER_CALL * threads)


def tasks_for(work: int, threads: int) -> tuple[int, int]:
    """Return into how many tasks to cut ``work`` elements, and how many of ``threads`` threads to use for them.

    Tasks are several for each thread and call, taken one after the other: a thread that wakes late or shares its core
    does fewer of them.
    """
    if work < PARALLEL_FROM or threads <= 1 or _Pool.closed:
        if work < WORK_PER_CALL:
            return 1, 1
        threads = 1
    return TASKS_PER_THREAD * threads * (1 + work // (WORK_PER_CALL * threads)), threads


def as_word(value: int | float) -> int:
    """Return 64 bits as a signed number: those of a double, or of a number from 0 up to 2**64."""
    kind = "d" if isinstance(value, float) else "Q"
    word: int = struct.unpack("q", struct.pack(kind, value))[0]
    return word


def launch(address: int, args: Sequence[int], tasks: int = 1, threads: int = 1) -> None:
    """Run the kernel at ``address`` on the words ``args``, as ``tasks`` tasks on ``threads`` threads."""
    words = array("q", args)
    launch_at(address, words.buffer_info()[0], tasks, threads)


def launch_at(address: int, words: int, tasks: int = 1, threads: int = 1) -> None:
    """Run the kernel at ``address`` on the words that lie at the address ``words``."""
    if tasks == 1:
        run_here(address, words)
        return
    (gomp_parallel, thread_num), several = pool_functions(threads), TASKS_PER_THREAD * threads
    for first in range(0, tasks, several):
        stop = first + several if first + several < tasks else tasks
        team = array("q", (address, words, tasks, first, stop, threads, thread_num)) + _NO_TASK * threads
        _run_tasks(gomp_parallel, member.address, team.buffer_info()[0], threads, _Pool.address)
