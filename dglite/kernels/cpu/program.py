"""From batches to the words of their steps: where each operand's rows lie, and where threads must wait for each other.

A *template* tells what a signature's batches do, one step each: columns (kernel, number of columns, whether it sums
them, number of results, number of operands, bytes of a value, whether it is a gather), then (role, slot, place, whether
one value serves all columns) for each result and each operand. Roles tell whose row it is:

``ARG`` what a node uses, ``OWN`` its result, ``INPUT`` a copy of what it uses, for operations on whole matrices;
``ARG_GRAD``, ``OWN_GRAD`` and ``INPUT_GRAD`` their gradients.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from ..render_steps import FIRST_PLACE, WORDS_PER_PLACE
from .batching import PLACE_BITS

__all__ = ["ARG", "ARG_GRAD", "INPUT", "INPUT_GRAD", "MOST_ROWS", "OWN", "OWN_GRAD", "Graph", "Plan"]
__all__ += ["TEMPLATE_WORDS", "active_nodes", "build", "in_place", "place_results"]

ARG, OWN, INPUT, ARG_GRAD, OWN_GRAD, INPUT_GRAD = range(6)
KERNEL, WIDTH, TOTAL, RESULTS, OPERANDS, ITEM, GATHER, FIRST_ROWS = range(8)
WORDS_PER_ROWS, MOST_ROWS = 4, 24
TEMPLATE_WORDS = FIRST_ROWS + WORDS_PER_ROWS * MOST_ROWS

_MASK = (1 << PLACE_BITS) - 1
_EVERY_TASK = -1
_SEVERAL = -2
ALIGNMENT = 64

_jit = numba.njit(cache=True, nogil=True)


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
    shared_wants: np.ndarray,
    own_wants: np.ndarray,
    num_nodes: int,
) -> np.ndarray:
    """Return whether gradients flow through each node: from a target to something that wants them.

    ``given`` tells it of nodes that were given; ``shared_wants`` and ``own_wants`` of signatures that have parameters.
    """
    wants, reached = given[:num_nodes].copy(), np.zeros(num_nodes, np.bool_)
    for node in range(num_nodes):
        sig = sigs[node]
        wants[node] |= shared_wants[sig] if sig >= 0 else own_wants[-1 - sig]
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


class Plan(NamedTuple):
    """Batches and what they do.

    Batch b is ``order[bounds[b]:bounds[b + 1]]``, of kind ``kinds[b]``; ``ranks`` number the nodes of each kind.
    ``templates`` are those of all kinds, from ``template_ptr[kind]`` on. ``heavy`` kinds work on whole matrices: their
    inputs lie at ``inputs[first_input[kind] + slot]``, or at 0 if they are used where they are. ``shift`` leads from an
    input to its gradient.
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


class Graph(NamedTuple):
    """A session's graph: ``where`` has the address of each node's result, ``grads`` that of its gradient, or 0."""

    argptr: np.ndarray
    args: np.ndarray
    where: np.ndarray
    grads: np.ndarray


STEP, WORD, LISTED, ROW, SEGMENT_START, WORK, SEGMENT, GATHERED, ALONE, NUM_COUNTERS = range(10)
WRITTEN, WRITTEN_AS, READ, READ_AS = range(4)


@_jit
def _address(plan: Plan, graph: Graph, kind: int, at: int, role: int, slot: int, place: int) -> int:
    """Return where the row of the node at a position lies in a role, 0 where it has no gradient."""
    node = plan.order[at]
    if role in (ARG, ARG_GRAD):
        ref = graph.args[graph.argptr[node] + slot]
        base = graph.where[ref >> PLACE_BITS] if role == ARG else graph.grads[ref >> PLACE_BITS]
        return base + (ref & _MASK) + place if base != 0 else 0
    if role == OWN:
        return graph.where[node] + place
    if role == OWN_GRAD:
        return graph.grads[node] + place if graph.grads[node] != 0 else 0
    number = plan.first_input[kind] + slot
    row = plan.inputs[number] + plan.ranks[at] * plan.input_sizes[number] + place
    return row + plan.shift if role == INPUT_GRAD else row


