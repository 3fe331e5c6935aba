"""Memory that batches use again: never while a tensor is left of it, and no more of it than is in use at a time."""

from __future__ import annotations

import copy
import gc
import pickle

import numpy as np
import pytest
import torch

import dglite
from dglite.backend import memory
from dglite.backend.memory import pool
from dglite.dataloading import DataLoader, NeighborSampler, Sampler
from dglite.dataloading.buffers import SMALL, Buffers
from dglite.dataloading.features import take_rows

SIZE = 2 * SMALL


@pytest.fixture(autouse=True)
def no_free_blocks():
    gc.collect()
    dglite.empty_cache()


def address(array):
    return array.ctypes.data


def wide(num_nodes=2000, width=64):
    """Return a graph of which a batch's features are not small."""
    g = dglite.rand_graph(num_nodes, 8 * num_nodes)
    g.ndata["x"] = torch.arange(float(num_nodes * width)).reshape(num_nodes, width)
    return g


def test_memory_is_lent_again_when_it_came_back():
    buffers = Buffers()
    first = buffers.lend(SIZE)
    place = address(first)
    assert place % 64 == 0 and len(first) == SIZE
    second = buffers.lend(SIZE)
    assert address(second) != place and pool.free_bytes == 0
    del first
    third = buffers.lend(SIZE - 100)
    assert address(third) == place and len(third) == SIZE - 100


@pytest.mark.parametrize(
    "hold",
    [
        lambda x: x,
        lambda x: x[3:5],
        lambda x: x.view(torch.uint8)[7],
        lambda x: x.numpy(),
        lambda x: x.numpy()[1:].reshape(-1)[::2],
        lambda x: x.untyped_storage(),
        lambda x: x.detach(),
        lambda x: np.asarray(memoryview(x.numpy())),
        lambda x: torch.from_dlpack(x),
        lambda x: (x * torch.ones(x.shape[1], requires_grad=True)).sum(),  # saved for its gradient
        lambda x: torch.nn.Parameter(x),
    ],
)
def test_memory_stays_while_anything_refers_to_it(hold):
    buffers, source = Buffers(), torch.rand(3000, 64)
    rows = np.arange(2000)
    with buffers.in_use():
        held = hold(take_rows(source, rows))
        gc.collect()
        assert pool.free_bytes == 0
        other = take_rows(source, rows + 1)
        assert torch.equal(other, source[1:2001])
        del held
        gc.collect()
        assert pool.free_bytes > 0


def test_a_copy_has_memory_of_its_own():
    buffers = Buffers()
    held = buffers.lend(SIZE)
    copied = pickle.loads(pickle.dumps(copy.deepcopy(buffers)))
    assert address(copied.lend(SIZE)) != address(held)


def test_a_block_that_is_too_small_makes_way(monkeypatch):
    monkeypatch.setattr(memory, "MIN_LIMIT", 0)
    buffers = Buffers()
    own = buffers.pool = memory.Pool(lambda: 1 << 30)
    for size in range(SIZE, 2 * SIZE, SIZE // 8):
        del_me = buffers.lend(size)
        del del_me
    assert 0 < own.free_bytes < 2.5 * SIZE


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_that_are_kept_do_not_change(num_workers):
    g = wide()
    sampler = NeighborSampler([4, 4], prefetch_node_feats=["x"])
    loader = DataLoader(g, range(600), sampler, batch_size=60, num_workers=num_workers)
    kept = [(ids, blocks[0].srcdata["x"]) for _ in range(2) for ids, _, blocks in loader]
    addresses = [x.data_ptr() for _, x in kept]
    assert len(set(addresses)) == len(kept)
    for ids, x in kept:
        assert torch.equal(x, g.ndata["x"][ids])


def test_a_loop_that_keeps_nothing_uses_little_memory():
    sampler = NeighborSampler([4, 4], prefetch_node_feats=["x"])
    loader = DataLoader(wide(), range(2000), sampler, batch_size=50)
    most = max(blocks[0].srcdata["x"].nbytes for _, _, blocks in loader)
    gc.collect()
    assert most <= pool.free_bytes <= 3 * most


def test_features_with_gradients_and_others_are_gathered_by_torch():
    rows, buffers = np.array([2, 0, 2]), Buffers()
    for x in (
        torch.rand(3, 4, requires_grad=True),
        torch.rand(4, 3).t(),
        torch.rand(3, 4, dtype=torch.bfloat16),
        torch.rand(3, 4).to_sparse(),
    ):
        with buffers.in_use():
            taken = take_rows(x, rows)
        assert taken.requires_grad == x.requires_grad
        assert torch.equal(taken.to_dense(), x.to_dense()[[2, 0, 2]])


@pytest.mark.parametrize("shape", [(5,), (5, 0), (5, 3), (5, 16), (5, 2, 33)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool])
def test_rows_of_any_width(shape, dtype):
    x = torch.randint(0, 2 if dtype is torch.bool else 100, shape).to(dtype)
    for rows in (np.array([4, 0, 4, 1]), np.array([3], np.int32), np.empty(0, np.int64)):
        taken = take_rows(x, rows)
        assert taken.dtype is dtype and torch.equal(taken, x[torch.from_numpy(rows).long()])


def test_numbers_are_cleared_from_batch_to_batch_and_after_errors():
    g = wide(300, 1)
    sampler = NeighborSampler([3, 3])

    class Broken(Sampler):
        def sample(self, graph, indices):
            if indices[0] == 20:
                raise ValueError("mine")
            return sampler.sample(graph, indices)

    loader = DataLoader(g, range(300), Broken(), batch_size=20)
    with pytest.raises(ValueError, match="mine"):
        list(loader)
    loader = DataLoader(g, range(300), sampler, batch_size=20)
    batches = list(loader) + list(loader)
    (tables,) = loader._buffers._tables.values()
    assert len(tables) == 1 and all((table.values < table.base).all() for table in tables[0])
    assert all(len(ids.unique()) == len(ids) for ids, _, _ in batches)
