"""Gather and scatter with a row index for every element, for the gradients of max and min.

``argmax[i, k]`` is an entry of the structure, -1 for none; ``lookup`` gives the row of an entry, without one the entry
is the row. Columns are dealt to tasks in runs of whole cache lines, so that a scatter needs no atomics and its result
does not depend on the number of threads. Narrow columns run on one thread: scattering into a copy per thread and adding
these up was no faster. Targets of more than a core's cache are asked for some elements ahead, which makes a scatter up
to three times as fast; in the cache it would take a quarter longer.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from ...spec import ITEM_BYTES
from ...words import read_words
from ..compile.jit import compile_kernels
from ..compile.machine import cache_level
from ..run.launch import launch, num_threads

LINE = 64
"""Bytes of a cache line."""
AHEAD = 128
"""Elements between a prefetch and its use by one thread; by several half as many, as two may share a core."""


class _Words(NamedTuple):
    argmax: int
    num_rows: int
    width: int
    source: int
    out: int
    fill: int
    """An element for rows without an entry, when gathering."""
    lookup: int
    ahead: int
    """Rows from an element to the one that is prefetched, when scattering."""


_SOURCE = '''"""Gather and scatter column k of the row of element (i, k) ({dtype}, {index} ids)."""
from dglite.kernels.cpu.lanes import simd

ITEM = {item}
word, prefetch = simd.word, simd.prefetch
index, edge_index = simd.index_loader("{index}"), simd.edge_index_loader("{index}")
load, store = simd.loader("{dtype}", 1), simd.storer("{dtype}", 1)


def gather(args, task, num_tasks):
    {operands}
    {fill}
    if task < 0:
        return
    for i in range(num_rows):
        for k in range(width * task // num_tasks, width * (task + 1) // num_tasks):
            at = i * width + k
            entry = index(argmax, at)
            if entry >= 0:
                row = edge_index(lookup, entry)
                store(out + at * ITEM, load(source + (row * width + k) * ITEM))
            else:
                store(out + at * ITEM, fill)


def scatter(args, task, num_tasks):
    {operands}
    {ahead}
    if task < 0:
        return
    first, last = width * task // num_tasks, width * (task + 1) // num_tasks
    for i in range(num_rows):
        for k in range(first, last):
            at = i * width + k
            if i + ahead < num_rows:
                soon = index(argmax, at + ahead * width)
                if soon >= 0:
                    prefetch(out + (edge_index(lookup, soon) * width + k) * ITEM)
            entry = index(argmax, at)
            if entry >= 0:
                row = edge_index(lookup, entry)
                to = out + (row * width + k) * ITEM
                store(to, load(to) + load(source + at * ITEM))
'''


@cache
def _addresses(dtype: str, index: str) -> tuple[int, int]:
    words = {
        "operands": read_words(_Words._fields, "argmax", "num_rows", "width", "source", "out"),
        "fill": read_words(_Words._fields, "fill", "lookup"),
        "ahead": read_words(_Words._fields, "lookup", "ahead"),
    }
    addresses = compile_kernels("argmax", _SOURCE.format(dtype=dtype, index=index, item=ITEM_BYTES[dtype], **words))
    return addresses["gather"], addresses["scatter"]


Shape = tuple[int, int]


def gather(
    dtype: str, index: str, shape: Shape, argmax: int, lookup: int, x: int, out: int, threads: int, fill: int
) -> None:
    """Set ``out[i, k]`` to ``x[row of argmax[i, k], k]``, to ``fill`` where that is -1."""
    tasks = _num_tasks(dtype, shape, threads)
    launch(_addresses(dtype, index)[0], _Words(argmax, *shape, x, out, fill, lookup, ahead=0), tasks, tasks)


def scatter(
    dtype: str, index: str, shape: Shape, argmax: int, lookup: int, x: int, out: int, threads: int, num_rows: int
) -> None:
    """Add ``x[i, k]`` to ``out[row of argmax[i, k], k]``, (num_rows, width), except where that is -1."""
    if not num_rows:
        return
    tasks = _num_tasks(dtype, shape, threads)
    columns = max(shape[1] // tasks, 1)
    near = num_rows * columns * ITEM_BYTES[dtype] <= 2 * cache_level(2)[0]
    ahead = shape[0] if near else max(AHEAD // min(tasks, 2) // columns, 1)
    launch(_addresses(dtype, index)[1], _Words(argmax, *shape, x, out, 0, lookup, ahead), tasks, tasks)


def _num_tasks(dtype: str, shape: Shape, threads: int) -> int:
    lines = max(shape[1] * ITEM_BYTES[dtype] // LINE, 1)
    return min(num_threads(shape[0] * shape[1], threads), lines)
