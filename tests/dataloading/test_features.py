"""Stores of features: tensors, mapped files, caches; and loaders that take features from them."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading

import numpy as np
import pytest
import torch

import dglite
from dglite import DGLError
from dglite.dataloading import (
    CachedFeatures,
    DataLoader,
    FeatureStore,
    MappedFeatures,
    NeighborSampler,
    ShaDowKHopSampler,
    TensorFeatures,
    hot_rows,
    row_files,
)
from dglite.dataloading import features as feature_stores
from tests.dataloading.graphs import ring, shop
from tests.patience import PATIENCE

ROWS = [5, 0, 5, 9]


def saved(tmp_path, array, name="x.npy"):
    np.save(tmp_path / name, array)
    return tmp_path / name


def features(dtype="float32", shape=(10, 19)):
    generator = np.random.default_rng(0)
    if dtype == "int8":
        return generator.integers(-128, 128, shape).astype(dtype)
    return (generator.standard_normal(shape) * 10).astype(dtype)


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16"])
@pytest.mark.parametrize("shape", [(10,), (10, 16), (10, 2, 19)])
def test_rows_come_as_they_are_stored_or_widened(tmp_path, mapped, dtype, shape):
    array = features(dtype, shape)
    store = MappedFeatures(saved(tmp_path, array)) if mapped else TensorFeatures(torch.from_numpy(array))
    assert isinstance(store, FeatureStore) and store.num_rows == 10 and store.shape == shape[1:]
    result = store.rows(torch.tensor(ROWS))
    expected = torch.from_numpy(array[ROWS])
    assert torch.equal(result, expected.float() if dtype == "float16" else expected)
    assert store.rows([]).shape == (0, *shape[1:])


def test_float16_keeps_infinities_and_can_stay_float16(tmp_path):
    array = np.array([[np.inf, -np.inf, 6e-8, 65504]] * 2, np.float16)
    assert TensorFeatures(array).rows([1]).tolist() == [[float("inf"), float("-inf"), float(array[0, 2]), 65504.0]]
    assert torch.equal(TensorFeatures(array, widen=False).rows([1]), torch.from_numpy(array[1:]))


def test_bfloat16_is_kept_as_its_bits(tmp_path):
    x = torch.randn(10, 21).bfloat16()
    path = saved(tmp_path, x.view(torch.uint16).numpy())
    assert torch.equal(MappedFeatures(path, dtype="bfloat16").rows(ROWS), x[ROWS].float())
    assert torch.equal(MappedFeatures(path).rows(ROWS).view(torch.bfloat16), x[ROWS])


@pytest.mark.parametrize("scale", [0.5, np.linspace(0.1, 2, 10, dtype=np.float32)])
def test_int8_comes_with_a_scale(tmp_path, scale):
    array = features("int8")
    expected = array[ROWS].astype(np.float32) * (scale if np.ndim(scale) == 0 else scale[ROWS, None])
    for store in (MappedFeatures(saved(tmp_path, array), scale=scale), TensorFeatures(array, scale=scale)):
        assert np.array_equal(store.rows(ROWS).numpy(), expected.astype(np.float32))
    with pytest.raises(DGLError, match="give scale"):
        TensorFeatures(array)
    with pytest.raises(DGLError, match="give no scale"):
        TensorFeatures(features(), scale=2)
    with pytest.raises(DGLError, match="3 scales"):
        TensorFeatures(array, scale=[1, 2, 3])


@pytest.mark.parametrize("seconds", [0, 60], ids=["from the disk", "in memory"])
def test_many_rows_of_a_file_in_many_shares(tmp_path, monkeypatch, seconds):
    monkeypatch.setattr(feature_stores, "_IN_MEMORY", seconds)
    monkeypatch.setattr(feature_stores, "_AT_ONCE", 3000)
    array, read = features(shape=(5000, 16)), []
    store, rows = MappedFeatures(saved(tmp_path, array)), np.random.default_rng(1).integers(5000, size=20_000)
    by_readers = store._run_readers
    monkeypatch.setattr(store, "_run_readers", lambda *given: (read.append(given[1]), by_readers(*given)))
    assert np.array_equal(store.rows(rows).numpy(), array[rows])
    assert torch.equal(CachedFeatures(store, rows[:9]).rows(rows), store.rows(rows))
    assert read[:1] == ([] if seconds else [len(rows) - feature_stores._PROBE])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_file_is_read_in_forks_and_from_pickles(tmp_path):
    array = features(shape=(3000, 4))
    store, rows = MappedFeatures(saved(tmp_path, array)), np.arange(3000)[::-1].copy()
    store.rows(rows)
    child = multiprocessing.get_context("fork").Process(target=_check_rows, args=(store, rows, array))
    child.start()
    child.join(PATIENCE)
    assert child.exitcode == 0
    _check_rows(pickle.loads(pickle.dumps(store)), rows, array)


def _check_rows(store, rows, array):
    assert np.array_equal(store.rows(rows).numpy(), array[rows])


def test_rows_are_written_where_asked(tmp_path):
    array = features()
    store = MappedFeatures(saved(tmp_path, array))
    for out in (torch.empty(4, 19), np.empty((4, 19), np.float32)):
        assert store.rows(ROWS, out=out) is out
        assert np.array_equal(np.asarray(out), array[ROWS])
    for wrong in (torch.empty(3, 19), torch.empty(4, 19).double(), torch.empty(19, 4).t()):
        with pytest.raises(DGLError, match="expected contiguous"):
            store.rows(ROWS, out=wrong)


@pytest.mark.parametrize("ids", [[10], [-1], [0, 99]])
def test_ids_that_are_no_rows(ids):
    with pytest.raises(DGLError, match="row"):
        TensorFeatures(features()).rows(ids)


@pytest.mark.skipif(os.name == "nt", reason="a file that is mapped cannot be cut there")
def test_a_file_that_is_cut_while_it_is_open(tmp_path):
    g, array = ring(12), features(shape=(12, 400))
    path = saved(tmp_path, array)
    store = MappedFeatures(path)
    cached = CachedFeatures(store, [1, 2])
    os.truncate(path, path.stat().st_size - 1)
    for read in (store, cached):
        with pytest.raises(DGLError, match=r"x\.npy was cut short while it is open: it had \d+ bytes, it has \d+"):
            read.rows([0, 1])
    assert torch.equal(cached.rows([2, 1]), torch.from_numpy(array[[2, 1]]))
    sampler = NeighborSampler([2], prefetch_node_feats={"x": store})
    for num_workers in (0, 1):
        with pytest.raises(DGLError, match="cut short") as caught:
            list(DataLoader(g, torch.arange(12), sampler, batch_size=4, num_workers=num_workers))
        assert "indices [0, 1, 2, 3]" in caught.value.__notes__[0]


def test_files_that_cannot_be_mapped(tmp_path):
    path = saved(tmp_path, features())
    content = path.read_bytes()
    for length in (len(content) - 1, 100, 60, 3, 0):
        path.write_bytes(content[:length])
        with pytest.raises(DGLError, match=r"cut short|not read as"):
            MappedFeatures(path)
    with pytest.raises(DGLError, match="does not exist"):
        MappedFeatures(tmp_path / "none.npy")
    for array in (np.asfortranarray(features()), np.array(1.0), features().astype(">f4"), np.array([None])):
        with pytest.raises(DGLError, match="not mapped"):
            MappedFeatures(saved(tmp_path, array))
    with pytest.raises(DGLError, match="complex64"):
        MappedFeatures(saved(tmp_path, np.ones((3, 2), np.complex64)))
    with pytest.raises(DGLError, match="only bfloat16"):
        MappedFeatures(saved(tmp_path, features()), dtype="bfloat16")


def test_a_file_without_rows(tmp_path):
    store = MappedFeatures(saved(tmp_path, np.empty((0, 4), np.float32)))
    assert store.num_rows == 0 and store.rows([]).shape == (0, 4)


# -- caches ------------------------------------------------------------------------------------------------------------
class Own:
    """A store of a user's."""

    num_rows = 10

    def __init__(self, array):
        self.array, self.asked = array, []

    def rows(self, ids, out=None):
        self.asked += np.asarray(ids).tolist()
        return torch.from_numpy(self.array[np.asarray(ids)])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_cache_gives_the_same_rows_and_counts(tmp_path, dtype):
    array = features(dtype)
    store = MappedFeatures(saved(tmp_path, array))
    cached = CachedFeatures(store, [9, 5, 5])
    assert cached.hit_rate == 0
    assert torch.equal(cached.rows(ROWS), store.rows(ROWS)) and (cached.hits, cached.misses) == (3, 1)
    assert cached.rows([]).shape == (0, 19) and cached.hit_rate == 0.75
    for kept in ([], range(10)):
        assert torch.equal(CachedFeatures(store, kept).rows(ROWS), store.rows(ROWS))


