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

import ctypes
from functools import cache
from typing import NamedTuple

import numpy as np

from ..compile.written import Kernel
from ..lanes.atomic import add_to_word, call_at, call_int, pause, put_word, read_word, take_bit
from ..lanes.simd import word
from ..run.launch import PARALLEL_FROM, launch_at, num_threads, pool_functions, run_team
from ..run.threads import thread_number

START, EDGES, MOST, WORK, FIXED_WORK, OWN, STAGE_COLUMNS = range(7)
"""A stage: where its words are (-1: no kernels), whether its rows are edges, for how many rows its kernels are the
faster way, work of a row, work besides, its number among its owner's stages (-1: kernels do it whatever the rows)."""
_LOOKS = 50
"""How often to look whether a line is done before letting other threads have the core: some may have none."""
LINE_START, LINE_FIRST, LINE_LAST, LINE_OWN, LINE_COLUMNS = range(5)
"""A line: where the words of its kernels are, first and last row, the number of the stage that its owner runs (-1:
kernels do)."""


class StageTables(NamedTuple):
    """Stages of one direction, and the rows that they run on; matrices by rows.

    ``stages`` has those of each class and phase (eager, sweep, late): of class ``classes[i]`` those from
    ``bounds[3 i + phase]`` on. ``ends`` (2, classes + 1) are where rows and edges of classes begin, ``segments`` lists
    (class, first row, last row) level by level, and ``segment_edges`` the edges of these rows.
    """

    stages: np.ndarray
    bounds: np.ndarray
    classes: np.ndarray
    ends: np.ndarray
    segments: np.ndarray
    segment_edges: np.ndarray


