"""Renumbering ids by first appearance, and sets of ids: by a dense table, or by open addressing.

A table with a place for every id is fastest while it fits the cache and costs as much to clear as it is long. Where the
ids are few among many, a hash table of twice their number serves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...density import few_among
from ..compile.written import Kernel
from ..lanes.arrays import address_of
from ..lanes.memory import prefetch

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
"""What keys are multiplied by: 2**64 over the golden ratio, as a signed number."""
_AHEAD = 64
"""Ids between asking for an id's place and using it: whether an id is new cannot be predicted, and a core waits. After
features have gone through the caches the places are far away: 16 takes half as long again."""


@Kernel
def _slot(key: int, mask: int) -> int:
    """Return where to look for ``key`` first: multiplicative hashing (Knuth 6.4), upper bits."""
    return (key * _GOLDEN >> 32) & mask


# -- sets --------------------------------------------------------------------------------------------------------------
def id_set(ids: np.ndarray) -> np.ndarray:
    """Return a hash table of the ids, for :func:`has`; an empty array for no ids."""
    if len(ids) == 0:
        return np.empty(0, np.int64)
    table = np.full(_table_size(len(ids)), -1, np.int64)
    _fill_set(ids, table)
    return table


@Kernel
def _fill_set(ids: np.ndarray, table: np.ndarray) -> None:
    mask = len(table) - 1
    for i in range(len(ids)):
        key = ids[i]
        slot = _slot(key, mask)
        while table[slot] != -1 and table[slot] != key:
            slot = (slot + 1) & mask
        table[slot] = key


@Kernel
def in_set(table: np.ndarray, key: int) -> bool:
    """Whether a set made by :func:`id_set`, not empty, has ``key``."""
    mask = len(table) - 1
    slot = _slot(key, mask)
    while table[slot] != -1 and table[slot] != key:
        slot = (slot + 1) & mask
    return table[slot] == key


def _table_size(count: int) -> int:
    return 1 << max(2 * count - 1, 3).bit_length()


# -- numberings --------------------------------------------------------------------------------------------------------
class Places:
    """A place for each of ``count`` ids, for numberings one after the other.

    What the next one writes is at least ``base``, what is there from earlier ones below: nothing is cleared.
    """

    __slots__ = ("base", "values")

    def __init__(self, count: int, dtype: Any) -> None:
        self.values, self.base = np.full(count, -1, dtype), 0

    def advance(self, used: int) -> None:
        """Finish a numbering that used ``used`` numbers: the next one writes larger values."""
        self.base += used
        if self.base > np.iinfo(self.values.dtype).max // 2:
            self.values.fill(-1)
            self.base = 0


class Numbering:
    """Numbers 0, 1, 2, ... given to ids, int32 or int64, in the order in which they first appear.

    Parameters
    ----------
    count
        ids are below this.
    most
        upper bound of the number of ids given to :meth:`place` and :meth:`add` together.
    dtype
        of the ids.
    places
        of ``count`` ids and that dtype, which are the numbering's until :meth:`close`.
    """

    __slots__ = ("_base", "_dense", "_ids", "_keys", "_places", "_size", "_values")

    def __init__(self, count: int, most: int, dtype: Any, places: Places | None = None) -> None:
        self._ids = np.empty(most + 1, dtype)  # a kernel writes behind the last one
        self._size = np.zeros(1, np.int64)
        most = min(count, most)
        self._places = places
        self._dense = places is not None or not few_among(most, count)
        length = count if self._dense else _table_size(most)
        self._values = np.full(length, -1, dtype) if places is None else places.values
        self._base = 0 if places is None else places.base
        self._keys = np.empty(0, dtype) if self._dense else np.full(length, -1, dtype)

    @property
    def ids(self) -> np.ndarray:
        """The ids that have a number, by number."""
        return self._ids[: self._size[0]]

    def reserve(self, more: int) -> None:
        """Allow ``more`` further ids, in a numbering with ``places``."""
        size = int(self._size[0])
        if size + more >= len(self._ids):
            grown = np.empty(size + more + 1, self._ids.dtype)
            grown[:size] = self._ids[:size]
            self._ids = grown

    def close(self) -> None:
        """Leave the caller's places to another numbering; this one is of no use any more."""
        assert self._places is not None
        self._places.advance(int(self._size[0]))

    def add(self, ids: np.ndarray, numbers: np.ndarray | None = None) -> np.ndarray:
        """Return the number of each id, in ``numbers`` (which may be ``ids``); ids that are new get the next ones."""
        numbers = np.empty(len(ids), self._ids.dtype) if numbers is None else numbers
        if not len(ids):
            return numbers
        if self._dense:
            _add_dense(ids, self._values, self._base, self._ids, self._size, numbers)
        else:
            _add_hashed(ids, self._keys, self._values, self._ids, self._size, numbers)
        return numbers

    def place(self, ids: np.ndarray) -> None:
        """Give ``ids[i]`` the number i, in an empty numbering; of an id that is repeated the last one counts."""
        self._ids[: len(ids)] = ids
        self._size[0] = len(ids)
        if self._dense:
            _place_dense(ids, self._values, self._base)
        else:
            _place_hashed(ids, self._keys, self._values)

    def find(self, ids: np.ndarray, limit: int) -> tuple[np.ndarray, int]:
        """Return the number of each id, and the position of the first whose number is not below ``limit``, else -1."""
        numbers = np.empty(len(ids), self._ids.dtype)
        if not len(ids):
            return numbers, -1
        if self._dense:
            return numbers, _find_dense(ids, self._values, self._base, limit, numbers)
        return numbers, _find_hashed(ids, self._keys, self._values, limit, numbers)


