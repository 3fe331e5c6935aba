"""A whole sweep over the levels of a graph, in one call: which kernel does which rows, one line after the other.

A *stage* is a chain of row kernels that one class of vertices runs. A schedule lists lines (stage, first row, last
row): what is eager for all vertices, then level by level what is swept, then what is late. A team of threads goes
through the lines together: each takes its share of a line's rows, or of the result's columns, then what is left of the
others', and waits until all of it is done. So nobody waits for a thread that has no core to run on, which a barrier
of the team does, at every line.

Stages that are no kernels (large products, functions of a tensor library) are lines too. They belong to whoever runs
the schedule, which stops there.
"""

from __future__ import annotations

from array import array
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .cached import cfunc, njit
from .launch import call_kernel, launch, launch_at, num_threads, openmp, run_team
from .simd import word
from .vec import I32, I64

__all__ = ["FIXED_WORK", "LINES", "OWN", "STAGE_COLUMNS", "START", "WORK", "arrange", "run_lines", "run_script"]
__all__ += ["script_functions", "team_of"]

START, EDGES, MOST, GRADIENT, WORK, FIXED_WORK, OWN, STAGE_COLUMNS = range(8)
"""A stage: where its words are (-1: no kernels), whether its rows are edges, for how many rows its kernels are good, of
which parameter it adds to the gradient (-1: none), work of a row, work besides, its number among its owner's stages."""
_SPINS = 2000
"""How often to look whether a line is done before letting other processes run."""
LINE_START, LINE_FIRST, LINE_LAST, LINE_ADDS, LINE_OWN, LINE_COLUMNS = range(6)
"""A line: where the words of its kernels are, first and last row, whether it adds to a gradient that has been begun,
the number of the stage that its owner runs (-1: kernels do)."""
_UNTOUCHED, _BY_OWNER, _BY_KERNELS = range(3)


@njit(nogil=True)
def _add_line(
    stage: np.ndarray, rows: np.ndarray, edges: np.ndarray, lines: np.ndarray, at: int, touched: np.ndarray
) -> int:
    """Write the line of a stage for a run of rows; return the work in it, -1 where nothing is to be done."""
    first, last = (edges[0], edges[1]) if stage[EDGES] else (rows[0], rows[1])
    if first >= last:
        return -1
    own = stage[START] < 0 or last - first > stage[MOST]
    lines[at, LINE_START], lines[at, LINE_FIRST], lines[at, LINE_LAST] = stage[START], first, last
    lines[at, LINE_ADDS], lines[at, LINE_OWN] = 0, stage[OWN] if own else -1
    gradient = stage[GRADIENT]
    if gradient >= 0:
        lines[at, LINE_ADDS] = touched[gradient] != _UNTOUCHED
        touched[gradient] = max(touched[gradient], _BY_OWNER if own else _BY_KERNELS)
    return 0 if own else (last - first) * stage[WORK] + stage[FIXED_WORK]


