"""The driver of row kernels: which task computes which rows, and how rows split between tasks are merged.

Work is split by entries, not by rows, so a power-law graph balances: each task takes an equal run of entries. A row cut
by such a boundary is finished by the later task in a row of its own (the carry), merged when all tasks are done.

Words of ``args``: 0 indptr, 1 indices, 2 edge_ids (0: entry j is edge j), 3 num_rows, 4 num_entries, 5 inner, 6 groups,
7 the kernel, 8 out, 9 argmax, 10 carry (for each task the row it carries, then what it found, then its argmax),
11 mode, 12 elements from a row of ``out`` to the next. A kernel of several reductions writes (reductions, num_rows,
width) to ``out`` and to ``argmax``, for max and min reductions only; in the carry a task's rows of all
reductions lie side by side. A kernel with an epilogue is called once more for each row that tasks shared, when that is
merged. Then (address, row stride, group table) for every operand.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from ....opspec import Reducer
from ...spec import ITEM_BYTES
from ..compile.cached import cfunc
from ..lanes import simd
from ..lanes.atomic import call_rows, put_word
from ..lanes.simd import index_loader, word
from ..lanes.vec import I64

__all__ = ["map_driver", "mode_word", "reduce_driver", "whole_row_driver"]

DTYPES = tuple(ITEM_BYTES)
SIGNATURE = "void(int64, int64, int64)"
ADD, MAXIMUM, MINIMUM = 0, 1, 2
MOST_PARTS = 16


def mode_word(dtype: str, index: str, *reducers: Reducer, epilogue: bool = False) -> int:
    """Return word 11: the value dtype, whether ids are 64 bits wide, how many reductions there are (at most
    ``MOST_PARTS``), for each how carried rows are merged, and whether the kernel has an epilogue."""
    assert len(reducers) <= MOST_PARTS
    word = DTYPES.index(dtype) + 4 * (index == "int64") + 8 * len(reducers) + (epilogue << 8 + 2 * MOST_PARTS)
    for part, reducer in enumerate(reducers):
        word += {Reducer.MAX: MAXIMUM, Reducer.MIN: MINIMUM}.get(reducer, ADD) << 8 + 2 * part
    return word


@intrinsic
def _call_row(typingctx: Any, address: Any, args: Any, row: Any, first: Any, last: Any, out: Any, argmax: Any) -> Any:
    """Call a kernel of one row."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, values: tuple[ir.Value, ...]) -> ir.Value:
        kind = ir.FunctionType(ir.VoidType(), [I64] * 6)
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), values[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 7), codegen


_index32, _index64 = index_loader("int32"), index_loader("int64")
_load0, _load1, _load2, _load3 = (simd.loader(dtype, 1) for dtype in DTYPES)
_store0, _store1, _store2, _store3 = (simd.storer(dtype, 1) for dtype in DTYPES)
_store_id32, _store_id64 = simd.storer("int32", 1), simd.storer("int64", 1)


@njit(error_model="numpy")
def _index(wide: int, address: int, i: int) -> int:
    return _index64(address, i) if wide else _index32(address, i)


@njit(error_model="numpy")
def _first_row_from(wide: int, indptr: int, num_rows: int, entry: int) -> int:
    """Return the first row whose entries start at ``entry`` or later."""
    low, high = 0, num_rows
    while low < high:
        middle = (low + high) // 2
        if _index(wide, indptr, middle) < entry:
            low = middle + 1
        else:
            high = middle
    return low


@njit(error_model="numpy")
def _load(dtype: int, address: int) -> float:
    if dtype == 0:
        return float(_load0(address))
    if dtype == 1:
        return _load1(address)
    return float(_load2(address)) if dtype == 2 else float(_load3(address))


@njit(error_model="numpy")
def _store(dtype: int, address: int, value: float) -> None:
    if dtype == 0:
        _store0(address, value)
    elif dtype == 1:
        _store1(address, value)
    elif dtype == 2:
        _store2(address, value)
    else:
        _store3(address, value)


@njit(error_model="numpy")
def _merge_of(mode: int, part: int) -> int:
    return mode >> (8 + 2 * part) & 3


