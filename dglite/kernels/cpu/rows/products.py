"""Products of many rows with a matrix, with bias and ReLU, and their gradients: one pass over the rows.

Some rows at a time go through all steps while they are in a core's caches: a GEMM for each step would read them from
memory again. See :mod:`...render.matrix` for the products themselves.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from functools import cache

import numpy as np

from ...render.matrix import matrix_source
from ...spec import ITEM_BYTES
from ..compile.jit import block_lanes, compile_kernel, compile_kernels
from ..lanes.target import cpu
from ..run.launch import launch, tasks_for
from ..run.parts import FEW_PARTS, num_parts

NARROW = 2048
"""Elements of a matrix up to which a product of many rows with it takes as long as memory does."""
_RUN, _RUNS_OF_SUMS = 64, 8
"""Rows that go through the steps together; how many such runs a part of a sum over rows has, unless there are few."""
_MOST_MEMORY = 1 << 26
"""Bytes that tasks share, unless each thread needs more for one; and that parts of sums share, unless they are few."""
_ROWS, _SAME, _SUMS, _TASK, _COLUMNS = range(5)
"""Where an operand of a step lies: in the rows of a tensor, in one place for all rows, in the sums over rows, as long
as rows go through the steps in memory of the task, or in the columns of a tensor, one for each row."""
_WORDS, _OPERANDS = 12, 4
"""Words of a matrix kernel: among them, from the fifth on, address and row stride of its operands."""
_STEP = _WORDS + _OPERANDS + 1
"""Words of a step: the kernel's words, then the base of each operand, and which word is the number of rows."""
_SOURCE = '''"""Steps that some rows go through, one after the other; among them ReLU and transposition ({dtype})."""
from dglite.kernels.cpu.lanes import simd, tiles
from dglite.kernels.cpu.lanes.atomic import call_at, put_word

ITEM, LANES, RUN = {item}, {lanes}, {run}
word, greater, select = simd.word, simd.greater, simd.select
load, store, splat = simd.loader("{dtype}", LANES), simd.storer("{dtype}", LANES), simd.splat("{dtype}", LANES)
load1, store1, splat1 = simd.loader("{dtype}", 1), simd.storer("{dtype}", 1), simd.splat("{dtype}", 1)
load_part, store_part = simd.part_loader("{dtype}", LANES, 0.0), simd.part_storer("{dtype}", LANES)
transpose = tiles.transposer("{dtype}", LANES)


def relu(args, task, num_tasks):
    x, m, y, size = word(args, 4), word(args, 6), word(args, 8), word(args, 1) * word(args, 5)
    whole = size // (LANES * ITEM) * LANES * ITEM
    for k in range(0, whole, LANES * ITEM):
        store(y + k, select(greater(load(m + k), splat(0.0)), load(x + k), splat(0.0)))
    for k in range(whole, size, ITEM):
        store1(y + k, select(greater(load1(m + k), splat1(0.0)), load1(x + k), splat1(0.0)))


def turn(args, task, num_tasks):
    rows, columns = word(args, 1), word(args, 2)
    x, x_stride, y, y_stride = word(args, 4), word(args, 5), word(args, 8), word(args, 9)
    low, left = rows // LANES * LANES, columns // LANES * LANES
    for row in range(0, low, LANES):
        for k in range(0, left, LANES):
            transpose(x + row * x_stride + k * ITEM, x_stride, y + k * y_stride + row * ITEM, y_stride)
    for row in range(rows):
        for k in range(left if row < low else 0, columns):
            store1(y + k * y_stride + row * ITEM, load1(x + row * x_stride + k * ITEM))


def kernel(args, task, num_tasks):
    rows, steps, num_steps, size = word(args, 0), word(args, 1), word(args, 2), word(args, 5)
    mine, parts = word(args, 3) + word(args, 6) * task, word(args, 10)
    unit = RUN if rows >= parts * RUN else 1
    for part in range(parts * max(task, 0) // num_tasks, parts * (task + 1) // num_tasks):
        sums = word(args, 4) + size * part
        last = rows if part + 1 == parts else rows // unit * (part + 1) // parts * unit
        for k in range(0, size, LANES * ITEM):
            store_part(sums + k, splat(0.0), (size - k) // ITEM)
        for begin in range(rows // unit * part // parts * unit, last, RUN):
            for i in range(num_steps):
                step = steps + 8 * {step} * i
                for j in range({words}):
                    put_word(mine, j, word(step, j))
                put_word(mine, word(step, {words} + {operands}), min(RUN, last - begin))
                for j in range({operands}):
                    address, where = word(step, 4 + 2 * j), word(step, {words} + j)
                    if where == {rows}:
                        address += begin * word(step, 5 + 2 * j)
                    if where == {sums}:
                        address += sums
                    if where == {task}:
                        address += mine
                    if where == {columns}:
                        address += begin * ITEM
                    put_word(mine, 4 + 2 * j, address)
                call_at(word(mine, 0), mine, 0, 1)
    if task < 0 or num_tasks == 1:
        sums, targets, adds = word(args, 4), word(args, 7), word(args, 9)
        for i in range(word(args, 8)):
            out, length = word(targets, 2 * i), word(targets, 2 * i + 1)
            for k in range(0, length, LANES * ITEM):
                left = (length - k) // ITEM
                total = load_part(sums + k, left)
                for part in range(1, parts):
                    total = total + load_part(sums + part * size + k, left)
                if adds != 0:
                    total = total + load_part(out + k, left)
                store_part(out + k, total, left)
            sums += length
'''
_ADD = {name: np.array([1.0, 1.0], name) for name in ("float32", "float64")}
"""The factor of the old sum, and the factor of the added product."""
_ADDRESSES = {name: numbers.ctypes.data for name, numbers in _ADD.items()}
Place = tuple[int, int]
"""Address, and bytes from row to row."""
_At = tuple[int, int, int]
"""The same, of which the address may be an offset, and where that is."""
_NOWHERE: _At = (0, 0, _SAME)


