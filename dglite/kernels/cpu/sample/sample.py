"""Choose entries of rows: uniformly, by type, or the largest; by weight is in :mod:`.weigh`.

Each kernel serves rows ``first`` to ``last`` of some :class:`Rows`. Row i has ``counts[i]`` choices. A ``fanout`` of -1
means all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile.written import Kernel
from ..lanes.arrays import address_of
from ..lanes.memory import prefetch
from ..rows.packing import ask_for_block, packed_at
from .choose import choose_ranked, choose_uniform, choose_weighted, set_size
from .counter import stream

_AHEAD = 32
"""Rows between asking for a row's bounds and reading them."""
TOGETHER = 32
"""Rows whose positions are drawn before their entries are read."""


class Rows(NamedTuple):
    """Rows of a compressed matrix, and where the choices of each go.

    Attributes
    ----------
    indptr, indices, edge_ids
        the matrix; ``edge_ids`` is empty when entry j is edge j.
    seeds, starts
        the rows, and the first entry of each.
    offsets
        row i's choices go to ``offsets[i]`` and the places after it, up to ``offsets[i + 1]``.
    words, heads
        the indices of a matrix in which they are packed, and ``indices`` is empty; else empty.
    num_cols, bad
        the bound of packed indices, and where an entry is noted that is not sound.
    """

    indptr: np.ndarray
    indices: np.ndarray
    edge_ids: np.ndarray
    seeds: np.ndarray
    starts: np.ndarray
    offsets: np.ndarray
    words: np.ndarray = np.empty(0, np.uint32)
    heads: np.ndarray = np.empty(0, np.int64)
    num_cols: int = 0
    bad: np.ndarray = np.empty(0, np.int64)


class Choices(NamedTuple):
    """The far end, row and edge id of each choice. ``near`` may be empty: ``offsets`` tell the rows."""

    far: np.ndarray
    near: np.ndarray
    edges: np.ndarray


@Kernel
def edge_at(edge_ids: np.ndarray, entry: int) -> int:
    """Return the id of an entry's edge."""
    return entry if len(edge_ids) == 0 else edge_ids[entry]


@Kernel
def far_end(rows: Rows, entry: int) -> int:
    """Return the column of an entry."""
    if len(rows.heads) > 0:
        return packed_at(rows.words, rows.heads, rows.num_cols, rows.bad, entry)
    return rows.indices[entry]


@Kernel
def row_bounds(rows: Rows, fanout: int, replace: bool, sizes: np.ndarray) -> None:
    """Set each row's first entry, and where its choices begin when none is ruled out.

    ``sizes`` get the entries of the longest row, and of all of them; the least of all entries and lengths, and the
    highest end, which are outside of the matrix where ``indptr`` is damaged.
    """
    indptr, seeds = rows.indptr, rows.seeds
    longest, total, entries = 0, 0, 0
    least, highest = 0, 0
    for i in range(len(seeds)):
        if i + _AHEAD < len(seeds):
            prefetch(address_of(indptr, seeds[i + _AHEAD]))
        start = indptr[seeds[i]]
        degree = indptr[seeds[i] + 1] - start
        rows.starts[i] = start
        rows.offsets[i] = total
        longest = max(longest, degree)
        least, highest = min(least, start, degree), max(highest, start + degree)
        entries += degree
        if fanout < 0:
            total += degree
        elif replace:
            total += fanout if degree > 0 else 0
        else:
            total += min(fanout, degree)
    rows.offsets[len(seeds)] = total
    sizes[0], sizes[1], sizes[2], sizes[3] = longest, entries, least, highest


@Kernel
def compact(offsets: np.ndarray, counts: np.ndarray, far: np.ndarray, near: np.ndarray, edges: np.ndarray) -> int:
    """Close the gaps that rows with fewer choices than places left; return the number of choices."""
    to = 0
    for i in range(len(counts)):
        for at in range(offsets[i], offsets[i] + counts[i]):
            far[to], near[to], edges[to] = far[at], near[at], edges[at]
            to += 1
    return to


# -- uniform -----------------------------------------------------------------------------------------------------------
@Kernel
def ask_for(rows: Rows, entry: int) -> None:
    """Ask for the memory that :func:`read_entries` reads of an entry."""
    if len(rows.heads) > 0:
        prefetch(address_of(rows.heads, entry >> 6))
    else:
        prefetch(address_of(rows.indices, entry))
    if len(rows.edge_ids) > 0:
        prefetch(address_of(rows.edge_ids, entry))