@njit(error_model="numpy")
def _num_selecting(mode: int) -> int:
    found = 0
    for part in range(mode // 8 % 32):
        found += _merge_of(mode, part) != ADD
    return found


@njit(error_model="numpy")
def _merge_row(mode: int, merge: int, width: int, item: int, ours: int, late: int, ids: int, late_ids: int) -> None:
    """Combine what a later task found for a row with ``ours``; ``ids`` are our argmax, 0 where they are not kept."""
    dtype, wide = mode % 4, mode // 4 % 2
    for k in range(width):
        early_value, late_value = _load(dtype, ours + k * item), _load(dtype, late + k * item)
        if merge == ADD:
            _store(dtype, ours + k * item, early_value + late_value)
            continue
        better = late_value > early_value if merge == MAXIMUM else late_value < early_value
        if better or (late_value != late_value and early_value == early_value):
            _store(dtype, ours + k * item, late_value)
            if ids != 0 and wide:
                _store_id64(ids + k * 8, _index64(late_ids, k))
            elif ids != 0:
                _store_id32(ids + k * 4, _index32(late_ids, k))


@njit(error_model="numpy")
def _merge(args: int, num_tasks: int, width: int, item: int) -> None:
    """Combine what later tasks found with the rows that earlier tasks began, in the order of the entries."""
    num_rows, out, argmax, carry, mode = word(args, 3), word(args, 8), word(args, 9), word(args, 10), word(args, 11)
    wide, parts, selecting = mode // 4 % 2, mode // 8 % 32, _num_selecting(mode)
    row_bytes, id_bytes = width * item, width * (8 if wide else 4)
    found = carry + 8 * num_tasks
    found_ids = found + num_tasks * parts * row_bytes
    for task in range(1, num_tasks):
        row, chosen = word(carry, task), 0
        if row < 0:
            continue
        for part in range(parts):
            merge = _merge_of(mode, part)
            ours, late = out + (part * num_rows + row) * row_bytes, found + (task * parts + part) * row_bytes
            ids = argmax + (chosen * num_rows + row) * id_bytes if argmax != 0 else 0
            _merge_row(mode, merge, width, item, ours, late, ids, found_ids + (task * selecting + chosen) * id_bytes)
            chosen += merge != ADD


@njit(error_model="numpy")
def _finish(args: int, num_tasks: int, width: int, item: int) -> None:
    """Let the kernel's epilogue have the rows that tasks shared: it is called without entries, ``first`` being -1."""
    carry, done = word(args, 10), -1
    for task in range(1, num_tasks):
        row = word(carry, task)
        if row >= 0 and row != done:
            call_rows(word(args, 7), args, row, row + 1, -1, -1, word(args, 8) + row * width * item, 0)
            done = row


@cfunc(SIGNATURE, error_model="numpy")
def reduce_driver(args, task, num_tasks):  # type: ignore[no-untyped-def]
    """Drive a kernel that writes one row of ``out`` per row, of several reductions one row of each."""
    indptr, num_rows, num_entries, kernel = word(args, 0), word(args, 3), word(args, 4), word(args, 7)
    out, argmax, carry, mode = word(args, 8), word(args, 9), word(args, 10), word(args, 11)
    width, dtype, wide, parts = word(args, 5) * word(args, 6), mode % 4, mode // 4 % 2, mode // 8 % 32
    item = 4 if dtype == 0 else (8 if dtype == 1 else 2)
    id_bytes = 8 if wide else 4
    if task < 0:
        _merge(args, num_tasks, width, item)
        if mode >> (8 + 2 * MOST_PARTS) & 1:
            _finish(args, num_tasks, width, item)
        return
    begin, end = num_entries * task // num_tasks, num_entries * (task + 1) // num_tasks
    row = 0
    if task > 0:
        row = _first_row_from(wide, indptr, num_rows, begin)
        first = _index(wide, indptr, row)
        put_word(carry, task, -1)
        if begin < end and first > begin:
            put_word(carry, task, row - 1)
            late = carry + 8 * num_tasks
            late_ids = late + num_tasks * parts * width * item + task * _num_selecting(mode) * width * id_bytes
            call_rows(kernel, args, row - 1, row, begin, end, late + task * parts * width * item, late_ids)
    stop = num_rows if task + 1 == num_tasks else _first_row_from(wide, indptr, num_rows, end)
    call_rows(kernel, args, row, stop, begin, end, out + row * width * item, argmax + row * width * id_bytes)


@cfunc(SIGNATURE, error_model="numpy")
def map_driver(args, task, num_tasks):  # type: ignore[no-untyped-def]
    """Drive a kernel that writes one row of ``out`` per entry."""
    indptr, num_rows, num_entries, kernel = word(args, 0), word(args, 3), word(args, 4), word(args, 7)
    wide = word(args, 11) // 4 % 2
    begin, end = num_entries * task // num_tasks, num_entries * (task + 1) // num_tasks
    if task < 0 or begin == end:
        return
    row = _first_row_from(wide, indptr, num_rows, begin)
    if _index(wide, indptr, row) > begin:
        row -= 1
    while row < num_rows and _index(wide, indptr, row) < end:
        first, last = max(_index(wide, indptr, row), begin), min(_index(wide, indptr, row + 1), end)
        if first < last:
            _call_row(kernel, args, row, first, last, word(args, 8), 0)
        row += 1


@cfunc(SIGNATURE, error_model="numpy")
def whole_row_driver(args, task, num_tasks):  # type: ignore[no-untyped-def]
    """Drive a kernel that needs all entries of a row at once; rows are dealt out by their entries but never cut."""
    indptr, num_rows, num_entries, kernel = word(args, 0), word(args, 3), word(args, 4), word(args, 7)
    wide = word(args, 11) // 4 % 2
    if task < 0:
        return
    row = _first_row_from(wide, indptr, num_rows, num_entries * task // num_tasks)
    stop = _first_row_from(wide, indptr, num_rows, num_entries * (task + 1) // num_tasks)
    while row < stop:
        first, last = _index(wide, indptr, row), _index(wide, indptr, row + 1)
        if first < last:
            _call_row(kernel, args, row, first, last, word(args, 8), 0)
        row += 1