@_jit
def _access(plan: Plan, graph: Graph, at: int, operand: np.ndarray, granule: int) -> tuple[int, int]:
    """Return whose memory an operand's row is in, and how tasks share it out: equal numbers share it out alike."""
    node = plan.order[at]
    owner, offset = node, operand[2]
    if operand[0] in (ARG, ARG_GRAD):
        ref = graph.args[graph.argptr[node] + operand[1]]
        owner, offset = ref >> PLACE_BITS, (ref & _MASK) + operand[2]
    return owner, _EVERY_TASK if operand[3] else (granule << 20) + offset % granule


@_jit
def _rows_of(plan: Plan, template: np.ndarray) -> np.ndarray:
    """Return (role, slot, place, spread, watched) for each result and each operand."""
    count = template[RESULTS] + template[OPERANDS]
    rows = np.empty((count, 5), np.int64)
    for i in range(count):
        at = FIRST_ROWS + WORDS_PER_ROWS * i
        rows[i, :4] = template[at : at + WORDS_PER_ROWS]
        role = rows[i, 0]
        rows[i, 4] = role in (ARG_GRAD, OWN_GRAD) if plan.backward else role in (ARG, OWN)
    return rows


@_jit
def _list_rows(
    plan: Plan, graph: Graph, batch: int, operand: np.ndarray, is_result: bool, lists: np.ndarray, listed: int
) -> tuple[bool, int]:
    """List the addresses of an operand's rows; return (whether they are at equal distances, the distance)."""
    begin, end = plan.bounds[batch], plan.bounds[batch + 1]
    even, distance, known = True, 0, False
    for at in range(begin, end):
        address = _address(plan, graph, plan.kinds[batch], at, operand[0], operand[1], operand[2])
        if is_result and plan.backward and graph.grads[plan.order[at]] == 0:
            address = 0
        lists[listed + at - begin] = address
        known |= address != 0
        if at == begin + 1:
            distance = address - lists[listed]
        elif at > begin + 1:
            even &= address - lists[listed + at - begin - 1] == distance
    # A result's row at 0 is left out; if the first one is, the others cannot be counted from it.
    even &= not is_result or lists[listed] != 0 or not known
    return even, distance


@_jit
def _conflicts(
    plan: Plan, graph: Graph, batch: int, rows: np.ndarray, results: int, granule: int, marks: np.ndarray, segment: int
) -> bool:
    """Whether a task would read what another task writes, or write what another one reads or adds to."""
    for i in range(len(rows)):
        if not rows[i, 4] or (i < results and not plan.backward):
            continue
        for at in range(plan.bounds[batch], plan.bounds[batch + 1]):
            owner, access = _access(plan, graph, at, rows[i], granule)
            if marks[WRITTEN, owner] == segment and marks[WRITTEN_AS, owner] != access:
                return True
            if i < results and marks[READ, owner] == segment and marks[READ_AS, owner] != access:
                return True
    return False


@_jit
def _mark(
    plan: Plan, graph: Graph, batch: int, rows: np.ndarray, results: int, granule: int, marks: np.ndarray, segment: int
) -> bool:
    """Note what a step reads and writes; return whether it writes to one row in several ways."""
    several = False
    for i in range(len(rows)):
        if not rows[i, 4]:
            continue
        when = WRITTEN if i < results else READ
        for at in range(plan.bounds[batch], plan.bounds[batch + 1]):
            owner, access = _access(plan, graph, at, rows[i], granule)
            if marks[when, owner] == segment and marks[when + 1, owner] != access:
                access = _SEVERAL
                several |= plan.backward and i < results
            marks[when, owner], marks[when + 1, owner] = segment, access
    return several


@_jit
def _close(counters: np.ndarray, program: np.ndarray) -> None:
    """End a segment: what follows waits for all tasks."""
    if counters[STEP] > counters[SEGMENT_START]:
        program[counters[ROW]] = 0, counters[SEGMENT_START], counters[STEP], counters[WORK]
        counters[ROW] += 1
    counters[SEGMENT_START], counters[WORK] = counters[STEP], 0
    counters[SEGMENT] += 1
    counters[ALONE] = 0


