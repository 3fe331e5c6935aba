"""Choose entries of rows: uniformly, by weight, by weight within groups, or the heaviest.

Each kernel serves rows ``seeds[first:last]`` of a compressed matrix. Row i's choices go to ``offsets[i]`` and the
places after it in the output arrays (far end, row, edge id), ``counts[i]`` of them. ``edge_ids`` is empty when entry j
is edge j. ``fanout`` is -1 for all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .cached import njit
from .choose import choose_ranked, choose_uniform, choose_weighted, is_new, set_size
from .counter import below, draw, stream, unit
from .hashing import has
from .memory import prefetch

__all__ = ["compact", "etype_rows", "row_bounds", "sum_rows", "topk_rows", "uniform_rows", "weighted_rows"]

_jit = njit(nogil=True)
_AHEAD = 8
"""Rows between asking for a row's entries and using them."""
_LONG = 4
"""Rows of more than so many entries for each choice are not read as a whole."""


@_jit
def row_bounds(
    indptr: np.ndarray, seeds: np.ndarray, fanout: int, replace: bool, starts: np.ndarray, offsets: np.ndarray
) -> tuple[int, int]:
    """Set each row's first entry, and where its choices begin when none is ruled out.

    Return the entries of the longest row, and of all of them.
    """
    longest: Any = 0
    total: Any = 0
    entries: Any = 0
    at_indptr, width = indptr.ctypes.data, indptr.itemsize
    for i in range(len(seeds)):
        if i + _AHEAD < len(seeds):
            prefetch(at_indptr + np.int64(seeds[i + _AHEAD]) * width)
        start = np.int64(indptr[seeds[i]])
        degree = np.int64(indptr[seeds[i] + 1]) - start
        starts[i] = start
        offsets[i] = total
        longest = max(longest, degree)
        entries += degree
        if fanout < 0:
            total += degree
        elif replace:
            total += fanout if degree > 0 else 0
        else:
            total += min(fanout, degree)
    offsets[len(seeds)] = total
    return longest, entries


@_jit
def compact(offsets: np.ndarray, counts: np.ndarray, far: np.ndarray, near: np.ndarray, edges: np.ndarray) -> int:
    """Close the gaps that rows with fewer choices than places left; return the number of choices."""
    to = 0
    for i in range(len(counts)):
        for at in range(offsets[i], offsets[i] + counts[i]):
            far[to], near[to], edges[to] = far[at], near[at], edges[at]
            to += 1
    return to


