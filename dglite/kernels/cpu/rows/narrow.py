"""Products of many rows with a small matrix, with bias and ReLU, and their gradients: one pass over the rows.

Some rows at a time go through all that is to be done with them while they lie in a core's L1 cache: a GEMM for each
would read them from memory again. See :mod:`...render.matrix` for the products themselves.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cache

import numpy as np

from ...render.matrix import matrix_source
from ...spec import ITEM_BYTES
from ..compile.jit import block_lanes, compile_kernel, compile_kernels
from ..run.launch import launch, tasks_for

__all__ = ["gradients", "product"]

_RUN = 64
"""Rows that go through the steps together."""
_ROWS, _SAME, _SUMS, _OWN = 0, 1, 2, 3
"""Where an operand of a step lies: in the rows of a tensor, in one matrix for all rows, in the sums over rows, or, as
long as rows go through the steps, in memory of the task."""
_WORDS, _STEP, _OPERANDS = 12, 15, 3
"""Words of a step: the matrix kernel's, then where its three operands lie, of which it has address and row stride."""
_SOURCE = '''"""Steps that some rows go through, one after the other; among them ReLU ({dtype})."""
from dglite.kernels.cpu.lanes import simd
from dglite.kernels.cpu.lanes.atomic import put_word
from dglite.kernels.cpu.run.launch import call_kernel

ITEM, LANES, RUN = {item}, {lanes}, {run}
word, greater, select = simd.word, simd.greater, simd.select
load, store, splat = simd.loader("{dtype}", LANES), simd.storer("{dtype}", LANES), simd.splat("{dtype}", LANES)
load1, store1, splat1 = simd.loader("{dtype}", 1), simd.storer("{dtype}", 1), simd.splat("{dtype}", 1)


def relu(args, task, num_tasks):
    x, m, y, size = word(args, 4), word(args, 6), word(args, 8), word(args, 1) * word(args, 5)
    whole = size // (LANES * ITEM) * LANES * ITEM
    for k in range(0, whole, LANES * ITEM):
        store(y + k, select(greater(load(m + k), splat(0.0)), load(x + k), splat(0.0)))
    for k in range(whole, size, ITEM):
        store1(y + k, select(greater(load1(m + k), splat1(0.0)), load1(x + k), splat1(0.0)))


def kernel(args, task, num_tasks):
    rows, steps, num_steps, size = word(args, 0), word(args, 1), word(args, 2), word(args, 5)
    if task < 0:
        sums = word(args, 4)
        for other in range(1, num_tasks):
            for k in range(0, size, ITEM):
                store1(sums + k, load1(sums + k) + load1(sums + other * size + k))
        return
    mine, sums = word(args, 3) + word(args, 6) * task, word(args, 4) + size * task
    for k in range(0, size, ITEM):
        store1(sums + k, 0.0)
    last = rows * (task + 1) // num_tasks
    for begin in range(rows * task // num_tasks, last, RUN):
        for i in range(num_steps):
            step = steps + 8 * {step} * i
            for j in range({words}):
                put_word(mine, j, word(step, j))
            put_word(mine, 1, min(RUN, last - begin))
            for j in range({operands}):
                address, where = word(step, 4 + 2 * j), word(step, {words} + j)
                if where == {rows}:
                    address += begin * word(step, 5 + 2 * j)
                if where == {sums}:
                    address += sums
                if where == {own}:
                    address += mine
                put_word(mine, 4 + 2 * j, address)
            call_kernel(word(mine, 0), mine, 0, 1)
'''
_ADD = {name: np.array([1.0, 1.0], name) for name in ("float32", "float64")}
"""How much of a sum is kept, and the scale of what is added."""
_ADDRESSES = {name: numbers.ctypes.data for name, numbers in _ADD.items()}
_OWN_ROWS = 64 * -(-8 * _WORDS // 64)
"""Where the rows of a task lie in its own memory, behind the words of a step."""
_At = tuple[int, int, int]
"""Address or offset, bytes from row to row, and where that is."""


@cache
def _kernels(dtype: str) -> dict[str, int]:
    lanes, places = block_lanes(dtype) // 8, {"rows": _ROWS, "sums": _SUMS, "own": _OWN}
    sizes = {"words": _WORDS, "step": _STEP, "operands": _OPERANDS, "run": _RUN, "item": ITEM_BYTES[dtype]}
    steps = compile_kernels("narrow", _SOURCE.format(dtype=dtype, lanes=lanes, **sizes, **places))
    forms = {form: compile_kernel("matrix", matrix_source(form, dtype, lanes)) for form in ("sums", "outer", "totals")}
    return {**steps, **forms}


def product(
    dtype: str, shape: tuple[int, int, int], operands: Sequence[int], relu: bool, out: int, threads: int
) -> None:
    """Write ``x @ weight + bias``, with ``relu`` its ReLU; ``shape`` is (rows, columns of x, of out).

    ``operands`` are the addresses of x, weight and bias, 0 where there is none.
    """
    (_, inner, outer), kernels, item = shape, _kernels(dtype), ITEM_BYTES[dtype]
    (x, weight, bias), wide, high = operands, outer * item, inner * item
    result = (out, wide, _ROWS)
    steps = _step(kernels["sums"], (inner, outer), (x, high, _ROWS), (weight, wide, _SAME), result, bias)
    if relu:
        steps += _step(kernels["relu"], (0, 0), result, result, result)
    _run(dtype, shape, steps, 0, threads)


def gradients(
    dtype: str, shape: tuple[int, int, int], operands: Sequence[int], summed: bool, threads: int
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the gradients of the weight and the bias of :func:`product`, None for that of the bias unless ``summed``.

    ``operands`` are addresses: of the gradient of the result; the result of the ReLU, 0 where there was none; x, 0
    where the gradient of the weight is not wanted; the weight, transposed, and where the gradient of x is written, 0
    where that is not wanted.
    """
    (_, inner, outer), kernels, item = shape, _kernels(dtype), ITEM_BYTES[dtype]
    (grad, result, x, turned, x_grad), wide, high = operands, outer * item, inner * item
    add, of_weight, given = _ADDRESSES[dtype], inner * outer if x else 0, (grad, wide, _ROWS)
    steps: tuple[int, ...] = ()
    if result:
        own = (_OWN_ROWS, wide, _OWN)
        steps += _step(kernels["relu"], (0, 0), given, (result, wide, _ROWS), own)
        given = own
    if x:
        steps += _step(kernels["outer"], (inner, outer), (x, high, _ROWS), (0, wide, _SUMS), given, add)
    if summed:
        total = (of_weight * item, wide, _SUMS)
        steps += _step(kernels["totals"], (1, outer), (0, 0, _SAME), total, given, add)
    if x_grad:
        steps += _step(kernels["sums"], (outer, inner), given, (turned, high, _SAME), (x_grad, high, _ROWS))
    sums = _run(dtype, shape, steps, of_weight + outer * summed, threads)
    weight_grad = sums[:of_weight].reshape(inner, outer).copy() if x else None
    return weight_grad, sums[of_weight:].copy() if summed else None


def _step(kernel: int, sizes: tuple[int, int], x: _At, matrix: _At, y: _At, more: int = 0) -> tuple[int, ...]:
    """Return the words of a step; see :mod:`...render.matrix`."""
    return (kernel, 0, *sizes, *x[:2], *matrix[:2], *y[:2], more, 0, x[2], matrix[2], y[2])


def _run(dtype: str, shape: tuple[int, int, int], steps: tuple[int, ...], size: int, threads: int) -> np.ndarray:
    """Let all rows go through the steps, given as words; return the sums over rows, of ``size`` numbers."""
    rows, inner, outer = shape
    work = rows * inner * outer
    tasks, threads = tasks_for(work, threads)
    own = _OWN_ROWS + 64 * -(-_RUN * outer * ITEM_BYTES[dtype] // 64)
    words, num_steps, room = array("q", steps), len(steps) // _STEP, size * ITEM_BYTES[dtype]
    memory = np.empty(tasks * (own + room), np.int8)  # each task's own, then the sums of each
    mine = memory.ctypes.data
    places = [rows, words.buffer_info()[0], num_steps, mine, mine + tasks * own, room, own]
    launch(_kernels(dtype)["kernel"], places, tasks, threads)
    return memory[tasks * own :][:room].view(dtype)
