"""From the batches of a step of training to the script of all processors. Serial, and it releases the lock.

What must be computed comes as rows of a program (see :func:`.program.build`): element-wise steps that need no wait
among them, and operations on whole batches, products and losses. Large ones are done by all processors together, each
its columns or the rows of the matrix that it owns; small ones go to the least loaded processor. Before what depends on
others there is a wait, unless the same processor did all since the last one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile.cached import njit
from . import program
from .batching import PLACE_BITS, PLACE_MASK
from .processors import CHECK, INSTRUCTION_WORDS, WAIT

ALONGSIDE, FOLLOWS, CONTINUES = range(3)
WORTH_SHARING = 1024
"""Values up to which a step is not worth sharing out."""

_NOBODY, _SEVERAL = -2, -1
COUNT, NUMBER, OPEN, SMALL, BY_ELEMENTS, NUM_COUNTERS = range(6)

_jit = njit(nogil=True)


class Stage(NamedTuple):
    """A sweep: rows of its program, words of its steps and where each begins."""

    rows: np.ndarray
    words: np.ndarray
    starts: np.ndarray


class Batches(NamedTuple):
    """What both sweeps are of: their batches, and what operations on batches do in either direction.

    ``operations`` (signatures, 2, 3) are kernels (0: no operation), the addresses of their words where these
    are there already and are for one batch (else 0), and the work: in all, or for each node. Other words are those of
    ``words`` (2, batches, ``BATCH_WORDS``).
    """

    plan: program.BatchPlan
    operations: np.ndarray
    words: np.ndarray


class _ScriptWriter(NamedTuple):
    """Instructions, the load of each processor, and counters."""

    instructions: np.ndarray
    load: np.ndarray
    counters: np.ndarray


@_jit
def _give(script: _ScriptWriter, processor: int, operation: int, words: int, apart: int) -> None:
    """Add an instruction, with who does it and whether its rows are apart."""
    at = script.counters[COUNT]
    script.instructions[at, 0], script.instructions[at, 1] = operation, words
    script.instructions[at, 2], script.instructions[at, 3] = processor, apart
    script.counters[COUNT] = at + 1


@_jit
def _wait(script: _ScriptWriter) -> None:
    """Let all processors wait for each other, unless nothing has been done since they did."""
    if script.counters[OPEN] != _NOBODY:
        script.counters[NUMBER] += 1
        script.counters[OPEN] = _NOBODY
        _give(script, _SEVERAL, WAIT, script.counters[NUMBER], 0)


@_jit
def _processor_for(script: _ScriptWriter, work: int, follows: bool) -> int:
    """Return who does something: a processor, or ``_SEVERAL``; with ``follows`` it depends on what was done before."""
    small, before = work <= script.counters[SMALL] or len(script.load) == 1, script.counters[OPEN]
    if follows and not (small and before >= 0):
        _wait(script)
    if not small:
        for processor in range(len(script.load)):
            script.load[processor] += work // len(script.load)
        script.counters[OPEN] = _SEVERAL
        return _SEVERAL
    processor = before if follows and before >= 0 else int(np.argmin(script.load))
    script.load[processor] += work
    alone = script.counters[OPEN] in (_NOBODY, processor)
    script.counters[OPEN] = processor if alone else _SEVERAL
    return processor


@_jit
def _steps(script: _ScriptWriter, stage: Stage, first: int, last: int, work: int, apart: int) -> None:
    # Work of 0 marks a sum over columns, which is one task.
    processor = _processor_for(script, work if work > 0 else 1, True)
    for step in range(first, last):
        if step > first and processor == _SEVERAL and apart and script.counters[BY_ELEMENTS]:
            _wait(script)
            script.counters[OPEN] = _SEVERAL
        at = stage.starts[step]
        _give(script, processor, stage.words[at], stage.words.ctypes.data + 8 * at, apart)


@_jit
def _batch(script: _ScriptWriter, batches: Batches, batch: int, backward: bool) -> None:
    """Add an operation on a batch, or its gradient if something wants it."""
    plan, kind, direction = batches.plan, batches.plan.kinds[batch], 1 if backward else 0
    begin, count = plan.bounds[batch], plan.bounds[batch + 1] - plan.bounds[batch]
    operation, address, work = batches.operations[kind, direction]
    if operation == 0:
        return
    if address != 0:
        if not backward or plan.grads[plan.order[begin]] != 0:
            _give(script, _processor_for(script, work, True), operation, address, 1)
        return
    is_wanted = not backward
    for node in plan.order[begin : begin + count]:
        is_wanted |= plan.grads[plan.graph.args[plan.graph.argptr[node]] >> PLACE_BITS] != 0
    if not is_wanted:
        return
    at = (direction * batches.words.shape[1] + batch) * program.BATCH_WORDS
    _give(script, _processor_for(script, count * work, True), operation, batches.words.ctypes.data + 8 * at, 1)


@_jit
def _sweep(script: _ScriptWriter, stage: Stage, batches: Batches, backward: bool) -> None:
    for i in range(len(stage.rows)):
        row = stage.rows[i]
        if row[0]:
            _batch(script, batches, row[1], backward)
        else:
            _steps(script, stage, row[1], row[2], row[3], row[4])


@_jit
def make_script(
    forward: Stage,
    backward: Stage,
    batches: Batches,
    before: np.ndarray,
    between: np.ndarray,
    after: np.ndarray,
    processors: int,
    by_elements: bool,
    small: int,
) -> np.ndarray:
    """Return instructions (operation, address of words, who does it or -1, whether its rows are apart).

    What takes up to ``small`` values is done by one processor. With ``by_elements`` rows that are apart are shared out
    so, else by columns.

    ``before`` the forward sweep, ``between`` both and ``after`` the backward one are rows (operation, address of words,
    work, how it goes with the rows before: ``ALONGSIDE`` them, ``FOLLOWS`` all of them, or is done by who did the last
    one, ``CONTINUES``; whether its rows are apart). What comes after is done only if no error was reported.
    """
    steps = len(forward.starts) + len(backward.starts)
    sweeps = len(forward.rows) + len(backward.rows)
    others = len(before) + len(between) + len(after)
    script = _ScriptWriter(
        np.empty((2 * steps + 2 * sweeps + 2 * others + 8, INSTRUCTION_WORDS), np.int64),
        np.zeros(processors, np.int64),
        np.zeros(NUM_COUNTERS, np.int64),
    )
    script.counters[OPEN], script.counters[SMALL], script.counters[BY_ELEMENTS] = _NOBODY, small, by_elements
    _listed(script, before)
    _sweep(script, forward, batches, False)
    _wait(script)
    _listed(script, between)
    _sweep(script, backward, batches, True)
    _wait(script)
    _give(script, _SEVERAL, CHECK, 0, 0)
    _listed(script, after)
    return script.instructions[: script.counters[COUNT]].copy()


@_jit
def _listed(script: _ScriptWriter, rows: np.ndarray) -> None:
    processor = _SEVERAL
    for i in range(len(rows)):
        if rows[i, 3] == FOLLOWS:
            _wait(script)
        if rows[i, 3] != CONTINUES:
            processor = _processor_for(script, rows[i, 2], False)
        _give(script, processor, rows[i, 0], rows[i, 1], rows[i, 4])


@_jit
def touched_rows(plan: program.BatchPlan, table: int, num_rows: int, row_bytes: int) -> np.ndarray:
    """Return the rows of a given tensor, node ``table``, to which backward steps add a gradient, in ascending order."""
    touched = np.zeros(num_rows, np.bool_)
    for batch in range(len(plan.kinds)):
        for t in range(plan.template_ptr[plan.kinds[batch]], plan.template_ptr[plan.kinds[batch] + 1]):
            template = plan.templates[t * program.TEMPLATE_WORDS : (t + 1) * program.TEMPLATE_WORDS]
            reach = template[program.ITEM] * (1 if template[program.TOTAL] else template[program.WIDTH])
            for i in range(template[program.RESULTS]):
                at = program.FIRST_ROWS + program.WORDS_PER_ROWS * i
                role, slot, place = template[at : at + 3]
                if role != program.ARG_GRAD:
                    continue
                for node in plan.order[plan.bounds[batch] : plan.bounds[batch + 1]]:
                    ref = plan.graph.args[plan.graph.argptr[node] + slot]
                    if ref >> PLACE_BITS == table and plan.grads[node] != 0:
                        first = (ref & PLACE_MASK) + place
                        touched[first // row_bytes : (first + reach - 1) // row_bytes + 1] = True
    return np.nonzero(touched)[0]
