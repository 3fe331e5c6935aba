"""Policies of caches, each beside the same in a few lines of Python, read by read."""

from __future__ import annotations

from collections import OrderedDict, deque

import numpy as np
import pytest

from dglite import DGLError
from dglite.dataloading.row_cache import POLICIES, RowCache


class LRU:
    def __init__(self, capacity):
        self.capacity, self.rows = capacity, OrderedDict()

    def __call__(self, key):
        hit = key in self.rows
        if hit:
            self.rows.move_to_end(key)
        elif len(self.rows) == self.capacity:
            self.rows.popitem(last=False)
        self.rows[key] = True
        return hit


class Clock:
    def __init__(self, capacity):
        self.capacity, self.queue, self.read = capacity, deque(), {}

    def __call__(self, key):
        if key in self.read:
            self.read[key] = True
            return True
        if len(self.queue) == self.capacity:
            while self.read[self.queue[0]]:
                self.read[self.queue[0]] = False
                self.queue.rotate(-1)
            del self.read[self.queue.popleft()]
        self.queue.append(key)
        self.read[key] = False
        return False


class Sieve:
    def __init__(self, capacity):
        self.capacity, self.queue, self.read, self.hand = capacity, [], {}, None

    def __call__(self, key):
        if key in self.read:
            self.read[key] = True
            return True
        if len(self.queue) == self.capacity:
            at = 0 if self.hand is None else self.queue.index(self.hand)
            while self.read[self.queue[at]]:
                self.read[self.queue[at]] = False
                at = (at + 1) % len(self.queue)
            del self.read[self.queue.pop(at)]
            self.hand = self.queue[at] if at < len(self.queue) else None
        self.queue.append(key)
        self.read[key] = False
        return False


class S3Fifo:
    def __init__(self, capacity):
        self.capacity, self.small_size = capacity, max(capacity // 10, 1)
        self.small, self.main, self.ghosts, self.read = deque(), deque(), deque(maxlen=capacity), {}

    def __call__(self, key):
        if key in self.read:
            self.read[key] = min(self.read[key] + 1, 3)
            return True
        if len(self.read) == self.capacity:
            self._evict()
        (self.main if key in self.ghosts else self.small).append(key)
        self.read[key] = 0
        return False

    def _evict(self):
        while len(self.small) > self.small_size or not self.main:
            key = self.small.popleft()
            if self.read[key] > 1:
                self.read[key] = 0
                self.main.append(key)
                continue
            del self.read[key]
            self.ghosts.append(key)
            return
        while self.read[self.main[0]]:
            self.read[self.main[0]] -= 1
            self.main.rotate(-1)
        del self.read[self.main.popleft()]


ORACLES = {"lru": LRU, "clock": Clock, "sieve": Sieve, "s3-fifo": S3Fifo}


def test_every_policy_has_an_oracle():
    assert set(ORACLES) == set(POLICIES)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("capacity", [1, 2, 7, 40])
def test_reads_one_after_the_other_are_those_of_the_policy(policy, capacity):
    cache, oracle, rng = RowCache(capacity, policy), ORACLES[policy](capacity), np.random.default_rng(capacity)
    keys = rng.zipf(1.3, 3000) % 100
    hits = []
    for key in keys:
        (slot,) = cache.find(np.array([key]))
        if slot < 0:
            (slot,) = cache.insert(np.array([key]))
        assert 0 <= slot < capacity
        hits.append(oracle(key))
    assert cache.hits == sum(hits) and cache.misses == len(keys) - sum(hits)


@pytest.mark.parametrize("policy", POLICIES)
def test_rows_of_batches_are_where_their_slots_are(policy):
    """A store of one number a row, read through the cache by batches with repeated keys, some larger than the cache."""
    cache, rows, rng = RowCache(20, policy), np.full(20, -1), np.random.default_rng(0)
    for size in (5, 30, 0, 12, 100, 7, 15, 20, 21):
        keys = rng.integers(0, 60, size)
        slots = cache.find(keys)
        assert np.array_equal(rows[slots[slots >= 0]], keys[slots >= 0])
        missing = keys[slots < 0]
        stored = cache.insert(missing)
        assert len(set(stored[stored >= 0].tolist())) == (stored >= 0).sum()
        rows[stored[stored >= 0]] = missing[stored >= 0]
    cache.clear()
    assert (cache.find(np.arange(60)) == -1).all()


def test_what_does_not_fit():
    with pytest.raises(DGLError, match=r"no cache policy 'fifo'; there are \['s3-fifo'"):
        RowCache(3, "fifo")
    with pytest.raises(DGLError, match="number of rows"):
        RowCache(-1)
    empty = RowCache(0)
    assert empty.insert(np.array([1, 2])).tolist() == [-1, -1] and empty.find(np.array([1])).tolist() == [-1]
