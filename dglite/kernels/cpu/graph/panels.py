"""g-SpMM of few sources and wide rows, some columns after the other: each thread copies a panel of the sources' columns
to where its part of a cache holds all of it, and goes through the edges with that.

See docs/decisions/0177-wide-sums-run-in-column-panels.md.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from ....config import num_cores
from ....expr import Call, Constant, Expr, Operand, Side
from ...layout import Pattern
from ...spec import ITEM_BYTES, Prefetch, SpmmSpec, compute_dtype, pieces_of
from ...words import (
    ARGMAX,
    EDGE_IDS,
    FIRST_OPERAND,
    INDPTR,
    INNER,
    NUM_ENTRIES,
    NUM_ROWS,
    OUT,
    WORDS_PER_OPERAND,
    operand_word,
)
from ..compile.jit import compile_kernels
from ..compile.machine import cache_level
from ..lanes.target import cpu
from ..rows.order import order
from ..run.launch import launch, num_calls, num_threads

LINE = 64
"""Bytes of a cache line."""
LEAST_DEGREE = 8
"""Minimum number of entries per row and per source at which a copy and another pass over the rows are faster."""
FITTING = 0.7
"""The part of a thread's cache that a panel may fill."""
DEGREE_PER_CACHE = 16
"""Minimum number of entries per row and source at which panels of one share are faster; of two shares, twice that."""
COLUMNS_PER_ENTRY = 2
"""Columns that are multiplied and copied in the time that a factor costs an entry."""
SHARES = 8
"""Shares of rows that a panel is split into, for threads that have finished their own panels."""
_WORDS = 64
"""Words that a kernel's arguments take at most."""

_SOURCE = '''"""g-SpMM in panels ({dtype}, {index} ids)."""
from dglite.kernels.cpu.lanes import simd
from dglite.kernels.cpu.lanes.atomic import add_to_word, call_at, put_word

ITEM, INDEX, LINE, ROOM = {item}, {id_item}, {line}, {room}
word, index = simd.word, simd.index_loader("{index}")
load, store = simd.loader("{dtype}", 1), simd.storer("{dtype}", 1)
load_line, store_line = simd.loader("float32", 16), simd.storer("float32", 16)
load_many, store_many = simd.loader("{dtype}", LINE // ITEM), simd.storer("{dtype}", LINE // ITEM)
splat = simd.splat("{compute}", LINE // ITEM)


def panels(args, task, num_tasks):
    common, num_words, shares, counters = word(args, 0), word(args, 1), word(args, 2), word(args, 3)
    first, stop, columns, width = word(args, 4), word(args, 5), word(args, 6), word(args, 7)
    whole, last, num_panels = word(args, 8), word(args, 9), word(args, 10)
    place, num_sources, mine = word(args, 11), word(args, 12), word(args, 13) + task * word(args, 14)
    factors, factor_stride = word(args, 15), word(args, 16) * ITEM
    if task < 0:
        return
    indptr, num_rows, num_entries = word(common, {indptr}), word(common, {num_rows}), word(common, {num_entries})
    source, buffer = word(common, place), mine + ROOM
    for i in range(num_words):
        put_word(mine, i, word(common, i))
    for turn in range(first, stop):
        panel = first + (turn - first + (stop - first) * task // num_tasks) % (stop - first)
        start = panel * columns
        size = width - start if panel + 1 == num_panels else columns
        share = add_to_word(counters + 8 * panel, 1)
        if share >= shares:
            continue
        for i in range(num_sources):
            here, there = source + (i * width + start) * ITEM, buffer + i * size * ITEM
            rest = size * ITEM // LINE * (LINE // ITEM)
            if factors == 0:
                for k in range(0, rest, LINE // ITEM):
                    store_line(there + k * ITEM, load_line(here + k * ITEM))
                for k in range(rest, size):
                    store(there + k * ITEM, load(here + k * ITEM))
            else:
                factor = load(factors + i * factor_stride)
                for k in range(0, rest, LINE // ITEM):
                    store_many(there + k * ITEM, load_many(here + k * ITEM) * splat(factor))
                for k in range(rest, size):
                    store(there + k * ITEM, load(here + k * ITEM) * factor)
        put_word(mine, {inner}, size)
        put_word(mine, place, buffer)
        put_word(mine, place + 1, size)
        for i in range(word(args, 17)):
            along = word(args, 18 + i)
            put_word(mine, along, word(common, along) + start * ITEM)
        while share < shares:
            part = (share + panel * shares // num_panels) % shares
            row, high, begin, end = 0, num_rows, num_entries * part // shares, num_entries * (part + 1) // shares
            while row < high:
                middle = (row + high) // 2
                if index(indptr, middle) < begin:
                    row = middle + 1
                else:
                    high = middle
            after, high = num_rows, num_rows
            if part + 1 < shares:
                after = row
                while after < high:
                    middle = (after + high) // 2
                    if index(indptr, middle) < end:
                        after = middle + 1
                    else:
                        high = middle
            out = word(common, {out}) + (row * width + start) * ITEM
            argmax = word(common, {argmax}) + (row * width + start) * INDEX
            kernel = last if panel + 1 == num_panels else whole
            call_at(kernel, mine, row, after, 0, num_entries, out, argmax)
            share = add_to_word(counters + 8 * panel, 1)
'''