@cache
def _kernels(dtype: str) -> dict[str, int]:
    lanes, places = block_lanes(dtype) // 8, {"rows": _ROWS, "sums": _SUMS, "task": _TASK, "columns": _COLUMNS}
    sizes = {"words": _WORDS, "step": _STEP, "operands": _OPERANDS, "run": _RUN, "item": ITEM_BYTES[dtype]}
    steps = compile_kernels("products", _SOURCE.format(dtype=dtype, lanes=lanes, **sizes, **places))
    forms = {form: compile_kernel("matrix", matrix_source(form, dtype, lanes)) for form in ("sums", "totals")}
    return {**steps, **forms}


def is_faster(dtype: str, inner: int, outer: int) -> bool:
    """Whether these kernels are faster than a GEMM of many rows with an (inner, outer) matrix."""
    return dtype in _ADDRESSES and inner * outer > 0 and (inner * outer <= NARROW or _outruns_libraries())


@cache
def _outruns_libraries() -> bool:
    """Whether vectors are twice as long as the usual GEMM's.

    MKL, which torch comes with for x86, takes AVX2 where a CPU is not Intel's. AMD's multiply 512 bits at once from
    Zen 5 on; before, the longer instructions take twice the time.
    """
    generation = re.fullmatch(r"znver(\d+)", cpu()[0])
    return generation is not None and int(generation[1]) >= 5


def product(
    dtype: str, shape: tuple[int, int, int], places: Sequence[Place], relu: bool, threads: int, turned: bool = False
) -> None:
    """Write ``x @ weight + start``, with ``relu`` its ReLU; ``shape`` is (rows, columns of x, of the result).

    ``places``: x, weight, start and the result, whose rows may be further apart than they are long. A start whose rows
    are 0 bytes apart is a bias; without one its address is 0. A ``turned`` weight is stored transposed.
    With ReLU the result's rows follow each other.
    """
    (_, inner, outer), item = shape, ITEM_BYTES[dtype]
    x, weight, start, out = places
    if turned:
        dense = np.empty((inner, outer), dtype)
        transpose(dtype, (outer, inner), weight, (dense.ctypes.data, outer * item), threads)
        weight = dense.ctypes.data, outer * item
    run, result = _Pass(dtype), (*out, _ROWS)
    run.step("sums", (0, inner, outer), (*x, _ROWS), (*weight, _SAME), result, (*start, _ROWS if start[1] else _SAME))
    if relu:
        run.step("relu", (0, 0, 0), result, result, result)
    run.launch(shape, threads)


def transpose(dtype: str, shape: tuple[int, int], x: Place, out: Place, threads: int) -> None:
    """Write the transpose of x, of ``shape``."""
    rows, columns = shape
    run = _Pass(dtype)
    run.step("turn", (0, columns, 0), (*x, _ROWS), _NOWHERE, (*out, _COLUMNS))
    run.launch((rows, columns, 1), threads)


