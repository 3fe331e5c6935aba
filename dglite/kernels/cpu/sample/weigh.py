"""Choose entries of rows by weight, or by weight of their groups; see :mod:`.sample`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..compile.written import Kernel
from ..lanes.arrays import address_of
from ..lanes.memory import prefetch
from .choose import choose_weighted, is_new, set_size
from .counter import below, draw, stream, unit
from .hashing import in_set
from .sample import Choices, Rows, ask_for, edge_at, far_end

_FAR, _NEAR, _MOST = 12, 4, 32
"""Rows between asking for a row's edge ids and using them, the same for weights, and of how many of its entries."""
_LONG = 4
"""NumberType of entries per choice above which a row is not read as a whole."""


@Kernel
def sum_rows(
    indptr: np.ndarray, edge_ids: np.ndarray, weights: np.ndarray, sums: np.ndarray, first: int, last: int
) -> None:
    """Write the running sums of each row's weights, which are by edge id; NaN from an invalid weight on."""
    for i in range(first, last):
        start, end = indptr[i], indptr[i + 1]
        _sum_row(edge_ids, weights, start, end - start, sums[start:end])


@Kernel
def _sum_row(edge_ids: np.ndarray, weights: np.ndarray, start: int, degree: int, sums: np.ndarray) -> None:
    total = 0.0
    for j in range(degree):
        weight = float(weights[edge_at(edge_ids, start + j)])
        total += weight if weight >= 0 and weight < np.inf else np.nan
        sums[j] = total


class Weights(NamedTuple):
    """Weights by edge id, all 1 if empty; or weights by group, if there are groups.

    Attributes
    ----------
    values
        the weights.
    sums
        what :func:`sum_rows` makes of them, or empty, with the same choices.
    groups, num_groups
        entries from ``groups[seed * (num_groups + 1) + g]`` of a row up to the next offset are in group g; no groups
        where the number is 0.
    """

    values: np.ndarray
    sums: np.ndarray
    groups: np.ndarray
    num_groups: int


class ExcludedEdges(NamedTuple):
    """Edges that count as having weight 0.

    Attributes
    ----------
    excluded
        a set of edge ids, or empty.
    edge_times, seed_times
        where not empty, edges whose time, by edge id, is not at most the row's.
    edges_since, seeds_since
        where not empty, edges whose time, by edge id, is not at least the row's.
    """

    excluded: np.ndarray
    edge_times: np.ndarray
    seed_times: np.ndarray
    edges_since: np.ndarray
    seeds_since: np.ndarray


