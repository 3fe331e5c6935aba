"""COO to CSR or CSC by counting sort, and look-ups of node pairs in rows.

Sorting is stable: entries inside a row keep edge-id order. Threads are Python threads over ``nogil`` kernels rather
than ``prange``: no OpenMP pool is touched, so conversion is safe in a forked worker or beside torch, and each kernel
compiles in a tenth of the time of its ``parallel=True`` form.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np

__all__ = ["cast", "compress", "pair_ranges"]

PARALLEL_EDGES = 1 << 20
"""Fewer edges than this are sorted by one thread: starting threads costs about 0.2 ms."""

_jit = numba.njit(cache=True, nogil=True)


@_jit
def _count(rows: np.ndarray, counts: np.ndarray) -> bool:
    """Add the number of entries of each row to ``counts``; return whether the rows come in ascending order."""
    ascending = True
    previous = rows[0] if len(rows) else 0
    for row in rows:
        counts[row] += 1
        ascending &= row >= previous
        previous = row
    return ascending


@_jit
def _offsets(counts: np.ndarray, indptr: np.ndarray) -> None:
    """Fill ``indptr``; ``counts[t, r]`` becomes the first position of thread t's entries of row r."""
    total = 0
    for row in range(counts.shape[1]):
        indptr[row] = total
        for t in range(counts.shape[0]):
            here = counts[t, row]
            counts[t, row] = total
            total += here
    indptr[counts.shape[1]] = total


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


def compress(
    rows: np.ndarray, cols: np.ndarray, num_rows: int, threads: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return ``(indptr, indices, edge_ids)`` of the entries sorted by row, all of ``rows``' dtype.

    ``edge_ids`` is None when the rows came in ascending order; ``indices`` is then ``cols`` itself.
    """
    dtype, num_edges = rows.dtype, len(rows)
    threads = _useful_threads(threads, num_edges, num_rows)
    bounds = [num_edges * t // threads for t in range(threads + 1)]
    counts = np.zeros((threads, num_rows), dtype)
    chunks = list(itertools.pairwise(bounds))
    ascending = _run([(_count, rows[lo:hi], counts[t]) for t, (lo, hi) in enumerate(chunks)])
    indptr = np.empty(num_rows + 1, dtype)
    _offsets(counts, indptr)
    if all(ascending) and all(rows[lo - 1] <= rows[lo] for lo in bounds[1:-1]):
        return indptr, cols, None
    indices, edge_ids = np.empty(num_edges, dtype), np.empty(num_edges, dtype)
    _run([(_scatter, rows[lo:hi], cols[lo:hi], lo, counts[t], indices, edge_ids) for t, (lo, hi) in enumerate(chunks)])
    return indptr, indices, edge_ids


def cast(array: np.ndarray, dtype: np.dtype, threads: int = 1) -> np.ndarray:
    """Return a copy as ``dtype``. Most of the time goes into touching new pages, which threads do side by side."""
    result = np.empty(len(array), dtype)
    bounds = [len(array) * t // threads for t in range(threads + 1)]
    _run([(np.copyto, result[lo:hi], array[lo:hi], "unsafe") for lo, hi in itertools.pairwise(bounds)])
    return result


def _useful_threads(threads: int, num_edges: int, num_rows: int) -> int:
    """Return how many threads pay: one counter per row and thread must stay below the size of the edges."""
    if num_edges < PARALLEL_EDGES or threading.current_thread() is not threading.main_thread():
        return 1
    return max(1, min(threads, os.cpu_count() or 1, num_edges // max(num_rows, 1)))


def _run(calls: list[tuple]) -> list:
    """Call each ``(function, *arguments)``, in parallel when there are several."""
    if len(calls) == 1:
        return [_call(calls[0])]
    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(_call, calls))


def _call(call: tuple) -> object:
    function: Callable = call[0]
    return function(*call[1:])


@_jit
def pair_ranges(
    indptr: np.ndarray, indices: np.ndarray, rows: np.ndarray, cols: np.ndarray, first: np.ndarray, last: np.ndarray
) -> None:
    """Find the entries ``[first, last)`` that join ``rows[i]`` to ``cols[i]``; ``indices`` ascend inside each row."""
    for i in range(len(rows)):
        begin, end = indptr[rows[i]], indptr[rows[i] + 1]
        low, high = begin, end
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