def gradients(
    dtype: str,
    shape: tuple[int, int, int],
    operands: Sequence[Place],
    out: Sequence[Place],
    threads: int,
    adds: bool = False,
) -> None:
    """Write the gradients of x, weight and bias of :func:`product` to ``out``, none where its address is 0.

    ``operands`` are the gradient of the result; the result of the ReLU, at 0 where there was none; x; the weight,
    transposed. What is not read may be anywhere. Rows of the gradients of weight and bias follow each other, as do
    those of the result and its gradient where there was a ReLU. With ``adds`` the former are added to what is there.
    """
    (_, inner, outer), item = shape, ITEM_BYTES[dtype]
    (grad, result, x, turned), (x_grad, weight_grad, bias_grad) = operands, out
    run, wide, rows = _Pass(dtype), outer * item, (*grad, _ROWS)
    if result[0]:
        masked = (run.take(_RUN * wide), wide, _TASK)
        run.step("relu", (0, 0, 0), rows, (*result, _ROWS), masked)
        rows = masked
    if weight_grad[0]:
        columns, sums = (run.take(_RUN * inner * item), _RUN * item, _TASK), run.sums_for(weight_grad[0], inner, wide)
        run.step("turn", (0, inner, 0), (*x, _ROWS), _NOWHERE, columns)
        run.step("sums", (inner, 0, outer), columns, rows, sums, sums, counted=2)
    if bias_grad[0]:
        sums = run.sums_for(bias_grad[0], 1, wide)
        run.step("totals", (0, 1, outer), _NOWHERE, sums, rows, (_ADDRESSES[dtype], 0, _SAME))
    if x_grad[0]:
        run.step("sums", (0, outer, inner), rows, (*turned, _SAME), (*x_grad, _ROWS))
    run.launch(shape, threads, adds)


class _Pass:
    """Steps that all rows go through, and the memory that they take, in bytes."""

    def __init__(self, dtype: str) -> None:
        self.kernels, self.words = _kernels(dtype), array("q")
        self.task_bytes, self.sums, self.targets = _lines(8 * _WORDS), 0, array("q")

    def take(self, size: int) -> int:
        """Return the offset of ``size`` bytes of a task's memory, behind the words of its step."""
        begin, self.task_bytes = self.task_bytes, self.task_bytes + _lines(size)
        return begin

    def sums_for(self, address: int, rows: int, stride: int) -> _At:
        """Return the place of a task's sums over rows; the sums of all tasks are added up at ``address``."""
        begin, self.sums = self.sums, self.sums + rows * stride
        self.targets.extend((address, rows * stride))
        return begin, stride, _SUMS

    def step(
        self,
        form: str,
        sizes: tuple[int, int, int],
        x: _At,
        matrix: _At,
        y: _At,
        more: _At = _NOWHERE,
        counted: int = 1,
    ) -> None:
        """Add a step, of :class:`...render.matrix.MatrixWords`. Word ``counted``, a size, is the number of rows."""
        operands = (x, matrix, y, more)
        places = [number for address, stride, _ in operands for number in (address, stride)]
        self.words.extend((self.kernels[form], *sizes, *places, *(where for _, _, where in operands), counted))

    def launch(self, shape: tuple[int, int, int], threads: int, adds: bool = False) -> None:
        """Let all rows go through the steps, and add up the sums of all parts."""
        rows, inner, outer = shape
        tasks, threads = tasks_for(rows * inner * outer, threads)
        tasks = min(tasks, max(min(rows // _RUN, _MOST_MEMORY // self.task_bytes), threads))
        parts = self._num_parts(shape) if self.sums else tasks
        size = self.task_bytes
        memory = np.empty(tasks * size + parts * self.sums, np.int8)  # of each task, then the sums of each part
        first, num_steps = memory.ctypes.data, len(self.words) // _STEP
        words = [rows, self.words.buffer_info()[0], num_steps, first, first + tasks * size, self.sums, size]
        words += [self.targets.buffer_info()[0], len(self.targets) // 2, adds, parts]
        launch(self.kernels["kernel"], words, tasks, threads)

    def _num_parts(self, shape: tuple[int, int, int]) -> int:
        rows, inner, outer = shape
        parts = num_parts(rows * inner * outer, rows, _RUN * _RUNS_OF_SUMS)
        return min(parts, max(_MOST_MEMORY // self.sums, FEW_PARTS))


def _lines(size: int) -> int:
    """Return a size as whole cache lines."""
    return 64 * -(-size // 64)