class Cache(NamedTuple):
    """The size in bytes of the cache that kernels work from (a core's L2, on AMD's Zen the L3); 0 if unknown."""

    whole: int
    """Bytes of it that sources may fill to be read with all columns, without panels."""
    share: int
    """Bytes of it that one thread may use."""
    most: float
    """How many of its shares a panel may fill if rows have many entries; for max and min, which compute more, one."""
    l2: int
    """The size of a core's own cache: sources that fit in it are read without prefetching."""


@cache
def near_cache() -> Cache:
    """Return a core's L2 cache; on AMD's Zen the L3, from which rows are read nearly as fast."""
    l2, _ = cache_level(2)
    if cpu()[0].startswith("znver"):
        size, sharing = cache_level(3)
        whole = size // 2  # the other half is for data that is read once
        return Cache(whole, whole // min(sharing, num_cores()), FITTING, l2)
    return Cache(l2, l2, 1.6, l2)


@cache
def _address(dtype: str, index: str) -> int:
    structure = {"indptr": INDPTR, "num_rows": NUM_ROWS, "num_entries": NUM_ENTRIES}
    places = {**structure, "inner": INNER, "out": OUT, "argmax": ARGMAX, "line": LINE, "room": 8 * _WORDS}
    id_item = 4 if index == "int32" else 8
    dtypes = {"dtype": dtype, "compute": compute_dtype(dtype), "index": index}
    text = _SOURCE.format(item=ITEM_BYTES[dtype], id_item=id_item, **dtypes, **places)
    return compile_kernels("panels", text)["panels"]


def panelled_operand(spec: SpmmSpec) -> Operand | None:
    """Return the operand whose columns can be split into panels: the only source feature of full width."""
    full = [x for x in spec.operands if spec.patterns[x.slot] is Pattern.FULL]
    of_entries = [x for x in full if x.side in (Side.U, Side.E)]
    plain = not spec.grouped and not spec.more and Pattern.REPEAT not in spec.patterns
    plain = plain and operand_word(len(spec.operands)) <= _WORDS
    return of_entries[0] if plain and len(of_entries) == 1 and of_entries[0].side is Side.U else None


def _without_factor(expr: Expr, factor: Operand) -> Expr | None:
    """Return ``expr / factor`` of a product that has it, else None."""
    if expr == factor:
        return Constant(1.0)
    if isinstance(expr, Call) and expr.op.name == "mul":
        left, right = expr.args
        rest = _without_factor(left, factor)
        if rest is not None:
            return rest * right
        rest = _without_factor(right, factor)
        return None if rest is None else left * rest
    return None


def factor_of_sources(spec: SpmmSpec, operand: Operand) -> tuple[Operand | None, SpmmSpec]:
    """Return a factor per source of ``operand``, to be applied in the copy, and the remaining expression."""
    if spec.reducer.selects or spec.dtype != compute_dtype(spec.dtype) or _without_factor(spec.expr, operand) is None:
        return None, spec
    for x in spec.operands:
        rest = _without_factor(spec.expr, x)
        if x.side is Side.U and spec.patterns[x.slot] is Pattern.SCALAR and rest is not None:
            return x, dataclasses.replace(spec, expr=rest)
    return None, spec


class Panels:
    """Column panels for one kernel. ``address`` compiles a kernel for another specification."""

    def __init__(self, spec: SpmmSpec, width: int, operand: Operand, address: Callable[[SpmmSpec], int]) -> None:
        self.width, self.address = width, address
        self.item = ITEM_BYTES[spec.dtype]
        slots = {x: operand_word(i) for i, x in enumerate(spec.operands)}
        factor, self.spec = factor_of_sources(spec, operand)
        spec = self.spec
        self.factor = None if factor is None else slots[factor]
        self.operand_places = [slots[x] for x in spec.operands]
        places = {x: operand_word(i) for i, x in enumerate(spec.operands)}
        self.place = places[operand]
        self.of_edges = [place for x, place in places.items() if x.side is Side.E]
        full = [x for x in spec.operands if spec.patterns[x.slot] is Pattern.FULL]
        self.along = [places[x] for x in full if x is not operand]
        self.row_bytes = self.width * self.item
        self.cache = near_cache()
        self.most_sources = self.cache.whole // max(self.row_bytes, 1)
        """How many sources fit in the cache with all columns, so that panels are not needed."""
        self.kernel_of = cache(self._kernel)

    def pay(self, num_sources: int, num_rows: int, num_entries: int) -> bool:
        """Whether sources do not fit in the cache, but a panel does, at least mostly, and is read often enough."""
        most = max(self.cache.most, 1.0) if self.spec.reducer.selects else self.cache.most
        if num_sources <= self.most_sources or num_sources * LINE > most * self.cache.share:
            return False
        caches = num_sources * LINE / self.cache.share
        least = LEAST_DEGREE if caches <= FITTING else DEGREE_PER_CACHE * caches
        return num_entries >= least * max(num_sources, num_rows) and (caches <= FITTING or self.row_bytes > LINE)

    def prefetch(self, num_sources: int, columns: int) -> Prefetch:
        """Return which operands to prefetch of sources with ``columns`` columns: those that do not fit in L2."""
        if num_sources * columns * self.item <= self.cache.l2:
            return Prefetch.NOTHING
        return Prefetch.ROWS if num_sources * self.item <= self.cache.l2 // 2 else Prefetch.ALL

    def multiplies_before(self, num_sources: int, num_entries: int) -> bool:
        """Whether a copy of all sources times their factors pays: entries are many, and it lies where all threads read.

        That is the cache that they share, if not in their own, where it was written.
        """
        shared = 2 * self.cache.l2 < num_sources * self.row_bytes <= self.cache.whole // 2
        return self.factor is not None and shared and num_entries * COLUMNS_PER_ENTRY >= num_sources * self.width

    def columns(self, num_sources: int) -> tuple[int, int]:
        """Return how many columns a panel has, and how many panels there are. The last may have a quarter more."""
        lines = max(int(FITTING * self.cache.share) // (num_sources * LINE), 1)
        most = max(self.spec.lanes * self.item // LINE, 1)
        columns = min(1 << lines.bit_length() - 1, most) * LINE // self.item
        return columns, max((self.width + columns * 3 // 4 - 1) // columns, 1)

    def scratch(self, num_sources: int, structure: array[int], threads: int) -> int:
        """Return how many bytes of scratch memory panels need, 0 where panels are not used."""
        num_rows, num_entries = structure[NUM_ROWS], structure[NUM_ENTRIES]
        if not self.pay(num_sources, num_rows, num_entries):
            return 0
        ordered = len(self.of_edges) if structure[EDGE_IDS] else 0
        return threads * self.bytes_of_thread(num_sources) + ordered * num_entries * self.item

    def bytes_of_thread(self, num_sources: int) -> int:
        """Return the bytes of scratch memory per thread: its arguments and its panel."""
        columns, num_panels = self.columns(num_sources)
        size = max(columns, self.width - columns * (num_panels - 1))
        return -(-(8 * _WORDS + num_sources * size * self.item) // 4096) * 4096

    def run(self, words: array[int], num_sources: int, scratch: int, threads: int) -> None:
        """Reduce; ``words`` are the arguments of the kernel of whole rows, ``scratch`` an address."""
        factors = [0, 0] if self.factor is None else words[self.factor : self.factor + 2].tolist()
        words = sum((words[place : place + WORDS_PER_OPERAND] for place in self.operand_places), words[:FIRST_OPERAND])
        work = (words[NUM_ENTRIES] + words[NUM_ROWS]) * self.width
        threads = num_threads(work, threads)
        columns, num_panels = self.columns(num_sources)
        each = self.bytes_of_thread(num_sources)
        self._order_edges(words, scratch + each * threads, threads)
        prefetch = self.prefetch(num_sources, columns)
        kernels = [self.kernel_of(n, prefetch) for n in (columns, self.width - columns * (num_panels - 1))]
        counters = array("q", bytes(8 * num_panels))
        base = [words.buffer_info()[0], len(words), SHARES, counters.buffer_info()[0]]
        shape = [columns, self.width, *kernels, num_panels, self.place, num_sources, scratch, each]
        address = _address(self.spec.dtype, self.spec.index)
        calls = min(num_calls(work, threads), num_panels)
        for call in range(calls):
            bounds = [num_panels * call // calls, num_panels * (call + 1) // calls]
            launch(address, [*base, *bounds, *shape, *factors, len(self.along), *self.along], threads, threads)

    def _order_edges(self, words: array[int], target: int, threads: int) -> None:
        """Copy edge weights to the order of entries: every panel reads them."""
        edge_ids, num_entries = words[EDGE_IDS], words[NUM_ENTRIES]
        if not edge_ids:
            return
        for place in self.of_edges:
            order(self.spec.dtype, self.spec.index, edge_ids, num_entries, words[place], target, threads)
            words[place] = target
            target += num_entries * self.item
        words[EDGE_IDS] = 0

    def _kernel(self, columns: int, prefetch: Prefetch) -> int:
        """Return the address of the kernel for a panel of ``columns`` columns."""
        blocks = columns >= self.spec.lanes
        pieces = pieces_of(columns % self.spec.lanes)
        return self.address(dataclasses.replace(self.spec, blocks=blocks, pieces=pieces, prefetch=prefetch))
