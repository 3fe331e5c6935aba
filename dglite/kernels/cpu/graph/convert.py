"""COO to CSR or CSC by counting sort, and look-ups of node pairs in rows.

Sorting is stable: entries inside a row keep edge-id order. Many edges are first dealt into buckets of neighbouring
rows, whose counters and entries then stay in cache: on 20M edges a direct scatter waits on memory four times as long.
They are dealt into the result itself, with the rows inside the bucket in 16 bits beside it, so that sorting takes two
bytes per edge more than its result. Columns and edge ids are sorted each on their own: few graphs need the ids.

Threads are Python threads over ``nogil`` kernels rather than the pool: no OpenMP is touched, so conversion is safe in a
forked worker or beside torch.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..compile.written import Kernel

DIRECT_ROWS = 1 << 16
"""Up to this many rows a counter for each fits the second-level cache, and edges are dealt to rows straight away."""

_BUCKET_BITS = 9
"""512 buckets: more would be written to more pages at once than a core has addresses of at hand."""


def compress(rows: np.ndarray, cols: np.ndarray, num_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return ``(indptr, indices, edge_ids)`` of the entries sorted by row, all of ``rows``' dtype, in one thread.

    ``edge_ids`` is None when the rows came in ascending order; ``indices`` is then ``cols`` itself. Takes
    O(num_rows + num_edges) time. Many edges are sorted faster by :func:`sort_rows`.
    """
    dtype, num_edges = rows.dtype, len(rows)
    indptr = np.zeros(num_rows + 1, dtype)
    _count(rows, indptr)
    if ascending(rows):
        return indptr, cols, None
    indices, edge_ids = np.empty(num_edges, dtype), np.empty(num_edges, dtype)
    _scatter(rows, cols, indptr[:-1].astype(np.int64), indices, edge_ids)
    return indptr, indices, edge_ids


@Kernel
def ascending(rows: np.ndarray) -> bool:
    """Whether the rows never fall."""
    for i in range(1, len(rows)):  # noqa: SIM110 - kernels have no generator expressions
        if rows[i] < rows[i - 1]:
            return False
    return True


@Kernel
def _count(rows: np.ndarray, indptr: np.ndarray) -> None:
    """Fill ``indptr``, which holds zeros."""
    for i in range(len(rows)):
        indptr[rows[i] + 1] += 1
    for row in range(1, len(indptr)):
        indptr[row] += indptr[row - 1]


@Kernel
def _scatter(
    rows: np.ndarray, cols: np.ndarray, next_slot: np.ndarray, indices: np.ndarray, edge_ids: np.ndarray
) -> None:
    """Write each edge to the next free slot of its row."""
    for i in range(len(rows)):
        slot = next_slot[rows[i]]
        next_slot[rows[i]] = slot + 1
        indices[slot] = cols[i]
        edge_ids[slot] = i


# -- many edges --------------------------------------------------------------------------------------------------
def count_rows(rows: np.ndarray, num_rows: int, threads: int = 1) -> np.ndarray:
    """Return how often each row occurs, int64."""
    if num_rows * threads > len(rows):
        threads = 1  # counters would take more memory than the rows
    counts = np.zeros((threads, num_rows), np.int64)
    _run([(_count_buckets, rows[lo:hi], 0, counts[t]) for t, (lo, hi) in enumerate(_shares(len(rows), threads))])
    return counts[0] if threads == 1 else counts.sum(0)


def add_counts(rows: np.ndarray, counts: np.ndarray) -> None:
    """Add to ``counts``, int64, how often each row occurs."""
    _count_buckets(rows, 0, counts)


