"""Edge weights in the order of a structure's entries, and bitwise comparison of arrays."""

from __future__ import annotations

import ctypes
from array import array
from functools import cache
from typing import NamedTuple

from ...spec import ITEM_BYTES
from ...words import read_words
from ..compile.jit import compile_kernels
from ..run.launch import launch, launch_at, tasks_for


class _Order(NamedTuple):
    edge_ids: int
    size: int
    source: int
    target: int


class _Equal(NamedTuple):
    ours: int
    theirs: int
    size: int
    differs: int
    """Set to 1 at the first difference."""


_DIFFERS = _Equal._fields.index("differs")
_SOURCE = '''"""Numbers of edges in the order of entries ({dtype}, {index} ids)."""
from dglite.kernels.cpu.lanes import simd
from dglite.kernels.cpu.lanes.atomic import put_word, read_word

ITEM, CHUNK = {item}, 4096
word, prefetch = simd.word, simd.prefetch
edge_index = simd.edge_index_loader("{index}")
load, store = simd.loader("{dtype}", 1), simd.storer("{dtype}", 1)


def order(args, task, num_tasks):
    {order}
    if task < 0:
        return
    for j in range(size * task // num_tasks, size * (task + 1) // num_tasks):
        if edge_ids != 0:
            prefetch(source + edge_index(edge_ids, min(j + 32, size - 1)) * ITEM)
        store(target + j * ITEM, load(source + edge_index(edge_ids, j) * ITEM))


def equal(args, task, num_tasks):
    {equal}
    if task < 0:
        return
    last = size * (task + 1) // num_tasks
    for start in range(size * task // num_tasks, last, CHUNK):
        if read_word(args + {differs_at}) != 0:
            return
        different = 0
        for i in range(start, min(start + CHUNK, last)):
            different = different | (word(ours, i) - word(theirs, i))
        if different != 0:
            put_word(args, {differs}, 1)
'''


@cache
def _addresses(dtype: str, index: str) -> dict[str, int]:
    order, equal = read_words(_Order._fields, *_Order._fields), read_words(_Equal._fields, "ours", "theirs", "size")
    words = {"order": order, "equal": equal, "differs": _DIFFERS, "differs_at": 8 * _DIFFERS}
    return compile_kernels("order", _SOURCE.format(dtype=dtype, index=index, item=ITEM_BYTES[dtype], **words))


def order(dtype: str, index: str, edge_ids: int, count: int, source: int, target: int, threads: int) -> None:
    """Let ``target[j]`` be ``source[edge_ids[j]]``; without ``edge_ids`` (address 0), ``source[j]``."""
    address = _addresses(dtype, index)["order"]
    launch(address, _Order(edge_ids, count, source, target), *tasks_for(count, threads))


def copy(dtype: str, index: str, count: int, source: int, target: int, threads: int) -> None:
    """Copy ``count`` numbers."""
    order(dtype, index, 0, count, source, target, threads)


def equal(dtype: str, index: str, count: int, ours: int, theirs: int, threads: int) -> bool:
    """Return whether ``count`` numbers, 8 bytes of them at least, are the same bit by bit: NaN, and signs of zeros."""
    size = count * ITEM_BYTES[dtype]
    ours_last, theirs_last = (ctypes.c_int64.from_address(address + size - 8).value for address in (ours, theirs))
    if ours_last != theirs_last:
        return False
    words = array("q", _Equal(ours, theirs, size // 8, differs=0))
    launch_at(_addresses(dtype, index)["equal"], words.buffer_info()[0], *tasks_for(count, threads))
    return words[_DIFFERS] == 0