@Kernel
def weighted_rows(
    rows: Rows,
    fanout: int,
    replace: int,
    key: int,
    longest: int,
    weights: Weights,
    absent: ExcludedEdges,
    out: Choices,
    counts: np.ndarray,
    bad: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Choose in proportion to weights.

    A weight that is negative or not finite puts its edge id, or with groups its group, into ``bad[0]``.
    """
    room = max(longest, fanout, 1) if replace else max(longest, 1)
    row, keys, positions = np.empty(max(longest, 1)), np.empty(room), np.empty(room, np.int64)
    used = np.empty(set_size(max(min(fanout, longest // _LONG), 1)), np.int64)
    by_trial = weights.num_groups == 0 and not replace and fanout > 0
    for i in range(first, last):
        if i + _FAR < last and len(rows.edge_ids) > 0:
            prefetch(address_of(rows.edge_ids, rows.starts[i + _FAR]))
        if i + _NEAR < last and weights.num_groups == 0:
            _ask_for_weights(rows, i + _NEAR, weights.values)
        start, to = rows.starts[i], rows.offsets[i]
        degree = rows.indptr[rows.seeds[i] + 1] - start
        random, count = stream(key, i), 0
        if by_trial and fanout < degree // _LONG:
            count = _by_trial(rows, i, degree, fanout, weights, absent, random, keys, positions, used)
            # What trials have drawn from must not be drawn from again.
            random = stream(random, 0)
        if count == 0 or count < fanout:
            wrong = _weights_of_row(rows, i, degree, weights, absent, row)
            if wrong >= 0:
                bad[0] = wrong
                return
            for j in range(count):
                row[positions[j]] = 0
            takes_all = fanout < 0 or (degree <= fanout and not replace)
            left = -1 if takes_all else fanout - count
            count += choose_weighted(row, degree, left, replace, random, keys, positions[count:])
        counts[i] = count
        for j in range(count):
            entry = start + positions[j]
            out.far[to + j], out.near[to + j] = far_end(rows, entry), rows.seeds[i]
            out.edges[to + j] = edge_at(rows.edge_ids, entry)


@Kernel
def _ask_for_weights(rows: Rows, i: int, values: np.ndarray) -> None:
    """Ask for the memory of the far ends of a row's first entries and, as they are by edge, of their weights."""
    start = rows.starts[i]
    ask_for(rows, start)
    if len(values) > 0 and len(rows.edge_ids) > 0:
        for entry in range(start, min(rows.indptr[rows.seeds[i] + 1], start + _MOST)):
            prefetch(address_of(values, rows.edge_ids[entry]))


@Kernel
def _weights_of_row(rows: Rows, i: int, degree: int, weights: Weights, absent: ExcludedEdges, row: np.ndarray) -> int:
    """Write the weights of row i to ``row``; return the edge, or group, of one that cannot be used, else -1."""
    start, values, num_groups = rows.starts[i], weights.values, weights.num_groups
    at_group = rows.seeds[i] * (num_groups + 1)
    group, until = 0, degree if num_groups == 0 else weights.groups[at_group + 1]
    for j in range(degree):
        edge = edge_at(rows.edge_ids, start + j)
        if num_groups > 0:
            while j >= until and group + 1 < num_groups:
                group += 1
                until = weights.groups[at_group + group + 1]
            row[j] = values[group]
        else:
            row[j] = values[edge] if len(values) > 0 else 1.0
        if not (row[j] >= 0 and row[j] < np.inf):
            return group if num_groups > 0 else edge
        if _is_absent(edge, i, absent):
            row[j] = 0
    return -1


@Kernel
def _is_absent(edge: int, i: int, absent: ExcludedEdges) -> bool:
    """Whether an edge is treated as if it were not in row i."""
    if len(absent.excluded) > 0 and in_set(absent.excluded, edge):
        return True
    if len(absent.seed_times) > 0 and not absent.edge_times[edge] <= absent.seed_times[i]:
        return True
    return len(absent.seeds_since) > 0 and not absent.edges_since[edge] >= absent.seeds_since[i]


@Kernel
def _by_trial(
    rows: Rows,
    i: int,
    degree: int,
    count: int,
    weights: Weights,
    absent: ExcludedEdges,
    random: Any,
    keys: np.ndarray,
    positions: np.ndarray,
    used: np.ndarray,
) -> int:
    """Draw with replacement and leave out what was drawn before or is absent; return how many were found.

    What is new among draws with replacement is distributed as draws without: each in proportion to the weights left.
    So the rest, where trials are used up before ``count`` are found, can be drawn in any other way. ``keys`` has room
    for the running sums of the row's weights.
    """
    start, running = rows.starts[i], keys[:0]
    if len(weights.sums) > 0:
        running = weights.sums[start : start + degree]
    elif len(weights.values) > 0:
        running = keys[:degree]
        _sum_row(rows.edge_ids, weights.values, start, degree, running)
    total = running[degree - 1] if len(running) > 0 else 1.0
    if not (total > 0 and total < np.inf):
        return 0
    for slot in range(len(used)):
        used[slot] = -1
    size = 0
    for trial in range(4 * count + 16):
        bits = draw(random, trial)
        low = below(bits, degree) if len(running) == 0 else _first_above(running, unit(bits) * total)
        if low >= degree:  # the target was rounded up to the total
            continue
        edge = edge_at(rows.edge_ids, start + low)
        if not _is_absent(edge, i, absent) and is_new(low, size, positions, used):
            positions[size] = low
            size += 1
            if size == count:
                break
    return size


@Kernel
def _first_above(running: np.ndarray, target: float) -> int:
    """Return the first position of ascending sums that is above ``target``, or their number."""
    low, high = 0, len(running)
    while low < high:
        middle = (low + high) >> 1
        if running[middle] > target:
            high = middle
        else:
            low = middle + 1
    return low