@njit(nogil=True)
def arrange(
    stages: np.ndarray,
    bounds: np.ndarray,
    classes: np.ndarray,
    class_rows: np.ndarray,
    class_edges: np.ndarray,
    steps: np.ndarray,
    step_edges: np.ndarray,
    backward: bool,
    num_gradients: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return the lines of a schedule, those that its owner runs, what happens to each gradient, and the work in a line.

    ``stages`` has the stages of each class and phase (eager, sweep, late): of class ``classes[i]`` those from
    ``bounds[3 i + phase]`` on. ``steps`` lists (class, first row, last row) level by level. A gradient is 0 where no
    line adds to it, 2 where kernels do, else 1. ``work`` is an average over the lines of kernels.
    """
    count = len(stages)
    for step in range(len(steps)):
        for i in range(len(classes)):
            if classes[i] == steps[step, 0]:
                count += bounds[3 * i + 2] - bounds[3 * i + 1]
    lines, touched = np.empty((count, LINE_COLUMNS), np.int64), np.zeros(num_gradients, np.int64)
    at, work, kernels = 0, 0, 0
    for phase in range(3):
        turns = len(steps) if phase == 1 else len(classes)
        for turn in range(turns):
            i = turn
            if phase == 1:
                step = len(steps) - 1 - turn if backward else turn
                rows, edges = steps[step, 1:], step_edges[step]
                i = 0
                while classes[i] != steps[step, 0]:
                    i += 1
            else:
                rows, edges = class_rows[classes[i] : classes[i] + 2], class_edges[classes[i] : classes[i] + 2]
            for s in range(bounds[3 * i + phase], bounds[3 * i + phase + 1]):
                found = _add_line(stages[s], rows, edges, lines, at, touched)
                if found >= 0:
                    kernels += lines[at, LINE_OWN] < 0
                    at, work = at + 1, work + found
    own, num_own = np.empty(at, np.int64), 0
    for line in range(at):
        if lines[line, LINE_OWN] >= 0:
            own[num_own] = line
            num_own += 1
    return lines[:at].copy(), own[:num_own].copy(), touched, work // max(kernels, 1)


# -- going through the lines -------------------------------------------------------------------------------------------
@intrinsic
def _put_word(typingctx: Any, address: Any, i: Any, value: Any) -> Any:
    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        builder.store(args[2], builder.gep(builder.inttoptr(args[0], I64.as_pointer()), [args[1]]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def _call_number(typingctx: Any, address: Any) -> Any:
    """Call ``int function(void)``."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        kind = ir.FunctionType(I32, [])
        return builder.sext(builder.call(builder.inttoptr(args[0], kind.as_pointer()), []), I64)

    return types.int64(types.int64), codegen


@intrinsic
def _add_to_word(typingctx: Any, address: Any, value: Any) -> Any:
    """Add to the word at an address, as one step; return what was there. Writes before it are seen by who sees it."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        return builder.atomic_rmw("add", builder.inttoptr(args[0], I64.as_pointer()), args[1], "acq_rel")

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def _take_bit(typingctx: Any, address: Any, bit: Any) -> Any:
    """Set a bit of the word at an address, as one step; return whether it was not set."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        mask = builder.shl(I64(1), args[1])
        known = builder.atomic_rmw("or", builder.inttoptr(args[0], I64.as_pointer()), mask, "acq_rel")
        return builder.icmp_unsigned("==", builder.and_(known, mask), I64(0))

    return types.boolean(types.int64, types.int64), codegen


@intrinsic
def _read_word(typingctx: Any, address: Any) -> Any:
    """Read a word that another thread may write."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        return builder.load_atomic(builder.inttoptr(args[0], I64.as_pointer()), "acquire", 8)

    return types.int64(types.int64), codegen


@njit(error_model="numpy")
def _run_line(words, line, task, num_tasks):  # type: ignore[no-untyped-def]
    """Do a task's share of a line. Words of a stage: number of kernels, place of ``adds`` or 0, (kernel, words) ..."""
    stage = words + 8 * word(line, LINE_START)
    adds = word(stage, 1)
    for i in range(word(stage, 0)):
        args = word(stage, 3 + 2 * i)
        _put_word(args, 0, word(line, LINE_FIRST))
        _put_word(args, 1, word(line, LINE_LAST))
        if adds:
            _put_word(args, adds, word(line, LINE_ADDS))
        call_kernel(word(stage, 2 + 2 * i), args, task, num_tasks)


@njit(error_model="numpy")
def _go_through(team, me, shares):  # type: ignore[no-untyped-def]
    """Go through lines with others. Words of ``team``: words of the stages, bytes from one thread's to the next one's,
    lines, first and last line, number of shares, the lines' marks, then the functions that tell the thread's number and
    let others run (0: there is none). Marks of a line are which shares are taken, and how many are done.
    """
    words = word(team, 0) + me * word(team, 1)
    for i in range(word(team, 3), word(team, 4)):
        marks = word(team, 6) + 16 * (i - word(team, 3))
        for k in range(shares):
            share = (me + k) % shares
            if _take_bit(marks, share):
                _run_line(words, word(team, 2) + 8 * LINE_COLUMNS * i, share, shares)
                _add_to_word(marks + 8, 1)
        spins = 0
        while _read_word(marks + 8) < shares:
            spins += 1
            if spins > _SPINS and word(team, 8) != 0:
                _call_number(word(team, 8))


@cfunc("void(int64)")
def _member(team):  # type: ignore[no-untyped-def]
    """What each thread of a team runs."""
    _go_through(team, _call_number(word(team, 7)), word(team, 5))


@cfunc("void(int64, int64, int64)")
def _lines(team, task, num_tasks):  # type: ignore[no-untyped-def]
    """Go through lines as a kernel, whose tasks must run at the same time: those of :mod:`.processors` do."""
    if task >= 0:
        _go_through(team, task, num_tasks)


@njit("void(int64, int64, int64, int64)", nogil=True)
def _run_alone(words, lines, first, last):  # type: ignore[no-untyped-def]
    for i in range(first, last):
        _run_line(words, lines + 8 * LINE_COLUMNS * i, 0, 1)


@cfunc("void(int64, int64, int64)")
def _line_kernel(args, task, num_tasks):  # type: ignore[no-untyped-def]
    """Do a line as a kernel of its own: where threads cannot wait for each other."""
    if task >= 0:
        _run_line(word(args, 0) + task * word(args, 1), word(args, 2), task, num_tasks)


_MEMBER, _LINE, LINES = _member.address, _line_kernel.address, _lines.address
_FUNCTIONS = ("GOMP_parallel", "omp_get_thread_num", "sched_yield")
_MOST_THREADS = 32


def team_of(work: int, threads: int) -> int:
    """Return how many of ``threads`` threads go through lines of so much work each. Each has its own words."""
    return min(num_threads(2 * work, threads), _MOST_THREADS)


@cache
def script_functions() -> tuple[int, int]:
    """Return words 7 and 8 of a team: the addresses of functions that tell a thread's number, and let other threads run
    (0 where there is none)."""
    found = openmp(*_FUNCTIONS)
    return (0, 0) if found is None else (found[1], found[2])


def run_script(teams: np.ndarray, which: int, threads: int) -> None:
    """Go through the lines of one of several teams, whose words are for so many threads."""
    team, found = teams.ctypes.data + which * teams.strides[0], openmp(*_FUNCTIONS)
    if threads == 1:
        launch_at(LINES, team)
    elif found is not None:
        run_team(found[0], _MEMBER, team, threads)
    else:
        words, size, lines, first, last = teams[which, :5].tolist()
        for i in range(first, last):
            launch(_LINE, (words, size, lines + 8 * LINE_COLUMNS * i), threads, threads)


def run_lines(words: np.ndarray, lines: np.ndarray, first: int, last: int) -> None:
    """Run the lines from ``first`` to before ``last``; ``words`` (threads, words) are those of each thread."""
    threads, size = words.shape
    at, listed = words.ctypes.data, lines.ctypes.data
    if threads == 1:
        _run_alone(at, listed, first, last)
        return
    found = openmp(*_FUNCTIONS)
    if found is None:
        for i in range(first, last):
            launch(_LINE, (at, 8 * size, listed + 8 * LINE_COLUMNS * i), threads, threads)
        return
    marks = np.zeros((last - first, 2), np.int64)
    team = array("q", (at, 8 * size, listed, first, last, threads, marks.ctypes.data, *found[1:]))
    run_team(found[0], _MEMBER, team.buffer_info()[0], threads)
