"""From batches to the words of their steps: where each operand's rows lie, and where threads must wait for each other.

A *template* tells what a signature's batches do, one step each: columns (kernel, number of columns, whether it sums
them, role, slot and place of the result, number of operands, bytes of a value, whether it is a gather), then (role,
slot, place, whether one value serves all columns) for each operand. Roles tell whose row it is:

``ARG`` what a node uses, ``OWN`` its result, ``INPUT`` a copy of what it uses, for operations on whole matrices;
``ARG_GRAD``, ``OWN_GRAD`` and ``INPUT_GRAD`` their gradients.
"""

from __future__ import annotations

import numba
import numpy as np

from ..render_steps import FIRST_PLACE, WORDS_PER_PLACE
from .batching import PLACE_BITS

__all__ = ["ARG", "ARG_GRAD", "INPUT", "INPUT_GRAD", "MOST_OPERANDS", "OWN", "OWN_GRAD", "TEMPLATE_WORDS"]
__all__ += ["active_nodes", "build", "in_place", "place_results"]

ARG, OWN, INPUT, ARG_GRAD, OWN_GRAD, INPUT_GRAD = range(6)
KERNEL, WIDTH, TOTAL, ROLE, SLOT, PLACE, OPERANDS, ITEM, GATHER, FIRST_OPERAND = range(10)
WORDS_PER_OPERAND, MOST_OPERANDS = 4, 12
TEMPLATE_WORDS = FIRST_OPERAND + WORDS_PER_OPERAND * MOST_OPERANDS

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
    members: np.ndarray, slot: int, size: int, argptr: np.ndarray, args: np.ndarray, where: np.ndarray, low: int, high: int
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


@_jit
def _row(
    role: int,
    slot: int,
    place: int,
    node: int,
    rank: int,
    argptr: np.ndarray,
    args: np.ndarray,
    where: np.ndarray,
    grads: np.ndarray,
    inputs: np.ndarray,
    sizes: np.ndarray,
    first_input: int,
    shift: int,
) -> int:
    """Return the address of a node's row in a role, 0 where it has no gradient."""
    if role == 0 or role == 3:
        ref = args[argptr[node] + slot]
        base = where[ref >> PLACE_BITS] if role == 0 else grads[ref >> PLACE_BITS]
        return base + (ref & _MASK) + place if base != 0 else 0
    if role == 1:
        return where[node] + place
    if role == 4:
        return grads[node] + place if grads[node] != 0 else 0
    row = inputs[first_input + slot] + rank * sizes[first_input + slot] + place
    return row + shift if role == 5 else row


@_jit
def _sizes_of_words(
    bounds: np.ndarray, batch_kinds: np.ndarray, templates: np.ndarray, template_ptr: np.ndarray
) -> tuple[int, int, int]:
    """Return room enough for all (steps, words, addresses in lists)."""
    steps, words, lists = 0, 0, 0
    for batch in range(len(batch_kinds)):
        kind = batch_kinds[batch]
        for t in range(template_ptr[kind], template_ptr[kind + 1]):
            places = 1 + templates[t, OPERANDS]
            steps += 1
            words += FIRST_PLACE + WORDS_PER_PLACE * places
            lists += places * (bounds[batch + 1] - bounds[batch])
    return steps, words, lists


