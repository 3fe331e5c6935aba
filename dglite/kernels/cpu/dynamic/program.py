"""From batches to the words of their steps: where each operand's rows lie, and where threads must wait for each other.

A *template* tells what a signature's batches do, one step each: columns (kernel, number of columns, whether it sums
them, number of results, number of operands, bytes of a value, whether it is a gather), then (role, slot, place, whether
one value serves all columns) for each result and each operand. Roles tell whose row it is:

``ARG`` what a node uses, ``OWN`` its result, ``INPUT`` a copy of what it uses, for operations on whole matrices;
``ARG_GRAD``, ``OWN_GRAD`` and ``INPUT_GRAD`` their gradients.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...render.rows import FIRST_PLACE, WORDS_PER_PLACE
from ..compile.written import Kernel
from ..lanes.arrays import address_of
from .batching import PLACE_BITS, PLACE_MASK, OperationGraph

ARG, OWN, INPUT, ARG_GRAD, OWN_GRAD, INPUT_GRAD = range(6)  # in the same order: ``role % ARG_GRAD`` tells whose
KERNEL, WIDTH, TOTAL, RESULTS, OPERANDS, ITEM, GATHER, FIRST_ROWS = range(8)
WORDS_PER_ROWS, MOST_ROWS = 4, 24
TEMPLATE_WORDS = FIRST_ROWS + WORDS_PER_ROWS * MOST_ROWS
BATCH_WORDS = 16
"""Most words of an operation on a batch."""

_EVERY_TASK = -1
_SEVERAL = -2


class BatchPlan(NamedTuple):
    """Batches of a session's graph and what they do.

    Batch b is ``order[bounds[b]:bounds[b + 1]]``, of kind ``kinds[b]``; ``ranks`` number the nodes of each kind.
    ``templates`` are those of all kinds, ``TEMPLATE_WORDS`` each, from ``template_ptr[kind]`` on. ``heavy`` kinds work
    on whole matrices: their inputs lie at ``inputs[first_input[kind] + slot]``, or at 0 if they are used where they
    are. ``shift`` leads from an input to its gradient. ``where`` has the address of each node's result, ``grads`` that
    of its gradient, or 0.
    """

    backward: bool
    order: np.ndarray
    bounds: np.ndarray
    kinds: np.ndarray
    ranks: np.ndarray
    templates: np.ndarray
    template_ptr: np.ndarray
    heavy: np.ndarray
    first_input: np.ndarray
    inputs: np.ndarray
    input_sizes: np.ndarray
    shift: int
    graph: OperationGraph
    where: np.ndarray
    grads: np.ndarray


class _StepTable(NamedTuple):
    """What is written so far, see :func:`build`: rows of ``program`` have ``NUM_COLUMNS`` words, and ``marks``, who
    wrote and read whose memory last, ``NUM_MARKS`` for each node."""

    words: np.ndarray
    starts: np.ndarray
    lists: np.ndarray
    program: np.ndarray
    marks: np.ndarray
    counters: np.ndarray


STEP, WORD, LISTED, ROW, SEGMENT_START, WORK, GATHERED, ALONE, SHARED, EVEN, DISTANCE, NUM_COUNTERS = range(12)
WRITTEN, WRITTEN_AS, WRITTEN_FOR, READ, READ_AS, NUM_MARKS = range(6)
NUM_COLUMNS = 5


@Kernel
def _list_rows(plan: BatchPlan, batch: int, row: np.ndarray, is_result: bool, granule: int, steps: _StepTable) -> int:
    """List the addresses of the rows of an operand or a result, and note who reads and writes what.

    Returns what is in the way (see :func:`_note`); counters tell whether they are at equal distances, and the distance.
    """
    role, slot, place, spread = row[0], row[1], row[2], row[3]
    of_grads, side = role >= ARG_GRAD, role % ARG_GRAD
    watched = side != INPUT and of_grads == (plan.backward != 0)
    lists, counters, kind = steps.lists, steps.counters, plan.kinds[batch]
    listed = counters[LISTED]
    start, size = 0, 0
    if side == INPUT:
        number = plan.first_input[kind] + slot
        start, size = plan.inputs[number] + place, plan.input_sizes[number]
        if of_grads:
            start += plan.shift
    begin, end = plan.bounds[batch], plan.bounds[batch + 1]
    even, distance, is_placed, clash = True, 0, False, 0
    for at in range(begin, end):
        node = plan.order[at]
        owner, offset = node, place
        if side == INPUT:
            address = start + plan.ranks[at] * size
        else:
            if side == ARG:
                ref = plan.graph.args[plan.graph.argptr[node] + slot]
                owner = ref >> PLACE_BITS
                offset += ref & PLACE_MASK
            address = plan.grads[owner] if of_grads else plan.where[owner]
            if address != 0:
                address += offset
        if is_result and plan.backward and plan.grads[node] == 0:
            address = 0
        lists[listed + at - begin] = address
        is_placed = is_placed or address != 0
        if at == begin + 1:
            distance = address - lists[listed]
        elif at > begin + 1:
            even = even and address - lists[listed + at - begin - 1] == distance
        if watched and address != 0:
            # Equal numbers share a row out to tasks alike.
            share = _EVERY_TASK
            if spread == 0:
                share = (granule << 20) + (offset if offset < granule else offset % granule)
            mark = steps.marks[owner * NUM_MARKS : (owner + 1) * NUM_MARKS]
            clash |= _note(mark, at, is_result, plan.backward, share, counters)
    # A result's row at 0 is left out; if the first one is, the others cannot be counted from it.
    if is_result and lists[listed] == 0 and is_placed:
        even = False
    counters[EVEN], counters[DISTANCE] = even, distance
    return clash


CONFLICT, SEVERAL, SHARED_ROWS = 1, 2, 4


@Kernel
def _note(mark: np.ndarray, at: int, writes: bool, backward: int, share: int, counters: np.ndarray) -> int:
    """Note that the current step reads or writes someone's memory for position ``at``; tasks have a ``share`` of it.

    Returns ``CONFLICT`` where a task would read what another task of this segment writes, or write what another one
    reads or adds to; ``SEVERAL`` where tasks of this very step would write to the same memory; ``SHARED_ROWS`` where
    several of its rows do.
    """
    step, first, clash, shared = counters[STEP], counters[SEGMENT_START], 0, 0
    if mark[WRITTEN] == step and writes:
        if mark[WRITTEN_FOR] != at:
            shared = SHARED_ROWS
        if mark[WRITTEN_AS] != share and backward:
            clash, share = SEVERAL, _SEVERAL
    elif first <= mark[WRITTEN] and mark[WRITTEN] < step and mark[WRITTEN_AS] != share and (backward or not writes):
        clash = CONFLICT
    if writes:
        if backward and first <= mark[READ] and mark[READ] < step and mark[READ_AS] != share:
            clash |= CONFLICT
        mark[WRITTEN], mark[WRITTEN_AS], mark[WRITTEN_FOR] = step, share, at
    else:
        if mark[READ] >= first and mark[READ_AS] != share:
            share = _SEVERAL
        mark[READ], mark[READ_AS] = step, share
    return clash | shared


@Kernel
def _add_row(steps: _StepTable, is_matrices: int, first: int, last: int, work: int, apart: int) -> None:
    """Write a row of the program."""
    row = steps.program[steps.counters[ROW] * NUM_COLUMNS : (steps.counters[ROW] + 1) * NUM_COLUMNS]
    row[0], row[1], row[2], row[3], row[4] = is_matrices, first, last, work, apart
    steps.counters[ROW] += 1


@Kernel
def _close(steps: _StepTable) -> None:
    """End a segment: what follows waits for all tasks."""
    counters = steps.counters
    if counters[STEP] > counters[SEGMENT_START]:
        _add_row(steps, 0, counters[SEGMENT_START], counters[STEP], counters[WORK], 1 - counters[SHARED])
    counters[SEGMENT_START], counters[WORK], counters[ALONE], counters[SHARED] = counters[STEP], 0, 0, 0


@Kernel
def _add_step(plan: BatchPlan, batch: int, template: np.ndarray, steps: _StepTable) -> None:
    """Write the words of one step, unless no row has a result."""
    words, lists, counters = steps.words, steps.lists, steps.counters
    granule, results = template[WIDTH] * template[ITEM], template[RESULTS]
    num_rows = results + template[OPERANDS]
    word, listed, count = counters[WORD], counters[LISTED], plan.bounds[batch + 1] - plan.bounds[batch]
    absent, clash = True, 0
    for i in range(num_rows):
        row = template[FIRST_ROWS + WORDS_PER_ROWS * i : FIRST_ROWS + WORDS_PER_ROWS * (i + 1)]
        clash |= _list_rows(plan, batch, row, i < results, granule, steps)
        first, even = lists[counters[LISTED]], counters[EVEN] != 0
        absent = absent and even and first == 0
        if i == results - 1 and absent:
            counters[LISTED] = listed
            return
        at = word + FIRST_PLACE + WORDS_PER_PLACE * i
        words[at], words[at + 1], words[at + 2] = first, counters[DISTANCE], 0
        if not even:
            words[at + 2] = address_of(lists, counters[LISTED])
            counters[LISTED] += count
    # What sums columns runs as one task, and so does what would get in its own way: in a segment of its own.
    alone = template[TOTAL] != 0 or clash & SEVERAL != 0
    if alone or counters[ALONE] != 0 or clash & CONFLICT != 0:
        _close(steps)
    words[word], words[word + 1], words[word + 2] = template[KERNEL], count, template[WIDTH]
    steps.starts[counters[STEP]] = word
    counters[STEP] += 1
    counters[WORD] = word + FIRST_PLACE + WORDS_PER_PLACE * num_rows
    if template[GATHER]:
        counters[GATHERED] += granule * count
    counters[ALONE] = alone
    if alone or clash & SHARED_ROWS != 0:
        counters[SHARED] = 1
    if not alone:
        counters[WORK] += template[WIDTH] * count * results


@Kernel
def _room(plan: BatchPlan, needed: np.ndarray) -> None:
    """Write how many (steps, words, addresses in lists) there are at most."""
    for batch in range(len(plan.kinds)):
        kind = plan.kinds[batch]
        for t in range(plan.template_ptr[kind], plan.template_ptr[kind + 1]):
            first = t * TEMPLATE_WORDS
            places = plan.templates[first + RESULTS] + plan.templates[first + OPERANDS]
            needed[0] += 1
            needed[1] += FIRST_PLACE + WORDS_PER_PLACE * places
            needed[2] += places * (plan.bounds[batch + 1] - plan.bounds[batch])


@Kernel
def _is_reached(plan: BatchPlan, batch: int) -> bool:
    """Whether some node of a batch has a gradient."""
    at, end = plan.bounds[batch], plan.bounds[batch + 1]
    while at < end and plan.grads[plan.order[at]] == 0:
        at += 1
    return at < end


def build(plan: BatchPlan) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """Return (words of the steps, where each step begins, lists of addresses, the program, bytes gathered).

    Rows of the program: (0, first step, last step, values computed, whether the results of each step are different
    rows) for steps that need no barrier, (1, batch, 0, 0, 0) for an operation on whole matrices. Backward, batches go
    in reverse, and those that no gradient reaches are left out.
    """
    needed = np.zeros(3, np.int64)
    _room(plan, needed)
    num_steps, num_words, num_listed = needed.tolist()
    steps = _StepTable(
        np.empty(num_words, np.int64),
        np.empty(num_steps + 1, np.int64),
        # One step more than is kept may be listed before it turns out to lie at equal distances.
        np.empty(num_listed + len(plan.order), np.int64),
        np.empty((num_steps + len(plan.kinds) + 1) * NUM_COLUMNS, np.int64),
        np.full(len(plan.graph.sigs) * NUM_MARKS, -1),
        np.zeros(NUM_COUNTERS, np.int64),
    )
    _build(plan, steps)
    counters = steps.counters.tolist()
    words, starts = steps.words[: counters[WORD]].copy(), steps.starts[: counters[STEP]].copy()
    rows = steps.program.reshape(-1, NUM_COLUMNS)[: counters[ROW]].copy()
    return words, starts, steps.lists, rows, counters[GATHERED]


@Kernel
def _build(plan: BatchPlan, steps: _StepTable) -> None:
    for turn in range(len(plan.kinds)):
        batch = len(plan.kinds) - 1 - turn if plan.backward else turn
        kind = plan.kinds[batch]
        if plan.backward and not _is_reached(plan, batch):
            continue
        for late in range(2):
            if late == plan.backward:
                for t in range(plan.template_ptr[kind], plan.template_ptr[kind + 1]):
                    template = plan.templates[t * TEMPLATE_WORDS : (t + 1) * TEMPLATE_WORDS]
                    gather = template[GATHER]
                    if gather == 0 or plan.inputs[plan.first_input[kind] + gather - 1] != 0:
                        _add_step(plan, batch, template, steps)
            elif plan.heavy[kind]:
                _close(steps)
                _add_row(steps, 1, batch, 0, 0, 0)
    _close(steps)
