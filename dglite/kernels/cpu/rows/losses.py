"""Row-wise cross-entropy on the CPU."""

from __future__ import annotations

from array import array
from functools import cache

from ...render.rowwise import loss_source, rowwise_source
from ...spec import ITEM_BYTES
from ..compile.jit import block_lanes, compile_kernel
from ..run.launch import launch, num_tasks, num_threads

__all__ = ["cross_entropy"]

_COST = 8
"""Elements of a sum that take as long as one exponential."""
_LEAST_LANES = 4


@cache
def _address(dtype: str, gradient: bool, lanes: int) -> int:
    source = loss_source(dtype, lanes) if gradient else rowwise_source("cross_entropy", False, dtype, lanes)
    return compile_kernel("rowwise", source)


def cross_entropy(
    dtype: str, shape: tuple[int, int], x: int, labels: int, losses: int, grad: int, scale: float, threads: int
) -> int | None:
    """Write a loss for each row of ``x``, and into ``grad``, unless that is 0, ``scale`` times the gradients.

    ``labels`` are int64, :data:`~...render.rowwise.IGNORED` for a row that has neither. Return a label that is no
    column, None where all are.
    """
    (rows, width), item = shape, ITEM_BYTES[dtype]
    scales, fault = array("f" if item == 4 else "d", [scale]), array("q", [0])
    words = [0, rows, width, x, width * item, labels, 8, losses, item]
    words += [scales.buffer_info()[0], 0, grad, width * item, 0, fault.buffer_info()[0]]
    work = _COST * rows * width
    threads = num_threads(work, threads)
    lanes = min(block_lanes(dtype) // 8, max(1 << (width - 1).bit_length(), _LEAST_LANES))
    launch(_address(dtype, grad != 0, lanes), words, num_tasks(threads, work), threads)
    return fault[0] // 2 if fault[0] else None
