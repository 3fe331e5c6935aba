"""Blocks against their definition."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dglite
from dglite import DGLError, to_block
from dglite.kernels import density
from dglite.sampling import sample_neighbors
from tests.sampling.graphs import hetero, random_graph


def check(g, block, dst_nodes=None, include=True):
    """Assert what makes ``block`` the block of ``g``; ``dst_nodes`` by type, None for those with in-edges."""
    assert block.is_block and block.canonical_etypes == g.canonical_etypes and block.idtype == g.idtype
    appeared = {ntype: [] for ntype in g.ntypes}
    entered = {ntype: set() for ntype in g.ntypes}
    for etype in g.canonical_etypes:
        source, destination = block.srcnodes[etype[0]].data, block.dstnodes[etype[2]].data
        edge_ids = block.edges[etype].data[dglite.EID]
        u, v = block.edges(etype=etype)
        src, dst = g.find_edges(edge_ids, etype) if len(edge_ids) else (u, v)
        assert torch.equal(source[dglite.NID][u.long()], src) and torch.equal(destination[dglite.NID][v.long()], dst)
        if dst_nodes is None or etype[2] in dst_nodes:
            assert torch.equal(edge_ids, torch.arange(g.num_edges(etype), dtype=g.idtype))
            appeared[etype[0]] += src.tolist()
            entered[etype[2]] |= set(dst.tolist())
        else:
            assert len(edge_ids) == 0
    for ntype in g.ntypes:
        result = block.dstnodes[ntype].data[dglite.NID].tolist()
        if dst_nodes is None:
            assert result == sorted(entered[ntype])
        else:
            assert result == list(dst_nodes.get(ntype, []))
        expected = list(dict.fromkeys((result if include else []) + appeared[ntype]))
        assert block.srcnodes[ntype].data[dglite.NID].tolist() == expected


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("ratio", [0, 1 << 20], ids=["hashed", "dense"])
def test_a_block_of_one_type(monkeypatch, idtype, include, ratio):
    monkeypatch.setattr(density, "DENSE_RATIO", ratio)
    monkeypatch.setattr(density, "SHORT_TABLE", 0)
    g = random_graph(idtype=idtype)
    check(g, to_block(g, include_dst_in_src=include), None, include)
    nodes = torch.randperm(60).to(idtype)
    check(g, to_block(g, nodes, include), {"_N": nodes.tolist()}, include)
    check(g, to_block(g, {"_N": nodes}, include), {"_N": nodes.tolist()}, include)


@pytest.mark.parametrize("include", [False, True])
def test_a_block_of_several_types(include):
    g = hetero()
    check(g, to_block(g, include_dst_in_src=include), None, include)
    nodes = {"user": [2, 1, 0, 3], "game": [1, 0]}
    check(g, to_block(g, nodes, include), nodes, include)
    check(g, to_block(g, {"user": [2, 1, 0]}, include), {"user": [2, 1, 0]}, include)
    block = to_block(g["plays"])
    assert block.num_src_nodes("game") == block.num_dst_nodes("game") == 2
    assert block.num_src_nodes("user") == 3 and block.num_dst_nodes("user") == 0


edges = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=30)


@settings(max_examples=40, deadline=None)
@given(edges, edges, edges, st.booleans(), st.sampled_from([0, 8, 1 << 20]))
def test_any_block(follows, plays, known, include, ratio):
    parts = {("a", "f", "a"): follows, ("a", "p", "b"): plays, ("b", "k", "a"): known}
    data = {etype: ([u for u, _ in pairs], [v for _, v in pairs]) for etype, pairs in parts.items()}
    g = dglite.heterograph(data, {"a": 13, "b": 13})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(density, "DENSE_RATIO", ratio)
        patch.setattr(density, "SHORT_TABLE", 0)
        check(g, to_block(g, include_dst_in_src=include), None, include)


# -- sources that are given ------------------------------------------------------------------------------------------
def test_given_sources():
    g = dglite.graph(([0, 0, 1, 3], [1, 2, 0, 0]), num_nodes=6)
    block = to_block(g, [2, 1, 0], src_nodes=[2, 1, 0, 5, 3])
    assert block.num_src_nodes() == 5 and block.srcdata[dglite.NID].tolist() == [2, 1, 0, 5, 3]
    assert [x.tolist() for x in block.edges()] == [[2, 2, 1, 4], [1, 0, 2, 2]]
    block = to_block(g, [2, 1, 0], include_dst_in_src=False, src_nodes=[3, 0, 1])
    assert [x.tolist() for x in block.edges()] == [[1, 1, 2, 0], [1, 0, 2, 2]]
    h = hetero()
    block = to_block(h, {"user": [0, 1, 2]}, src_nodes={"user": [0, 1, 2], "game": [1, 0, 2]})
    assert block.num_src_nodes("game") == 3
    assert block.edges(etype="known")[0].tolist() == [1, 0, 0]
    with pytest.raises(DGLError, match=r"src_nodes lacks node 1 of type '_N', which has out-edges"):
        to_block(g, [2, 1, 0], include_dst_in_src=False, src_nodes=[3, 0])
    with pytest.raises(DGLError, match="must begin with the 3 destination nodes"):
        to_block(g, [2, 1, 0], src_nodes=[0, 1, 2, 3])


# -- features ----------------------------------------------------------------------------------------------------------
def test_features_follow():
    g = random_graph()
    nodes = torch.randperm(60)
    block = to_block(g, nodes)
    assert torch.equal(block.srcdata["x"], g.ndata["x"][block.srcdata[dglite.NID]])
    assert torch.equal(block.dstdata["x"], g.ndata["x"][nodes])
    assert block.edata["f"] is g.edata["f"]
    block.srcdata[dglite.NID].zero_()
    assert torch.equal(block.dstdata[dglite.NID], nodes)


def test_features_are_gathered_when_read():
    g, nodes = random_graph(), torch.arange(60)
    block = to_block(g, nodes)
    assert block.node_attr_schemes("SRC/_N")["x"].shape == (2,)
    nodes.zero_()
    block.srcdata[dglite.NID].zero_()
    assert torch.equal(block.srcdata["x"], g.ndata["x"]) and torch.equal(block.dstdata["x"], g.ndata["x"])


def test_message_passing_on_a_sample_is_that_of_the_graph():
    g = random_graph()
    seeds = torch.tensor([7, 0, 59, 1])
    frontier = sample_neighbors(g, seeds, -1)
    block = to_block(frontier, seeds)
    block.edata[dglite.EID] = frontier.edata[dglite.EID]
    src, dst = g.find_edges(block.edata[dglite.EID])
    u, v = block.edges()
    assert torch.equal(block.srcdata[dglite.NID][u], src) and torch.equal(seeds[v], dst)
    block.update_all(dglite.function.copy_u("x", "m"), dglite.function.sum("m", "h"))
    g.update_all(dglite.function.copy_u("x", "m"), dglite.function.sum("m", "h"))
    torch.testing.assert_close(block.dstdata["h"], g.ndata["h"][seeds])


# -- corners -----------------------------------------------------------------------------------------------------------
def test_blocks_of_nothing():
    for g in (dglite.graph(([], [])), dglite.graph(([], []), num_nodes=3)):
        block = to_block(g)
        assert block.num_src_nodes() == block.num_dst_nodes() == block.num_edges() == 0
    block = to_block(g, [2, 0])
    assert block.srcdata[dglite.NID].tolist() == block.dstdata[dglite.NID].tolist() == [2, 0]
    block = to_block(hetero(), {})
    assert block.num_src_nodes() == block.num_dst_nodes() == block.num_edges() == 0


def test_a_destination_that_is_repeated():
    g = dglite.graph(([0, 1, 3], [1, 2, 2]))
    block = to_block(g, [2, 1, 2])
    assert block.dstdata[dglite.NID].tolist() == [2, 1, 2]
    assert block.in_degrees().tolist() == [0, 1, 2]
    assert block.srcdata[dglite.NID].tolist() == [2, 1, 2, 0, 3]


@pytest.mark.parametrize("ratio", [0, 1 << 20])
def test_bad_input(monkeypatch, ratio):
    monkeypatch.setattr(density, "DENSE_RATIO", ratio)
    monkeypatch.setattr(density, "SHORT_TABLE", 0)
    g = dglite.graph(([1, 2], [2, 3]))
    with pytest.raises(DGLError, match=r"dst_nodes lacks node 3 of type '_N', which has in-edges"):
        to_block(g, [2])
    with pytest.raises(DGLError, match="does not exist"):
        to_block(g, [2, 3, 9])
    with pytest.raises(DGLError, match="'zebra' does not exist"):
        to_block(g, {"zebra": [2]})
    with pytest.raises(DGLError, match="give a dictionary by node type"):
        to_block(hetero(), [0])
    with pytest.raises(DGLError, match="block already"):
        to_block(to_block(g))