@_jit
def build(
    backward: bool,
    order: np.ndarray,
    bounds: np.ndarray,
    batch_kinds: np.ndarray,
    ranks: np.ndarray,
    templates: np.ndarray,
    template_ptr: np.ndarray,
    heavy: np.ndarray,
    first_input: np.ndarray,
    inputs: np.ndarray,
    sizes: np.ndarray,
    shift: int,
    argptr: np.ndarray,
    args: np.ndarray,
    where: np.ndarray,
    grads: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """Return (words of the steps, where each step begins, lists of addresses, the program, bytes gathered).

    Rows of the program: (0, first step, last step, values computed) for steps that run without a barrier, (1, batch, 0,
    0) for an operation on whole matrices. ``shift`` leads from an input to its gradient; inputs at 0 are used in place.
    Backward, batches go in reverse, and those that no gradient reaches are left out.
    """
    num_batches = len(batch_kinds)
    num_steps, num_words, num_listed = _sizes_of_words(bounds, batch_kinds, templates, template_ptr)
    words, starts, lists = np.empty(num_words, np.int64), np.empty(num_steps + 1, np.int64), np.empty(num_listed, np.int64)
    program, rows = np.empty((num_steps + num_batches + 1, 4), np.int64), 0
    written, written_as = np.full(len(where), -1), np.zeros(len(where), np.int64)
    read, read_as = np.full(len(where), -1), np.zeros(len(where), np.int64)
    step, word, listed, gathered = 0, 0, 0, 0
    segment_start, work, segment, alone = 0, 0, 0, False
    for turn in range(num_batches):
        batch = num_batches - 1 - turn if backward else turn
        begin, end, kind = bounds[batch], bounds[batch + 1], batch_kinds[batch]
        if backward:
            reached = False
            for at in range(begin, end):
                reached |= grads[order[at]] != 0
            if not reached:
                continue
        if backward and heavy[kind]:
            if step > segment_start:
                program[rows] = 0, segment_start, step, work
                rows += 1
            program[rows] = 1, batch, 0, 0
            rows += 1
            segment_start, work, segment = step, 0, segment + 1
        for t in range(template_ptr[kind], template_ptr[kind + 1]):
            count, width, total = templates[t, OPERANDS], templates[t, WIDTH], templates[t, TOTAL] != 0
            if templates[t, GATHER] != 0 and inputs[first_input[kind] + templates[t, GATHER] - 1] == 0:
                continue
            starts[step] = word
            words[word], words[word + 1], words[word + 2] = templates[t, KERNEL], end - begin, width
            granule, conflict = width * templates[t, ITEM], total or alone
            listed_before, kept = listed, False
            for i in range(count + 1):
                column = ROLE if i == 0 else FIRST_OPERAND + WORDS_PER_OPERAND * (i - 1)
                role, slot, place = templates[t, column], templates[t, column + 1], templates[t, column + 2]
                spread = i > 0 and templates[t, column + 3] != 0
                watched = role == ARG_GRAD or role == OWN_GRAD if backward else role == ARG or role == OWN
                even, distance = True, 0
                for at in range(begin, end):
                    node = order[at]
                    address = _row(
                        role, slot, place, node, ranks[at], argptr, args, where, grads, inputs, sizes, first_input[kind], shift
                    )
                    if i == 0 and backward and grads[node] == 0:
                        address = 0
                    lists[listed + at - begin] = address
                    kept |= i == 0 and address != 0
                    if at == begin + 1:
                        distance = address - lists[listed]
                    elif at > begin + 1:
                        even &= address - lists[listed + at - begin - 1] == distance
                    if watched:
                        ref = args[argptr[node] + slot] if role == ARG or role == ARG_GRAD else node << PLACE_BITS
                        owner, offset = ref >> PLACE_BITS, (ref & _MASK) + place
                        access = _EVERY_TASK if spread else (granule << 20) + offset % granule
                        if written[owner] == segment and written_as[owner] != access:
                            conflict |= backward or i > 0
                        if i == 0 and backward and read[owner] == segment and read_as[owner] != access:
                            conflict = True
                if i == 0 and not kept:
                    break
                at = word + FIRST_PLACE + WORDS_PER_PLACE * i
                words[at], words[at + 1], words[at + 2] = lists[listed], distance, 0
                if not even or (i == 0 and lists[listed] == 0):
                    words[at + 2] = lists.ctypes.data + 8 * listed
                    listed += end - begin
            if not kept:
                listed = listed_before
                continue
            if conflict and step > segment_start:
                program[rows] = 0, segment_start, step, work
                rows += 1
                segment_start, work, segment = step, 0, segment + 1
            for i in range(count + 1):
                column = ROLE if i == 0 else FIRST_OPERAND + WORDS_PER_OPERAND * (i - 1)
                role, slot, place = templates[t, column], templates[t, column + 1], templates[t, column + 2]
                spread = i > 0 and templates[t, column + 3] != 0
                watched = role == ARG_GRAD or role == OWN_GRAD if backward else role == ARG or role == OWN
                if not watched:
                    continue
                marks, marks_as = (written, written_as) if i == 0 else (read, read_as)
                for at in range(begin, end):
                    node = order[at]
                    ref = args[argptr[node] + slot] if role == ARG or role == ARG_GRAD else node << PLACE_BITS
                    owner, offset = ref >> PLACE_BITS, (ref & _MASK) + place
                    access = _EVERY_TASK if spread else (granule << 20) + offset % granule
                    if marks[owner] == segment and marks_as[owner] != access:
                        access = _SEVERAL
                    marks[owner], marks_as[owner] = segment, access
            gathered += granule * (end - begin) if templates[t, GATHER] != 0 else 0
            word += FIRST_PLACE + WORDS_PER_PLACE * (count + 1)
            # What sums columns runs as one task, so it gets a segment of its own, with no work to share.
            work += 0 if total else width * (end - begin)
            alone = total
            step += 1
        if heavy[kind] and not backward:
            if step > segment_start:
                program[rows] = 0, segment_start, step, work
                rows += 1
            program[rows] = 1, batch, 0, 0
            rows += 1
            segment_start, work, segment, alone = step, 0, segment + 1, False
    if step > segment_start:
        program[rows] = 0, segment_start, step, work
        rows += 1
    return words[:word].copy(), starts[:step].copy(), lists, program[:rows].copy(), gathered