@Kernel
def uniform_rows(rows: Rows, fanout: int, replace: int, key: int, out: Choices, first: int, last: int) -> None:
    """Choose with equal probability; every place from ``offsets[first]`` to ``offsets[last]`` is filled.

    Every look at an entry is a step to anywhere in memory. So positions are drawn for some rows, and memory is asked
    for, before anything of it is read.
    """
    offsets, edges = rows.offsets, out.edges
    size = max(fanout, 1)
    scratch, used = np.empty(4 * size, np.int64), np.empty(set_size(size), np.int64)
    with_rows = len(out.near) > 0
    for chunk in range(first, last, TOGETHER):
        end = min(chunk + TOGETHER, last)
        for i in range(chunk, end):
            start, to = rows.starts[i], offsets[i]
            count = offsets[i + 1] - to
            if count == 0:
                continue
            degree = rows.indptr[rows.seeds[i] + 1] - start
            draws = fanout >= 0 and (replace or degree > count)
            if draws:
                choose_uniform(degree, count, replace, stream(key, i), scratch, used)
            for j in range(count):
                entry = start + (scratch[j] if draws else j)
                edges[to + j] = entry
                if draws or j % 16 == 0:
                    ask_for(rows, entry)
                if with_rows:
                    out.near[to + j] = rows.seeds[i]
        read_entries(rows, out.far, edges, offsets[chunk], offsets[end])


@Kernel
def read_entries(rows: Rows, far: np.ndarray, edges: np.ndarray, begin: int, end: int) -> None:
    """Set the far ends of choices from ``begin`` to ``end``, and their edge ids in the place of entries."""
    if len(rows.heads) > 0:
        for at in range(begin, end):
            ask_for_block(rows.words, rows.heads, edges[at])
    for at in range(begin, end):
        entry = edges[at]
        far[at] = far_end(rows, entry)
        if len(rows.edge_ids) > 0:
            edges[at] = rows.edge_ids[entry]


# -- by type ---------------------------------------------------------------------------------------------------------
@Kernel
def etype_rows(
    rows: Rows,
    fanouts: np.ndarray,
    replace: int,
    key: int,
    longest: int,
    weights: np.ndarray,
    type_offsets: np.ndarray,
    out: Choices,
    counts: np.ndarray,
    bad: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Choose ``fanouts[t]`` entries of each type t: edge ids from ``type_offsets[t]`` up to the next are of type t."""
    num_types = len(fanouts)
    room = max(longest, 1)
    for t in range(num_types):
        room = max(room, fanouts[t])
    row, keys, positions = np.empty(room), np.empty(room), np.empty(room, np.int64)
    order, types, ends = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(num_types + 1, np.int64)
    for i in range(first, last):
        start, to = rows.starts[i], rows.offsets[i]
        degree = rows.indptr[rows.seeds[i] + 1] - start
        _sort_by_type(rows.edge_ids, start, degree, type_offsets, types, order, ends)
        begin, total = 0, 0
        for t in range(num_types):
            size = ends[t] - begin
            for j in range(size):
                edge = edge_at(rows.edge_ids, start + order[begin + j])
                row[j] = weights[edge] if len(weights) > 0 else 1.0
                if not (row[j] >= 0 and row[j] < np.inf):
                    bad[0] = edge
                    return
            random = stream(key, i * num_types + t)
            count = choose_weighted(row, size, fanouts[t], replace, random, keys, positions)
            for j in range(count):
                entry = start + order[begin + positions[j]]
                out.far[to + total], out.near[to + total] = far_end(rows, entry), rows.seeds[i]
                out.edges[to + total] = edge_at(rows.edge_ids, entry)
                total += 1
            begin = ends[t]
        counts[i] = total


@Kernel
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
    for t in range(len(ends)):
        ends[t] = 0
    for j in range(degree):
        edge = edge_at(edge_ids, start + j)
        low, high = 0, len(type_offsets)
        while low < high:
            middle = (low + high) >> 1
            if type_offsets[middle] <= edge:
                low = middle + 1
            else:
                high = middle
        types[j] = low - 1
        ends[low] += 1
    for t in range(len(ends) - 1):
        ends[t + 1] += ends[t]
    for j in range(degree):
        order[ends[types[j]]] = j
        ends[types[j]] += 1


# -- the heaviest ------------------------------------------------------------------------------------------------------
@Kernel
def topk_rows(
    rows: Rows, k: int, ascending: int, weights: np.ndarray, out: Choices, bad: np.ndarray, first: int, last: int
) -> None:
    """Choose the entries of largest weight, or of least, in order; of equal ones the earlier entry comes first."""
    longest = 0
    for i in range(first, last):
        longest = max(longest, rows.indptr[rows.seeds[i] + 1] - rows.starts[i])
    values, order, spare = np.empty(longest, weights.dtype), np.empty(longest, np.int64), np.empty(longest, np.int64)
    for i in range(first, last):
        start, to = rows.starts[i], rows.offsets[i]
        degree, count = rows.indptr[rows.seeds[i] + 1] - start, rows.offsets[i + 1] - to
        row = values[:degree]
        for j in range(degree):
            edge = edge_at(rows.edge_ids, start + j)
            row[j] = weights[edge]
            if row[j] != row[j]:
                bad[0] = edge
                return
        choose_ranked(row, count, ascending, order[:degree], spare)
        for j in range(count):
            entry = start + order[j]
            out.far[to + j], out.near[to + j] = far_end(rows, entry), rows.seeds[i]
            out.edges[to + j] = edge_at(rows.edge_ids, entry)
