"""Draw edges with some edges excluded, and find the edges between given nodes: neighbours and ids, row by row."""

from __future__ import annotations

import numpy as np

from ..compile.written import Kernel
from ..lanes.arrays import address_of
from ..lanes.memory import prefetch
from .choose import choose_uniform, set_size
from .counter import stream
from .hashing import in_set
from .sample import TOGETHER, Rows, far_end

_AHEAD = 16
"""Rows between asking for a row's entries and reading them."""
_ROOM = 256
"""Entries of a row for which there is room from the start."""


@Kernel
def draw_again(
    rows: Rows,
    fanout: int,
    replace: int,
    key: int,
    excluded: np.ndarray,
    counts: np.ndarray,
    far: np.ndarray,
    edges: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Replace the choices of rows in which an edge of the set ``excluded`` was drawn, by choices among the others.

    A choice without such an edge is as likely as any other without: only the rows that drew one are read in full.
    ``key`` must be another than the first choices'. Rows of which less is left get ``counts[i]`` edges.
    """
    size = max(fanout, 1)
    scratch, used = np.empty(4 * size, np.int64), np.empty(set_size(size), np.int64)
    by_entry, allowed = len(rows.edge_ids) == 0, np.empty(_ROOM, np.int64)
    for i in range(first, last):
        start, to = rows.starts[i], rows.offsets[i]
        count = rows.offsets[i + 1] - to
        counts[i], hit = count, False
        for at in range(to, to + count):
            hit = hit or in_set(excluded, edges[at])
        if not hit:
            continue
        degree, left = rows.indptr[rows.seeds[i] + 1] - start, 0
        if degree > len(allowed):
            allowed = np.empty(2 * degree, np.int64)
        for entry in range(start, start + degree):
            edge = entry if by_entry else rows.edge_ids[entry]
            if not in_set(excluded, edge):
                allowed[left] = entry
                left += 1
        draws = left > 0 and fanout >= 0 and (replace or left > count)
        if draws:
            choose_uniform(left, count, replace, stream(key, i), scratch, used)
        counts[i] = count if draws else left
        for j in range(counts[i]):
            entry = allowed[scratch[j] if draws else j]
            far[to + j] = far_end(rows, entry)
            edges[to + j] = entry if by_entry else rows.edge_ids[entry]


@Kernel
def close_gaps(offsets: np.ndarray, counts: np.ndarray, far: np.ndarray, edges: np.ndarray) -> None:
    """Close the gaps of rows with fewer choices than places; ``offsets`` become the offsets of the result."""
    to = 0
    for i in range(len(counts)):
        begin = offsets[i]
        offsets[i] = to
        for at in range(begin, begin + counts[i]):
            far[to], edges[to] = far[at], edges[at]
            to += 1
    offsets[len(counts)] = to


@Kernel
def list_entries(
    indptr: np.ndarray,
    indices: np.ndarray,
    edge_ids: np.ndarray,
    rows: np.ndarray,
    offsets: np.ndarray,
    near: np.ndarray,
    far: np.ndarray,
    edges: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Write row, column and edge id of each entry of some rows; entries of ``rows[i]`` start at ``offsets[i]``."""
    by_entry = len(edge_ids) == 0
    for i in range(first, last):
        _ask_ahead(indptr, indices, rows, i, last)
        if not by_entry and i + _AHEAD < last:
            prefetch(address_of(edge_ids, indptr[rows[i + _AHEAD]]))
        row = rows[i]
        shift = indptr[row] - offsets[i]
        for to in range(offsets[i], offsets[i + 1]):
            entry = to + shift
            near[to], far[to] = row, indices[entry]
            edges[to] = entry if by_entry else edge_ids[entry]


@Kernel
def _set_offsets(indptr: np.ndarray, rows: np.ndarray, offsets: np.ndarray) -> None:
    offsets[0] = 0
    for i in range(len(rows)):
        if i + _AHEAD < len(rows):
            prefetch(address_of(indptr, rows[i + _AHEAD]))
        offsets[i + 1] = offsets[i] + indptr[rows[i] + 1] - indptr[rows[i]]


def row_offsets(indptr: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the offset of each row's entries in a list of the entries of ``rows``, and their total."""
    offsets = np.empty(len(rows) + 1, np.int64)
    _set_offsets(indptr, rows, offsets)
    return offsets


@Kernel
def mark(ids: np.ndarray, marks: np.ndarray) -> None:
    """Set the bits of some ids, the lowest of a byte first. They stay in the caches, where a table would not."""
    for i in range(len(ids)):
        marks[ids[i] >> 3] |= 1 << (ids[i] & 7)


@Kernel
def _ask_ahead(indptr: np.ndarray, indices: np.ndarray, rows: np.ndarray, i: int, last: int) -> None:
    """Ask for the memory of rows to come: for where their entries begin, and, nearer, for these."""
    if i + 2 * _AHEAD < last:
        prefetch(address_of(indptr, rows[i + 2 * _AHEAD]))
    if i + _AHEAD < last:
        entries = address_of(indices, indptr[rows[i + _AHEAD]])
        prefetch(entries)
        prefetch(entries + 64)


@Kernel
def count_inside(
    indptr: np.ndarray,
    indices: np.ndarray,
    rows: np.ndarray,
    marks: np.ndarray,
    counts: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Count the edges of ``rows[first:last]`` whose other end is marked: see :func:`mark`."""
    for i in range(first, last):
        _ask_ahead(indptr, indices, rows, i, last)
        count = 0
        for entry in range(indptr[rows[i]], indptr[rows[i] + 1]):
            count += (marks[indices[entry] >> 3] >> (indices[entry] & 7)) & 1
        counts[i] = count


@Kernel
def list_inside(
    indptr: np.ndarray,
    indices: np.ndarray,
    edge_ids: np.ndarray,
    rows: np.ndarray,
    marks: np.ndarray,
    table: np.ndarray,
    offsets: np.ndarray,
    near: np.ndarray,
    far: np.ndarray,
    edges: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Write what :func:`count_inside` counts: row, number of the other end and id of each, from ``offsets[i]`` on.

    Entries are found for some rows, and what stands elsewhere in memory for them is asked for, before it is read.
    """
    by_entry = len(edge_ids) == 0
    for chunk in range(first, last, TOGETHER):
        end = min(chunk + TOGETHER, last)
        for i in range(chunk, end):
            _ask_ahead(indptr, indices, rows, i, last)
            to, stop = offsets[i], offsets[i + 1]
            entry = indptr[rows[i]]
            while to < stop:
                other = indices[entry]
                if (marks[other >> 3] >> (other & 7)) & 1:
                    near[to], far[to], edges[to] = i, other, entry
                    prefetch(address_of(table, other))
                    if not by_entry:
                        prefetch(address_of(edge_ids, entry))
                    to += 1
                entry += 1
        for at in range(offsets[chunk], offsets[end]):
            far[at] = table[far[at]]
            if not by_entry:
                edges[at] = edge_ids[edges[at]]
