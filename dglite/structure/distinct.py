"""Sets of ids: distinct ids, whether ids are in a set, and new numbers for them.

Every function takes memory and time by the ids that it gets where those are few among all
(:func:`~dglite.kernels.density.few_among`), and a table with a place for every id elsewhere. They replace
``np.unique`` and NumPy's set functions, which hash since NumPy 2.3: 1M ids take 60 times as long as to sort.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backend import active
from ..kernels import compiled
from ..kernels.density import few_among
from .compressed import SMALL
from .ids import largest_unsigned

KEY_BITS = 63
"""The most bits of values that are sorted as one number."""

Pairs = list[tuple[np.ndarray, np.ndarray]]
"""Sources and destinations of each relation's edges."""


def distinct(values: np.ndarray) -> np.ndarray:
    """Return the distinct values of an array, ascending, in its dtype; each NaN counts as another value."""
    values = values.reshape(-1)
    if len(values) > SMALL and values.dtype.kind == "i":
        count = largest_unsigned(values) + 1  # negative numbers are beyond any table
        if not few_among(len(values), count):
            return _marks(values, count).nonzero()[0].astype(values.dtype, copy=False)
    ascending = np.sort(values)
    return ascending[_first_of_runs(ascending)]


def _first_of_runs(ascending: np.ndarray) -> np.ndarray:
    """Return whether each value differs from the value before it."""
    first = np.empty(len(ascending), np.bool_)
    first[:1] = True
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    return first


def numbered(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values, ascending, and for each value its place among them, int64."""
    values = values.reshape(-1)
    if len(values) > SMALL and values.dtype.kind == "i":
        count, bits = largest_unsigned(values) + 1, len(values).bit_length()
        if not few_among(len(values), count):
            marks = _marks(values, count)
            places = np.cumsum(marks, dtype=np.int64)
            return marks.nonzero()[0].astype(values.dtype, copy=False), places[values] - 1
        if count.bit_length() + bits <= KEY_BITS:
            # Values with their positions as keys: those are sorted several times as fast as positions by value.
            keys = np.sort(values.astype(np.int64) << bits | np.arange(len(values)))
            ascending, order = keys >> bits, keys & ((1 << bits) - 1)
            first = _first_of_runs(ascending)
            inverse = np.empty(len(values), np.int64)
            inverse[order] = np.cumsum(first) - 1
            return ascending[first].astype(values.dtype, copy=False), inverse
    return np.unique(values, return_inverse=True)


def contains(sought: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return whether each of ``ids`` is among ``sought``; both are integers, in any order, repeated or not."""
    if not len(sought) or not len(ids):
        return np.zeros(len(ids), np.bool_)
    count = largest_unsigned(sought) + 1
    if not few_among(len(ids) + len(sought), count):
        marks, inside = _marks(sought, count), (ids >= 0) & (ids < count)
        is_member: np.ndarray = inside & marks[np.where(inside, ids, 0)]
        return is_member
    ascending = np.sort(sought)
    return ascending[np.minimum(np.searchsorted(ascending, ids), len(ascending) - 1)] == ids


def _marks(ids: np.ndarray, count: int) -> np.ndarray:
    marks = np.zeros(count, np.bool_)
    marks[ids] = True
    return marks


def in_order_of_appearance(ids: np.ndarray) -> np.ndarray:
    """Return the distinct ids, which are not negative, each where it comes up first."""
    return renumbered(ids, int(ids.max(initial=-1)) + 1)[0]


def renumbered(ids: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct ids in the order of their first appearance, and for each id its place among them.

    ``ids`` are in ``[0, count)``. Both results have their dtype.
    """
    if len(ids) > SMALL:
        numbering = compiled("sample.hashing").Numbering(count, len(ids), ids.dtype)
        numbers = numbering.add(np.ascontiguousarray(ids))
        return numbering.ids.copy(), numbers  # a copy: the numbering has room for as many ids as came
    if few_among(len(ids), count):
        ascending, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
        order = np.argsort(first)
        numbers = np.empty(len(order), ids.dtype)
        numbers[order] = np.arange(len(order))
        return ascending[order], numbers[inverse]
    places, table = np.arange(len(ids), dtype=ids.dtype), np.empty(count, ids.dtype)
    table[ids[::-1]] = places[::-1]  # of several values for one entry, the last one stays
    listed = ids[table[ids] == places]
    table[listed] = places[: len(listed)]
    return listed, table[ids]


def renumbered_ends(
    pairs: Pairs,
    sets: Sequence[tuple[int, int]],
    first: list[np.ndarray],
    counts: Sequence[int],
    renumber: Callable[[Any, int], tuple[Any, Any]] | None = None,
) -> tuple[list[np.ndarray], Pairs]:
    """Return the nodes of each set in the order in which edges name them, and the edges' ends in these numbers.

    ``sets`` has the source and the destination set of each relation, ``first`` the nodes that come before all others,
    ``counts`` the number of nodes, by set. A relation's sources come before its destinations. Of edges on a device,
    ``renumber`` numbers ids as :func:`renumbered` does.
    """
    named = [[ids] for ids in first]
    for pair, ends in zip(pairs, sets, strict=True):
        for ids, node_set in zip(pair, ends, strict=True):
            named[node_set].append(ids)
    nodes, numbers = [], []
    for parts, count in zip(named, counts, strict=True):
        if renumber is None:
            listed, places = renumbered(np.concatenate(parts), count)
        else:
            listed, places = renumber(active.concat(parts), count)
        nodes.append(listed)
        cuts = [0, *itertools.accumulate(map(len, parts))]
        numbers.append(iter([places[lo:hi] for lo, hi in itertools.pairwise(cuts)][1:]))
    # A set's numbers come in the order in which the loop above took its ids.
    return nodes, [(next(numbers[src_set]), next(numbers[dst_set])) for src_set, dst_set in sets]


class Positions:
    """Where ids are in an array of distinct ids.

    Parameters
    ----------
    ids
        integers in ``[0, count)``.

    Attributes
    ----------
    table
        the position of each of ``count`` ids, -1 for others; None where ``ids`` are few among them.
    """

    __slots__ = ("_ascending", "_numbering", "_order", "size", "table")

    def __init__(self, ids: np.ndarray, count: int, dtype: np.dtype) -> None:
        self.size, self._numbering, self.table = len(ids), None, None
        if not few_among(len(ids), count):
            self.table = np.full(count, -1, dtype)
            self.table[ids] = np.arange(len(ids), dtype=dtype)
        elif len(ids) > SMALL:
            self._numbering = compiled("sample.hashing").Numbering(count, len(ids), dtype)
            self._numbering.place(ids.astype(dtype))
        else:
            self._order = np.argsort(ids, kind="stable").astype(dtype)
            self._ascending = ids[self._order].astype(dtype)

    def find(self, ids: np.ndarray) -> np.ndarray:
        """Return the position of each id, -1 for one that is not there."""
        if self.table is not None:
            return self.table[ids]
        if self._numbering is not None:
            numbers: np.ndarray = self._numbering.find(np.ascontiguousarray(ids), self.size)[0]
            return numbers
        if not self.size:
            return np.full(len(ids), -1, self._order.dtype)
        at = np.minimum(np.searchsorted(self._ascending, ids), self.size - 1)
        return np.where(self._ascending[at] == ids, self._order[at], self._order.dtype.type(-1))