def test_a_cache_of_a_store_of_ones_own():
    own = Own(features())
    cached = CachedFeatures(own, [5])
    own.asked.clear()
    assert np.array_equal(cached.rows(ROWS).numpy(), own.array[ROWS]) and own.asked == [0, 9]


def test_hot_rows_are_those_that_batches_need_most():
    g = dglite.graph(([0, 0, 0, 1, 1, 2], [3, 4, 5, 3, 4, 3]))
    loader = DataLoader(g, [3, 4, 5], NeighborSampler([-1]))
    assert hot_rows(loader, 6, 2).tolist() == [0, 1]
    assert sorted(hot_rows(loader, 6, 100).tolist()) == [0, 1, 2, 3, 4, 5]
    loader = DataLoader(shop(), {"item": [0, 1]}, NeighborSampler([-1]), batch_size=2)
    assert sorted(hot_rows(loader, 4, 9, "user").tolist()) == [0, 1, 3]
    with pytest.raises(DGLError, match="ntype"):
        hot_rows(loader, 4, 9)


# -- loaders -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("num_workers", [0, 2])
def test_loaders_take_features_from_stores(tmp_path, num_workers):
    g = ring(40, 4)
    array = features("float16", (40, 8))
    store = CachedFeatures(MappedFeatures(saved(tmp_path, array)), range(10))
    labels, weights = TensorFeatures(torch.arange(40)), TensorFeatures(torch.arange(float(g.num_edges())))
    sampler = NeighborSampler(
        [2, 2], prefetch_node_feats={"h": store}, prefetch_labels={"c": labels}, prefetch_edge_feats={"v": weights}
    )
    for inputs, outputs, blocks in DataLoader(g, range(40), sampler, batch_size=8, num_workers=num_workers):
        assert torch.equal(blocks[0].srcdata["h"], torch.from_numpy(array)[inputs].float())
        assert torch.equal(blocks[-1].dstdata["c"], outputs)
        assert all(torch.equal(block.edata["v"], block.edata[dglite.EID].float()) for block in blocks)
    assert 0 < store.hit_rate < 1
    subgraph = next(iter(DataLoader(g, range(40), ShaDowKHopSampler([2], prefetch_node_feats={"h": store}))))[2]
    assert torch.equal(subgraph.ndata["h"], torch.from_numpy(array)[subgraph.ndata[dglite.NID]].float())