def arrange(tables: StageTables, backward: bool, limited: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the lines of a schedule, the numbers of those that its owner runs, and the work in a line.

    With ``limited`` the owner runs stages of too many rows for their kernels. ``work`` is an average over the lines of
    kernels.
    """
    positions, counts = np.full(len(tables.ends) // 2, -1), np.zeros(_NUM_COUNTS, np.int64)
    positions[tables.classes] = np.arange(len(tables.classes))
    most = len(tables.stages) // STAGE_COLUMNS + _count_swept(tables, positions)
    lines, by_python = np.empty((most, LINE_COLUMNS), np.int64), np.empty(most, np.int64)
    _arrange(tables, positions, backward, limited, lines.reshape(-1), by_python, counts)
    num_lines, num_own, work = counts.tolist()
    return lines[:num_lines], by_python[:num_own], work // max(num_lines - num_own, 1)


_LINES, _OWN_LINES, _WORK, _NUM_COUNTS = range(4)


@Kernel
def _count_swept(tables: StageTables, positions: np.ndarray) -> int:
    """Return how many lines the levels have at most; ``positions`` are those of classes, or -1."""
    count = 0
    for step in range(len(tables.segments) // 3):
        i = positions[tables.segments[3 * step]]
        if i >= 0:
            count += tables.bounds[3 * i + 2] - tables.bounds[3 * i + 1]
    return count


@Kernel
def _arrange(
    tables: StageTables,
    positions: np.ndarray,
    backward: int,
    limited: int,
    lines: np.ndarray,
    by_python: np.ndarray,
    counts: np.ndarray,
) -> None:
    num_steps, num_ends = len(tables.segments) // 3, len(tables.ends) // 2
    for phase in range(3):
        for turn in range(num_steps if phase == 1 else len(tables.classes)):
            if phase == 1:
                step = num_steps - 1 - turn if backward else turn
                i = positions[tables.segments[3 * step]]
                first, last = tables.segments[3 * step + 1], tables.segments[3 * step + 2]
                first_edge, last_edge = tables.segment_edges[2 * step], tables.segment_edges[2 * step + 1]
            else:
                i, c = turn, tables.classes[turn]
                first, last = tables.ends[c], tables.ends[c + 1]
                first_edge, last_edge = tables.ends[num_ends + c], tables.ends[num_ends + c + 1]
            if i < 0:
                continue
            for s in range(tables.bounds[3 * i + phase], tables.bounds[3 * i + phase + 1]):
                stage = tables.stages[s * STAGE_COLUMNS : (s + 1) * STAGE_COLUMNS]
                if stage[EDGES]:
                    _add_line(stage, first_edge, last_edge, limited, lines, by_python, counts)
                else:
                    _add_line(stage, first, last, limited, lines, by_python, counts)


@Kernel
def _add_line(
    stage: np.ndarray, first: int, last: int, limited: int, lines: np.ndarray, by_python: np.ndarray, counts: np.ndarray
) -> None:
    """Write the line of a stage for a run of rows, if there are any."""
    if first >= last:
        return
    at = counts[_LINES]
    by_owner = stage[START] < 0 or (limited and last - first > stage[MOST])
    line = lines[at * LINE_COLUMNS : (at + 1) * LINE_COLUMNS]
    line[LINE_START], line[LINE_FIRST], line[LINE_LAST], line[LINE_OWN] = stage[START], first, last, -1
    if by_owner:
        line[LINE_OWN] = stage[OWN]
    else:
        counts[_WORK] += (last - first) * stage[WORK] + stage[FIXED_WORK]
    if line[LINE_OWN] >= 0:
        by_python[counts[_OWN_LINES]] = at
        counts[_OWN_LINES] += 1
    counts[_LINES] += 1


# -- going through the lines -------------------------------------------------------------------------------------------
@Kernel
def _run_line(words: int, line: int, task: int, num_tasks: int) -> None:
    """Do a task's share of a line. Words of a stage: number of kernels, then (kernel, words) of each."""
    stage = words + 8 * word(line, LINE_START)
    for i in range(word(stage, 0)):
        args = word(stage, 2 + 2 * i)
        put_word(args, 0, word(line, LINE_FIRST))
        put_word(args, 1, word(line, LINE_LAST))
        call_at(word(stage, 1 + 2 * i), args, task, num_tasks)


@Kernel
def wait_for(address: int, count: int, looks: int, yield_: int) -> None:
    """Wait until other threads have raised the word at ``address`` to ``count``; after ``looks`` let others run."""
    while read_word(address) < count:
        looks -= 1
        if looks >= 0 or yield_ == 0:
            pause()
        else:
            call_int(yield_, 0, 0)


@Kernel
def _go_through(team: int, me: int, shares: int) -> None:
    """Go through lines with others. Words of ``team``: words of the stages, bytes from one thread's to the next one's,
    lines, first and last line, number of shares, the lines' marks, then the functions that tell the thread's number and
    let others run (0: there is none). Marks of a line are which shares are taken, and how many are done.
    """
    words = word(team, 0) + me * word(team, 1)
    for i in range(word(team, 3), word(team, 4)):
        marks = word(team, 6) + 16 * i
        for k in range(shares):
            share = (me + k) % shares
            if take_bit(marks, share):
                _run_line(words, word(team, 2) + 8 * LINE_COLUMNS * i, share, shares)
                add_to_word(marks + 8, 1)
        wait_for(marks + 8, shares, _LOOKS, word(team, 8))


@Kernel
def member(team: int, number: int) -> None:
    """What each thread of a team runs."""
    _go_through(team, thread_number(word(team, 7), number), word(team, 5))


@Kernel
def share_of_lines(team: int, task: int, num_tasks: int) -> None:
    """Go through lines as a kernel, whose tasks must run at the same time: those of :mod:`.processors` do."""
    if task >= 0:
        _go_through(team, task, num_tasks)


_MEMBER, LINES = member.address, share_of_lines.address
_MOST_THREADS = 32
SHARED_FROM = PARALLEL_FROM // 2
"""The work in a line above which several threads go through lines."""


def team_of(threads: int) -> int:
    """Return how many of ``threads`` threads go through lines of so much work each. Each has its own words."""
    return min(num_threads(PARALLEL_FROM, threads), _MOST_THREADS)


@cache
def yield_address() -> int:
    """Return the address of what lets other threads run; 0 where the system has none that we know."""
    for library, name in ((None, "sched_yield"), ("kernel32", "SwitchToThread")):
        try:
            return ctypes.cast(getattr(ctypes.CDLL(library), name), ctypes.c_void_p).value or 0
        except (AttributeError, OSError, TypeError):
            continue
    return 0


def script_functions() -> tuple[int, int]:
    """Return words 7 and 8 of a team: addresses of functions that tell a thread's number, and let other threads run."""
    return pool_functions(1)[1], yield_address()


def run_lines(team: np.ndarray, first: int, last: int) -> None:
    """Run the lines from ``first`` to before ``last`` of a team, whose words say for how many threads."""
    if first >= last:
        return
    team[3:5] = first, last
    at, threads = team.ctypes.data, int(team[5])
    if threads == 1:
        launch_at(LINES, at)
    else:
        run_team(_MEMBER, at, threads)
