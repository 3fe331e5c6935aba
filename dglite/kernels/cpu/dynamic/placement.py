"""Where the results of a session's nodes lie, and through which nodes gradients flow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..compile.written import Kernel
from .batching import PLACE_BITS, PLACE_MASK, OperationGraph, PendingNodes

ALIGNMENT = 64


def place_results(
    order: np.ndarray, pending: PendingNodes, sizes: np.ndarray, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Lay the results of each kind one after the other, in the order of execution.

    Writes each node's place, in bytes from the beginning; returns (the rank of each position among its kind, the number
    of nodes of each kind, where each kind begins, bytes in all).
    """
    count, start, rank = np.zeros(len(sizes), np.int64), np.empty(len(sizes), np.int64), np.empty(len(order), np.int64)
    total = _place_results(order, pending, sizes, places, rank, count, start)
    return rank, count, start, total


@Kernel
def _place_results(
    order: np.ndarray,
    pending: PendingNodes,
    sizes: np.ndarray,
    places: np.ndarray,
    rank: np.ndarray,
    count: np.ndarray,
    start: np.ndarray,
) -> int:
    for at in range(len(order)):
        group = pending.kind[order[at]]
        rank[at] = count[group]
        count[group] += 1
    total = 0
    for k in range(len(sizes)):
        start[k] = total
        total += (count[k] * sizes[k] + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    for at in range(len(order)):
        i = order[at]
        places[pending.nodes[i]] = start[pending.kind[i]] + rank[at] * sizes[pending.kind[i]]
    return total


def in_place(
    members: np.ndarray, slot: int, size: int, graph: OperationGraph, where: np.ndarray, low: int, high: int
) -> tuple[int, int]:
    """Return (address, distance) if argument ``slot`` of all ``members`` lies in equal distances between two addresses.

    Otherwise (0, 0), also where rows overlap.
    """
    distance = _common_distance(members, slot, size, graph, where, low, high)
    if not distance or not len(members):
        return 0, distance
    ref = int(graph.args[graph.argptr[members[0]] + slot])
    return int(where[ref >> PLACE_BITS]) + (ref & PLACE_MASK), distance


@Kernel
def _common_distance(
    members: np.ndarray, slot: int, size: int, graph: OperationGraph, where: np.ndarray, low: int, high: int
) -> int:
    """Return the distance of :func:`in_place`, or 0."""
    distance, last = size, 0
    for i in range(len(members)):
        ref = graph.args[graph.argptr[members[i]] + slot]
        address = where[ref >> PLACE_BITS] + (ref & PLACE_MASK)
        if i == 1:
            distance = address - last
        if address < low or address + size > high or (i > 0 and address - last != distance) or distance < size:
            return 0
        last = address
    return distance


def active_nodes(
    targets: np.ndarray, graph: OperationGraph, sources: Sequence[int], own_wants: Sequence[bool]
) -> np.ndarray:
    """Return whether gradients flow through each node: from a target to something that wants them.

    These are nodes that were given, ``sources``, and those signatures -1, -2, ... which ``own_wants`` tells.
    """
    wants, reached = np.zeros((2, len(graph.sigs)), np.bool_)
    wants[sources] = reached[targets] = True
    _mark_active(graph, np.array(own_wants, np.bool_), wants, reached)
    return reached


@Kernel
def _mark_active(graph: OperationGraph, own_wants: np.ndarray, wants: np.ndarray, reached: np.ndarray) -> None:
    for node in range(len(wants)):
        sig, parameters_want = graph.sigs[node], wants[node]
        if sig < 0 and own_wants[-1 - sig]:
            parameters_want = True
        for at in range(graph.argptr[node], graph.argptr[node + 1]):
            parameters_want = parameters_want or wants[graph.args[at] >> PLACE_BITS]
        wants[node] = parameters_want
    for turn in range(len(wants)):
        node = len(wants) - 1 - turn
        reached[node] = reached[node] and wants[node]
        if reached[node]:
            for at in range(graph.argptr[node], graph.argptr[node + 1]):
                reached[graph.args[at] >> PLACE_BITS] = True
