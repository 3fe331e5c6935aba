"""The loop around every row kernel: which task does which rows, and what becomes of a row that two tasks share.

Work is split by entries, not by rows, so a power-law graph balances: each task takes an equal run of entries. A row cut
by such a boundary is finished by the later task in a row of its own (the carry), merged when all tasks are done.

Words of ``args``: 0 indptr, 1 indices, 2 edge_ids (0: entry j is edge j), 3 num_rows, 4 num_entries, 5 inner, 6 groups,
7 the row kernel, 8 out, 9 winners, 10 carry (a block of words: for each task the row it carries, then what it found,
then its winners), 11 how to merge; then (address, row stride, group table) for every operand.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from llvmlite import ir
from numba import cfunc, njit, types
from numba.extending import intrinsic

from . import simd
from .simd import I64, index_loader, word

__all__ = ["map_driver", "merge_code", "reduce_driver", "row_scale_of"]

_DTYPES = ("float32", "float64", "float16", "bfloat16")
_ITEM_BYTES = (4, 8, 2, 2)
SIGNATURE = "void(int64, int64, int64)"


def merge_code(dtype: str, selects_max: bool, selects_min: bool) -> int:
    """Return word 11: the dtype and whether carried rows are added (0), maximised (1) or minimised (2)."""
    return _DTYPES.index(dtype) + 4 * (1 if selects_max else 2 if selects_min else 0)


@intrinsic
def _store_word(typingctx: Any, address: Any, i: Any, value: Any) -> Any:
    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        builder.store(args[2], builder.gep(builder.inttoptr(args[0], I64.as_pointer()), [args[1]]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def _call_row(typingctx: Any, address: Any, args: Any, row: Any, first: Any, last: Any, out: Any, winners: Any) -> Any:
    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, values: tuple[ir.Value, ...]) -> ir.Value:
        kind = ir.FunctionType(ir.VoidType(), [I64] * 6)
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), values[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 7), codegen


@lru_cache(maxsize=None)
def row_scale_of(index_dtype: str) -> Any:
    """Return ``row_scale(args, row)``: one over the number of the row's entries, 1 for an empty row."""
    index = index_loader(index_dtype)

    @njit(error_model="numpy")
    def row_scale(args: int, row: int) -> float:
        count = index(word(args, 0), row + 1) - index(word(args, 0), row)
        return 1.0 / count if count > 0 else 1.0

    return row_scale


def _first_row_from(index: Any) -> Any:
    @njit(error_model="numpy")
    def first_row_from(indptr: int, num_rows: int, entry: int) -> int:
        low, high = 0, num_rows
        while low < high:
            middle = (low + high) // 2
            if index(indptr, middle) < entry:
                low = middle + 1
            else:
                high = middle
        return low

    return first_row_from


_load32, _load64, _load16, _load_b16 = (simd.loader(dtype, 1) for dtype in _DTYPES)
_store32, _store64, _store16, _store_b16 = (simd.storer(dtype, 1) for dtype in _DTYPES)
_load_id32, _load_id64 = simd.loader("int32", 1), simd.loader("int64", 1)
_store_id32, _store_id64 = simd.storer("int32", 1), simd.storer("int64", 1)


@njit(error_model="numpy")
def _load(dtype: int, address: int, i: int) -> float:
    if dtype == 0:
        return float(_load32(address + 4 * i))
    if dtype == 1:
        return _load64(address + 8 * i)
    if dtype == 2:
        return float(_load16(address + 2 * i))
    return float(_load_b16(address + 2 * i))


@njit(error_model="numpy")
def _store(dtype: int, address: int, i: int, value: float) -> None:
    if dtype == 0:
        _store32(address + 4 * i, value)
    elif dtype == 1:
        _store64(address + 8 * i, value)
    elif dtype == 2:
        _store16(address + 2 * i, value)
    else:
        _store_b16(address + 2 * i, value)


