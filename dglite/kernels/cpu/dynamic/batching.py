"""Grouping recorded operations into batches, over flat arrays. Serial, and it releases the lock.

A node is a recorded operation, numbered as recorded: what it uses has smaller numbers. What node v uses is listed in
``args`` from ``argptr[v]`` to ``argptr[v + 1]``: the number of a node in the upper bits, the place inside its result,
in bytes, in the lower 36. Operations of one signature can be done together as one batch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile.written import Kernel
from .levels import by_head

PLACE_BITS = 36
EXTERNAL = 0
"""The signature of what is given, not computed."""
FIRST_MACRO = -(1 << 40)
ABSOLUTE, INPUT, INNER = range(3)
MOST_KINDS = 1024
"""Beyond this number of kinds the graph of kinds, a matrix, is not made."""


class OperationGraph(NamedTuple):
    """Recorded operations: the signature of each node, where its arguments begin, all arguments, whether it is done."""

    sigs: np.ndarray
    argptr: np.ndarray
    args: np.ndarray
    done: np.ndarray


class PendingNodes(NamedTuple):
    """Nodes that are to be computed, the position of each node of the graph among them or -1, and of each of them the
    depth, one more than that of the deepest argument that is among them, and the kind, which numbers signatures."""

    nodes: np.ndarray
    place: np.ndarray
    depth: np.ndarray
    kind: np.ndarray


@Kernel
def _expand(macro: np.ndarray, inputs: np.ndarray, first: int, graph: OperationGraph) -> int:
    """Append the nodes of a macro; return the number of nodes then."""
    at, node = 1, first
    while at < len(macro):
        graph.sigs[node], graph.done[node] = macro[at], False
        end, arity = graph.argptr[node], macro[at + 1]
        for i in range(arity):
            origin, place = macro[at + 2 + 2 * i], macro[at + 3 + 2 * i]
            if origin == INPUT:
                place = inputs[place >> PLACE_BITS] + (place & ((1 << PLACE_BITS) - 1))
            elif origin == INNER:
                place += first << PLACE_BITS
            graph.args[end + i] = place
        graph.argptr[node + 1] = end + arity
        node += 1
        at += 2 + 2 * arity
    return node


@Kernel
def parse(
    stream: np.ndarray,
    shared_arity: np.ndarray,
    own_arity: np.ndarray,
    macros: np.ndarray,
    macro_ptr: np.ndarray,
    first: int,
    graph: OperationGraph,
) -> int:
    """Append what was recorded, (signature, *arguments) for each node, to a graph that has ``first`` nodes and room for
    more; return the number of nodes then.

    Signature s >= 0 has ``shared_arity[s]`` arguments, signature s < 0 has ``own_arity[-1 - s]``. Below ``FIRST_MACRO``
    are macros, which stand for several nodes. Macro m is ``macros[macro_ptr[m]:macro_ptr[m + 1]]``: its number of
    arguments, then for each of its nodes (signature, number of arguments, then for each (whose, place)): a place in the
    graph (``ABSOLUTE``), in an argument of the macro (``INPUT``), or in a node of the macro (``INNER``).
    """
    at, node = 0, first
    while at < len(stream):
        sig = stream[at]
        if sig <= FIRST_MACRO:
            number = FIRST_MACRO - sig
            macro = macros[macro_ptr[number] : macro_ptr[number + 1]]
            node = _expand(macro, stream[at + 1 :], node, graph)
            at += 1 + macro[0]
            continue
        arity = shared_arity[sig] if sig >= 0 else own_arity[-1 - sig]
        graph.sigs[node], graph.done[node] = sig, sig == EXTERNAL
        end = graph.argptr[node]
        for i in range(arity):
            graph.args[end + i] = stream[at + 1 + i]
        graph.argptr[node + 1] = end + arity
        node += 1
        at += 1 + arity
    return node


def needed_nodes(targets: np.ndarray, graph: OperationGraph) -> np.ndarray:
    """Return the nodes that ``targets`` depend on, themselves included, and that are not done, in ascending order."""
    needed = np.zeros(len(graph.sigs), np.bool_)
    needed[targets] = True
    _mark_needed(graph, needed)
    return np.flatnonzero(needed)


@Kernel
def _mark_needed(graph: OperationGraph, needed: np.ndarray) -> None:
    for turn in range(len(needed)):
        node = len(needed) - 1 - turn
        if needed[node] and graph.done[node]:
            needed[node] = False
        elif needed[node]:
            for at in range(graph.argptr[node], graph.argptr[node + 1]):
                needed[graph.args[at] >> PLACE_BITS] = True


def pending_nodes(nodes: np.ndarray, graph: OperationGraph, num_shared: int) -> tuple[PendingNodes, np.ndarray]:
    """Return nodes with their depths and kinds, and the signature of each kind; ``num_shared`` of these are not
    negative."""
    place, depth, kind = np.full(len(graph.sigs), -1), np.empty(len(nodes), np.int64), np.empty(len(nodes), np.int64)
    lowest = min(int(graph.sigs[nodes].min(initial=0)), 0)
    numbers, kinds = np.full(num_shared - lowest, -1), np.empty(num_shared - lowest, np.int64)
    pending = PendingNodes(nodes, place, depth, kind)
    num_kinds = _find_depths(pending, graph, lowest, numbers, kinds)
    return pending, kinds[:num_kinds].copy()


@Kernel
def _find_depths(
    pending: PendingNodes, graph: OperationGraph, lowest: int, numbers: np.ndarray, kinds: np.ndarray
) -> int:
    """Write place, depth and kind, and the signatures of ``kinds``; return how many kinds there are. ``numbers`` has
    that of each signature, or -1, from the ``lowest`` one on."""
    num_kinds = 0
    for i in range(len(pending.nodes)):
        node = pending.nodes[i]
        pending.place[node] = i
        below = -1
        for at in range(graph.argptr[node], graph.argptr[node + 1]):
            arg = pending.place[graph.args[at] >> PLACE_BITS]
            if arg >= 0:
                below = max(below, pending.depth[arg])
        pending.depth[i] = below + 1
        sig = graph.sigs[node] - lowest
        if numbers[sig] < 0:
            numbers[sig] = num_kinds
            kinds[num_kinds] = sig + lowest
            num_kinds += 1
        pending.kind[i] = numbers[sig]
    return num_kinds


def by_depth(pending: PendingNodes, num_kinds: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (order, where each batch begins in it): one batch for the nodes of one depth and one kind.

    Looks, Herreshoff, Hutchins and Norvig, "Deep learning with dynamic computation graphs", 2017.
    """
    keys = pending.depth * num_kinds + pending.kind
    if len(keys) and keys.max() < 1 << 16:
        keys = keys.astype(np.uint16)  # NumPy sorts these in linear time
    order = np.argsort(keys, kind="stable")
    return order, np.flatnonzero(np.diff(keys[order], prepend=-1, append=-2))


