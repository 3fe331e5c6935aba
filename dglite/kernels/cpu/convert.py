"""COO to CSR or CSC by counting sort, and look-ups of node pairs in rows.

Sorting is stable: entries inside a row keep edge-id order. Many edges are first dealt into buckets of neighbouring
rows, whose counters and entries then stay in cache: on 20M edges a direct scatter waits on memory four times as long.

Threads are Python threads over ``nogil`` kernels rather than ``prange``: no OpenMP pool is touched, so conversion is
safe in a forked worker or beside torch, and each kernel compiles in a tenth of the time of its ``parallel=True`` form.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np

__all__ = ["cast", "compress", "pair_ranges"]

LARGE = 1 << 20
"""From this many edges on, buckets and threads pay."""

DIRECT_ROWS = 1 << 16
"""Up to this many rows a counter for each fits the second-level cache, and edges are dealt to rows straight away."""

_BUCKET_BITS = 9
"""512 buckets: more would be written to more pages at once than a core has addresses of at hand."""

_jit = numba.njit(cache=True, nogil=True)


def compress(
    rows: np.ndarray, cols: np.ndarray, num_rows: int, threads: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return ``(indptr, indices, edge_ids)`` of the entries sorted by row, all of ``rows``' dtype.

    ``edge_ids`` is None when the rows came in ascending order; ``indices`` is then ``cols`` itself. Takes
    O(num_rows + num_edges) time, and 3 more integers per edge while it runs when there are many.
    """
    dtype, num_edges = rows.dtype, len(rows)
    indptr = np.zeros(num_rows + 1, dtype)
    if _ascending(rows):
        _count(rows, indptr)
        return indptr, cols, None
    indices, edge_ids = np.empty(num_edges, dtype), np.empty(num_edges, dtype)
    if num_edges < LARGE:
        _count(rows, indptr)
        _scatter(rows, cols, 0, indptr[:-1].astype(np.int64), indices, edge_ids)
    else:
        _sort_large(rows, cols, indptr, (indices, edge_ids), _useful_threads(threads))
    return indptr, indices, edge_ids


@_jit
def _ascending(rows: np.ndarray) -> bool:
    """Whether the rows never fall."""
    for i in range(1, len(rows)):  # noqa: SIM110 - Numba has no generator expressions
        if rows[i] < rows[i - 1]:
            return False
    return True


@_jit
def _count(rows: np.ndarray, indptr: np.ndarray) -> None:
    """Fill ``indptr``, which holds zeros."""
    for row in rows:
        indptr[row + 1] += 1
    for row in range(1, len(indptr)):
        indptr[row] += indptr[row - 1]


@_jit
def _scatter(
    rows: np.ndarray, cols: np.ndarray, first: int, next_slot: np.ndarray, indices: np.ndarray, edge_ids: np.ndarray
) -> None:
    """Write each edge to the next free slot of its row; ``first`` is the id of the first edge given."""
    for i in range(len(rows)):
        slot = next_slot[rows[i]]
        next_slot[rows[i]] = slot + 1
        indices[slot] = cols[i]
        edge_ids[slot] = first + i


