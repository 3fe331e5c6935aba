"""Random walks along the rows of compressed matrices, uniform or by weight, of first and second order.

Some dozens of walks advance together, so that one walk's memory accesses do not wait for another's.
Walker i at step t takes its random numbers from stream i: a walk does not depend on how walkers are shared out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compile.written import Kernel
from ..lanes.arrays import address_of
from ..lanes.memory import prefetch
from ..run.sort import merge_sort
from .counter import below, draw, stream, unit

_TOGETHER = 64
"""Walkers that go forward together: more than memory serves at once, and their positions stay in the nearest cache."""
_DRAWS = 4
"""Random numbers set aside for one step."""
_ROOM = 256
"""Entries of a row for which there is room from the start."""
_TRIES = 32
"""Second-order steps that were rejected so often are made by a scan of the row."""


@Kernel
def walk(
    indptr: np.ndarray,
    indices: np.ndarray,
    edge_ids: np.ndarray,
    weights: np.ndarray,
    stops: np.ndarray,
    begin: int,
    end: int,
    length: int,
    key: int,
    traces: np.ndarray,
    edges: np.ndarray,
    bad: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Make steps ``begin`` to ``end - 1`` of walkers ``first`` to ``last - 1``, all along one relation.

    ``traces`` (walkers, length + 1) has the nodes up to step ``begin`` and gets the next ones, ``edges``
    (walkers, length) the edges unless empty; both flat, -1 where a walk has ended. Before step t a walk ends with
    probability ``stops[t]``. ``weights`` by edge id are uniform when empty; one that is negative or not finite puts its
    edge id into ``bad[0]``.
    """
    entries = np.empty(_TOGETHER, np.int64)
    by_entry = len(edge_ids) == 0
    for group in range(first, last, _TOGETHER):
        until = min(group + _TOGETHER, last)
        for t in range(begin, end):
            for i in range(group, until):
                node = traces[i * (length + 1) + t]
                entry = -1
                if node >= 0:
                    entry = _next_entry(indptr, edge_ids, weights, node, stops[t], stream(key, i), t * _DRAWS, bad)
                entries[i - group] = entry
                if entry >= 0:
                    prefetch(address_of(indices, entry))
                    if len(edges) > 0 and not by_entry:
                        prefetch(address_of(edge_ids, entry))
            for i in range(group, until):
                entry = entries[i - group]
                node = indices[entry] if entry >= 0 else -1
                traces[i * (length + 1) + t + 1] = node
                if len(edges) > 0:
                    edges[i * length + t] = -1 if entry < 0 else entry if by_entry else edge_ids[entry]
                if node >= 0 and t + 1 < end:
                    prefetch(address_of(indptr, node))


@Kernel
def _next_entry(
    indptr: np.ndarray,
    edge_ids: np.ndarray,
    weights: np.ndarray,
    node: int,
    stop: float,
    random: Any,
    at: int,
    bad: np.ndarray,
) -> int:
    """Return the entry to follow from ``node``, -1 to end."""
    if stop > 0 and unit(draw(random, at + 1)) < stop:
        return -1
    start = indptr[node]
    degree = indptr[node + 1] - start
    if degree == 0:
        return -1
    bits = draw(random, at)
    if len(weights) == 0:
        return start + below(bits, degree)
    by_entry, total = len(edge_ids) == 0, 0.0
    for entry in range(start, start + degree):
        edge = entry if by_entry else edge_ids[entry]
        weight = float(weights[edge])
        if not (weight >= 0 and weight < np.inf):
            bad[0] = edge
            return -1
        total += weight
    next_entry = -1
    target = unit(bits) * total
    for entry in range(start, start + degree):
        weight = float(weights[entry if by_entry else edge_ids[entry]])
        if weight > 0:
            next_entry = entry
            target -= weight
            if target < 0:
                break
    return next_entry