# -- uniform -----------------------------------------------------------------------------------------------------------
@_jit
def uniform_rows(
    indptr: np.ndarray,
    indices: np.ndarray,
    edge_ids: np.ndarray,
    seeds: np.ndarray,
    starts: np.ndarray,
    offsets: np.ndarray,
    fanout: int,
    replace: int,
    key: int,
    far: np.ndarray,
    near: np.ndarray,
    edges: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Choose with equal probability; every place from ``offsets[first]`` to ``offsets[last]`` is filled."""
    size = max(fanout, 1)
    scratch, taken = np.empty(4 * size, np.int64), np.empty(set_size(size), np.int64)
    width, by_entry = indices.itemsize, len(edge_ids) == 0
    at_indices, at_edge_ids = indices.ctypes.data, edge_ids.ctypes.data
    for i in range(first, last):
        if i + _AHEAD < last:
            prefetch(at_indices + starts[i + _AHEAD] * width)
            if not by_entry:
                prefetch(at_edge_ids + starts[i + _AHEAD] * width)
        seed, start, to = seeds[i], starts[i], offsets[i]
        count = offsets[i + 1] - to
        if count == 0:
            continue
        degree = np.int64(indptr[seed + 1]) - start
        if fanout >= 0 and (replace or degree > count):
            choose_uniform(degree, count, replace, stream(key, i), scratch, taken)
            for j in range(count):
                entry = start + scratch[j]
                far[to + j] = indices[entry]
                edges[to + j] = entry if by_entry else edge_ids[entry]
        else:
            for j in range(count):
                far[to + j] = indices[start + j]
                edges[to + j] = start + j if by_entry else edge_ids[start + j]
        for j in range(count):
            near[to + j] = seed


# -- by weight ---------------------------------------------------------------------------------------------------------
@_jit
def sum_rows(
    indptr: np.ndarray, edge_ids: np.ndarray, weights: np.ndarray, sums: np.ndarray, first: int, last: int
) -> None:
    """Write the running sums of each row's weights, which are by edge id; NaN from a weight that is none on."""
    for i in range(first, last):
        start, end = np.int64(indptr[i]), np.int64(indptr[i + 1])
        _sum_row(edge_ids, weights, start, end - start, sums[start:end])


@_jit
def _sum_row(edge_ids: np.ndarray, weights: np.ndarray, start: int, degree: int, sums: np.ndarray) -> None:
    total = 0.0
    for j in range(degree):
        weight = np.float64(weights[start + j if len(edge_ids) == 0 else np.int64(edge_ids[start + j])])
        total += weight if weight >= 0 and weight < np.inf else np.nan
        sums[j] = total


@_jit
def weighted_rows(
    indptr: np.ndarray,
    indices: np.ndarray,
    edge_ids: np.ndarray,
    seeds: np.ndarray,
    starts: np.ndarray,
    offsets: np.ndarray,
    fanout: int,
    replace: int,
    key: int,
    longest: int,
    weights: np.ndarray,
    sums: np.ndarray,
    excluded: np.ndarray,
    edge_times: np.ndarray,
    seed_times: np.ndarray,
    groups: np.ndarray,
    num_groups: int,
    far: np.ndarray,
    near: np.ndarray,
    edges: np.ndarray,
    counts: np.ndarray,
    bad: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Choose in proportion to weights.

    ``weights`` are by edge id, or 1 when empty; ``sums`` are what :func:`sum_rows` makes of them, or empty, with the
    same choices. With ``num_groups`` > 0 weights are by group instead: entries from
    ``groups[seed * (num_groups + 1) + g]`` of a row up to the next offset are in group g. The set ``excluded`` of edge
    ids, where not empty, has weight 0, and so has an edge whose time, by edge id, is not at most the row's in
    ``seed_times``, where not empty. A weight that is negative or not finite puts its edge id, or with groups its group,
    into ``bad[0]``.
    """
    room = max(longest, fanout, 1) if replace else max(longest, 1)
    row, keys, positions = np.empty(max(longest, 1)), np.empty(room), np.empty(room, np.int64)
    taken = np.empty(set_size(max(min(fanout, longest // _LONG), 1)), np.int64)
    by_entry = len(edge_ids) == 0
    for i in range(first, last):
        seed, start, to = seeds[i], starts[i], offsets[i]
        degree = np.int64(indptr[seed + 1]) - start
        random, count = stream(key, i), 0
        if num_groups == 0 and not replace and 0 < fanout < degree // _LONG:
            running = keys[:0]
            if len(sums) > 0:
                running = sums[start : start + degree]
            elif len(weights) > 0:
                running = keys[:degree]
                _sum_row(edge_ids, weights, start, degree, running)
            count = _by_trial(
                edge_ids, start, degree, fanout, running, i, excluded, edge_times, seed_times, random, positions, taken
            )
            # What trials have drawn from must not be drawn from again.
            random = stream(np.int64(random), 0)
        if count == 0 or count < fanout:
            group, until = 0, degree if num_groups == 0 else np.int64(groups[seed * (num_groups + 1) + 1])
            for j in range(degree):
                edge = start + j if by_entry else np.int64(edge_ids[start + j])
                if num_groups > 0:
                    while j >= until and group + 1 < num_groups:
                        group += 1
                        until = np.int64(groups[seed * (num_groups + 1) + group + 1])
                    row[j] = weights[group]
                else:
                    row[j] = weights[edge] if len(weights) > 0 else 1.0
                if not (row[j] >= 0 and row[j] < np.inf):
                    bad[0] = group if num_groups > 0 else edge
                    return
                if _absent(edge, i, excluded, edge_times, seed_times):
                    row[j] = 0
            for j in range(count):
                row[positions[j]] = 0
            left = fanout if fanout < 0 else fanout - count
            count += choose_weighted(row, degree, left, replace, random, keys, positions[count:])
        counts[i] = count
        for j in range(count):
            entry = start + positions[j]
            far[to + j], near[to + j] = indices[entry], seed
            edges[to + j] = entry if by_entry else edge_ids[entry]


@_jit
def _absent(edge: int, i: int, excluded: np.ndarray, edge_times: np.ndarray, seed_times: np.ndarray) -> bool:
    """Whether an edge is treated as if it were not in row i."""
    if len(excluded) > 0 and has(excluded, edge):
        return True
    return len(seed_times) > 0 and not edge_times[edge] <= seed_times[i]


@_jit
def _by_trial(
    edge_ids: np.ndarray,
    start: int,
    degree: int,
    count: int,
    running: np.ndarray,
    i: int,
    excluded: np.ndarray,
    edge_times: np.ndarray,
    seed_times: np.ndarray,
    random: Any,
    positions: np.ndarray,
    taken: np.ndarray,
) -> int:
    """Draw with replacement and leave out what was drawn before or is absent; return how many were found.

    What is new among draws with replacement is distributed as draws without: each in proportion to the weights left.
    So the rest, where trials are used up before ``count`` are found, can be drawn in any other way. ``running`` are the
    running sums of the row's weights; empty where all are alike.
    """
    total = running[degree - 1] if len(running) > 0 else 1.0
    if not (total > 0 and total < np.inf):
        return 0
    taken[:] = -1
    found = 0
    for trial in range(4 * count + 16):
        bits = draw(random, trial)
        if len(running) > 0:
            target, low, high = unit(bits) * total, 0, degree - 1
            while low < high:
                middle = (low + high) >> 1
                if running[middle] > target:
                    high = middle
                else:
                    low = middle + 1
            if not running[low] > target:  # rounded up to the total, past the last positive weight
                continue
        else:
            low = below(bits, degree)
        edge = start + low if len(edge_ids) == 0 else np.int64(edge_ids[start + low])
        if not _absent(edge, i, excluded, edge_times, seed_times) and is_new(low, found, positions, taken):
            positions[found] = low
            found += 1
            if found == count:
                break
    return found


@_jit
def etype_rows(
    indptr: np.ndarray,
    indices: np.ndarray,
    edge_ids: np.ndarray,
    seeds: np.ndarray,
    starts: np.ndarray,
    offsets: np.ndarray,
    fanouts: np.ndarray,
    replace: int,
    key: int,
    longest: int,
    weights: np.ndarray,
    type_offsets: np.ndarray,
    far: np.ndarray,
    near: np.ndarray,
    edges: np.ndarray,
    counts: np.ndarray,
    bad: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Choose ``fanouts[t]`` entries of each type t: edge ids from ``type_offsets[t]`` up to the next are of type t."""
    num_types = len(fanouts)
    room = max(longest, np.max(fanouts), 1) if num_types > 0 else 1
    row, keys, positions = np.empty(room), np.empty(room), np.empty(room, np.int64)
    order, types, ends = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(num_types + 1, np.int64)
    by_entry = len(edge_ids) == 0
    for i in range(first, last):
        seed, start, to = seeds[i], starts[i], offsets[i]
        degree = np.int64(indptr[seed + 1]) - start
        _sort_by_type(edge_ids, start, degree, type_offsets, types, order, ends)
        begin, total = 0, 0
        for t in range(num_types):
            size = ends[t] - begin
            for j in range(size):
                entry = start + order[begin + j]
                edge = entry if by_entry else np.int64(edge_ids[entry])
                row[j] = weights[edge] if len(weights) > 0 else 1.0
                if not (row[j] >= 0 and row[j] < np.inf):
                    bad[0] = edge
                    return
            random = stream(key, i * num_types + t)
            count = choose_weighted(row, size, fanouts[t], replace, random, keys, positions)
            for j in range(count):
                entry = start + order[begin + positions[j]]
                far[to + total], near[to + total] = indices[entry], seed
                edges[to + total] = entry if by_entry else edge_ids[entry]
                total += 1
            begin = ends[t]
        counts[i] = total


@_jit
def _sort_by_type(
    edge_ids: np.ndarray,
    start: int,
    degree: int,
    type_offsets: np.ndarray,
    types: np.ndarray,
    order: np.ndarray,
    ends: np.ndarray,
) -> None:
    """Write a row's positions, sorted by the type of their edges, to ``order``, and where each type ends."""
    ends[:] = 0
    for j in range(degree):
        edge = start + j if len(edge_ids) == 0 else np.int64(edge_ids[start + j])
        types[j] = np.searchsorted(type_offsets, edge, side="right") - 1
        ends[types[j] + 1] += 1
    for t in range(len(ends) - 1):
        ends[t + 1] += ends[t]
    for j in range(degree):
        order[ends[types[j]]] = j
        ends[types[j]] += 1


# -- the heaviest ------------------------------------------------------------------------------------------------------
@_jit
def topk_rows(
    indptr: np.ndarray,
    indices: np.ndarray,
    edge_ids: np.ndarray,
    seeds: np.ndarray,
    starts: np.ndarray,
    offsets: np.ndarray,
    k: int,
    ascending: int,
    weights: np.ndarray,
    far: np.ndarray,
    near: np.ndarray,
    edges: np.ndarray,
    bad: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Choose the entries of greatest weight, or of least, in order; of equal ones the earlier entry comes first."""
    by_entry = len(edge_ids) == 0
    for i in range(first, last):
        seed, start, to = seeds[i], starts[i], offsets[i]
        degree, count = np.int64(indptr[seed + 1]) - start, offsets[i + 1] - to
        row = np.empty(degree, weights.dtype)
        for j in range(degree):
            edge = start + j if by_entry else np.int64(edge_ids[start + j])
            row[j] = weights[edge]
            if row[j] != row[j]:
                bad[0] = edge
                return
        order = choose_ranked(row, count, ascending)
        for j in range(count):
            entry = start + order[j]
            far[to + j], near[to + j] = indices[entry], seed
            edges[to + j] = entry if by_entry else edge_ids[entry]