def one_by_one(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (order, bounds) of batches of one node each, as recorded."""
    return np.arange(count), np.arange(count + 1)


def _users(pending: PendingNodes, graph: OperationGraph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (how many arguments each node waits for, bounds of each node's users, users)."""
    waits = np.empty(len(pending.nodes), np.int64)
    used, users = np.empty((2, len(graph.args)), np.int64)
    num_uses = _list_uses(pending, graph, waits, used, users)
    bounds, entries = by_head(used[:num_uses], len(waits))
    return waits, bounds, users[entries]


@Kernel
def _list_uses(
    pending: PendingNodes, graph: OperationGraph, waits: np.ndarray, used: np.ndarray, users: np.ndarray
) -> int:
    num_uses = 0
    for i in range(len(pending.nodes)):
        before = num_uses
        for at in range(graph.argptr[pending.nodes[i]], graph.argptr[pending.nodes[i] + 1]):
            arg = pending.place[graph.args[at] >> PLACE_BITS]
            if arg >= 0:
                used[num_uses], users[num_uses] = arg, i
                num_uses += 1
        waits[i] = num_uses - before
    return num_uses


def _stages(kind: np.ndarray, bounds_of_users: np.ndarray, users: np.ndarray, num_kinds: int) -> np.ndarray:
    """Return a stage for each kind: nothing of a stage uses anything of a later one.

    Kinds that use each other, by whatever way, are of one stage, which is the number of other kinds that lead to them.
    With very many kinds there is one stage only.
    """
    stage = np.zeros(num_kinds, np.int64)
    if num_kinds <= MOST_KINDS:
        _find_stages(kind, bounds_of_users, users, np.zeros(num_kinds * num_kinds, np.bool_), stage)
    return stage


@Kernel
def _find_stages(
    kind: np.ndarray, bounds_of_users: np.ndarray, users: np.ndarray, leads: np.ndarray, stage: np.ndarray
) -> None:
    """``leads`` tells of each pair of kinds, by rows, whether the first one leads to the second."""
    num_kinds = len(stage)
    for i in range(len(kind)):
        for j in range(bounds_of_users[i], bounds_of_users[i + 1]):
            leads[kind[i] * num_kinds + kind[users[j]]] = True
    for between in range(num_kinds):
        for k in range(num_kinds):
            if leads[k * num_kinds + between]:
                for to in range(num_kinds):
                    if leads[between * num_kinds + to]:
                        leads[k * num_kinds + to] = True
    for k in range(num_kinds):
        for other in range(num_kinds):
            if leads[other * num_kinds + k] and not leads[k * num_kinds + other]:
                stage[k] += 1


def _priorities(depth: np.ndarray, kind: np.ndarray, heavy: np.ndarray, stage: np.ndarray) -> np.ndarray:
    """Return the rank of each kind: by stage, then by average depth; of equals the cheap ones first.

    Not compiled: NumPy sorts.
    """
    total, members = np.bincount(kind, depth, len(heavy)), np.bincount(kind, minlength=len(heavy))
    return np.argsort(np.lexsort((heavy, total / np.maximum(members, 1), stage)))


def by_agenda(pending: PendingNodes, graph: OperationGraph, heavy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (order, bounds): of the kinds that have nodes ready, all ready nodes of the kind of least average depth.

    Neubig, Goldberg and Dyer, "On-the-fly operation batching in dynamic computation graphs", 2017. Beyond that, a kind
    waits for all kinds that it depends on and that do not depend on it (see :func:`_stages`), so kinds outside of a
    recurrence are one batch each. Nodes of a kind come in the order in which they became ready, so what follows a batch
    finds its inputs in the batch's own order.
    """
    waits, bounds_of_users, users = _users(pending, graph)
    stages = _stages(pending.kind, bounds_of_users, users, len(heavy))
    ranks = _priorities(pending.depth, pending.kind, heavy, stages)
    rank = ranks[pending.kind]
    start, _ = by_head(rank, len(ranks))
    queue, head, tail = np.empty(len(rank), np.int64), start[:-1].copy(), start[:-1].copy()
    order, batches = np.empty(len(rank), np.int64), np.empty(len(rank) + 1, np.int64)
    num_batches = _list_batches(rank, waits, bounds_of_users, users, queue, head, tail, order, batches)
    return order, batches[: num_batches + 1].copy()


@Kernel
def _list_batches(
    rank: np.ndarray,
    waits: np.ndarray,
    bounds_of_users: np.ndarray,
    users: np.ndarray,
    queue: np.ndarray,
    head: np.ndarray,
    tail: np.ndarray,
    order: np.ndarray,
    batches: np.ndarray,
) -> int:
    """Write order and bounds; return the number of batches. Ready nodes of rank r are ``queue[head[r]:tail[r]]``."""
    for i in range(len(rank)):
        if waits[i] == 0:
            queue[tail[rank[i]]] = i
            tail[rank[i]] += 1
    at, num_batches, current = 0, 0, 0
    while at < len(rank):
        while head[current] == tail[current]:
            current += 1
        first, last, following = head[current], tail[current], current
        head[current] = last
        batches[num_batches] = at
        num_batches += 1
        for place in range(first, last):
            i = queue[place]
            order[at] = i
            at += 1
            for j in range(bounds_of_users[i], bounds_of_users[i + 1]):
                user = users[j]
                waits[user] -= 1
                if waits[user] == 0:
                    queue[tail[rank[user]]] = user
                    tail[rank[user]] += 1
                    following = min(following, rank[user])
        current = following
    batches[num_batches] = at
    return num_batches
