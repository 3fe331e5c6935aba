"""Sampling in time: no edge is later than the seed that it is drawn for, in any layer."""

from __future__ import annotations

import itertools

import pytest
import torch

import dglite
from dglite import DGLError
from dglite.dataloading import (
    DataLoader,
    MultiLayerFullNeighborSampler,
    NeighborSampler,
    as_edge_prediction_sampler,
    negative_sampler,
)
from tests.dataloading.graphs import check_blocks, plain, shop
from tests.sampling.graphs import assert_distributed, random_graph


def dated(dtype=torch.int64):
    g = random_graph()
    g.ndata["t"] = torch.randint(0, 50, (60,)).to(dtype)
    g.edata["t"], g.edata["w"] = torch.randint(0, 60, (400,)).to(dtype), torch.rand(400) + 0.1
    return g


def check_times(g, blocks):
    """Assert that edges are not later than both of their ends are looked at, and that ends agree."""
    for block in blocks:
        for src_type, etype, dst_type in g.canonical_etypes:
            u, v = block.edges(etype=etype)
            src = block.srcnodes[src_type].data["_TIME"][u]
            assert torch.equal(src, block.dstnodes[dst_type].data["_TIME"][v])
            if "t" in g.edges[etype].data:
                assert (block.edges[etype].data["t"] <= src).all()
    for block, following in itertools.pairwise(blocks):
        for ntype in g.ntypes:
            for name in (dglite.NID, "_TIME"):
                assert torch.equal(block.dstnodes[ntype].data[name], following.srcnodes[ntype].data[name])


def check_ends(g, block):
    u, v = block.edges()
    ends = g.find_edges(block.edata[dglite.EID])
    assert torch.equal(block.srcdata[dglite.NID][u], ends[0]) and torch.equal(block.dstdata[dglite.NID][v], ends[1])
    rows = torch.stack([block.srcdata[dglite.NID].double(), block.srcdata["_TIME"].double()], 1)
    assert len(rows.unique(dim=0)) == len(rows)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32, torch.float64])
@pytest.mark.parametrize("options", [{}, {"prob": "w"}, {"replace": True}])
def test_no_edge_is_later_than_its_seed(options, dtype):
    g = dated(dtype)
    sampler = NeighborSampler([4, 3], time="t", edge_time="t", **options)
    for inputs, seeds, blocks in DataLoader(g, torch.arange(60), sampler, batch_size=20, shuffle=True, num_workers=2):
        check_times(g, blocks)
        assert torch.equal(blocks[-1].dstdata["_TIME"].to(dtype), g.ndata["t"][seeds])
        assert torch.equal(inputs, blocks[0].srcdata[dglite.NID])
        for block in blocks:
            check_ends(g, block)


def test_all_edges_up_to_the_seeds_time():
    g = dated()
    sampler = MultiLayerFullNeighborSampler(2, time="t", edge_time="t", prefetch_node_feats=["x"])
    seeds = torch.tensor([0, 7, 1, 30])
    _, _, blocks = sampler.sample(g, seeds)
    check_times(g, blocks)
    for block in blocks:
        for i, (node, time) in enumerate(zip(block.dstdata[dglite.NID], block.dstdata["_TIME"], strict=True)):
            ids = g.in_edges(int(node), form="eid")
            result = block.in_edges(i, form="eid")
            assert sorted(block.edata[dglite.EID][result].tolist()) == sorted(ids[g.edata["t"][ids] <= time].tolist())
    assert torch.equal(blocks[0].srcdata["x"], g.ndata["x"][blocks[0].srcdata[dglite.NID]])


@pytest.mark.parametrize("late", [3, 95])
def test_those_in_time_are_equally_likely(late):
    dglite.seed(2)
    g = dglite.graph((torch.arange(1, 101), torch.zeros(100, dtype=torch.int64)))
    g.ndata["t"], g.edata["t"] = torch.full((101,), 5), torch.full((100,), 5)
    g.edata["t"][:late] = 6
    _, _, (block,) = NeighborSampler([3], time="t", edge_time="t").sample(g, torch.zeros(3000, dtype=torch.int64))
    expected = [0] * late + [1] * (100 - late)
    assert_distributed(torch.bincount(block.edata[dglite.EID], minlength=100), expected)


def test_types_and_exclusion():
    g = shop()
    g.nodes["user"].data["t"], g.edges["buys"].data["t"] = torch.tensor([3, 1, 2, 5]), torch.arange(6)
    g.edges["bought"].data["t"] = torch.arange(6)
    sampler = NeighborSampler([-1, -1], time="t", edge_time="t")
    loader = DataLoader(g, {"user": [0, 1, 3]}, sampler, batch_size=3)
    (batch,) = loader
    check_times(g, batch[2])
    assert batch[2][1].edges["bought"].data[dglite.EID].tolist() == [0, 1, 4, 5]
    assert batch[2][1].num_edges("follows") == 3  # which have no time
    _, _, blocks = sampler.sample(g, {"user": [0]}, {"bought": [1]})
    assert blocks[1].edges["bought"].data[dglite.EID].tolist() == [0]
    with pytest.raises(DGLError, match="seeds of type 'item' have no time"):
        DataLoader(g, {"item": [0]}, sampler)


def test_equal_times_are_as_without_times():
    g = dated()
    g.ndata["t"][:] = 99
    sampler = MultiLayerFullNeighborSampler(2, time="t", edge_time="t")
    batch, expected = (s.sample(g, torch.arange(9)) for s in (sampler, MultiLayerFullNeighborSampler(2)))
    check_blocks(g, *batch)
    assert plain(batch) == plain(expected)


