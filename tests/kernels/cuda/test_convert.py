"""Sorting, sums, sampling and numbering on a GPU, run by the emulation, against NumPy and the CPU's kernels."""

from __future__ import annotations

import numpy as np
import pytest

from dglite.kernels.cpu.sample import sample as cpu
from dglite.kernels.cuda.graph import convert
from dglite.kernels.cuda.graph.argmax import gather, scatter
from dglite.kernels.cuda.graph.convert import TILE, compress, running_sums, sort_by_key
from dglite.kernels.cuda.graph.structure import Structure
from dglite.kernels.cuda.sample.number import DeviceNumbering
from dglite.kernels.cuda.sample.sample import Counters, Ids, sample_neighbors
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


def test_the_counts_of_more_blocks_than_a_tile_are_summed():
    blocks = 2 * TILE + 100  # a sort of that many edges takes too long here
    counts = np.random.default_rng(2).integers(0, 9, (256, blocks))
    sums, totals = counts.copy(), np.full(256, -1)
    words = [sums.ctypes.data, totals.ctypes.data, blocks]
    GPU.launch(convert._program("int32"), "scan", (256, 1), words)
    np.testing.assert_array_equal(sums, np.cumsum(counts, 1) - counts)
    np.testing.assert_array_equal(totals, counts.sum(1))


@pytest.mark.parametrize("length", [1, 32, 33, 1000])
def test_many_winners_of_one_place_are_added_up(length):
    places = np.concatenate([np.full(5, 3), np.full(length, 1), [-1, 0, 2]]).astype("int32")
    x, sums = np.random.default_rng(3).random((len(places), 1)), np.ones(4)
    expected = sums + [x[places == row].sum() for row in range(4)]
    addresses = places.ctypes.data, 0, x.ctypes.data, sums.ctypes.data
    scatter("float64", "int32", (len(places), 1), *addresses, GPU, 4)
    np.testing.assert_allclose(sums, expected, rtol=1e-12)


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
@pytest.mark.parametrize("room", [8, 11])
@pytest.mark.parametrize(("fanout", "replace"), [(3, False), (3, True), (40, False), (-1, False), (0, False)])
def test_a_gpu_samples_what_the_cpu_samples(fanout, replace, room, with_ids, index):
    """``room``: the most seeds that there can be; where that is more, the device alone knows how many."""
    rng = np.random.default_rng(3)
    degrees = np.array([0, 1, 3, 10, 60, 200, 4])
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(index)
    indices = rng.integers(0, 7, indptr[-1]).astype(index)
    edge_ids = rng.permutation(indptr[-1]).astype(index) if with_ids else np.zeros(0, index)
    seeds, key = np.array([5, 0, 4, 3, 6, 1, 2, 5], index), 12345678901234567
    starts, offsets = np.zeros(len(seeds), np.int64), np.zeros(len(seeds) + 1, np.int64)
    rows = cpu.Rows(indptr, indices, edge_ids, seeds, starts, offsets)
    cpu.row_bounds(rows, fanout, replace, np.empty(4, np.int64))
    want = cpu.Choices(*(np.zeros(offsets[-1], index) for _ in range(3)))
    cpu.uniform_rows(rows, fanout, int(replace), np.int64(key), want, 0, len(seeds))
    structure = Structure.upload(GPU, indptr, indices, edge_ids if with_ids else None)
    numbers, ids = np.array([len(seeds), 0, 0]), np.concatenate([seeds, np.full(3, 99, index)])
    count, missing, total = (numbers.ctypes.data + 8 * i for i in range(3))
    there = Ids(ids.ctypes.data, room, 0 if room == len(seeds) else count, index)
    result = sample_neighbors(GPU, structure, there, fanout, replace, key, Counters(missing, total))
    assert numbers.tolist() == [len(seeds), 0, offsets[-1]]
    np.testing.assert_array_equal(GPU.download(result.offsets.address, len(offsets), "int64"), offsets)
    for memory, expected in zip((result.far, result.near, result.edges), want, strict=True):
        np.testing.assert_array_equal(GPU.download(memory.address, len(expected), index), expected)
    result = sample_neighbors(GPU, structure, there, fanout, replace, key, Counters(missing, total, numbered=True))
    positions = np.repeat(np.arange(len(seeds)), np.diff(offsets))
    np.testing.assert_array_equal(GPU.download(result.near.address, len(positions), index), positions)


@pytest.mark.parametrize("seed", [-1, 7])
def test_a_seed_that_is_no_row_is_noted(seed):
    structure = Structure.upload(GPU, np.arange(8), np.zeros(7, np.int64))
    seeds, missing = np.array([0, seed, 1]), np.zeros(1, np.int64)
    sample_neighbors(GPU, structure, Ids(seeds.ctypes.data, 3), 2, False, 1, Counters(missing.ctypes.data))
    assert missing[0] == 1


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("count", [0, 1, 1000])
@pytest.mark.parametrize("padding", [0, 5])
def test_numbers_follow_the_first_appearance(padding, count, index):
    """After those of ids that were there before, of which one is given twice."""
    rng, numbers = np.random.default_rng(4), np.array([count, 0, 0, 0])
    first, parts = np.array([7, 3, 7, 900], index), [rng.integers(0, 300, count).astype(index) for _ in range(2)]
    seen, listed, want = {7: 2, 3: 1, 900: 3}, first.tolist(), []
    for part in parts:
        want.append([seen.setdefault(int(i), len(first) - 1 + len(seen) - 2) for i in part])
        listed += [i for i in dict.fromkeys(part.tolist()) if i not in listed]
    numbering = DeviceNumbering(GPU, Ids(first.ctypes.data, 4, 0, index), 2 * (count + padding))
    for i, part in enumerate(parts):
        padded, at = np.concatenate([part, np.full(padding, 900, index)]), numbers.ctypes.data
        ids = Ids(padded.ctypes.data, count + padding, at if padding else 0, index)
        result = numbering.add(ids, at + 8 * (i + 1))
        np.testing.assert_array_equal(GPU.download(result.address, count, index), want[i])
    assert numbers[2] == len(listed)
    np.testing.assert_array_equal(GPU.download(numbering.memory.address, len(listed), index), listed)
    places = numbering.find(Ids(first.ctypes.data, 4, 0, index), 4, at + 24)
    np.testing.assert_array_equal(GPU.download(places.address, 4, index), [2, 1, 2, 3])
    assert numbers[3] == 0
    numbering.find(Ids(first.ctypes.data, 4, 0, index), 3, at + 24)
    assert numbers[3] == 1


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
