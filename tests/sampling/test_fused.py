"""A sample as a block: the same edges as a sample, numbered as a block."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import dglite
from dglite import DGLError
from dglite.dataloading import NeighborSampler
from dglite.sampling import sample_neighbors_fused
from tests.sampling.graphs import hetero, random_graph


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_the_block_of_a_sample(idtype):
    g = random_graph(idtype=idtype)
    g.ndata["h"], g.edata["w"] = torch.arange(float(g.num_nodes())), torch.arange(float(g.num_edges()))
    seeds = torch.tensor([5, 3, 40], dtype=idtype)
    block = g.sample_neighbors_fused(seeds, 2, mapping={})
    assert block.is_block and block.dstdata[dglite.NID].tolist() == [5, 3, 40] and block.idtype == idtype
    assert block.srcdata[dglite.NID][:3].tolist() == [5, 3, 40]
    assert torch.equal(block.srcdata["h"], block.srcdata[dglite.NID].float())
    u, v = block.edges()
    ends = g.find_edges(block.edata[dglite.EID])
    assert torch.equal(block.srcdata[dglite.NID][u.long()], ends[0])
    assert torch.equal(block.dstdata[dglite.NID][v.long()], ends[1])
    assert torch.equal(block.edata["w"], block.edata[dglite.EID].float()) and block.in_degrees().max() <= 2


def test_several_types_and_what_is_not_copied():
    g = dglite.heterograph({("a", "x", "b"): ([0, 1, 2], [0, 0, 1]), ("b", "y", "a"): ([0], [2])})
    block = sample_neighbors_fused(g, {"b": [0]}, -1)
    assert sorted(block.edges["x"].data[dglite.EID].tolist()) == [0, 1] and block.num_edges("y") == 0
    bare = sample_neighbors_fused(g, {"b": [0]}, -1, copy_ndata=False, copy_edata=False)
    assert bare.num_edges("x") == 2 and not bare.edges["x"].data and not bare.dstnodes["b"].data


def test_the_block_of_out_edges():
    g = dglite.heterograph({("a", "x", "a"): ([0, 1, 1], [1, 2, 2]), ("a", "y", "b"): ([0, 1, 2, 1], [0, 0, 1, 1])})
    g.nodes["b"].data["h"] = torch.tensor([5.0, 6.0])
    block = sample_neighbors_fused(g, {"a": [1, 0]}, -1, edge_dir="out")
    assert block.srcnodes["a"].data[dglite.NID].tolist() == [1, 0, 2]
    assert [end.tolist() for end in block.edges(etype="x")] == [[0, 0, 1], [2, 2, 0]]
    assert [end.tolist() for end in block.edges(etype="y")] == [[0, 0, 1], [0, 1, 0]]
    assert block.edges["y"].data[dglite.EID].tolist() == [1, 3, 0] and block.dstnodes["b"].data["h"].tolist() == [5, 6]
    for ntype in g.ntypes:
        ids = block.srcnodes[ntype].data[dglite.NID], block.dstnodes[ntype].data[dglite.NID]
        assert torch.equal(*ids)
    with pytest.raises(DGLError, match="edge_dir"):
        sample_neighbors_fused(g, {"a": [1]}, -1, edge_dir="both")


@pytest.mark.parametrize(
    "edge_dir", [3, None, ["in"], np.array(["in", "out"]), torch.tensor([1, 2]), b"in", {}], ids=str
)
def test_a_direction_that_is_no_text(edge_dir):
    g = dglite.rand_graph(5, 10)
    g.edata["w"] = torch.rand(10)
    for call in (
        lambda: sample_neighbors_fused(g, [1], 2, edge_dir=edge_dir),
        lambda: dglite.sampling.sample_neighbors(g, [1], 2, edge_dir=edge_dir),
        lambda: dglite.sampling.sample_labors(g, [1], 2, edge_dir=edge_dir),
        lambda: dglite.sampling.select_topk(g, 2, "w", [1], edge_dir=edge_dir),
        lambda: NeighborSampler([2], edge_dir=edge_dir),
    ):
        with pytest.raises(DGLError, match=r"edge_dir=.* is not understood; expected 'in' or 'out'"):
            call()


OPTIONS = {
    "uniform": {"fanout": 3},
    "all": {"fanout": -1},
    "replace": {"fanout": 6, "replace": True},
    "weights": {"fanout": 3, "prob": "w"},
    "excluded": {"fanout": 3, "exclude_edges": torch.arange(0, 400, 3)},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_it_is_what_to_block_makes_of_the_sample(name):
    g, seeds = random_graph(), torch.tensor([0, 1, 58, 7])
    g.edata["w"] = (torch.arange(400) % 4).float()  # rows with fewer edges of positive weight than are asked for
    check_same(g, seeds, **OPTIONS[name])


@pytest.mark.parametrize("seeds", [{"user": [2, 0]}, {"game": [1], "user": [3]}, {}])
def test_it_is_what_to_block_makes_of_a_sample_of_several_types(seeds):
    check_same(hetero(), seeds, fanout={"follows": -1, "plays": 1, "known": 0})


def check_same(g, seeds, **options):
    dglite.seed(4)
    frontier = dglite.sampling.sample_neighbors(g, seeds, **options)
    expected = dglite.to_block(frontier, seeds)
    dglite.seed(4)
    block = sample_neighbors_fused(g, seeds, **options)
    assert block.node_counts == expected.node_counts and block.canonical_etypes == expected.canonical_etypes
    for ntype in g.ntypes:
        for result, right in ((block.srcnodes, expected.srcnodes), (block.dstnodes, expected.dstnodes)):
            assert torch.equal(result[ntype].data[dglite.NID], right[ntype].data[dglite.NID])
    for etype in g.canonical_etypes:
        assert block.adjacency(etype).formats == ("csc",)  # what training reads is not sorted again
        assert torch.equal(block.edges[etype].data[dglite.EID], frontier.edges[etype].data[dglite.EID])
        for result, right in zip(block.edges(etype=etype), expected.edges(etype=etype), strict=True):
            assert torch.equal(result, right)


def test_a_seed_that_is_repeated_has_edges_each_time():
    g = dglite.graph(([1, 2, 3], [0, 0, 0]))
    block = sample_neighbors_fused(g, [0, 0, 1], 2)
    assert block.in_degrees().tolist() == [2, 2, 0] and block.dstdata[dglite.NID].tolist() == [0, 0, 1]


def test_users_may_write_to_the_seeds_that_they_gave():
    g, seeds = random_graph(), torch.tensor([3, 4])
    block = sample_neighbors_fused(g, seeds, 2)
    seeds[:] = 0
    assert torch.equal(block.dstdata["x"], g.ndata["x"][3:5]) and block.dstdata[dglite.NID].tolist() == [3, 4]
    with pytest.raises(DGLError, match="a block already"):
        sample_neighbors_fused(block, [0], 2)