def test_stores_by_type_beside_names():
    store = TensorFeatures(torch.arange(3.0) * 10)
    sampler = NeighborSampler([-1], prefetch_node_feats={"user": ["x"], "item": {"p": store}})
    inputs, _, (block,) = next(iter(DataLoader(shop(), {"user": [0, 1]}, sampler, batch_size=2)))
    assert torch.equal(block.srcnodes["item"].data["p"], inputs["item"] * 10.0)
    assert torch.equal(block.srcnodes["user"].data["x"], inputs["user"] * 1.0)


def test_what_is_no_store():
    loader = DataLoader(ring(), range(3), NeighborSampler([1], prefetch_node_feats={"_N": {"h": 3}}))
    with pytest.raises(DGLError, match="has no rows"):
        next(iter(loader))
    store = TensorFeatures(torch.arange(3.0))
    with pytest.raises(DGLError, match="as a dictionary by type"):
        next(iter(DataLoader(shop(), {"user": [0]}, NeighborSampler([1], prefetch_node_feats={"h": store}))))


def test_a_store_serves_threads_at_once(tmp_path):
    array = features(shape=(3000, 16))
    store = CachedFeatures(MappedFeatures(saved(tmp_path, array)), range(100))
    wrong = []

    def ask(seed):
        for i in range(20):
            rows = np.random.default_rng((seed, i)).integers(3000, size=2000)
            if not np.array_equal(store.rows(rows).numpy(), array[rows]):
                wrong.append((seed, i))

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and store.hits + store.misses == 4 * 20 * 2000


# -- past the page cache -----------------------------------------------------------------------------------------------
def direct(path, **options):
    """Return a store that reads past the page cache; skip the test where the file system refuses that."""
    store = MappedFeatures(path, direct=True, **options)
    if store.direct is None:
        pytest.skip("no direct I/O here")
    return store