@lru_cache(maxsize=None)
def reduce_driver(index_dtype: str) -> int:
    """Return the address of the driver for kernels that write one row of ``out`` per row."""
    index, first_row_from = index_loader(index_dtype), _first_row_from(index_loader(index_dtype))
    index_bytes = 4 if index_dtype == "int32" else 8
    load_id, store_id = (_load_id32, _store_id32) if index_dtype == "int32" else (_load_id64, _store_id64)

    @njit(error_model="numpy")
    def merge(args, num_tasks, width, item):  # type: ignore[no-untyped-def]
        out, winners, carry, code = word(args, 8), word(args, 9), word(args, 10), word(args, 11)
        dtype, how = code % 4, code // 4
        for task in range(1, num_tasks):
            row = word(carry, task)
            if row < 0:
                continue
            late = carry + 8 * num_tasks + task * width * item
            late_ids = carry + 8 * num_tasks + num_tasks * width * item + task * width * index_bytes
            ours = out + row * width * item
            for k in range(width):
                early_value, late_value = _load(dtype, ours, k), _load(dtype, late, k)
                if how == 0:
                    _store(dtype, ours, k, early_value + late_value)
                elif (late_value > early_value if how == 1 else late_value < early_value) or late_value != late_value:
                    _store(dtype, ours, k, late_value)
                    if winners != 0:
                        store_id(winners + (row * width + k) * index_bytes, load_id(late_ids + k * index_bytes))

    @cfunc(SIGNATURE, cache=True, error_model="numpy")
    def driver(args, task, num_tasks):  # type: ignore[no-untyped-def]
        indptr, num_rows, num_entries, kernel = word(args, 0), word(args, 3), word(args, 4), word(args, 7)
        out, winners, carry = word(args, 8), word(args, 9), word(args, 10)
        width = word(args, 5) * word(args, 6)
        dtype = word(args, 11) % 4
        item = 8 if dtype == 1 else (4 if dtype == 0 else 2)
        if task < 0:
            merge(args, num_tasks, width, item)
            return
        begin, end = num_entries * task // num_tasks, num_entries * (task + 1) // num_tasks
        row = 0
        if task > 0:
            row = first_row_from(indptr, num_rows, begin)
            _store_word(carry, task, -1)
            if begin < end and index(indptr, row) > begin:
                _store_word(carry, task, row - 1)
                late = carry + 8 * num_tasks
                late_ids = late + num_tasks * width * item + task * width * index_bytes
                last = min(index(indptr, row), end)
                _call_row(kernel, args, row - 1, begin, last, late + task * width * item, late_ids)
        while row < num_rows:
            first = index(indptr, row)
            if first >= end and task + 1 < num_tasks:
                break
            last = min(index(indptr, row + 1), end)
            ours, our_ids = out + row * width * item, winners + row * width * index_bytes
            _call_row(kernel, args, row, first, last, ours, our_ids)
            row += 1

    address: int = driver.address
    return address


@lru_cache(maxsize=None)
def map_driver(index_dtype: str) -> int:
    """Return the address of the driver for kernels that write one row of ``out`` per entry."""
    index, first_row_from = index_loader(index_dtype), _first_row_from(index_loader(index_dtype))

    @cfunc(SIGNATURE, cache=True, error_model="numpy")
    def driver(args, task, num_tasks):  # type: ignore[no-untyped-def]
        indptr, num_rows, num_entries, kernel = word(args, 0), word(args, 3), word(args, 4), word(args, 7)
        begin, end = num_entries * task // num_tasks, num_entries * (task + 1) // num_tasks
        if task < 0 or begin == end:
            return
        row = first_row_from(indptr, num_rows, begin)
        if index(indptr, row) > begin:
            row -= 1
        while row < num_rows and index(indptr, row) < end:
            first, last = max(index(indptr, row), begin), min(index(indptr, row + 1), end)
            if first < last:
                _call_row(kernel, args, row, first, last, word(args, 8), 0)
            row += 1

    address: int = driver.address
    return address
