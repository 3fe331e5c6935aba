"""Which rows a cache of limited size keeps, by the policies of web caches; the rows themselves lie elsewhere."""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ..errors import DGLError
from ..kernels import compiled
from ..locks import new_lock
from ..structure.ids import count_of


class CachePolicy(NamedTuple):
    """What happens to a row that is read, and to one that the search for a slot comes by: see ``rows.cache.Slots``."""

    most: int
    refresh: bool
    in_place: bool
    small: float


POLICIES = MappingProxyType(
    {
        "s3-fifo": CachePolicy(most=3, refresh=False, in_place=False, small=0.1),
        "sieve": CachePolicy(most=1, refresh=False, in_place=True, small=0.0),
        "lru": CachePolicy(most=0, refresh=True, in_place=False, small=0.0),
        "clock": CachePolicy(most=1, refresh=False, in_place=False, small=0.0),
    }
)
"""S3-FIFO (Yang et al., 2023), SIEVE (Zhang et al., 2024), least recently used, and the clock (second chance)."""


class RowCache:
    """Slots for ``capacity`` rows by key, integers from 0 on; rows are given up by a policy.

    Raises DGLError: there is no such policy, or ``capacity`` is no count.

    Attributes
    ----------
    hits, misses
        keys that were found, and not.
    lock
        to be held from the call that returns slots until their rows were read or written.
    """

    def __init__(self, capacity: int, policy: str = "sieve") -> None:
        if policy not in POLICIES:
            raise DGLError(f"there is no cache policy {policy!r}; there are {list(POLICIES)}")
        self.policy, self.capacity = policy, count_of(capacity, "the number of rows")
        self.hits = self.misses = 0
        self.lock = new_lock()
        self.clear()

    def clear(self) -> None:
        """Give up all rows."""
        count, rule = self.capacity, POLICIES[self.policy]
        small = max(int(rule.small * count), 1) if rule.small else 0
        links = np.arange(count + 2, dtype=np.int32)  # an end that is its own neighbour is of an empty list
        self._slots = compiled("rows.cache").Slots(
            slot_of=np.empty(0, np.int32),
            ghost_of=np.empty(0, np.int32),
            key_of=np.full(count, -1, np.int64),
            older=links,
            newer=links.copy(),
            list_of=np.ones(count, np.uint8),
            reads=np.zeros(count, np.uint8),
            ghosts=np.full(count if small else 0, -1, np.int64),
            state=np.array([0, 0, 0, -1]),
            most=rule.most,
            refresh=int(rule.refresh),
            in_place=int(rule.in_place),
            small=small,
        )

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Return the slot of each key, -1 if it has none: int64 (len(keys),)."""
        slots = np.empty(len(keys), np.int64)
        missing = compiled("rows.cache").find_rows(self._slots, np.ascontiguousarray(keys, np.int64), slots)
        self.hits, self.misses = self.hits + len(keys) - missing, self.misses + missing
        return slots

    def insert(self, keys: np.ndarray) -> np.ndarray:
        """Return a slot for each key, int64 (len(keys),).

        -1 if a later key needed it, if the key comes again, or if there is no room at all.
        """
        slots = np.full(len(keys), -1, np.int64)
        if len(keys) and self.capacity:
            self._grow(int(keys.max()) + 1)
            compiled("rows.cache").insert_rows(self._slots, np.ascontiguousarray(keys, np.int64), slots)
        return slots

    def _grow(self, count: int) -> None:
        arrays = self._slots
        if count <= len(arrays.slot_of):
            return
        grown = {name: np.full(max(count, 2 * len(arrays.slot_of)), -1, np.int32) for name in ("slot_of", "ghost_of")}
        for name, array in grown.items():
            old = getattr(arrays, name)
            array[: len(old)] = old
        if not arrays.small:
            del grown["ghost_of"]
        self._slots = arrays._replace(**grown)
