"""The layers of a batch made in one go: the blocks that are made one by one, and the law of drawing around edges."""

from __future__ import annotations

import gc
import pickle
import weakref
from collections import Counter

import numpy as np
import pytest
import torch

import dglite
from dglite.dataloading import DataLoader, LaborSampler, NeighborSampler
from dglite.dataloading import neighbor_sampler as module
from tests.dataloading.graphs import check_blocks, plain, shop


def random_graph():
    return dglite.rand_graph(300, 4000)


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize(
    ("graph", "indices"),
    [
        (random_graph, range(100)),
        (random_graph, [3, 3, 5, 7, 7]),
        (lambda: random_graph().int(), range(50)),
        (shop, {"user": [0, 2, 3], "item": [1, 2]}),
    ],
)
def test_blocks_are_those_made_one_by_one(monkeypatch, graph, indices, replace):
    g = graph()
    sampler = NeighborSampler([3, 2 if replace else -1, 2], replace=replace)

    def batches():
        dglite.seed(1)
        return plain(list(DataLoader(g, indices, sampler, batch_size=7)))

    together = batches()
    monkeypatch.setattr(module, "sample_layers", lambda *arguments: None)
    assert together == batches()


@pytest.mark.parametrize("graph", [random_graph, shop])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"layer_dependency": True, "batch_dependency": 3},
        {"importance_sampling": 1},
        {"prob": "w"},
    ],
)
def test_blocks_of_labor_are_those_made_one_by_one(monkeypatch, graph, options):
    g = graph()
    for i, etype in enumerate(g.canonical_etypes):
        if i == 0:
            g.edges[etype].data["w"] = torch.rand(g.num_edges(etype))
    indices = range(100) if graph is random_graph else {"user": [0, 2, 3], "item": [1, 2]}
    sampler = LaborSampler([3, -1, 2, 2], **options)

    def batches():
        dglite.seed(1)
        results = list(DataLoader(g, indices, sampler, batch_size=7))
        columns = [
            block.edges[etype].data for _, _, blocks in results for block in blocks for etype in g.canonical_etypes
        ]
        return plain(results), plain([list(x.get("edge_weights", [])) for x in columns])

    together = batches()
    monkeypatch.setattr(module, "sample_layers", lambda *arguments: None)
    assert together == batches()


def test_ids_of_edges_that_wait_are_those_of_the_graph():
    g = random_graph()
    loader = DataLoader(g, range(300), NeighborSampler([4, 2]), batch_size=100)
    for batch in loader:
        check_blocks(g, *pickle.loads(pickle.dumps(batch)))
        schemes = [block.edge_attr_schemes()[dglite.EID] for block in batch[2]]
        assert all(scheme.dtype == torch.int64 and scheme.shape == () for scheme in schemes)
        check_blocks(g, *batch)


def test_a_block_whose_edge_ids_wait_goes_with_its_last_reference():
    results = list(DataLoader(random_graph(), [0], NeighborSampler([4])))
    gone = weakref.ref(results[0][2][0])
    gc.disable()
    try:
        del results
        assert gone() is None
    finally:
        gc.enable()


def test_blocks_without_some_edges_hold_together():
    g = random_graph()
    sampler = NeighborSampler([4, -1, 20])
    excluded = torch.arange(0, 4000, 3)

    class Excluding(NeighborSampler):
        def sample(self, graph, seeds):
            return sampler.sample(graph, seeds, excluded)

    for batch in DataLoader(g, range(300), Excluding([1]), batch_size=50):
        check_blocks(g, *batch)
        blocks = batch[2]
        assert not any((block.edata[dglite.EID] % 3 == 0).any() for block in blocks)
        left = torch.tensor([int((g.in_edges(v, form="eid") % 3 != 0).sum()) for v in batch[1].tolist()])
        assert torch.equal(blocks[-1].in_degrees(), left.clamp(max=20))


@pytest.mark.parametrize("replace", [False, True])
def test_the_choices_around_excluded_edges_are_even(replace):
    g = dglite.graph((range(1, 9), [0] * 8))
    sampler = NeighborSampler([2], replace=replace)

    class Excluding(NeighborSampler):
        def sample(self, graph, seeds):
            return sampler.sample(graph, seeds, torch.tensor([1, 4, 6]))

    dglite.seed(0)
    draws = 6000
    pairs = Counter()
    for _, _, (block,) in DataLoader(g, [0] * draws, Excluding([1]), batch_size=500):
        for ids in block.edata[dglite.EID].reshape(-1, 2).sort().values.tolist():
            pairs[tuple(ids)] += 1
    left = [0, 2, 3, 5, 7]
    weights = {(a, b): 2 if a < b else 1 for a in left for b in left if a < b or (replace and a == b)}
    assert set(pairs) == set(weights)
    expected = draws * np.array(list(weights.values())) / sum(weights.values())
    actual = np.array([pairs[pair] for pair in weights])
    # The 99.99% quantiles of chi-square with 9 and 14 degrees of freedom are 33.7 and 42.6.
    assert ((actual - expected) ** 2 / expected).sum() < (42.6 if replace else 33.7)


@pytest.mark.parametrize("options", [{}, {"prob": "w"}, {"importance_sampling": 1}])
def test_a_seed_that_is_there_twice_has_edges_twice(options):
    g = random_graph()
    g.edata["w"] = torch.rand(4000)
    _, _, (block,) = LaborSampler([4], **options).sample(g, torch.tensor([3, 5, 3]))
    edges = [block.edata[dglite.EID][block.in_edges(i, form="eid")].tolist() for i in range(3)]
    assert block.dstdata[dglite.NID].tolist() == [3, 5, 3]
    assert edges[0] == edges[2] and edges[0] and edges[1] and edges[0] != edges[1]