# -- many edges --------------------------------------------------------------------------------------------------
def _sort_large(
    rows: np.ndarray, cols: np.ndarray, indptr: np.ndarray, result: tuple[np.ndarray, np.ndarray], threads: int
) -> None:
    """Deal shares of the edges into buckets of ``2 ** shift`` rows, then sort each bucket, in ``threads`` threads."""
    num_edges, num_rows = len(rows), len(indptr) - 1
    shift = 0 if num_rows <= DIRECT_ROWS else (num_rows - 1).bit_length() - _BUCKET_BITS
    num_buckets = ((num_rows - 1) >> shift) + 1
    shares = list(itertools.pairwise(num_edges * t // threads for t in range(threads + 1)))
    counts = np.zeros((threads, num_buckets), np.int64)
    _run([(_count_buckets, rows[lo:hi], shift, counts[t]) for t, (lo, hi) in enumerate(shares)])
    # Bucket after bucket, and inside a bucket share after share: the order that keeps the sort stable.
    ends = np.cumsum(counts.T.ravel()).reshape(num_buckets, threads).T
    next_slot = np.ascontiguousarray(ends - counts)
    starts = np.append(next_slot[0], num_edges)
    if shift == 0:
        indptr[:] = starts
        _run([(_scatter, rows[lo:hi], cols[lo:hi], lo, next_slot[t], *result) for t, (lo, hi) in enumerate(shares)])
        return
    dealt = np.empty((num_edges, 3), rows.dtype)
    _run([(_deal, rows[lo:hi], cols[lo:hi], lo, shift, next_slot[t], dealt) for t, (lo, hi) in enumerate(shares)])
    cuts = np.searchsorted(starts[:-1], [num_edges * t // threads for t in range(threads)])
    cuts = np.append(cuts, num_buckets)
    _run([(_sort_buckets, dealt, starts, lo, hi, shift, indptr, *result) for lo, hi in itertools.pairwise(cuts)])
    indptr[-1] = num_edges


@_jit
def _count_buckets(rows: np.ndarray, shift: int, counts: np.ndarray) -> None:
    for row in rows:
        counts[row >> shift] += 1


@_jit
def _deal(rows: np.ndarray, cols: np.ndarray, first: int, shift: int, next_slot: np.ndarray, dealt: np.ndarray) -> None:
    """Write (row, column, edge id) of each edge to its bucket's next free slot; ``first`` is the first edge's id."""
    for i in range(len(rows)):
        bucket = rows[i] >> shift
        slot = next_slot[bucket]
        next_slot[bucket] = slot + 1
        dealt[slot, 0] = rows[i]
        dealt[slot, 1] = cols[i]
        dealt[slot, 2] = first + i


@_jit
def _sort_buckets(
    dealt: np.ndarray,
    starts: np.ndarray,
    first: int,
    last: int,
    shift: int,
    indptr: np.ndarray,
    indices: np.ndarray,
    edge_ids: np.ndarray,
) -> None:
    """Sort the entries of buckets ``first`` .. ``last - 1`` by row and fill ``indptr`` for their rows."""
    num_rows = len(indptr) - 1
    for bucket in range(first, last):
        base = bucket << shift
        next_slot = np.zeros(min(1 << shift, num_rows - base), indptr.dtype)
        begin, end = starts[bucket], starts[bucket + 1]
        for entry in range(begin, end):
            next_slot[dealt[entry, 0] - base] += 1
        total = begin
        for row in range(len(next_slot)):
            count = next_slot[row]
            next_slot[row] = total
            indptr[base + row] = total
            total += count
        for entry in range(begin, end):
            row = dealt[entry, 0] - base
            slot = next_slot[row]
            next_slot[row] = slot + 1
            indices[slot] = dealt[entry, 1]
            edge_ids[slot] = dealt[entry, 2]


def cast(array: np.ndarray, dtype: np.dtype, threads: int = 1) -> np.ndarray:
    """Return a copy as ``dtype``. Most of the time goes into touching new pages, which threads do side by side."""
    threads = _useful_threads(threads)
    result = np.empty(len(array), dtype)
    shares = itertools.pairwise(len(array) * t // threads for t in range(threads + 1))
    _run([(np.copyto, result[lo:hi], array[lo:hi], "unsafe") for lo, hi in shares])
    return result


def _useful_threads(threads: int) -> int:
    """Return ``threads``, or 1 outside the main thread: loaders that run side by side share the cores already."""
    return threads if threading.current_thread() is threading.main_thread() else 1


def _run(calls: list[tuple]) -> None:
    """Call each ``(function, *arguments)``, side by side when there are several."""
    if len(calls) == 1:
        _call(calls[0])
        return
    with ThreadPoolExecutor(len(calls)) as pool:
        list(pool.map(_call, calls))


def _call(call: tuple) -> None:
    function: Callable = call[0]
    function(*call[1:])


# -- look-ups ----------------------------------------------------------------------------------------------------
@_jit
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