@pytest.mark.parametrize("rows", [1, 7, 5000])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8", "int8"])
@pytest.mark.parametrize("shape", [(), (3,), (19,), (128,), (2, 700)])
def test_direct_reads_give_the_same_rows(tmp_path, monkeypatch, rows, dtype, shape):
    monkeypatch.setattr(feature_stores, "_DIRECT_BYTES", 10_000)
    rng = np.random.default_rng(0)
    array = rng.integers(0, 99, (rows, *shape)).astype(dtype)
    options = {"scale": rng.random(rows).astype(np.float32)} if dtype == "int8" else {}
    path = saved(tmp_path, array)
    store, plain = direct(path, **options), MappedFeatures(path, **options)
    for ids in (rng.integers(rows, size=2000), np.arange(rows), np.array([rows - 1]), np.array([], np.int64)):
        assert torch.equal(store.rows(ids), plain.rows(ids))
    cached = CachedFeatures(store, np.arange(rows // 2))
    ids = rng.integers(rows, size=300)
    assert torch.equal(cached.rows(ids), plain.rows(ids))
    assert torch.equal(pickle.loads(pickle.dumps(store)).rows(ids), plain.rows(ids))


def test_direct_reads_join_neighbours_and_are_counted(tmp_path):
    store = direct(saved(tmp_path, np.zeros((10_000, 128), np.float32)))
    store.rows(np.arange(10_000)[::-1].copy())
    size = 10_000 * 512
    assert store.direct.bytes_read < 1.1 * size and store.direct.reads < 100
    before = store.direct.reads, store.direct.bytes_read
    store.rows([5, 5, 5, 9000])
    assert store.direct.reads - before[0] == 2
    assert store.direct.bytes_read - before[1] <= 4 * max(store.direct.block, 512)


def test_direct_reads_of_a_loader_with_workers(tmp_path):
    g, x = ring(200), np.random.default_rng(0).random((200, 30), np.float32)
    path, batches = saved(tmp_path, x), []
    for store in (direct(path), TensorFeatures(x)):
        sampler = NeighborSampler([2, 2], prefetch_node_feats={"x": store})
        dglite.seed(0)
        loader = DataLoader(g, torch.arange(200), sampler, batch_size=20, num_workers=2)
        batches.append([blocks[0].srcdata["x"].clone() for _, _, blocks in loader])
    assert all(torch.equal(a, b) for a, b in zip(*batches, strict=True))


def test_a_file_cut_while_it_is_read_directly(tmp_path):
    path = saved(tmp_path, np.zeros((10_000, 16), np.float32))
    store = direct(path)
    os.truncate(path, 100_000)
    with pytest.raises(DGLError, match=r"x\.npy was cut short while it is open: row 9999"):
        store.rows([3, 9999])
    assert store.rows([3]).shape == (1, 16)


def test_refused_direct_reads_are_logged(tmp_path, monkeypatch, caplog):
    def refuse(*_):
        raise OSError(22, "Invalid argument")

    array = features()
    path = saved(tmp_path, array)
    monkeypatch.setattr(row_files, "_block_of", refuse)
    with caplog.at_level("WARNING", "dglite"):
        store = MappedFeatures(path, direct=True)
    assert store.direct is None and "direct I/O is refused" in caplog.text and "x.npy" in caplog.text
    assert np.array_equal(store.rows(ROWS).numpy(), array[ROWS])


def pages_in_memory(path):
    """Return how many pages of a file are in the page cache."""
    import ctypes
    import mmap

    with path.open("rb") as file:
        memory = mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
    view = np.frombuffer(memory, np.uint8)
    states = (ctypes.c_ubyte * -(-len(view) // mmap.PAGESIZE))()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mincore(ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(len(view)), states) == 0
    return sum(state & 1 for state in states)


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="pages cannot be dropped")
def test_direct_reads_leave_the_page_cache_as_it_is(tmp_path):
    array = np.random.default_rng(0).random((60_000, 64), np.float32)
    path = saved(tmp_path, array)
    store = direct(path)
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    before = pages_in_memory(path)
    ids = np.random.default_rng(1).integers(len(array), size=30_000)
    assert np.array_equal(store.rows(ids).numpy(), array[ids])
    assert pages_in_memory(path) <= before + 8
    MappedFeatures(path).rows(ids)
    assert pages_in_memory(path) > before + 1000
