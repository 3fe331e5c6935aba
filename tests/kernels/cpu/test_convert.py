"""The compiled sort and searches, in one thread and in several, against NumPy."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from dglite.kernels.cpu.graph import convert


def check(rows, cols, num_rows, threads):
    order = np.argsort(rows, kind="stable")
    indptr, indices, edge_ids = convert.compress(rows, cols, num_rows)
    np.testing.assert_array_equal(np.arange(len(rows)) if edge_ids is None else edge_ids, order)
    for result, actual in ((indptr, indices), convert.sort_rows(rows, num_rows, cols, threads)):
        np.testing.assert_array_equal(np.diff(result), np.bincount(rows, minlength=num_rows))
        np.testing.assert_array_equal(actual, cols[order])
        assert result[0] == 0 and result.dtype == actual.dtype == rows.dtype
    np.testing.assert_array_equal(convert.sort_rows(rows, num_rows, None, threads)[1], order)
    np.testing.assert_array_equal(convert.count_rows(rows, num_rows, threads), np.diff(indptr))
    assert convert.ascending(rows) == (edge_ids is None)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("direct_rows", [1 << 16, 500])
@pytest.mark.parametrize("num_rows", [1, 17, 3000])
def test_sorting_is_stable(monkeypatch, threads, direct_rows, num_rows):
    monkeypatch.setattr(convert, "DIRECT_ROWS", direct_rows)
    rng = np.random.default_rng(0)
    rows, cols = rng.integers(0, num_rows, 4000, np.int32), rng.integers(0, 50, 4000, np.int32)
    check(rows, cols, num_rows, threads)
    check(np.sort(rows), cols, num_rows, threads)
    check(np.full(4000, num_rows - 1, np.int32), cols, num_rows, threads)
    check(np.sort(rows)[::-1], cols, num_rows, threads)


def test_rows_inside_a_bucket_may_need_more_than_16_bits(monkeypatch):
    monkeypatch.setattr(convert, "_BUCKET_BITS", 1)
    rows = np.random.default_rng(0).integers(0, 1 << 19, 3000)
    check(rows, rows[::-1].copy(), 1 << 19, 2)


@pytest.mark.parametrize("num_rows", [1, 40, 5000])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_ranges_of_rows(num_rows, dtype):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, num_rows, 3000).astype(dtype)
    for count in (1, 2, min(num_rows, 30)):
        inner = np.sort(rng.choice(np.arange(1, num_rows), min(count, num_rows) - 1, replace=False))
        bounds = np.concatenate([[0], inner, [num_rows]]).astype(np.int64)
        expected = np.searchsorted(bounds, rows, "right") - 1
        np.testing.assert_array_equal(convert.find_ranges(rows, bounds), expected)


def test_counts_are_added_and_values_keep_their_dtype():
    rows, counts = np.array([2, 0, 2], np.int32), np.array([1, 0, 5])
    convert.add_counts(rows, counts)
    assert counts.tolist() == [2, 0, 7]
    indptr, values = convert.sort_rows(rows, 3, np.array([1 << 40, 7, 8]), 1)
    assert indptr.dtype == np.int32 and values.tolist() == [7, 1 << 40, 8]


@pytest.mark.parametrize("threads", [1, 3])
def test_scatter_undoes_a_gather(threads):
    order = np.random.default_rng(0).permutation(100)
    np.testing.assert_array_equal(convert.scatter(order, order, threads), np.arange(100))


def test_compress_with_int64():
    rng = np.random.default_rng(0)
    check(rng.integers(0, 9, 100), rng.integers(0, 9, 100), 9, 1)


def test_sorted_rows_keep_their_columns():
    cols = np.array([5, 3, 4], np.int32)
    indptr, indices, edge_ids = convert.compress(np.array([0, 2, 2], np.int32), cols, 4)
    assert indptr.tolist() == [0, 1, 1, 3, 3] and indices is cols and edge_ids is None


def test_others_help_any_thread_but_one_at_a_time(monkeypatch):
    started, pool = [], convert.ThreadPoolExecutor
    monkeypatch.setattr(convert, "ThreadPoolExecutor", lambda count: started.append(count) or pool(count))
    rows = np.array([2, 0, 1, 0, 2], np.int32)
    results = []
    worker = threading.Thread(target=lambda: results.append(convert.sort_rows(rows, 3, None, 2)))
    worker.start()
    worker.join()
    assert set(started) == {2}
    started.clear()
    with convert._turn:
        results.append(convert.sort_rows(rows, 3, None, 2))
    assert not started
    for indptr, edge_ids in results:
        assert indptr.tolist() == [0, 2, 3, 5] and edge_ids.tolist() == [1, 3, 2, 0, 4]


@pytest.mark.parametrize("threads", [1, 3])
def test_cast_copies(threads):
    array = np.arange(10)
    result = np.empty(len(array), np.int32)
    convert.cast(array, result, threads)
    assert result.dtype == np.int32 and result.tolist() == list(range(10))


def test_pair_ranges_find_runs_of_equal_columns():
    indptr, indices = np.array([0, 4, 4, 6]), np.array([1, 1, 1, 5, 0, 9])
    rows, cols = np.array([0, 0, 0, 1, 2, 2]), np.array([1, 5, 7, 0, 9, 1])
    first, last = np.empty(6, np.int64), np.empty(6, np.int64)
    convert.pair_ranges(indptr, indices, rows, cols, first, last)
    assert (last - first).tolist() == [3, 1, 0, 0, 1, 0]
    assert first[[0, 1, 4]].tolist() == [0, 3, 5]
