"""Edge weights in the order of a structure's entries, cached as long as they stay the same.

A g-SpMM reads weights in the order of its rows, by a permutation of the edges: of narrow rows that takes longer than
all else. Weights that come again, bit by bit, are read in a copy in that order. See
docs/decisions/0178-repeated-edge-weights-are-cached-in-row-order.md.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from ..backend import Tensor, active
from ..structure.adjacency import Adjacency
from ..structure.derived import CacheKey, cache_key

LEAST, MOST = 1 << 18, 1 << 23
"""Numbers of edges between which weights are kept. Fewer lie in a cache; more would take memory for seconds."""
SAMPLES = 8
EDGE_IDS, NUM_ENTRIES = 2, 4
"""Indices of words of a structure."""


class _Ordered:
    """The edge weights that were last read with a structure, as a copy in the order of entries."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.latest: Any = None
        self.times, self.needed = 0, 1
        self.copies: tuple[str, Tensor, Tensor] | None = None
        """Their dtype, a copy of them, and the copy in the order of entries."""

    def find(self, structure: Any, index: str, weights: Tensor, threads: int, kernels: Any) -> Tensor | None:
        """Return ``weights`` in the order of entries, or None if they have not been seen often enough."""
        dtype, count, address = active.dtype(weights), structure[NUM_ENTRIES], active.address(weights)
        if self.copies is not None:
            copy_dtype, copy, ordered = self.copies
            if copy_dtype == dtype and kernels.equal(dtype, index, count, address, active.address(copy), threads):
                return ordered
            self.copies, self.needed = None, 2 * self.needed
        sample = dtype, address, *_sample(address, count)
        self.times = self.times + 1 if sample == self.latest else 0
        self.latest = sample
        if self.times < self.needed:
            return None
        copy, ordered = (active.empty((count,), dtype, active.device(weights)) for _ in range(2))
        kernels.copy(dtype, index, count, address, active.address(copy), threads)
        # Of the copy: the weights may be changing at this moment.
        kernels.order(dtype, index, structure[EDGE_IDS], count, active.address(copy), active.address(ordered), threads)
        self.copies, self.times = (dtype, copy, ordered), 0
        return ordered


ORDERED_WEIGHTS: CacheKey[_Ordered] = cache_key("ordered weights", "copies of edge weights in the order of entries")


def _sample(address: int, count: int) -> tuple[int, ...]:
    """Return a few of ``count`` numbers of at least 32 bits, as bits."""
    return tuple([ctypes.c_int32.from_address(address + 4 * (count * i // SAMPLES)).value for i in range(SAMPLES)])


def in_order(adj: Adjacency, structure: Any, index: str, weights: Tensor, device: Any) -> Tensor | None:
    """Return ``weights`` (num_edges, 1), in memory in one piece, in the order of the entries, if they are known."""
    is_permuted = structure[EDGE_IDS] and LEAST <= structure[NUM_ENTRIES] <= MOST
    if not is_permuted or active.dtype(weights) not in ("float32", "float64"):
        return None
    cache = adj.cache.get(ORDERED_WEIGHTS)
    if cache is None:
        cache = adj.cache.setdefault(ORDERED_WEIGHTS, _Ordered())
    if not cache.lock.acquire(blocking=False):
        return None
    try:
        return cache.find(structure, index, weights, device.queue, device.kernels("rows.order"))
    finally:
        cache.lock.release()
