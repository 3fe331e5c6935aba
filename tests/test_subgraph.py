"""Parts of a graph hold the nodes, edges and features that they should, under the ids they say they had."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dglite
from dglite import DGLError
from dglite.graph import DGLGraph
from dglite.structure import lookups

FOLLOWS, PLAYS = ("user", "follows", "user"), ("user", "plays", "game")


@st.composite
def featured(draw: st.DrawFn) -> DGLGraph:
    """Return a multigraph with self-loops whose features name its nodes and edges."""
    n = draw(st.integers(1, 8))
    ids = st.integers(0, n - 1)
    ends = draw(st.lists(st.tuples(ids, ids), max_size=16))
    idtype = draw(st.sampled_from([torch.int32, torch.int64]))
    g = dglite.graph(([u for u, _ in ends], [v for _, v in ends]), num_nodes=n, idtype=idtype)
    g.ndata["name"], g.edata["name"] = 10 * torch.arange(n), 10 * torch.arange(len(ends))
    return g


def check_part(g: DGLGraph, part: DGLGraph, relabelled: bool = True) -> None:
    """Every edge of the part joins, by old ids, what it joined; features come along."""
    assert part.idtype == g.idtype
    eid = part.edata[dglite.EID].long()
    nid = part.ndata[dglite.NID].long() if relabelled else torch.arange(g.num_nodes())
    assert part.num_nodes() == len(nid)
    u, v = part.edges()
    old_u, old_v = g.find_edges(eid)
    assert nid[u.long()].tolist() == old_u.tolist() and nid[v.long()].tolist() == old_v.tolist()
    assert part.edata["name"].tolist() == (10 * eid).tolist() and part.ndata["name"].tolist() == (10 * nid).tolist()


@settings(max_examples=60, deadline=None)
@given(featured(), st.data(), st.booleans())
def test_node_subgraph_has_all_edges_between_its_nodes(g: DGLGraph, data: st.DataObject, relabel: bool) -> None:
    nodes = data.draw(st.lists(st.integers(0, g.num_nodes() - 1), unique=True))
    part = g.subgraph(nodes, relabel_nodes=relabel)
    check_part(g, part, relabel)
    u, v = (end.tolist() for end in g.edges())
    inside = [i for i in range(len(u)) if u[i] in nodes and v[i] in nodes]
    assert sorted(part.edata[dglite.EID].tolist()) == inside
    if relabel:
        assert part.ndata[dglite.NID].tolist() == nodes


@settings(max_examples=60, deadline=None)
@given(featured(), st.data(), st.booleans())
def test_edge_subgraph_has_the_edges_given(g: DGLGraph, data: st.DataObject, relabel: bool) -> None:
    edges = data.draw(st.lists(st.integers(0, max(g.num_edges() - 1, 0)))) if g.num_edges() else []
    given = data.draw(st.sampled_from([list, tuple, torch.LongTensor]))(edges)
    part = g.edge_subgraph(given, relabel_nodes=relabel)
    check_part(g, part, relabel)
    assert part.edata[dglite.EID].tolist() == edges
    if relabel:
        u, v = g.find_edges(edges)
        assert part.ndata[dglite.NID].tolist() == list(dict.fromkeys([*u.tolist(), *v.tolist()]))


@settings(max_examples=60, deadline=None)
@given(featured(), st.data(), st.booleans())
def test_in_and_out_subgraphs_have_all_edges_of_the_nodes(g: DGLGraph, data: st.DataObject, relabel: bool) -> None:
    nodes = data.draw(st.lists(st.integers(0, g.num_nodes() - 1), unique=True))
    ends = [end.tolist() for end in g.edges()]
    for function, end in ((dglite.in_subgraph, ends[1]), (dglite.out_subgraph, ends[0])):
        part = function(g, nodes, relabel_nodes=relabel)
        check_part(g, part, relabel)
        assert part.edata[dglite.EID].tolist() == [i for n in nodes for i in range(len(end)) if end[i] == n]


@settings(max_examples=60, deadline=None)
@given(featured(), st.data(), st.integers(0, 4))
def test_khop_subgraphs_have_the_nodes_within_reach(g: DGLGraph, data: st.DataObject, k: int) -> None:
    seeds = data.draw(st.lists(st.integers(0, g.num_nodes() - 1), min_size=1, unique=True))
    for function, walk in (
        (dglite.khop_in_subgraph, g.to_networkx().reverse()),
        (dglite.khop_out_subgraph, g.to_networkx()),
    ):
        near: set[int] = set()
        for seed in seeds:
            near |= set(nx.single_source_shortest_path_length(walk, seed, cutoff=k))
        part, new_ids = function(g, seeds, k)
        check_part(g, part)
        assert part.ndata[dglite.NID].tolist() == sorted(near)
        assert part.ndata[dglite.NID][new_ids.long()].tolist() == seeds
        kept = function(g, seeds, k, relabel_nodes=False)
        check_part(g, kept, relabelled=False)
        assert sorted(kept.edata[dglite.EID].tolist()) == sorted(part.edata[dglite.EID].tolist())


def hetero() -> DGLGraph:
    g = dglite.heterograph({PLAYS: ([0, 1, 1, 2], [0, 0, 2, 1]), FOLLOWS: ([0, 1, 1], [1, 2, 2])})
    g.nodes["user"].data["h"], g.edges["plays"].data["w"] = torch.arange(3.0), torch.arange(4.0)
    return g


@pytest.mark.parametrize("cut", [dglite.node_subgraph, dglite.edge_subgraph])
def test_a_part_keeps_its_ids_when_those_given_are_written_to(cut: Any) -> None:
    g = dglite.graph(([0, 1, 2], [1, 2, 0]))
    g.ndata["x"], g.edata["x"] = torch.arange(3.0), torch.arange(3.0)
    ids = torch.tensor([0, 1])
    part = cut(g, ids)
    ids[:] = 2
    for data in (part.ndata, part.edata):
        assert torch.equal(data["x"], data[dglite.EID].float())


def test_several_types_are_cut_type_by_type() -> None:
    g = hetero()
    part = g.subgraph({"user": [2, 1]})
    assert part.num_nodes("user") == 2 and part.num_nodes("game") == 0 and part.num_edges("plays") == 0
    assert [end.tolist() for end in part.edges(etype="follows")] == [[1, 1], [0, 0]]
    assert part.nodes["user"].data["h"].tolist() == [2, 1] and part.nodes["game"].data[dglite.NID].tolist() == []
    part = g.edge_subgraph({FOLLOWS: [1, 2], "plays": [2]})
    assert part.num_nodes("user") == 2 and part.num_nodes("game") == 1 and part.edges["plays"].data["w"].tolist() == [2]
    part = g.in_subgraph({"user": [2], "game": [2]})
    assert part.num_nodes("user") == 3 and part.num_edges("plays") == 1 and part.num_edges("follows") == 2
    part, inverse = g.khop_in_subgraph({"game": 0}, 2)
    assert inverse["game"].tolist() == [0] and set(inverse) == {"game"}
    assert part.nodes["user"].data[dglite.NID].tolist() == [0, 1]
    with pytest.raises(DGLError, match="give a dictionary from type to node ids"):
        g.subgraph([0])
    with pytest.raises(DGLError, match="this graph has 2 edge types"):
        g.edge_subgraph([0])


@pytest.mark.parametrize("khop", [dglite.khop_in_subgraph, dglite.khop_out_subgraph])
def test_new_ids_of_khop_seeds_are_int64_as_in_dgl(khop: Any) -> None:
    part, inverse = khop(dglite.graph(([0, 1], [1, 2])).int(), [2, 1], 1)
    assert str(part.idtype) == "torch.int32" and str(inverse.dtype) == "torch.int64"


def test_parts_by_type_share_features() -> None:
    g = hetero()
    part = g.node_type_subgraph(["user"])
    assert part.canonical_etypes == [FOLLOWS] and part.ndata["h"] is g.nodes["user"].data["h"]
    part = g.edge_type_subgraph(["plays"])
    assert (
        part.ntypes == ["game", "user"]
        and part.num_nodes("user") == 3
        and part.edata["w"] is g.edges["plays"].data["w"]
    )
    assert g.edge_type_subgraph(["plays", FOLLOWS]).etypes == ["plays", "follows"]
    part.nodes["user"].data["new"] = torch.ones(3)
    g.edges["plays"].data["late"] = torch.ones(len(part.edata["w"]))
    assert "new" in g.nodes["user"].data and "late" in part.edata
    part.add_nodes(2, {"new": torch.zeros(2)}, ntype="user")
    part.nodes["user"].data["apart"] = torch.ones(5)
    assert g.nodes["user"].data["new"].shape == (3,) and "apart" not in g.nodes["user"].data
    with pytest.raises(DGLError, match="no edge type joins"):
        g.node_type_subgraph(["game"])
    block = dglite.create_block({PLAYS: ([0], [0]), FOLLOWS: ([1], [0])})
    assert block.edge_type_subgraph(["plays"]).is_block


def test_ids_are_stored_only_on_request() -> None:
    g = dglite.graph(([0, 1], [1, 2]))
    part = g.subgraph([1, 2], store_ids=False)
    assert dglite.NID not in part.ndata and dglite.EID not in part.edata
    part = g.subgraph([1, 2], relabel_nodes=False)
    assert dglite.NID not in part.ndata and part.edata[dglite.EID].tolist() == [1] and part.num_nodes() == 3
    assert g.subgraph(torch.tensor([False, True, True])).ndata[dglite.NID].tolist() == [1, 2]


def test_features_are_gathered_when_read_and_carry_gradients() -> None:
    g = dglite.graph(([0, 1], [1, 2]))
    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    g.ndata["h"] = x
    g.subgraph([2, 0]).ndata["h"].sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        (lambda g: g.subgraph([0, 1, 0]), "node 0 of type '_N' is given more than once"),
        (lambda g: g.subgraph([3]), "node id 3 does not exist"),
        (lambda g: g.edge_subgraph([2]), "edge id 2 does not exist"),
        (lambda g: g.khop_in_subgraph([0], -1), "k must be an integer >= 0, got -1"),
        (lambda g: g.edge_type_subgraph([]), "list of edge types is empty"),
        (lambda g: dglite.create_block(([0], [0])).subgraph({"_N": [0]}), "a block has no subgraphs"),
        (lambda g: dglite.create_block(([0], [0])).in_subgraph([0]), "a block has no subgraphs"),
    ],
)
def test_what_is_not_there_is_refused(cut: Any, message: str) -> None:
    with pytest.raises(DGLError, match=message):
        cut(dglite.graph(([0, 1], [1, 2])))


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_edges_between_some_nodes_of_a_larger_graph(idtype):
    g = dglite.rand_graph(200, 3000).astype(idtype)
    nodes = torch.randperm(200)[:60]
    place = {node: i for i, node in enumerate(nodes.tolist())}
    src, dst = (ends.tolist() for ends in g.edges())
    kept = [e for e in range(3000) if src[e] in place and dst[e] in place]
    kept.sort(key=lambda e: (place[src[e]], e))
    part = g.subgraph(nodes)
    assert part.edata[dglite.EID].tolist() == kept and part.idtype is idtype
    assert [end.tolist() for end in part.edges()] == [[place[ends[e]] for e in kept] for ends in (src, dst)]
    whole = g.subgraph(nodes, relabel_nodes=False)
    assert whole.edata[dglite.EID].tolist() == kept and whole.num_nodes() == 200


@pytest.mark.parametrize("num_edges", [200, 40_000])
@pytest.mark.parametrize(
    ("formats", "key_bits"), [("csr", 63), ("csc", 63), ("csc", 10), ("coo", 63), (["csr", "csc"], 63)]
)
def test_in_edges_and_out_edges_give_the_same_subgraph(monkeypatch, num_edges, formats, key_bits):
    """Most edges leave one node, so that in-edges are the fewer; with reversed edges, out-edges are."""
    monkeypatch.setattr(lookups, "KEY_BITS", key_bits)
    rng = np.random.default_rng(0)
    src = np.where(rng.random(num_edges) < 0.9, 0, rng.integers(100, size=num_edges))
    dst = rng.integers(100, size=num_edges)
    nodes = rng.permutation(100)[:20]
    nodes[0] = 0
    nodes = np.unique(nodes)[::-1].copy()
    place = {node: i for i, node in enumerate(nodes.tolist())}
    for ends in ((src, dst), (dst, src)):
        g = dglite.graph(ends, num_nodes=100).formats(formats)
        g.create_formats_()
        part = dglite.node_subgraph(g, nodes)
        expected = sorted(
            (place[u], i, place[v])
            for i, (u, v) in enumerate(zip(*(end.tolist() for end in ends), strict=True))
            if u in place and v in place
        )
        result = zip(part.edges()[0].tolist(), part.edata[dglite.EID].tolist(), part.edges()[1].tolist(), strict=True)
        assert list(result) == expected
