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
from ..compile.cached import njit
from .batching import PLACE_BITS

__all__ = ["ARG", "ARG_GRAD", "INPUT", "INPUT_GRAD", "MOST_ROWS", "OWN", "OWN_GRAD", "BatchPlan"]
__all__ += ["TEMPLATE_WORDS", "active_nodes", "build", "in_place", "place_results"]

ARG, OWN, INPUT, ARG_GRAD, OWN_GRAD, INPUT_GRAD = range(6)
KERNEL, WIDTH, TOTAL, RESULTS, OPERANDS, ITEM, GATHER, FIRST_ROWS = range(8)
WORDS_PER_ROWS, MOST_ROWS = 4, 24
TEMPLATE_WORDS = FIRST_ROWS + WORDS_PER_ROWS * MOST_ROWS

_MASK = (1 << PLACE_BITS) - 1
_EVERY_TASK = -1
_SEVERAL = -2
ALIGNMENT = 64

_jit = njit(nogil=True)


@_jit
def place_results(
    order: np.ndarray, kind: np.ndarray, nodes: np.ndarray, sizes: np.ndarray, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Lay the results of each kind one after the other, in the order of execution.

    Writes each node's place, in bytes from the beginning; returns (the rank of each position among its kind, the number
    of nodes of each kind, where each kind begins, bytes in all).
    """
    num_kinds = len(sizes)
    count, start = np.zeros(num_kinds, np.int64), np.zeros(num_kinds, np.int64)
    for i in order:
        count[kind[i]] += 1
    total = 0
    for k in range(num_kinds):
        start[k] = total
        total += (count[k] * sizes[k] + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    rank, seen = np.empty(len(order), np.int64), np.zeros(num_kinds, np.int64)
    for at in range(len(order)):
        i = order[at]
        rank[at] = seen[kind[i]]
        seen[kind[i]] += 1
        places[nodes[i]] = start[kind[i]] + rank[at] * sizes[kind[i]]
    return rank, count, start, total


@_jit
def in_place(
    members: np.ndarray,
    slot: int,
    size: int,
    argptr: np.ndarray,
    args: np.ndarray,
    where: np.ndarray,
    low: int,
    high: int,
) -> tuple[int, int]:
    """Return (address, distance) if argument ``slot`` of all ``members`` lies in equal distances between two addresses.

    Otherwise (0, 0), also where rows overlap.
    """
    first, distance, last = 0, size, 0
    for i in range(len(members)):
        ref = args[argptr[members[i]] + slot]
        address = where[ref >> PLACE_BITS] + (ref & _MASK)
        if i == 0:
            first = address
        elif i == 1:
            distance = address - first
        if address < low or address + size > high or (i > 0 and address - last != distance) or distance < size:
            return 0, 0
        last = address
    return first, distance


@_jit
def active_nodes(
    targets: np.ndarray,
    sigs: np.ndarray,
    argptr: np.ndarray,
    args: np.ndarray,
    given: np.ndarray,
    own_wants: np.ndarray,
    num_nodes: int,
) -> np.ndarray:
    """Return whether gradients flow through each node: from a target to something that wants them.

    ``given`` tells it of nodes that were given; ``own_wants`` of signatures -1, -2, ..., which may have parameters.
    """
    wants, reached = given[:num_nodes].copy(), np.zeros(num_nodes, np.bool_)
    for node in range(num_nodes):
        sig = sigs[node]
        wants[node] |= sig < 0 and own_wants[-1 - sig]
        for at in range(argptr[node], argptr[node + 1]):
            wants[node] |= wants[args[at] >> PLACE_BITS]
    for target in targets:
        reached[target] = True
    for node in range(num_nodes - 1, -1, -1):
        reached[node] &= wants[node]
        if reached[node]:
            for at in range(argptr[node], argptr[node + 1]):
                reached[args[at] >> PLACE_BITS] = True
    return reached


class BatchPlan(NamedTuple):
    """Batches of a session's graph and what they do.

    Batch b is ``order[bounds[b]:bounds[b + 1]]``, of kind ``kinds[b]``; ``ranks`` number the nodes of each kind.
    ``templates`` are those of all kinds, from ``template_ptr[kind]`` on. ``heavy`` kinds work on whole matrices: their
    inputs lie at ``inputs[first_input[kind] + slot]``, or at 0 if they are used where they are. ``shift`` leads from an
    input to its gradient. ``where`` has the address of each node's result, ``grads`` that of its gradient, or 0.
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
    argptr: np.ndarray
    args: np.ndarray
    where: np.ndarray
    grads: np.ndarray


