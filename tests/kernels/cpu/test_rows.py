"""Shares of rows cover every row once, on one thread and on several."""

from __future__ import annotations

import numpy as np
import pytest

from dglite.kernels.cpu.run import launch
from dglite.kernels.cpu.run.rows import run_rows
from dglite.kernels.cpu.sample import sample


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("num_rows", [0, 1, 2, 100])
def test_shares_cover_every_row(monkeypatch, index, num_rows):
    monkeypatch.setattr(launch, "PARALLEL_FROM", 0)
    rng = np.random.default_rng(0)
    degrees = rng.integers(0, 9, num_rows)
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(index)
    indices, edge_ids = rng.integers(0, 50, indptr[-1]).astype(index), rng.permutation(indptr[-1]).astype(index)
    seeds = rng.permutation(num_rows)
    results = []
    for threads in (1, 2):
        starts, offsets = np.empty(num_rows, np.int64), np.empty(num_rows + 1, np.int64)
        rows = sample.Rows(indptr, indices, edge_ids, seeds, starts, offsets)
        sizes = np.empty(4, np.int64)
        sample.row_bounds(rows, 4, False, sizes)
        assert sizes[0] == max(degrees, default=0) and offsets[-1] == np.minimum(degrees, 4).sum()
        outputs = sample.Choices(*(np.full(offsets[-1], -1, index) for _ in range(3)))
        run_rows(sample.uniform_rows, num_rows, 1 << 20, threads, rows, 4, 0, 7, outputs)
        results.append(outputs)
        far, near, edges = outputs
        entry = np.empty(len(edge_ids), np.int64)
        entry[edge_ids] = np.arange(len(edge_ids))
        assert np.array_equal(indices[entry[edges]], far)
        assert np.array_equal(np.repeat(seeds, np.diff(offsets)), near)
        assert ((indptr[near] <= entry[edges]) & (entry[edges] < indptr[near + 1])).all()
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)