def test_batches_are_the_same_for_any_number_of_workers():
    def drawn(num_workers):
        dglite.seed(1)
        sampler = NeighborSampler([2, 2], time="t", edge_time="t")
        return plain(list(DataLoader(g, range(60), sampler, batch_size=7, num_workers=num_workers)))

    g = dated()
    assert drawn(0) == drawn(2)


def test_numbers_of_other_kinds():
    g = dglite.graph(([1, 2, 3, 4], [0, 0, 0, 0]))
    full = MultiLayerFullNeighborSampler(1, time="t", edge_time="t")

    def drawn(seed, edges):
        g.ndata["t"], g.edata["t"] = seed.expand(5), edges
        return full.sample(g, [0])[2][0].edata[dglite.EID].tolist()

    large = 2**60 + torch.arange(4)
    assert drawn(large[1], large) == [0, 1]
    assert drawn(torch.tensor(1.5), torch.arange(4)) == [0, 1]
    assert drawn(torch.tensor(float("inf")), large) == [0, 1, 2, 3]
    assert drawn(torch.tensor(2), torch.tensor([0.5, 2.0, 2.5, float("nan")])) == [0, 1]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_edges_as_seeds_have_times_of_their_own(num_workers):
    g = dated()
    g.ndata["t"][:] = 0  # which are not read
    sampler = as_edge_prediction_sampler(
        NeighborSampler([-1, 4], time="t", edge_time="t"), "self", negative_sampler=negative_sampler.Uniform(2)
    )
    later = 0
    for inputs, pairs, negative, blocks in DataLoader(
        g, torch.arange(90), sampler, batch_size=20, shuffle=True, num_workers=num_workers
    ):
        check_times(g, blocks)
        seeds = pairs.edata[dglite.EID]
        times = g.edata["t"][seeds]
        for graph, at in ((pairs, times), (negative, times.repeat_interleave(2))):
            for name in (dglite.NID, "_TIME"):
                assert torch.equal(graph.ndata[name], blocks[-1].dstdata[name])
            assert all(torch.equal(graph.ndata["_TIME"][end], at) for end in graph.edges())
        ends = [pairs.ndata[dglite.NID][end] for end in pairs.edges()]
        assert all(map(torch.equal, ends, g.find_edges(seeds))) and torch.equal(pairs.edata["t"], times)
        sources = pairs.ndata[dglite.NID][pairs.edges()[0]].repeat_interleave(2)
        assert torch.equal(negative.ndata[dglite.NID][negative.edges()[0]], sources)
        assert torch.equal(inputs, blocks[0].srcdata[dglite.NID])
        for block in blocks:
            check_ends(g, block)
            assert not torch.isin(block.edata[dglite.EID], seeds).any()
        later += sum(len(set(block.edata["t"].tolist())) for block in blocks)
    assert later > 9


def test_edges_of_several_types_as_seeds():
    g = shop()
    for etype in ("buys", "bought"):
        g.edges[etype].data["t"] = torch.arange(6)
    sampler = as_edge_prediction_sampler(
        NeighborSampler([-1, -1], time="t", edge_time="t"), negative_sampler=negative_sampler.Uniform(1)
    )
    for inputs, pairs, negative, blocks in DataLoader(g, {"buys": [0, 2, 5], "bought": [4]}, sampler, batch_size=2):
        check_times(g, blocks)
        assert set(inputs) == {"user", "item"}
        for etype in ("buys", "bought"):
            assert pairs.num_edges(etype) == negative.num_edges(etype)
            ntypes = pairs.to_canonical_etype(etype)[::2]
            for ntype, end in zip(ntypes, pairs.edges(etype=etype), strict=True):
                assert torch.equal(pairs.nodes[ntype].data["_TIME"][end], pairs.edges[etype].data[dglite.EID])
    with pytest.raises(DGLError, match=r"'follows'.* have no time"):
        list(DataLoader(g, {"follows": [0]}, sampler))
    uneven = as_edge_prediction_sampler(sampler.sampler, negative_sampler=lambda g, edges: {"buys": ([0], [0])})
    with pytest.raises(DGLError, match="1 negative pairs for 2 edges"):
        list(DataLoader(g, {"buys": [0, 1]}, uneven, batch_size=2))


def test_bad_input():
    g = dated(torch.float32)
    for options in ({"time": "t"}, {"edge_time": "t"}, {"time": "t", "edge_time": "t", "edge_dir": "out"}):
        with pytest.raises(ValueError, match="time"):
            NeighborSampler([1], **options)
    for time, edge_time, match in (("no", "t", "no node feature 'no'"), ("t", "no", "'no' is not an edge feature")):
        with pytest.raises(DGLError, match=match):
            DataLoader(g, range(9), NeighborSampler([1], time=time, edge_time=edge_time))
    with pytest.raises(DGLError, match="one number for each of 60"):
        DataLoader(g, range(9), NeighborSampler([1], time="x", edge_time="t"))
    g.ndata["t"][3] = float("nan")
    with pytest.raises(DGLError, match="time of '_N' node 3 is NaN"):
        DataLoader(g, range(9), NeighborSampler([1], time="t", edge_time="t"))
    assert len(DataLoader(g, [0], NeighborSampler([1], time="t", edge_time="t"))) == 1