class _Steps(NamedTuple):
    """What is written so far, see :func:`build`; who wrote and read whose memory last; and counters."""

    words: np.ndarray
    starts: np.ndarray
    lists: np.ndarray
    program: np.ndarray
    marks: np.ndarray
    counters: np.ndarray


STEP, WORD, LISTED, ROW, SEGMENT_START, WORK, GATHERED, ALONE, SHARED, NUM_COUNTERS = range(10)
WRITTEN, WRITTEN_AS, WRITTEN_FOR, READ, READ_AS, NUM_MARKS = range(6)


@_jit
def _list_rows(
    plan: BatchPlan, batch: int, row: np.ndarray, is_result: bool, granule: int, made: _Steps
) -> tuple[bool, int, int]:
    """List the addresses of the rows of an operand or a result, and note who reads and writes what.

    Returns (whether they are at equal distances, the distance, what is in the way: see :func:`_note`).
    """
    role, slot, place, spread = row
    watched = role in (ARG_GRAD, OWN_GRAD) if plan.backward else role in (ARG, OWN)
    lists, counters, kind = made.lists, made.counters, plan.kinds[batch]
    listed = counters[LISTED]
    table = plan.grads if role in (ARG_GRAD, OWN_GRAD) else plan.where
    by_arg, of_input = role in (ARG, ARG_GRAD), role in (INPUT, INPUT_GRAD)
    start, size = 0, 0
    if of_input:
        number = plan.first_input[kind] + slot
        start, size = plan.inputs[number] + (plan.shift if role == INPUT_GRAD else 0) + place, plan.input_sizes[number]
    begin, end = plan.bounds[batch], plan.bounds[batch + 1]
    even, distance, known, clash = True, 0, False, 0
    for at in range(begin, end):
        owner = node = plan.order[at]
        offset = place
        if of_input:
            address = start + plan.ranks[at] * size
        else:
            if by_arg:
                ref = plan.args[plan.argptr[node] + slot]
                owner = ref >> PLACE_BITS
                offset += ref & _MASK
            address = table[owner] + offset if table[owner] != 0 else 0
        if is_result and plan.backward and plan.grads[node] == 0:
            address = 0
        lists[listed + at - begin] = address
        known |= address != 0
        if at == begin + 1:
            distance = address - lists[listed]
        elif at > begin + 1:
            even &= address - lists[listed + at - begin - 1] == distance
        if watched and address != 0:
            # Equal numbers share a row out to tasks alike.
            share = _EVERY_TASK if spread else (granule << 20) + (offset if offset < granule else offset % granule)
            clash |= _note(made.marks[owner], at, is_result, plan.backward, share, counters)
    # A result's row at 0 is left out; if the first one is, the others cannot be counted from it.
    even &= not is_result or lists[listed] != 0 or not known
    return even, distance, clash


CONFLICT, SEVERAL, SHARED_ROWS = 1, 2, 4


@_jit
def _note(mark: np.ndarray, at: int, writes: bool, backward: bool, share: int, counters: np.ndarray) -> int:
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
    elif first <= mark[WRITTEN] < step and mark[WRITTEN_AS] != share and (backward or not writes):
        clash = CONFLICT
    if writes:
        if backward and first <= mark[READ] < step and mark[READ_AS] != share:
            clash |= CONFLICT
        mark[WRITTEN], mark[WRITTEN_AS], mark[WRITTEN_FOR] = step, share, at
    else:
        if mark[READ] >= first and mark[READ_AS] != share:
            share = _SEVERAL
        mark[READ], mark[READ_AS] = step, share
    return clash | shared


@_jit
def _close(made: _Steps) -> None:
    """End a segment: what follows waits for all tasks."""
    counters, program = made.counters, made.program
    if counters[STEP] > counters[SEGMENT_START]:
        columns = (0, counters[SEGMENT_START], counters[STEP], counters[WORK], 1 - counters[SHARED])
        for column, value in enumerate(columns):
            program[counters[ROW], column] = value
        counters[ROW] += 1
    counters[SEGMENT_START], counters[WORK], counters[ALONE], counters[SHARED] = counters[STEP], 0, 0, 0


