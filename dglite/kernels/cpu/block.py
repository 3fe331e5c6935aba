"""Draw the in-edges of one layer of a block, and find the edges between some nodes: far ends and ids, row after row.

Every look at an edge is a step to anywhere in memory. So positions are drawn for some rows, and memory is asked for,
before anything of it is read.
"""

from __future__ import annotations

import numpy as np

from .cached import njit
from .choose import choose_uniform, set_size
from .counter import stream
from .hashing import has
from .memory import prefetch

__all__ = ["close_gaps", "count_inside", "draw_again", "draw_rows", "list_inside"]

_ROWS = 32
"""Rows whose positions are drawn before their edges are read."""


@njit(nogil=True)
def draw_rows(
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
    edges: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Choose what ``sample.uniform_rows`` does, for rows ``seeds[first:last]``; see there for the arguments."""
    size = max(fanout, 1)
    scratch, taken = np.empty(4 * size, np.int64), np.empty(set_size(size), np.int64)
    width, by_entry = indices.itemsize, len(edge_ids) == 0
    at_indices, at_edge_ids = indices.ctypes.data, edge_ids.ctypes.data
    for chunk in range(first, last, _ROWS):
        end = min(chunk + _ROWS, last)
        for i in range(chunk, end):
            start, to = starts[i], offsets[i]
            count = offsets[i + 1] - to
            if count == 0:
                continue
            degree = np.int64(indptr[seeds[i] + 1]) - start
            draws = fanout >= 0 and (replace or degree > count)
            if draws:
                choose_uniform(degree, count, replace, stream(key, i), scratch, taken)
            for j in range(count):
                entry = start + (scratch[j] if draws else j)
                edges[to + j] = entry
                if draws or j % 16 == 0:
                    prefetch(at_indices + entry * width)
                    if not by_entry:
                        prefetch(at_edge_ids + entry * width)
        for at in range(offsets[chunk], offsets[end]):
            entry = edges[at]
            far[at] = indices[entry]
            if not by_entry:
                edges[at] = edge_ids[entry]


@njit(nogil=True)
def draw_again(
    indptr: np.ndarray,
    indices: np.ndarray,
    edge_ids: np.ndarray,
    seeds: np.ndarray,
    starts: np.ndarray,
    offsets: np.ndarray,
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
    scratch, taken = np.empty(4 * size, np.int64), np.empty(set_size(size), np.int64)
    by_entry = len(edge_ids) == 0
    for i in range(first, last):
        start, to = starts[i], offsets[i]
        count = offsets[i + 1] - to
        counts[i], hit = count, False
        for at in range(to, to + count):
            hit = hit or has(excluded, np.int64(edges[at]))
        if not hit:
            continue
        degree, left = np.int64(indptr[seeds[i] + 1]) - start, 0
        allowed = np.empty(degree, np.int64)
        for entry in range(start, start + degree):
            edge = np.int64(entry) if by_entry else np.int64(edge_ids[entry])
            if not has(excluded, edge):
                allowed[left] = entry
                left += 1
        draws = left > 0 and fanout >= 0 and (replace or left > count)
        if draws:
            choose_uniform(left, count, replace, stream(key, i), scratch, taken)
        counts[i] = count if draws else left
        for j in range(counts[i]):
            entry = allowed[scratch[j] if draws else j]
            far[to + j] = indices[entry]
            edges[to + j] = entry if by_entry else edge_ids[entry]


@njit(nogil=True)
def close_gaps(offsets: np.ndarray, counts: np.ndarray, far: np.ndarray, edges: np.ndarray) -> None:
    """Move choices together where rows have fewer than places; ``offsets`` become those of the result."""
    to = 0
    for i in range(len(counts)):
        begin = offsets[i]
        offsets[i] = to
        for at in range(begin, begin + counts[i]):
            far[to], edges[to] = far[at], edges[at]
            to += 1
    offsets[len(counts)] = to


@njit(nogil=True)
def count_inside(
    indptr: np.ndarray,
    indices: np.ndarray,
    rows: np.ndarray,
    table: np.ndarray,
    counts: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Count the edges of ``rows[first:last]`` whose other end has a number >= 0 in the table."""
    for i in range(first, last):
        count = 0
        for entry in range(indptr[rows[i]], indptr[rows[i] + 1]):
            count += table[indices[entry]] >= 0
        counts[i] = count


@njit(nogil=True)
def list_inside(
    indptr: np.ndarray,
    indices: np.ndarray,
    edge_ids: np.ndarray,
    rows: np.ndarray,
    table: np.ndarray,
    offsets: np.ndarray,
    near: np.ndarray,
    far: np.ndarray,
    edges: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Write what :func:`count_inside` counts: row, number of the other end and id of each, from ``offsets[i]`` on."""
    by_entry = len(edge_ids) == 0
    for i in range(first, last):
        to = offsets[i]
        for entry in range(indptr[rows[i]], indptr[rows[i] + 1]):
            number = table[indices[entry]]
            if number >= 0:
                near[to], far[to] = i, number
                edges[to] = entry if by_entry else edge_ids[entry]
                to += 1
