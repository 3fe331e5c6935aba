"""Sorting, sums, sampling and numbering on a GPU, run by the emulation, against NumPy and the CPU's kernels."""

from __future__ import annotations

import numpy as np
import pytest

from dglite.kernels.cpu.sample import sample as cpu
from dglite.kernels.cuda.graph.argmax import gather, scatter
from dglite.kernels.cuda.graph.convert import TILE, compress, running_sums, sort_by_key
from dglite.kernels.cuda.graph.structure import Structure
from dglite.kernels.cuda.sample.sample import number_ids, sample_neighbors
from tests.kernels.cuda.emulated import GPU, needs_compiler

pytestmark = needs_compiler


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize(("num_rows", "num_edges"), [(5, 40), (300, 3 * TILE + 17), (70_000, 5000), (4, 0), (1, 3)])
def test_compress_is_a_stable_sort(num_rows, num_edges, index):
    rng = np.random.default_rng(0)
    rows, cols = (rng.integers(0, num_rows, num_edges).astype(index) for _ in range(2))
    result = compress(GPU, index, rows.ctypes.data, cols.ctypes.data, num_rows, num_edges)
    order = np.argsort(rows, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=num_rows))])
    np.testing.assert_array_equal(GPU.download(result.indptr.address, num_rows + 1, index), indptr)
    np.testing.assert_array_equal(GPU.download(result.indices.address, num_edges, index), cols[order])
    np.testing.assert_array_equal(GPU.download(result.edge_ids.address, num_edges, index), order)


@pytest.mark.parametrize("count", [0, 1, TILE, 3 * TILE + 5, TILE * TILE // 64])
def test_running_sums(count):
    values = np.random.default_rng(1).integers(-5, 9, count).astype(np.int32)
    held = running_sums(GPU, "int32", values.ctypes.data, count)
    sums = GPU.download(held.address, count + 1, "int64")
    np.testing.assert_array_equal(sums, np.concatenate([[0], np.cumsum(values)]))


def test_sort_by_key_keeps_the_order_of_equal_keys():
    keys = np.array([3, 1, 3, 0, 1, 3])
    result, places = sort_by_key(GPU, "int64", keys.ctypes.data, 6, 4)
    np.testing.assert_array_equal(GPU.download(result.address, 6, "int64"), [0, 1, 1, 3, 3, 3])
    np.testing.assert_array_equal(GPU.download(places.address, 6, "int64"), [3, 1, 4, 0, 2, 5])


def test_a_structure_sorted_on_the_gpu_equals_one_that_was_sent():
    rng = np.random.default_rng(2)
    rows, cols = rng.integers(0, 9, 60).astype(np.int32), rng.integers(0, 7, 60).astype(np.int32)
    result = Structure.sort(GPU, rows, cols, 9)
    order = np.argsort(rows, kind="stable")
    assert (result.num_rows, result.num_entries, result.index) == (9, 60, "int32")
    np.testing.assert_array_equal(GPU.download(result.indices.address, 60, "int32"), cols[order])


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("with_ids", [True, False])
@pytest.mark.parametrize(("fanout", "replace"), [(3, False), (3, True), (40, False), (-1, False), (0, False)])
def test_a_gpu_samples_what_the_cpu_samples(fanout, replace, with_ids, index):
    rng = np.random.default_rng(3)
    degrees = np.array([0, 1, 3, 10, 60, 200, 4])
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(index)
    indices = rng.integers(0, 7, indptr[-1]).astype(index)
    edge_ids = rng.permutation(indptr[-1]).astype(index) if with_ids else np.zeros(0, index)
    seeds, key = np.array([5, 0, 4, 3, 6, 1, 2, 5], index), 12345678901234567
    starts, offsets = np.zeros(len(seeds), np.int64), np.zeros(len(seeds) + 1, np.int64)
    rows = cpu.Rows(indptr, indices, edge_ids, seeds, starts, offsets)
    cpu.row_bounds(rows, fanout, replace, np.empty(2, np.int64))
    want = cpu.Choices(*(np.zeros(offsets[-1], index) for _ in range(3)))
    cpu.uniform_rows(rows, fanout, int(replace), np.int64(key), want, 0, len(seeds))
    structure = Structure.upload(GPU, indptr, indices, edge_ids if with_ids else None)
    result = sample_neighbors(GPU, structure, seeds.ctypes.data, len(seeds), fanout, replace, key)
    assert result.count == offsets[-1]
    np.testing.assert_array_equal(GPU.download(result.offsets.address, len(offsets), "int64"), offsets)
    for memory, expected in zip((result.far, result.near, result.edges), want, strict=True):
        np.testing.assert_array_equal(GPU.download(memory.address, result.count, index), expected)


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("count", [0, 1, 1000])
def test_numbers_follow_the_first_appearance(count, index):
    ids = np.random.default_rng(4).integers(0, 300, count).astype(index)
    result = number_ids(GPU, index, ids.ctypes.data, count)
    seen: dict[int, int] = {}
    want = [seen.setdefault(int(i), len(seen)) for i in ids]
    assert result.count == len(seen)
    np.testing.assert_array_equal(GPU.download(result.numbers.address, count, index), want)
    np.testing.assert_array_equal(GPU.download(result.distinct.address, result.count, index), list(seen))


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("width", [1, 5])
def test_gather_and_scatter_by_argmax(width, index):
    rng = np.random.default_rng(5)
    lookup = rng.integers(0, 6, 20).astype(index)
    argmax = rng.integers(-1, 20, (9, width)).astype(index)
    x, from_rows, out, sums = rng.random((6, width)), rng.random((9, width)), np.zeros((9, width)), np.ones((6, width))
    shape = argmax.shape
    addresses = argmax.ctypes.data, lookup.ctypes.data
    gather("float64", index, shape, *addresses, x.ctypes.data, out.ctypes.data, GPU, 7)
    columns = np.broadcast_to(np.arange(width), shape)
    np.testing.assert_array_equal(out, np.where(argmax < 0, 7.0, x[lookup[argmax], columns]))
    want = np.ones((6, width))
    won = argmax >= 0
    np.add.at(want, (lookup[argmax][won], columns[won]), from_rows[won])
    scatter("float64", index, shape, *addresses, from_rows.ctypes.data, sums.ctypes.data, GPU, 6)
    np.testing.assert_allclose(sums, want)
