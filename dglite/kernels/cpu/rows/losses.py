"""Row-wise cross-entropy on the CPU."""

from __future__ import annotations

from array import array
from functools import cache

import numpy as np

from ...render.rowwise import RowwiseWords, loss_source, rowwise_source
from ...spec import ITEM_BYTES
from ..compile.jit import block_lanes, compile_kernel
from ..run.launch import launch, tasks_for
from ..run.parts import num_parts

_COST = 8
"""Elements of a sum that take as long as one exponential."""
_LEAST_LANES, _LEAST_ROWS = 4, 16
"""Lanes of a kernel, and rows of a part, at least."""


@cache
def _address(dtype: str, gradient: bool, lanes: int) -> int:
    source = loss_source(dtype, lanes) if gradient else rowwise_source("cross_entropy", False, dtype, lanes)
    return compile_kernel("rowwise", source)


def cross_entropy(
    dtype: str, shape: tuple[int, int], x: int, labels: int, grad: int, scale: float, threads: int
) -> tuple[np.ndarray, int | None]:
    """Return the sum of all rows' losses, and a label that is no column, None where all are.

    Into ``grad``, unless that is 0, go ``scale`` times the gradients. ``labels`` are int64,
    :data:`~...render.rowwise.IGNORED` for a row that has neither loss nor gradient.
    """
    (rows, width), item = shape, ITEM_BYTES[dtype]
    tasks, threads = tasks_for(_COST * rows * width, threads)
    scales, fault = np.array([scale], dtype), array("q", [0])
    parts = num_parts(_COST * rows * width, rows, _LEAST_ROWS)
    losses = np.empty(parts if grad else rows, dtype)
    words = RowwiseWords(
        kernel=0,
        rows=rows,
        width=width,
        x=x,
        x_stride=width * item,
        labels=labels,
        label_stride=8,
        y=losses.ctypes.data,
        y_stride=item,
        g=scales.ctypes.data,
        g_stride=0,
        d=grad,
        d_stride=width * item,
        adds=0,
        fault=fault.buffer_info()[0],
        parts=parts,
    )
    lanes = min(block_lanes(dtype) // 8, max(1 << (width - 1).bit_length(), _LEAST_LANES))
    launch(_address(dtype, grad != 0, lanes), words, tasks, threads)
    return losses[0] if grad else losses.sum(), fault[0] // 2 if fault[0] else None