@_jit
def _add_step(
    plan: Plan,
    graph: Graph,
    batch: int,
    template: np.ndarray,
    words: np.ndarray,
    starts: np.ndarray,
    lists: np.ndarray,
    program: np.ndarray,
    marks: np.ndarray,
    counters: np.ndarray,
) -> None:
    """Write the words of one step, unless no row has a result."""
    rows, granule, results = _rows_of(plan, template), template[WIDTH] * template[ITEM], template[RESULTS]
    word, listed, count = counters[WORD], counters[LISTED], plan.bounds[batch + 1] - plan.bounds[batch]
    absent = True
    for i in range(len(rows)):
        even, distance = _list_rows(plan, graph, batch, rows[i], i < results, lists, listed)
        absent &= even and lists[listed] == 0
        if i == results - 1 and absent:
            return
        at = word + FIRST_PLACE + WORDS_PER_PLACE * i
        words[at], words[at + 1], words[at + 2] = lists[listed], distance, 0
        if not even:
            words[at + 2] = lists.ctypes.data + 8 * listed
            listed += count
    total = template[TOTAL] != 0
    if total or counters[ALONE] or _conflicts(plan, graph, batch, rows, results, granule, marks, counters[SEGMENT]):
        _close(counters, program)
    if _mark(plan, graph, batch, rows, results, granule, marks, counters[SEGMENT]) and not total:
        # Tasks would get in each other's way inside this step.
        total = True
        if counters[STEP] > counters[SEGMENT_START]:
            _close(counters, program)
            _mark(plan, graph, batch, rows, results, granule, marks, counters[SEGMENT])
    words[word], words[word + 1], words[word + 2] = template[KERNEL], count, template[WIDTH]
    starts[counters[STEP]] = word
    counters[STEP] += 1
    counters[WORD], counters[LISTED] = word + FIRST_PLACE + WORDS_PER_PLACE * len(rows), listed
    counters[GATHERED] += granule * count if template[GATHER] else 0
    # What sums columns runs as one task, so it gets a segment of its own, with no work to share.
    counters[ALONE] = total
    counters[WORK] += 0 if total else template[WIDTH] * count * results


@_jit
def _room(plan: Plan) -> tuple[int, int, int]:
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
def _is_reached(plan: Plan, graph: Graph, batch: int) -> bool:
    """Whether some node of a batch has a gradient."""
    reached = False
    for at in range(plan.bounds[batch], plan.bounds[batch + 1]):
        reached |= graph.grads[plan.order[at]] != 0
    return reached


@_jit
def build(plan: Plan, graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """Return (words of the steps, where each step begins, lists of addresses, the program, bytes gathered).

    Rows of the program: (0, first step, last step, values computed) for steps that run without a barrier, (1, batch, 0,
    0) for an operation on whole matrices. Backward, batches go in reverse, and those that no gradient reaches are left
    out.
    """
    num_steps, num_words, num_listed = _room(plan)
    words, starts = np.empty(num_words, np.int64), np.empty(num_steps + 1, np.int64)
    # One step more than is kept may be listed before it turns out to lie at equal distances.
    lists = np.empty(num_listed + len(plan.order), np.int64)
    program = np.empty((num_steps + len(plan.kinds) + 1, 4), np.int64)
    marks = np.full((4, len(graph.where)), -1)
    counters = np.zeros(NUM_COUNTERS, np.int64)
    for turn in range(len(plan.kinds)):
        batch = len(plan.kinds) - 1 - turn if plan.backward else turn
        kind = plan.kinds[batch]
        if plan.backward and not _is_reached(plan, graph, batch):
            continue
        for late in range(2):
            if late == plan.backward:
                for t in range(plan.template_ptr[kind], plan.template_ptr[kind + 1]):
                    template = plan.templates[t]
                    if template[GATHER] == 0 or plan.inputs[plan.first_input[kind] + template[GATHER] - 1] != 0:
                        _add_step(plan, graph, batch, template, words, starts, lists, program, marks, counters)
            elif plan.heavy[kind]:
                _close(counters, program)
                program[counters[ROW]] = 1, batch, 0, 0
                counters[ROW] += 1
    _close(counters, program)
    rows = program[: counters[ROW]].copy()
    return words[: counters[WORD]].copy(), starts[: counters[STEP]].copy(), lists, rows, counters[GATHERED]
