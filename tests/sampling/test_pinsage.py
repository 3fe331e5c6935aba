"""Neighbours by visits."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import dglite
from dglite import DGLError
from dglite.sampling import PinSAGESampler, RandomWalkNeighborSampler, pinsage, random_walk
from tests.sampling.graphs import hetero, random_graph


def bipartite(idtype=torch.int64):
    rng = torch.Generator().manual_seed(0)
    items, users = torch.randint(0, 30, (120,), generator=rng), torch.randint(0, 20, (120,), generator=rng)
    edges = {("item", "of", "user"): (items, users), ("user", "has", "item"): (users, items)}
    return dglite.heterograph(edges, {"item": 31, "user": 20}, idtype=idtype)


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("most", [0, 1, 5, 100])
def test_the_most_visited_nodes(idtype, most):
    g = bipartite(idtype)
    seeds = torch.tensor([3, 30, 0, 3], dtype=idtype)
    sampler = PinSAGESampler(g, "item", "user", 3, 0.4, 40, most)
    dglite.seed(1)
    sample = sampler(seeds)
    stops = torch.tensor([0, 0, 0.4, 0, 0.4, 0], dtype=torch.float64)
    dglite.seed(1)
    traces, _ = random_walk(g, seeds.repeat_interleave(40), metapath=["of", "has"] * 3, restart_prob=stops)
    expected = []
    for i, seed in enumerate(seeds.tolist()):
        visits = Counter(traces[40 * i : 40 * (i + 1), 2::2].ravel().tolist())
        del visits[-1]
        ranked = sorted(visits.items(), key=lambda item: (-item[1], item[0]))[:most]
        expected += [(node, seed, times) for node, times in ranked]
    u, v = sample.edges()
    assert list(zip(u.tolist(), v.tolist(), sample.edata["weights"].tolist(), strict=True)) == expected
    assert sample.ntypes == ["item"] and sample.num_nodes() == 31 and sample.idtype == idtype


def test_one_step_along_the_only_edge_type():
    g = random_graph()
    sample = RandomWalkNeighborSampler(g, 2, 0.3, 20, 4, weight_column="visits")([0, 1, 59])
    assert sample.is_homogeneous and sample.in_degrees([59]).item() == 0
    assert (sample.edata["visits"] > 0).all() and sample.in_degrees([0, 1]).max() <= 4
    assert RandomWalkNeighborSampler(g, 2, 0.3, 20, 4)([]).num_edges() == 0


def test_seeds_of_which_not_all_walks_are_in_memory(monkeypatch):
    g = bipartite()
    sampler = PinSAGESampler(g, "item", "user", 2, 0, 400, 3)
    monkeypatch.setattr(pinsage, "_TRACES_AT_ONCE", 4000)  # two seeds
    sample = sampler([3, 30, 0, 3, 7])
    alone = [sampler([seed]) for seed in (3, 30, 0, 3, 7)]
    assert sample.edges()[1].tolist() == torch.cat([one.edges()[1] for one in alone]).tolist()
    for u, v, times in zip(*sample.edges(), sample.edata["weights"], strict=True):
        assert times > 40 and g.in_degrees(u, etype="has") and v in (3, 30, 0, 7)
    assert sampler([]).num_edges() == 0


@pytest.mark.parametrize(("walks", "traversals"), [(10**12, 1), (1, 10**12), (10**6, 10**3)])
def test_more_walks_than_memory_holds_are_refused(walks, traversals):
    with pytest.raises(DGLError, match="lower num_random_walks or num_traversals"):
        PinSAGESampler(bipartite(), "item", "user", traversals, 0.5, walks, 3)


def test_bad_input():
    g = hetero()
    with pytest.raises(DGLError, match="begin and end at the same"):
        RandomWalkNeighborSampler(g, 1, 0.5, 10, 2, ["plays"])
    with pytest.raises(DGLError, match="give a metapath"):
        RandomWalkNeighborSampler(g, 1, 0.5, 10, 2)
    with pytest.raises(DGLError, match="a number from 0 to 1"):
        RandomWalkNeighborSampler(g, 1, 1.5, 10, 2, ["follows"])
    with pytest.raises(DGLError, match="num_random_walks must be an integer >= 1"):
        RandomWalkNeighborSampler(g, 1, 0.5, 0, 2, ["follows"])
    with pytest.raises(DGLError, match="must be an integer >= 0"):
        RandomWalkNeighborSampler(g, 1, 0.5, 1, -2, ["follows"])
    with pytest.raises(DGLError, match="one edge type from 'user' to 'zebra', found none"):
        PinSAGESampler(g, "user", "zebra", 1, 0.5, 10, 2)
    with pytest.raises(DGLError, match="does not exist"):
        RandomWalkNeighborSampler(g, 1, 0.5, 10, 2, ["follows"])([9])
