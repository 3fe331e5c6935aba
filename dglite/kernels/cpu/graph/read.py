"""Rows of a file by reads of whole blocks past the page cache, without the GIL: what direct I/O asks for."""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from ..compile.written import Kernel
from ..lanes.types import I8, I32, I64, int64
from ..lanes.values import call_external, intrinsic
from .gather import _copy


@intrinsic(int64, int64, int64, int64, int64)
def _pread(builder: ir.IRBuilder, file: ir.Value, address: ir.Value, count: ir.Value, offset: ir.Value) -> ir.Value:
    """Read ``count`` bytes at an offset of a file descriptor; return how many there were, or -1."""
    pointer = builder.inttoptr(address, I8.as_pointer())
    return call_external(builder, "pread", I64, [builder.trunc(file, I32), pointer, count, offset])


@Kernel
def read_rows(
    file: int,
    start: int,
    width: int,
    block: int,
    buffer: int,
    room: int,
    rows: np.ndarray,
    places: np.ndarray,
    target: int,
    done: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Read ``rows[first:last]``, which ascend, of ``width`` bytes; row ``rows[i]`` goes to row ``places[i]``.

    Rows lie in the file from byte ``start`` on. Rows in the same blocks of ``block`` bytes, or in the next one, come by
    one read of up to ``room`` bytes into ``buffer``, whose address is a multiple of ``block``. ``done`` gets the number
    of reads and of bytes, and the position in ``rows`` of one that could not be read, or -1.
    """
    i, reads, total = first, 0, 0
    done[2] = -1
    while i < last and done[2] < 0:
        begin = (start + rows[i] * width) // block * block
        end = start + rows[i] * width + width
        j = i + 1
        while j < last:
            at = start + rows[j] * width
            if at // block * block > end + block - 1 or at + width - begin > room - block:
                break
            end = at + width
            j += 1
        size = (end - begin + block - 1) // block * block
        count = 0
        while count < end - begin:
            more = _pread(file, buffer + count, size - count, begin + count)
            reads += 1
            if more <= 0:
                done[2] = i
                break
            count += more
        total += count
        if done[2] < 0:
            for k in range(i, j):
                _copy(target + places[k] * width, buffer + (start + rows[k] * width - begin), width)
        i = j
    done[0], done[1] = reads, total
