"""Gather and scatter with a row for every element, as the gradients of max and min need them.

Columns are dealt to tasks, so that a scatter needs no atomics and its result does not depend on the number of threads.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..render import ITEM_BYTES
from .jit import load_source
from .launch import launch, num_tasks

__all__ = ["gather", "scatter"]

_SOURCE = '''"""Gather and scatter rows[i, k] of column k ({dtype}, {index} ids)."""
from numba import cfunc

from dglite.kernels.cpu import simd

ITEM = {item}
word, index = simd.word, simd.index_loader("{index}")
load, store = simd.loader("{dtype}", 1), simd.storer("{dtype}", 1)


@cfunc("void(int64, int64, int64)", cache=True, error_model="numpy")
def gather(args, task, num_tasks):
    rows, num_rows, width, source, out = word(args, 0), word(args, 1), word(args, 2), word(args, 3), word(args, 4)
    fill = word(args, 5)
    if task < 0:
        return
    for i in range(num_rows):
        for k in range(width * task // num_tasks, width * (task + 1) // num_tasks):
            at = i * width + k
            row = index(rows, at)
            if row >= 0:
                store(out + at * ITEM, load(source + (row * width + k) * ITEM))
            else:
                store(out + at * ITEM, fill)


@cfunc("void(int64, int64, int64)", cache=True, error_model="numpy")
def scatter(args, task, num_tasks):
    rows, num_rows, width, source, out = word(args, 0), word(args, 1), word(args, 2), word(args, 3), word(args, 4)
    if task < 0:
        return
    for i in range(num_rows):
        for k in range(width * task // num_tasks, width * (task + 1) // num_tasks):
            at = i * width + k
            row = index(rows, at)
            if row >= 0:
                to = out + (row * width + k) * ITEM
                store(to, load(to) + load(source + at * ITEM))
'''


@cache
def _addresses(dtype: str, index: str) -> tuple[int, int]:
    module = load_source("winners", _SOURCE.format(dtype=dtype, index=index, item=ITEM_BYTES[dtype]))
    return module.gather.address, module.scatter.address


def gather(dtype: str, rows: np.ndarray, x: int, out: int, threads: int, fill: int = 0) -> None:
    """Set ``out[i, k]`` to ``x[rows[i, k], k]``, to ``fill`` where the row is -1."""
    _run(0, dtype, rows, x, out, threads, fill)


def scatter(dtype: str, rows: np.ndarray, x: int, out: int, threads: int) -> None:
    """Add ``x[i, k]`` to ``out[rows[i, k], k]``, except where the row is -1."""
    _run(1, dtype, rows, x, out, threads, 0)


def _run(which: int, dtype: str, rows: np.ndarray, x: int, out: int, threads: int, fill: int) -> None:
    width = rows.size // max(len(rows), 1)
    tasks = min(num_tasks(rows.size, threads), max(width * ITEM_BYTES[dtype] // 64, 1))
    launch(_addresses(dtype, str(rows.dtype))[which], [rows.ctypes.data, len(rows), width, x, out, fill], tasks)