@_jit
def _add_step(plan: BatchPlan, batch: int, template: np.ndarray, made: _Steps) -> None:
    """Write the words of one step, unless no row has a result."""
    words, lists, counters = made.words, made.lists, made.counters
    granule, results = template[WIDTH] * template[ITEM], template[RESULTS]
    rows = template[FIRST_ROWS:].reshape(-1, WORDS_PER_ROWS)[: results + template[OPERANDS]]
    word, listed, count = counters[WORD], counters[LISTED], plan.bounds[batch + 1] - plan.bounds[batch]
    absent, clash = True, 0
    for i in range(len(rows)):
        even, distance, met = _list_rows(plan, batch, rows[i], i < results, granule, made)
        clash |= met
        first = lists[counters[LISTED]]
        absent &= even and first == 0
        if i == results - 1 and absent:
            counters[LISTED] = listed
            return
        at = word + FIRST_PLACE + WORDS_PER_PLACE * i
        words[at], words[at + 1], words[at + 2] = first, distance, 0
        if not even:
            words[at + 2] = lists.ctypes.data + 8 * counters[LISTED]
            counters[LISTED] += count
    # What sums columns runs as one task, and so does what would get in its own way: in a segment of its own.
    alone = template[TOTAL] != 0 or clash & SEVERAL != 0
    if alone or counters[ALONE] or clash & CONFLICT:
        _close(made)
    words[word], words[word + 1], words[word + 2] = template[KERNEL], count, template[WIDTH]
    made.starts[counters[STEP]] = word
    counters[STEP] += 1
    counters[WORD] = word + FIRST_PLACE + WORDS_PER_PLACE * len(rows)
    counters[GATHERED] += granule * count if template[GATHER] else 0
    counters[ALONE] = alone
    if alone or clash & SHARED_ROWS:
        counters[SHARED] = 1
    counters[WORK] += 0 if alone else template[WIDTH] * count * results


@_jit
def _room(plan: BatchPlan) -> tuple[int, int, int]:
    """Return room enough for all (steps, words, addresses in lists)."""
    steps, words, lists = 0, 0, 0
    for batch in range(len(plan.kinds)):
        kind = plan.kinds[batch]
        for t in range(plan.template_ptr[kind], plan.template_ptr[kind + 1]):
            places = plan.templates[t, RESULTS] + plan.templates[t, OPERANDS]
            steps += 1
            words += FIRST_PLACE + WORDS_PER_PLACE * places
            lists += places * (plan.bounds[batch + 1] - plan.bounds[batch])
    return steps, words, lists


@_jit
def _is_reached(plan: BatchPlan, batch: int) -> bool:
    """Whether some node of a batch has a gradient."""
    reached = False
    for at in range(plan.bounds[batch], plan.bounds[batch + 1]):
        reached |= plan.grads[plan.order[at]] != 0
    return reached


@_jit
def build(plan: BatchPlan) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """Return (words of the steps, where each step begins, lists of addresses, the program, bytes gathered).

    Rows of the program: (0, first step, last step, values computed, whether the results of each step are different
    rows) for steps that need no barrier, (1, batch, 0, 0, 0) for an operation on whole matrices. Backward, batches go
    in reverse, and those that no gradient reaches are left out.
    """
    num_steps, num_words, num_listed = _room(plan)
    counters, program = np.zeros(NUM_COUNTERS, np.int64), np.empty((num_steps + len(plan.kinds) + 1, 5), np.int64)
    made = _Steps(
        np.empty(num_words, np.int64),
        np.empty(num_steps + 1, np.int64),
        # One step more than is kept may be listed before it turns out to lie at equal distances.
        np.empty(num_listed + len(plan.order), np.int64),
        program,
        np.full((len(plan.where), NUM_MARKS), -1),
        counters,
    )
    for turn in range(len(plan.kinds)):
        batch = len(plan.kinds) - 1 - turn if plan.backward else turn
        kind = plan.kinds[batch]
        if plan.backward and not _is_reached(plan, batch):
            continue
        for late in range(2):
            if late == plan.backward:
                for t in range(plan.template_ptr[kind], plan.template_ptr[kind + 1]):
                    template = plan.templates[t]
                    if template[GATHER] == 0 or plan.inputs[plan.first_input[kind] + template[GATHER] - 1] != 0:
                        _add_step(plan, batch, template, made)
            elif plan.heavy[kind]:
                _close(made)
                program[counters[ROW], :] = 0
                program[counters[ROW], 0], program[counters[ROW], 1] = 1, batch
                counters[ROW] += 1
    _close(made)
    words, starts = made.words[: counters[WORD]].copy(), made.starts[: counters[STEP]].copy()
    return words, starts, made.lists, program[: counters[ROW]].copy(), counters[GATHERED]