@Kernel
def _add_dense(
    ids: np.ndarray, values: np.ndarray, base: int, listed: np.ndarray, size: np.ndarray, numbers: np.ndarray
) -> None:
    total = size[0]
    for i in range(len(ids)):
        if i + _AHEAD < len(ids):
            prefetch(address_of(values, ids[i + _AHEAD]))
        # Without a branch, which could not be predicted.
        key = ids[i]
        previous = values[key] - base
        number = previous if previous >= 0 else total
        values[key] = number + base
        listed[total] = key
        numbers[i] = number
        total += previous < 0
    size[0] = total


@Kernel
def _add_hashed(
    ids: np.ndarray, keys: np.ndarray, values: np.ndarray, listed: np.ndarray, size: np.ndarray, numbers: np.ndarray
) -> None:
    total, mask = size[0], len(keys) - 1
    for i in range(len(ids)):
        if i + _AHEAD < len(ids):
            prefetch(address_of(keys, _slot(ids[i + _AHEAD], mask)))
        key = ids[i]
        slot = _slot(key, mask)
        while keys[slot] != key and keys[slot] != -1:
            slot = (slot + 1) & mask
        if keys[slot] == -1:
            keys[slot] = key
            values[slot] = total
            listed[total] = key
            total += 1
        numbers[i] = values[slot]
    size[0] = total


@Kernel
def _place_dense(ids: np.ndarray, values: np.ndarray, base: int) -> None:
    for i in range(len(ids)):
        values[ids[i]] = base + i


@Kernel
def _place_hashed(ids: np.ndarray, keys: np.ndarray, values: np.ndarray) -> None:
    mask = len(keys) - 1
    for i in range(len(ids)):
        slot = _slot(ids[i], mask)
        while keys[slot] != ids[i] and keys[slot] != -1:
            slot = (slot + 1) & mask
        keys[slot] = ids[i]
        values[slot] = i


@Kernel
def _find_dense(ids: np.ndarray, values: np.ndarray, base: int, limit: int, numbers: np.ndarray) -> int:
    missing = -1
    for i in range(len(ids)):
        # Samples list a node's edges one after the other.
        if i > 0 and ids[i] == ids[i - 1]:
            numbers[i] = numbers[i - 1]
            continue
        number = values[ids[i]] - base
        numbers[i] = number
        if (number < 0 or number >= limit) and missing < 0:
            missing = i
    return missing


@Kernel
def _find_hashed(ids: np.ndarray, keys: np.ndarray, values: np.ndarray, limit: int, numbers: np.ndarray) -> int:
    missing, mask = -1, len(keys) - 1
    for i in range(len(ids)):
        if i > 0 and ids[i] == ids[i - 1]:
            numbers[i] = numbers[i - 1]
            continue
        slot = _slot(ids[i], mask)
        while keys[slot] != ids[i] and keys[slot] != -1:
            slot = (slot + 1) & mask
        number = values[slot] if keys[slot] != -1 else -1
        numbers[i] = number
        if (number < 0 or number >= limit) and missing < 0:
            missing = i
    return missing
