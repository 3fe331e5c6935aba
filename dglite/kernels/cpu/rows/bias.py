"""The gradient of a bias, which is a sum over rows, and of the ReLU behind it, in one pass."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...spec import ITEM_BYTES
from ..compile.jit import block_lanes, compile_kernel
from ..run.launch import launch, num_tasks, num_threads

__all__ = ["bias_gradient"]

_SOURCE = '''"""Sums of columns of a gradient, 0 where the result of a ReLU is ({dtype})."""
from dglite.kernels.cpu.lanes import simd

ITEM, LANES = {item}, {lanes}
RUN = 256  # rows that are summed up by themselves, for accuracy
word, greater, select = simd.word, simd.greater, simd.select
load, store, splat = simd.loader("{dtype}", LANES), simd.storer("{dtype}", LANES), simd.splat("{dtype}", LANES)
load1, store1, splat1 = simd.loader("{dtype}", 1), simd.storer("{dtype}", 1), simd.splat("{dtype}", 1)


def kernel(args, task, num_tasks):
    rows, row_bytes, grad, result = word(args, 0), word(args, 1), word(args, 2), word(args, 3)
    masked, sums = word(args, 4), word(args, 5)
    whole = row_bytes // (LANES * ITEM) * LANES * ITEM
    if task < 0:
        for other in range(1, num_tasks):
            for k in range(0, row_bytes, ITEM):
                store1(sums + k, load1(sums + k) + load1(sums + 2 * other * row_bytes + k))
        return
    own, run = sums + 2 * task * row_bytes, sums + (2 * task + 1) * row_bytes
    first, last = rows * task // num_tasks, rows * (task + 1) // num_tasks
    for k in range(0, row_bytes, ITEM):
        store1(own + k, 0.0)
    for begin in range(first, last, RUN):
        for k in range(0, row_bytes, ITEM):
            store1(run + k, 0.0)
        for row in range(begin, min(begin + RUN, last)):
            start = row * row_bytes
            for k in range(0, whole, LANES * ITEM):
                value = load(grad + start + k)
                if result != 0:
                    value = select(greater(load(result + start + k), splat(0.0)), value, splat(0.0))
                    store(masked + start + k, value)
                store(run + k, load(run + k) + value)
            for k in range(whole, row_bytes, ITEM):
                value1 = load1(grad + start + k)
                if result != 0:
                    value1 = select(greater(load1(result + start + k), splat1(0.0)), value1, splat1(0.0))
                    store1(masked + start + k, value1)
                store1(run + k, load1(run + k) + value1)
        for k in range(0, row_bytes, ITEM):
            store1(own + k, load1(own + k) + load1(run + k))
'''


@cache
def _address(dtype: str) -> int:
    source = _SOURCE.format(dtype=dtype, item=ITEM_BYTES[dtype], lanes=block_lanes(dtype) // 8)
    return compile_kernel("bias", source)


def bias_gradient(dtype: str, shape: tuple[int, int], grad: int, result: int, masked: int, threads: int) -> np.ndarray:
    """Return the sums of the columns of ``grad``, or of ``masked``, which is ``grad`` where ``result`` is not 0.

    ``result``, that of a ReLU, and ``masked`` are of the shape of ``grad``; both are 0 where there is no ReLU.
    """
    (rows, width), item = shape, ITEM_BYTES[dtype]
    threads = num_threads(rows * width, threads)
    tasks = num_tasks(threads, rows * width)
    parts = np.empty((2 * tasks, width), dtype)
    launch(_address(dtype), [rows, width * item, grad, result, masked, parts.ctypes.data], tasks, threads)
    return parts[:1]
