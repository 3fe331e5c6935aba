"""Epochs: order, shares of processes, resumption, what indices may be."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

import dglite
from dglite import DGLError
from dglite.dataloading import (
    DataLoader,
    DistNodeDataLoader,
    GraphDataLoader,
    NeighborSampler,
    NodeDataLoader,
    Sampler,
    loader,
)
from dglite.dataloading.order import BatchOrder, Share
from tests.dataloading.graphs import plain, ring, shop


class Given(Sampler):
    """Gives the indices of a batch."""

    def sample(self, g, indices):
        return indices


def batches(indices=range(10), **options):
    return plain(list(DataLoader(ring(), indices, Given(), **options)))


def joined(lists):
    """Return lists one after the other."""
    return [x for part in lists for x in part]


def test_batches_of_indices():
    assert batches(batch_size=4) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert batches(batch_size=4, drop_last=True) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert batches([5, 3]) == [[5], [3]]
    shuffled = batches(batch_size=4, shuffle=True)
    assert sorted(joined(shuffled)) == list(range(10)) and [len(x) for x in shuffled] == [4, 4, 2]
    for options, count in (({}, 10), ({"batch_size": 4}, 3), ({"batch_size": 4, "drop_last": True}, 2)):
        assert len(DataLoader(ring(), range(10), Given(), **options)) == count


def test_batches_have_the_dtype_and_library_of_the_indices():
    for given in (torch.arange(3, dtype=torch.int32), np.arange(3), [0, 1, 2]):
        (batch,) = DataLoader(ring(), given, Given(), batch_size=3)
        assert plain(batch) == [0, 1, 2]
    assert next(iter(DataLoader(ring(), torch.arange(3, dtype=torch.int32), Given()))).dtype == torch.int32
    assert torch.is_tensor(next(iter(DataLoader(ring(), [0], Given()))))


def test_indices_of_several_types():
    given = {"user": torch.tensor([3, 1]), "item": [0, 2, 1]}
    assert batches(given, batch_size=3) == [{"user": [3, 1], "item": [0]}, {"item": [2, 1]}]
    shuffled = batches(given, batch_size=2, shuffle=True)
    assert sorted(x for batch in shuffled for x in batch.get("user", [])) == [1, 3]
    assert sorted(x for batch in shuffled for x in batch.get("item", [])) == [0, 1, 2]


@pytest.mark.parametrize(
    ("indices", "match"),
    [
        (torch.tensor([True, False]), "are a mask"),
        ({"user": torch.ones(4, dtype=torch.bool)}, "'user' are a mask"),
        (torch.rand(3), "must be integers"),
        (torch.zeros(2, 2, dtype=torch.int64), "one-dimensional"),
        (torch.empty(0, dtype=torch.int64), "nothing to load"),
        ({"user": []}, "nothing to load"),
        ({}, "nothing to load"),
    ],
)
def test_what_indices_cannot_be(indices, match):
    with pytest.raises(DGLError, match=match):
        DataLoader(shop(), indices, Given())


def test_epochs_follow_the_seed_or_the_generator():
    def epochs(**options):
        loader = DataLoader(ring(), range(10), Given(), batch_size=4, shuffle=True, **options)
        return [plain(list(loader)) for _ in range(2)]

    dglite.seed(1)
    first = epochs()
    assert first[0] != first[1]
    dglite.seed(1)
    assert epochs() == first and epochs() != first
    for make in (lambda: torch.Generator().manual_seed(3), lambda: np.random.default_rng(3)):
        assert epochs(generator=make()) == epochs(generator=make())


def test_torchs_samplers():
    order = torch.utils.data.SequentialSampler(range(5))
    assert batches(sampler=order, batch_size=3) == [[0, 1, 2], [3, 4]]
    twos = torch.utils.data.BatchSampler([7, 5, 3], 2, drop_last=False)
    loader = DataLoader(ring(), range(10, 20), Given(), batch_sampler=twos)
    assert plain(list(loader)) == [[17, 15], [13]] and len(loader) == 2
    with pytest.raises(IndexError, match="gave 1 to 99; there are 10"):
        batches(sampler=[1, 99])
    for options in ({"sampler": [1], "shuffle": True}, {"batch_sampler": twos, "batch_size": 4}):
        with pytest.raises(ValueError, match="decides"):
            batches(**options)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("taken", [0, 2, 4])
def test_an_epoch_goes_on_where_it_was_left(taken, num_workers):
    def loader():
        options = {"batch_size": 3, "shuffle": True, "num_workers": num_workers}
        return DataLoader(ring(), range(12), NeighborSampler([1, 1]), **options)

    first = loader()
    list(first)
    epoch = iter(first)
    for _ in range(taken):
        next(epoch)
    state = first.state_dict()
    rest, following = plain(list(epoch)), plain(list(first))
    second = loader()
    second.load_state_dict(state)
    if taken < 4:
        assert second.state_dict() == state and plain(list(second)) == rest and len(rest) == 4 - taken
    assert plain(list(second)) == following
    assert second.state_dict() == {**state, "epoch": 3, "position": 0}


def test_states_that_do_not_fit():
    loader = DataLoader(ring(), range(4), Given())
    state = loader.state_dict()
    with pytest.raises(DGLError, match="has seed, epoch and position"):
        loader.load_state_dict({"epoch": 1})
    for key, value in (("position", 1.5), ("position", -1), ("epoch", "2"), ("seed", None), ("epoch", True)):
        with pytest.raises(DGLError, match=f"the {key} in the state of a loader must be an integer >= 0, got"):
            loader.load_state_dict({**state, key: value})
    with pytest.raises(DGLError, match="is a dictionary"):
        loader.load_state_dict([1, 0, 0])
    with pytest.raises(DGLError, match="the epoch in the state"):
        loader.set_epoch(0.5)
    assert loader.state_dict() == state, "a state that is refused changes nothing"
    loader.load_state_dict({**state, "position": np.int64(2), "epoch": torch.tensor(0)})
    assert len(list(loader)) == 2
    loader.load_state_dict({"seed": 1, "epoch": 0, "position": 5})
    with pytest.raises(DGLError, match="batch 5 of an epoch, but epochs have 4"):
        iter(loader)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("count", "drop_last"), [(12, False), (11, False), (11, True), (2, False)])
def test_shares_of_processes(count, drop_last, shuffle):
    size, lists = 3, []
    for rank in range(size):
        order = BatchOrder(count, 2, drop_last, shuffle, None, None, rank, Share(rank, size, seed=7))
        shares = [np.concatenate(order.of_epoch(epoch)).tolist() for epoch in range(2)]
        assert len(order) == len(order.of_epoch(0)) and (not shuffle or count < 4 or shares[0] != shares[1])
        lists.append(shares[0])
    assert len({len(share) for share in lists}) == 1
    given = sorted(joined(lists))
    if drop_last:  # whole batches only, and as many for all
        assert len(set(given)) == len(given) == count // (2 * size) * 2 * size
    else:
        assert set(given) == set(range(count)) and len(given) == -(-count // size) * size


def test_ddp_needs_a_group_of_processes(monkeypatch):
    with pytest.raises(DGLError, match="init_process_group"):
        batches(use_ddp=True)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    shares = []
    for rank in range(2):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
        shares.append(joined(batches(use_ddp=True, shuffle=True)))
    assert sorted(shares[0] + shares[1]) == list(range(10))
    with pytest.raises(ValueError, match="use_ddp=True decides"):
        batches(use_ddp=True, sampler=[1])


def test_dgls_arguments_are_accepted():
    g = ring()
    loader = DataLoader(
        g,
        torch.arange(4),
        NeighborSampler([1], fused=False),
        "cpu",
        use_prefetch_thread=False,
        use_alternate_streams=False,
        pin_prefetcher=False,
        use_uva=False,
        gpu_cache={},
        pin_memory=True,
        persistent_workers=True,
        num_workers=1,
    )
    with loader.enable_cpu_affinity(loader_cores=[0], compute_cores=[1], verbose=False):
        assert len(list(loader)) == len(loader) == 4
    assert loader.graph is g and loader.device == "cpu"
    with pytest.warns(DeprecationWarning, match="NodeDataLoader is deprecated"):
        assert len(list(NodeDataLoader(g, torch.arange(4), NeighborSampler([1]), batch_size=2))) == 2
    with pytest.raises(DGLError, match=r"dglite\.distributed"):
        DistNodeDataLoader(g, [0], NeighborSampler([1]))


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"worker_init_fn": 3}, TypeError, "worker_init_fn must be a function or None, got 3"),
        ({"drop_last": 3}, ValueError, "drop_last must be True or False, got 3"),
        ({"drop_last": None}, ValueError, "drop_last must be"),
        ({"shuffle": "no"}, ValueError, "shuffle must be True or False, got 'no'"),
        ({"shuffle": 0.5}, ValueError, "shuffle must be"),
        ({"use_ddp": "env"}, ValueError, "use_ddp must be"),
        ({"ddp_seed": 0.5}, ValueError, "ddp_seed must be an integer"),
        ({"ddp_seed": -1}, ValueError, "ddp_seed must be an integer >= 0"),
        ({"generator": 3}, TypeError, "torch's or NumPy's Generator or None, got 3"),
        ({"sampler": 3}, TypeError, "sampler must be a list of positions"),
        ({"sampler": iter([1])}, TypeError, "sampler must be a list of positions"),
        ({"batch_sampler": ([i] for i in range(2))}, TypeError, "batch_sampler must be a list of lists"),
        ({"prefetch_factor": 1.5}, ValueError, "prefetch_factor must be an integer"),
        ({"num_workers": True}, ValueError, "num_workers must be an integer"),
        ({"batch_size": 2.0}, ValueError, "batch_size must be an integer"),
    ],
)
@pytest.mark.parametrize("make", [partial(DataLoader, ring(), range(4), Given()), partial(GraphDataLoader, [ring()])])
def test_arguments_of_another_kind(make, options, error, match):
    with pytest.raises(error, match=match):
        make(**options)


def test_flags_are_those_of_torch_and_numpy():
    for value in (True, 1, np.True_):
        loader = DataLoader(ring(), range(5), Given(), batch_size=2, drop_last=value, shuffle=value)
        assert len(loader) == 2 and loader.shuffle is True
    assert DataLoader(ring(), range(5), Given(), shuffle=None).shuffle is False


def test_what_is_no_graph_or_sampler():
    with pytest.raises(TypeError, match="takes a graph"):
        DataLoader([ring()], [0], Given())
    with pytest.raises(TypeError, match="is no sampler"):
        DataLoader(ring(), [0], [5, 5])


@pytest.mark.parametrize(
    ("num_workers", "given", "expected"), [(0, None, 0), (1, None, 2), (3, None, 6), (8, None, 6), (8, 2, 16)]
)
def test_more_threads_than_cores_hold_no_more_batches(monkeypatch, num_workers, given, expected):
    monkeypatch.setattr(loader, "num_cores", lambda: 4)
    held = []
    monkeypatch.setattr(loader, "Ordered", lambda produce, first, count, workers, ahead, begin: held.append(ahead))
    iter(DataLoader(ring(), range(12), NeighborSampler([2]), num_workers=num_workers, prefetch_factor=given))
    assert held == [expected]
