"""Gather and scatter with a row for every element, as the gradients of max and min need them.

``winners[i, k]`` is an entry of the structure, -1 for none; ``lookup`` gives the row of an entry, without one the entry
is the row. Columns are dealt to tasks in runs of whole cache lines, so that a scatter needs no atomics. Where there are
too few columns, tasks take rows and scatter into copies of the result, which are added up in order.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..render import ITEM_BYTES
from .jit import load_source
from .launch import launch, num_threads

__all__ = ["gather", "scatter"]

_SOURCE = '''"""Gather and scatter column k of the row that won element (i, k) ({dtype}, {index} ids)."""
from numba import cfunc

from dglite.kernels.cpu import simd

ITEM = {item}
word, index, edge_index = simd.word, simd.index_loader("{index}"), simd.edge_index_loader("{index}")
load, store = simd.loader("{dtype}", 1), simd.storer("{dtype}", 1)


@cfunc("void(int64, int64, int64)", cache=True, error_model="numpy")
def gather(args, task, num_tasks):
    winners, num_rows, width, source, out = word(args, 0), word(args, 1), word(args, 2), word(args, 3), word(args, 4)
    fill, lookup = word(args, 5), word(args, 6)
    if task < 0:
        return
    for i in range(num_rows):
        for k in range(width * task // num_tasks, width * (task + 1) // num_tasks):
            at = i * width + k
            winner = index(winners, at)
            if winner >= 0:
                row = edge_index(lookup, winner)
                store(out + at * ITEM, load(source + (row * width + k) * ITEM))
            else:
                store(out + at * ITEM, fill)


@cfunc("void(int64, int64, int64)", cache=True, error_model="numpy")
def scatter(args, task, num_tasks):
    winners, num_rows, width, source, out = word(args, 0), word(args, 1), word(args, 2), word(args, 3), word(args, 4)
    lookup, copies, size = word(args, 6), word(args, 7), word(args, 8)
    if task < 0:
        for at in range(size if copies else 0):
            total = load(out + at * ITEM)
            for copy in range(num_tasks - 1):
                total += load(copies + (copy * size + at) * ITEM)
            store(out + at * ITEM, total)
        return
    first_row, last_row, first, last = 0, num_rows, width * task // num_tasks, width * (task + 1) // num_tasks
    if copies:
        first_row, last_row, first, last = num_rows * task // num_tasks, num_rows * (task + 1) // num_tasks, 0, width
        if task > 0:
            out = copies + (task - 1) * size * ITEM
    for i in range(first_row, last_row):
        for k in range(first, last):
            at = i * width + k
            winner = index(winners, at)
            if winner >= 0:
                row = edge_index(lookup, winner)
                to = out + (row * width + k) * ITEM
                store(to, load(to) + load(source + at * ITEM))
'''


@cache
def _addresses(dtype: str, index: str) -> tuple[int, int]:
    module = load_source("winners", _SOURCE.format(dtype=dtype, index=index, item=ITEM_BYTES[dtype]))
    return module.gather.address, module.scatter.address


def gather(dtype: str, winners: np.ndarray, lookup: int, x: int, out: int, threads: int, fill: int = 0) -> None:
    """Set ``out[i, k]`` to ``x[row of winners[i, k], k]``, to ``fill`` where there is no winner."""
    words = [winners.ctypes.data, len(winners), _width(winners), x, out, fill, lookup]
    threads = min(num_threads(winners.size, threads), _columns(dtype, winners))
    launch(_addresses(dtype, str(winners.dtype))[0], words, threads, threads)


def scatter(dtype: str, winners: np.ndarray, lookup: int, x: int, out: int, num_rows: int, threads: int) -> None:
    """Add ``x[i, k]`` to ``out[row of winners[i, k], k]``, (num_rows, width), except where there is no winner."""
    size = num_rows * _width(winners)
    threads, columns = num_threads(winners.size, threads), _columns(dtype, winners)
    copies = None
    if columns < threads <= 8 and size <= 4 * winners.size:
        copies = np.zeros((threads - 1) * size * ITEM_BYTES[dtype], np.uint8)
    else:
        threads = min(threads, columns)
    private = 0 if copies is None else copies.ctypes.data
    words = [winners.ctypes.data, len(winners), _width(winners), x, out, 0, lookup, private, size]
    launch(_addresses(dtype, str(winners.dtype))[1], words, threads, threads)


def _width(winners: np.ndarray) -> int:
    return winners.size // max(len(winners), 1)


def _columns(dtype: str, winners: np.ndarray) -> int:
    """Return into how many runs of at least a cache line the columns can be cut."""
    return max(_width(winners) * ITEM_BYTES[dtype] // 64, 1)
