"""From the batches of a step of training to the script of all processors. Serial, and it releases the lock.

What must be computed comes as rows of a program (see :func:`.program.build`): element-wise steps that need no wait
among them, and operations on whole batches, products and losses. Large ones are done by all processors together, each
its columns or the rows of the matrix that it owns; small ones go to the least loaded processor. Before what depends on
others there is a wait, unless the same processor did all since the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..compile.written import Kernel
from ..lanes.arrays import address_of
from .batching import PLACE_BITS
from .processors import CHECK, INSTRUCTION_WORDS, WAIT
from .program import (
    ARG_GRAD,
    BATCH_WORDS,
    FIRST_ROWS,
    ITEM,
    RESULTS,
    TEMPLATE_WORDS,
    TOTAL,
    WIDTH,
    WORDS_PER_ROWS,
    BatchPlan,
)

ALONGSIDE, FOLLOWS, CONTINUES = range(3)
WORTH_SHARING = 1024
"""Values up to which a step is not worth sharing out."""

_MASK = (1 << PLACE_BITS) - 1
_NOBODY, _SEVERAL = -2, -1
COUNT, NUMBER, OPEN, SMALL, BY_ELEMENTS, NUM_COUNTERS = range(6)
ROW_WORDS = 5


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

    plan: BatchPlan
    operations: np.ndarray
    words: np.ndarray


class _ScriptWriter(NamedTuple):
    """Instructions, ``INSTRUCTION_WORDS`` words each, the load of each processor, and counters."""

    instructions: np.ndarray
    load: np.ndarray
    counters: np.ndarray


@Kernel
def _give(script: _ScriptWriter, processor: int, operation: int, words: int, apart: int) -> None:
    """Add an instruction, with who does it and whether its rows are apart."""
    at = script.counters[COUNT] * INSTRUCTION_WORDS
    script.instructions[at], script.instructions[at + 1] = operation, words
    script.instructions[at + 2], script.instructions[at + 3] = processor, apart
    script.counters[COUNT] += 1


@Kernel
def _wait(script: _ScriptWriter) -> None:
    """Let all processors wait for each other, unless nothing has been done since they did."""
    if script.counters[OPEN] != _NOBODY:
        script.counters[NUMBER] += 1
        script.counters[OPEN] = _NOBODY
        _give(script, _SEVERAL, WAIT, script.counters[NUMBER], 0)


@Kernel
def _least_loaded(script: _ScriptWriter) -> int:
    least = 0
    for processor in range(1, len(script.load)):
        if script.load[processor] < script.load[least]:
            least = processor
    return least


@Kernel
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
    processor = before if follows and before >= 0 else _least_loaded(script)
    script.load[processor] += work
    alone = script.counters[OPEN] == _NOBODY or script.counters[OPEN] == processor
    script.counters[OPEN] = processor if alone else _SEVERAL
    return processor


@Kernel
def _steps(script: _ScriptWriter, stage: Stage, first: int, last: int, work: int, apart: int) -> None:
    # Work of 0 marks a sum over columns, which is one task.
    processor = _processor_for(script, work if work > 0 else 1, True)
    for step in range(first, last):
        if step > first and processor == _SEVERAL and apart != 0 and script.counters[BY_ELEMENTS] != 0:
            _wait(script)
            script.counters[OPEN] = _SEVERAL
        at = stage.starts[step]
        _give(script, processor, stage.words[at], address_of(stage.words, at), apart)


@Kernel
def _batch(script: _ScriptWriter, batches: Batches, batch: int, backward: bool) -> None:
    """Add an operation on a batch, or its gradient if something wants it."""
    plan, direction = batches.plan, 1 if backward else 0
    begin, end = plan.bounds[batch], plan.bounds[batch + 1]
    at = (2 * plan.kinds[batch] + direction) * 3
    operation, address, work = batches.operations[at], batches.operations[at + 1], batches.operations[at + 2]
    if operation == 0:
        return
    if address != 0:
        if not backward or plan.grads[plan.order[begin]] != 0:
            _give(script, _processor_for(script, work, True), operation, address, 1)
        return
    is_wanted = not backward
    for i in range(begin, end):
        if plan.grads[plan.graph.args[plan.graph.argptr[plan.order[i]]] >> PLACE_BITS] != 0:
            is_wanted = True
    if not is_wanted:
        return
    place = (direction * len(plan.kinds) + batch) * BATCH_WORDS
    _give(script, _processor_for(script, (end - begin) * work, True), operation, address_of(batches.words, place), 1)


@Kernel
def _sweep(script: _ScriptWriter, stage: Stage, batches: Batches, backward: bool) -> None:
    for i in range(len(stage.rows) // ROW_WORDS):
        row = stage.rows[i * ROW_WORDS : (i + 1) * ROW_WORDS]
        if row[0] != 0:
            _batch(script, batches, row[1], backward)
        else:
            _steps(script, stage, row[1], row[2], row[3], row[4])


@Kernel
def _listed(script: _ScriptWriter, rows: np.ndarray) -> None:
    processor = _SEVERAL
    for i in range(len(rows) // ROW_WORDS):
        row = rows[i * ROW_WORDS : (i + 1) * ROW_WORDS]
        if row[3] == FOLLOWS:
            _wait(script)
        if row[3] != CONTINUES:
            processor = _processor_for(script, row[2], False)
        _give(script, processor, row[0], row[1], row[4])


@Kernel
def _write_script(
    script: _ScriptWriter,
    forward: Stage,
    backward: Stage,
    batches: Batches,
    before: np.ndarray,
    between: np.ndarray,
    after: np.ndarray,
) -> None:
    _listed(script, before)
    _sweep(script, forward, batches, False)
    _wait(script)
    _listed(script, between)
    _sweep(script, backward, batches, True)
    _wait(script)
    _give(script, _SEVERAL, CHECK, 0, 0)
    _listed(script, after)


def make_script(
    forward: Stage,
    backward: Stage,
    batches: Batches,
    listed: Sequence[np.ndarray],
    processors: int,
    by_elements: bool,
    small: int,
) -> np.ndarray:
    """Return instructions (operation, address of words, who does it or -1, whether its rows are apart).

    What takes up to ``small`` values is done by one processor. With ``by_elements`` rows that are apart are shared out
    so, else by columns.

    ``listed`` before the forward sweep, between both and after the backward one are rows (operation, address of words,
    work, how it goes with the rows before: ``ALONGSIDE`` them, ``FOLLOWS`` all of them, or is done by who did the last
    one, ``CONTINUES``; whether its rows are apart). What comes after is done only if no error was reported.
    """
    stages = [stage._replace(rows=stage.rows.reshape(-1)) for stage in (forward, backward)]
    flat = batches._replace(operations=batches.operations.reshape(-1), words=batches.words.reshape(-1))
    steps = len(forward.starts) + len(backward.starts)
    others = len(forward.rows) + len(backward.rows) + sum(map(len, listed))
    script = _ScriptWriter(
        np.empty((2 * steps + 2 * others + 8) * INSTRUCTION_WORDS, np.int64),
        np.zeros(processors, np.int64),
        np.zeros(NUM_COUNTERS, np.int64),
    )
    script.counters[OPEN], script.counters[SMALL], script.counters[BY_ELEMENTS] = _NOBODY, small, by_elements
    _write_script(script, *stages, flat, *(rows.reshape(-1) for rows in listed))
    return script.instructions.reshape(-1, INSTRUCTION_WORDS)[: script.counters[COUNT]].copy()


def touched_rows(plan: BatchPlan, table: int, num_rows: int, row_bytes: int) -> np.ndarray:
    """Return the rows of a given tensor, node ``table``, to which backward steps add a gradient, in ascending order."""
    touched = np.zeros(num_rows, np.bool_)
    _mark_touched(plan, table, row_bytes, touched)
    return np.flatnonzero(touched)


@Kernel
def _mark_touched(plan: BatchPlan, table: int, row_bytes: int, touched: np.ndarray) -> None:
    for batch in range(len(plan.kinds)):
        for t in range(plan.template_ptr[plan.kinds[batch]], plan.template_ptr[plan.kinds[batch] + 1]):
            template = plan.templates[t * TEMPLATE_WORDS : (t + 1) * TEMPLATE_WORDS]
            reach = template[ITEM] * (1 if template[TOTAL] != 0 else template[WIDTH])
            for i in range(template[RESULTS]):
                at = FIRST_ROWS + WORDS_PER_ROWS * i
                if template[at] != ARG_GRAD:
                    continue
                for k in range(plan.bounds[batch], plan.bounds[batch + 1]):
                    node = plan.order[k]
                    ref = plan.graph.args[plan.graph.argptr[node] + template[at + 1]]
                    if ref >> PLACE_BITS == table and plan.grads[node] != 0:
                        first = (ref & _MASK) + template[at + 2]
                        for row in range(first // row_bytes, (first + reach - 1) // row_bytes + 1):
                            touched[row] = True