# -- second order ------------------------------------------------------------------------------------------------------
@Kernel
def node2vec(
    indptr: np.ndarray,
    indices: np.ndarray,
    edge_ids: np.ndarray,
    weights: np.ndarray,
    biases: np.ndarray,
    begin: int,
    end: int,
    length: int,
    key: int,
    traces: np.ndarray,
    edges: np.ndarray,
    bad: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Walk with a memory of one step (Grover and Leskovec 2016), steps ``begin`` to ``end - 1``; rows are sorted by
    column.

    From v, where it came from t, a walk goes to x in proportion to the weight of v -> x times ``biases``: [0] when x is
    t, [1] when there is an edge t -> x, [2] otherwise. ``traces`` and ``edges`` are as for :func:`walk`.
    """
    by_entry, room = len(edge_ids) == 0, np.empty(_ROOM)
    for i in range(first, last):
        start = i * (length + 1) + begin
        random, node = stream(key, i), traces[start]
        previous = traces[start - 1] if begin > 0 else -1
        for t in range(begin, end):
            entry = -1
            if node >= 0:
                if previous < 0:
                    entry = _next_entry(indptr, edge_ids, weights, node, 0.0, random, 0, bad)
                else:
                    degree = indptr[node + 1] - indptr[node]
                    if degree > len(room):
                        room = np.empty(2 * degree)
                    step = stream(key + 1 + t, i)
                    entry = _next_of_second_order(
                        indptr, indices, edge_ids, weights, biases, previous, node, step, room, bad
                    )
            previous = node
            node = indices[entry] if entry >= 0 else -1
            traces[i * (length + 1) + t + 1] = node
            if len(edges) > 0:
                edges[i * length + t] = -1 if entry < 0 else entry if by_entry else edge_ids[entry]


@Kernel
def _next_of_second_order(
    indptr: np.ndarray,
    indices: np.ndarray,
    edge_ids: np.ndarray,
    weights: np.ndarray,
    biases: np.ndarray,
    previous: int,
    node: int,
    random: Any,
    row: np.ndarray,
    bad: np.ndarray,
) -> int:
    """Return the entry to follow: by rejection where weights are uniform, else, or after many tries, by a scan.

    ``row`` has room for a number of each entry.
    """
    start, end = indptr[node], indptr[node + 1]
    if start == end:
        return -1
    if len(weights) == 0:
        most = max(biases[0], biases[1], biases[2])
        for n in range(_TRIES):
            entry = start + below(draw(random, 2 * n), end - start)
            if unit(draw(random, 2 * n + 1)) * most < _bias(indptr, indices, biases, previous, indices[entry]):
                return entry
    by_entry, total = len(edge_ids) == 0, 0.0
    for entry in range(start, end):
        weight = 1.0
        if len(weights) > 0:
            edge = entry if by_entry else edge_ids[entry]
            weight = float(weights[edge])
            if not (weight >= 0 and weight < np.inf):
                bad[0] = edge
                return -1
        row[entry - start] = weight * _bias(indptr, indices, biases, previous, indices[entry])
        total += row[entry - start]
    next_entry = -1
    target = unit(draw(random, 2 * _TRIES)) * total
    for entry in range(start, end):
        if row[entry - start] > 0:
            next_entry = entry
            target -= row[entry - start]
            if target < 0:
                break
    return next_entry


@Kernel
def _bias(indptr: np.ndarray, indices: np.ndarray, biases: np.ndarray, previous: int, candidate: int) -> float:
    if candidate == previous:
        return biases[0]
    low, high = indptr[previous], indptr[previous + 1]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < candidate:
            low = middle + 1
        else:
            high = middle
    return biases[1] if low < end and indices[low] == candidate else biases[2]


# -- visits ------------------------------------------------------------------------------------------------------------
@Kernel
def count_visits(
    traces: np.ndarray,
    length: int,
    hops: int,
    walks: int,
    most: int,
    nodes: np.ndarray,
    times: np.ndarray,
    counts: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Find the nodes that the walks of each seed visited most often.

    Seed i has walks ``i * walks`` and on in ``traces`` (walkers, length + 1), flat; every ``hops``-th node counts as
    visited, the start does not. The ``counts[i]`` <= ``most`` nodes, the most visited first and of equals the lowest,
    go to ``nodes[i * most]`` and on, with how often to ``times``.
    """
    per_walk = length // hops
    visited, spare = np.empty(walks * per_walk, np.int64), np.empty(walks * per_walk, np.int64)
    for i in range(first, last):
        size = 0
        for w in range(i * walks, (i + 1) * walks):
            for t in range(1, per_walk + 1):
                node = traces[w * (length + 1) + t * hops]
                if node < 0:
                    break
                visited[size] = node
                size += 1
        merge_sort(visited[:size], spare, None, 0)
        distinct, j = 0, 0
        while j < size:
            run = j
            while j < size and visited[j] == visited[run]:
                j += 1
            if distinct < most or (most > 0 and times[i * most + most - 1] < j - run):
                at = distinct if distinct < most else most - 1
                distinct = min(distinct + 1, most)
                while at > 0 and times[i * most + at - 1] < j - run:
                    times[i * most + at] = times[i * most + at - 1]
                    nodes[i * most + at] = nodes[i * most + at - 1]
                    at -= 1
                times[i * most + at] = j - run
                nodes[i * most + at] = visited[run]
        counts[i] = distinct
