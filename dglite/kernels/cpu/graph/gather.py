"""Gather rows of a matrix anywhere in memory, also of a mapped file, and widen 16-bit and 8-bit numbers.

Row ``rows[i]`` of the matrix at the address ``source`` goes to row ``places[i]`` of the one at ``target``, or to row i
where ``places`` is empty. Each call serves ``rows[first:last]``.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from ..compile.written import Kernel
from ..lanes.atomic import put_word
from ..lanes.memory import loader, prefetch, storer, word
from ..lanes.types import I8, I32, LANES, float32, int64, none
from ..lanes.values import call_external, intrinsic
from ..run.launch import launch, tasks_for

LINE = 64
"""Bytes of a cache line. Targets are aligned to them."""
_AHEAD = 16
"""Rows between asking for a row's first line and copying it. That finds its page; a core reads on by itself, and to ask
for the other lines too takes a tenth longer."""
_LANES = 16
_VECTORS = (loader, "float16"), (loader, "bfloat16"), (storer, "float32")
_LINE = ir.VectorType(I32, LINE // 4)
_load_half, _load_brain, _store = (get(dtype, _LANES) for get, dtype in _VECTORS)
_load_one_half, _load_one_brain, _store_one = (get(dtype, 1) for get, dtype in _VECTORS)


@intrinsic(none, int64, int64, int64)
def _copy(builder: ir.IRBuilder, target: ir.Value, source: ir.Value, size: ir.Value) -> None:
    """Copy ``size`` bytes."""
    pointers = (builder.inttoptr(x, I8.as_pointer()) for x in (target, source))
    call_external(builder, "llvm.memcpy.p0.p0.i64", ir.VoidType(), [*pointers, size, ir.IntType(1)(0)])


@intrinsic(none, int64, int64)
def _stream_line(builder: ir.IRBuilder, target: ir.Value, source: ir.Value) -> None:
    """Copy a cache line to an aligned address, past the cache: what was there is not read first.

    Such stores are ordered by the next locked instruction only. Whoever hands the rows to another thread takes a lock.
    """
    line = builder.load(builder.inttoptr(source, _LINE.as_pointer()), align=1)
    store = builder.store(line, builder.inttoptr(target, _LINE.as_pointer()), align=LINE)
    store.set_metadata("nontemporal", builder.module.add_metadata([I32(1)]))


@intrinsic(float32, int64)
def _load_byte(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """Return the int8 at an address as a float32."""
    return builder.sitofp(builder.load(builder.inttoptr(address, I8.as_pointer())), LANES["float32"])


@Kernel
def copy_rows(
    source: int, width: int, rows: np.ndarray, places: np.ndarray, target: int, first: int, last: int
) -> None:
    """Copy rows of ``width`` bytes."""
    streams, in_order = width % LINE == 0 and target % LINE == 0, len(places) == 0
    for i in range(first, last):
        if i + _AHEAD < last:
            prefetch(source + width * rows[i + _AHEAD])
        _copy_row(target + width * (i if in_order else places[i]), source + width * rows[i], width, streams)


@Kernel
def _copy_row(target: int, row: int, width: int, streams: bool) -> None:
    if streams:
        for at in range(0, width, LINE):
            _stream_line(target + at, row + at)
    elif width == 8:  # a call for each of as many labels takes longer than all else
        put_word(target, 0, word(row, 0))
    else:
        _copy(target, row, width)


def take_rows(source: int, width: int, rows: int, target: int, count: int, threads: int) -> None:
    """Copy ``count`` rows of ``width`` bytes one after another; their numbers of 64 bits lie at ``rows``."""
    launch(_take_rows.address, (source, width, rows, target, count), *tasks_for(width * count // 4, threads))


@Kernel
def _take_rows(args: int, task: int, num_tasks: int) -> None:
    if task < 0:
        return
    source, width, rows, target, count = word(args, 0), word(args, 1), word(args, 2), word(args, 3), word(args, 4)
    streams = width % LINE == 0 and target % LINE == 0
    first, last = count * task // num_tasks, count * (task + 1) // num_tasks
    for i in range(first, last):
        if i + _AHEAD < last:
            prefetch(source + width * word(rows, i + _AHEAD))
        _copy_row(target + width * i, source + width * word(rows, i), width, streams)


@Kernel
def widen_float16(
    source: int, count: int, rows: np.ndarray, places: np.ndarray, target: int, first: int, last: int
) -> None:
    """Widen rows of ``count`` float16 to float32."""
    in_order, whole = len(places) == 0, count // _LANES * _LANES
    for i in range(first, last):
        if i + _AHEAD < last:
            prefetch(source + 2 * count * rows[i + _AHEAD])
        row = source + 2 * count * rows[i]
        to = target + 4 * count * (i if in_order else places[i])
        for j in range(0, whole, _LANES):
            _store(to + 4 * j, _load_half(row + 2 * j))
        for j in range(whole, count):
            _store_one(to + 4 * j, _load_one_half(row + 2 * j))


@Kernel
def widen_bfloat16(
    source: int, count: int, rows: np.ndarray, places: np.ndarray, target: int, first: int, last: int
) -> None:
    """Widen rows of ``count`` bfloat16 to float32."""
    in_order, whole = len(places) == 0, count // _LANES * _LANES
    for i in range(first, last):
        row = source + 2 * count * rows[i]
        to = target + 4 * count * (i if in_order else places[i])
        for j in range(0, whole, _LANES):
            _store(to + 4 * j, _load_brain(row + 2 * j))
        for j in range(whole, count):
            _store_one(to + 4 * j, _load_one_brain(row + 2 * j))


@Kernel
def widen_int8(
    source: int,
    count: int,
    scales: np.ndarray,
    rows: np.ndarray,
    places: np.ndarray,
    target: int,
    first: int,
    last: int,
) -> None:
    """Widen rows of ``count`` int8 to float32, times the only scale or the row's scale."""
    in_order = len(places) == 0
    for i in range(first, last):
        row = source + count * rows[i]
        to = target + 4 * count * (i if in_order else places[i])
        scale = scales[rows[i] if len(scales) > 1 else 0]
        for j in range(count):
            _store_one(to + 4 * j, _load_byte(row + j) * scale)
