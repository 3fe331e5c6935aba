"""Numbering ids and sets of ids, both ways, against dictionaries and sets."""

from __future__ import annotations

import numpy as np
import pytest

from dglite.kernels import density
from dglite.kernels.cpu.sample import hashing


def contains(table, keys):
    return np.array([hashing.in_set(table, int(key)) for key in keys])


@pytest.mark.parametrize("count", [1, 2, 3, 100, 5000])
def test_sets(count):
    rng = np.random.default_rng(0)
    ids, keys = rng.integers(0, 10_000, count), np.arange(10_000)
    assert np.array_equal(contains(hashing.id_set(ids), keys), np.isin(keys, ids))
    assert len(hashing.id_set(ids[:0])) == 0


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("ratio", [0, 1 << 40], ids=["hashed", "dense"])
def test_numbers_by_first_appearance(monkeypatch, ratio, dtype):
    monkeypatch.setattr(density, "DENSE_RATIO", ratio)
    monkeypatch.setattr(density, "SHORT_TABLE", 0)
    rng = np.random.default_rng(0)
    first, more = rng.permutation(5000)[:40].astype(dtype), rng.integers(0, 5000, 3000).astype(dtype)
    numbering = hashing.Numbering(5000, len(first) + len(more), dtype)
    numbering.place(first)
    expected = {key: i for i, key in enumerate(first.tolist())}
    numbers = [expected.setdefault(key, len(expected)) for key in more.tolist()]
    assert numbering.add(more[:1000]).tolist() + numbering.add(more[1000:]).tolist() == numbers
    assert numbering.ids.tolist() == list(expected) and numbering.ids.dtype == dtype


def test_numberings_follow_each_other_in_places_that_nobody_clears():
    places = hashing.Places(10, np.int32)
    for base in (0, 2**30 - 5, 0):  # the second is the last before the places start anew
        places.base = max(places.base, base)
        for ids in ([7, 2, 7], [2, 9], [], [0, 9, 9]):
            numbering = hashing.Numbering(10, 0, np.int32, places)
            numbering.reserve(2 * len(ids) + 1)
            numbering.place(np.array(ids[:1], np.int32))
            assert numbering.add(np.array(ids, np.int32)).tolist() == [list(dict.fromkeys(ids)).index(i) for i in ids]
            assert numbering.find(np.array([5], np.int32), 10)[1] == 0
            numbering.close()
        assert 0 <= places.base < 2**30


@pytest.mark.parametrize("ratio", [0, 1 << 40], ids=["hashed", "dense"])
def test_finding(monkeypatch, ratio):
    monkeypatch.setattr(density, "DENSE_RATIO", ratio)
    monkeypatch.setattr(density, "SHORT_TABLE", 0)
    numbering = hashing.Numbering(1000, 6, np.int64)
    numbering.place(np.array([5, 900]))
    assert numbering.add(np.array([900, 7, 5, 7])).tolist() == [1, 2, 0, 2]
    numbers, missing = numbering.find(np.array([7, 5, 6, 6]), 3)
    assert numbers.tolist() == [2, 0, -1, -1] and missing == 2
    assert numbering.find(np.array([5, 7, 7]), 2)[1] == 1
    assert numbering.find(np.array([5, 7, 7]), 3)[1] == -1