def find_ranges(rows: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the range of each row as int32: ``r`` if it lies between ``bounds[r]`` and ``bounds[r + 1]``, excluded.

    ``bounds`` are int64, ascending, from 0 to the number of rows.
    """
    shift = max(int(bounds[-1]).bit_length() - _BUCKET_BITS, 0)
    first = np.arange((int(bounds[-1]) >> shift) + 1) << shift
    lowest = (np.searchsorted(bounds, first, "right") - 1).astype(np.int32)
    result = np.empty(len(rows), np.int32)
    _find_ranges(rows, bounds, lowest, shift, result)
    return result


@Kernel
def _find_ranges(rows: np.ndarray, bounds: np.ndarray, lowest: np.ndarray, shift: int, result: np.ndarray) -> None:
    """Begin at the lowest range of the row's bucket, and go on to the row's."""
    for i in range(len(rows)):
        number = lowest[rows[i] >> shift]
        while bounds[number + 1] <= rows[i]:
            number += 1
        result[i] = number


def sort_rows(
    rows: np.ndarray, num_rows: int, values: np.ndarray | None = None, threads: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(indptr, values)`` with the values sorted by row, stably, in ``threads`` threads.

    Without ``values`` they are 0, 1, 2, ..., which gives the edge ids, in ``rows``' dtype, which ``indptr`` has, too.

    Shares of the edges are dealt into buckets of ``2 ** shift`` rows, then each bucket is sorted by itself.
    """
    num_edges = len(rows)
    shift = 0 if num_rows <= DIRECT_ROWS else (num_rows - 1).bit_length() - _BUCKET_BITS
    num_buckets = ((num_rows - 1) >> shift) + 1
    shares = _shares(num_edges, threads)
    counts = np.zeros((threads, num_buckets), np.int64)
    _run([(_count_buckets, rows[lo:hi], shift, counts[t]) for t, (lo, hi) in enumerate(shares)])
    # Bucket after bucket, and inside a bucket share after share: the order that keeps the sort stable.
    ends = np.cumsum(counts.T.ravel()).reshape(num_buckets, threads).T
    next_slot = np.ascontiguousarray(ends - counts)
    starts = np.append(next_slot[0], num_edges)
    result = np.empty(num_edges, rows.dtype if values is None else values.dtype)
    local = np.empty(num_edges if shift else 0, np.uint16 if shift <= 16 else np.uint32)
    _run(
        [
            (_deal, rows[lo:hi], None if values is None else values[lo:hi], lo, shift, next_slot[t], result, local)
            for t, (lo, hi) in enumerate(shares)
        ]
    )
    if shift == 0:
        return starts.astype(rows.dtype), result
    indptr = np.empty(num_rows + 1, rows.dtype)
    cuts = np.searchsorted(starts[:-1], [num_edges * t // threads for t in range(threads)])
    cuts = np.append(cuts, num_buckets)
    _run([(_sort_buckets, result, local, starts, lo, hi, shift, indptr) for lo, hi in itertools.pairwise(cuts)])
    indptr[-1] = num_edges
    return indptr, result


def _shares(count: int, threads: int) -> list[tuple[int, int]]:
    return list(itertools.pairwise(count * t // threads for t in range(threads + 1)))


@Kernel
def _count_buckets(rows: np.ndarray, shift: int, counts: np.ndarray) -> None:
    for i in range(len(rows)):
        counts[rows[i] >> shift] += 1


@Kernel
def _deal(
    rows: np.ndarray,
    values: np.ndarray | None,
    first: int,
    shift: int,
    next_slot: np.ndarray,
    result: np.ndarray,
    local: np.ndarray,
) -> None:
    """Write each edge's value, its id without values, to its bucket's next free slot and its row there to ``local``.

    ``first`` is the first edge's id. With ``shift`` 0 a bucket is a row, and ``local`` is not written.
    """
    for i in range(len(rows)):
        bucket = rows[i] >> shift
        slot = next_slot[bucket]
        next_slot[bucket] = slot + 1
        if values is None:
            result[slot] = first + i
        else:
            result[slot] = values[i]
        if shift > 0:
            local[slot] = rows[i] - (bucket << shift)


@Kernel
def _sort_buckets(
    values: np.ndarray, local: np.ndarray, starts: np.ndarray, first: int, last: int, shift: int, indptr: np.ndarray
) -> None:
    """Sort the values of buckets ``first`` .. ``last - 1`` by row, in place, and fill ``indptr`` for their rows."""
    num_rows, longest = len(indptr) - 1, 0
    for bucket in range(first, last):
        longest = max(longest, starts[bucket + 1] - starts[bucket])
    unsorted, next_slot = np.empty(longest, values.dtype), np.empty(1 << shift, np.int64)
    for bucket in range(first, last):
        base = bucket << shift
        width = min(1 << shift, num_rows - base)
        for row in range(width):
            next_slot[row] = 0
        begin, end = starts[bucket], starts[bucket + 1]
        for entry in range(begin, end):
            next_slot[local[entry]] += 1
            unsorted[entry - begin] = values[entry]
        total = begin
        for row in range(width):
            count = next_slot[row]
            next_slot[row] = total
            indptr[base + row] = total
            total += count
        for entry in range(begin, end):
            slot = next_slot[local[entry]]
            next_slot[local[entry]] = slot + 1
            values[slot] = unsorted[entry - begin]


def scatter(values: np.ndarray, positions: np.ndarray, threads: int = 1) -> np.ndarray:
    """Return the array whose entry ``positions[i]`` is ``values[i]``; positions are a permutation."""
    result = np.empty_like(values)
    shares = _shares(len(values), threads)
    _run([(_scatter_share, values[lo:hi], positions[lo:hi], result) for lo, hi in shares])
    return result


@Kernel
def _scatter_share(values: np.ndarray, positions: np.ndarray, result: np.ndarray) -> None:
    for i in range(len(values)):
        result[positions[i]] = values[i]


def cast(array: np.ndarray, out: np.ndarray, threads: int = 1) -> None:
    """Copy to ``out`` in its dtype. Most of the time goes into touching new pages, which threads do side by side."""
    _run([(np.copyto, out[lo:hi], array[lo:hi], "unsafe") for lo, hi in _shares(len(array), threads)])


_turn = threading.Lock()
"""Held by the thread that has others help it. A child that is forked meanwhile finds it closed and sorts alone."""


def _run(calls: list[tuple]) -> None:
    """Call each ``(function, *arguments)``: side by side when there are several, and no other thread does so now.

    Loaders that run side by side share the cores already.
    """
    if len(calls) == 1 or not _turn.acquire(blocking=False):
        for call in calls:
            _call(call)
        return
    try:
        with ThreadPoolExecutor(len(calls)) as pool:
            list(pool.map(_call, calls))
    finally:
        _turn.release()


def _call(call: tuple) -> None:
    function: Callable = call[0]
    function(*call[1:])


# -- look-ups ----------------------------------------------------------------------------------------------------
@Kernel
def pair_ranges(
    indptr: np.ndarray, indices: np.ndarray, rows: np.ndarray, cols: np.ndarray, first: np.ndarray, last: np.ndarray
) -> None:
    """Find the entries ``[first, last)`` that join ``rows[i]`` to ``cols[i]``; ``indices`` ascend inside each row."""
    for i in range(len(rows)):
        low, end = indptr[rows[i]], indptr[rows[i] + 1]
        high = end
        while low < high:
            middle = (low + high) >> 1
            if indices[middle] < cols[i]:
                low = middle + 1
            else:
                high = middle
        first[i] = low
        high = end
        while low < high:
            middle = (low + high) >> 1
            if indices[middle] <= cols[i]:
                low = middle + 1
            else:
                high = middle
        last[i] = low
