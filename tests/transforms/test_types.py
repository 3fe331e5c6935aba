"""There and back between typed and untyped graphs, and from blocks."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given, settings

import dglite
from dglite import DGLError, DGLWarning
from dglite.graph import DGLGraph
from tests.transforms.graphs import FOLLOWS, PLAYS, pairs, typed_graphs


@settings(max_examples=50, deadline=None)
@given(typed_graphs())
def test_to_heterogeneous_undoes_to_homogeneous(g: DGLGraph) -> None:
    plain, node_counts, edge_counts = dglite.to_homogeneous(g, ndata=["h"], edata=["w"], return_count=True)
    assert plain.is_homogeneous and plain.num_nodes() == g.num_nodes() and plain.num_edges() == g.num_edges()
    assert node_counts == [g.num_nodes(name) for name in g.ntypes]
    assert edge_counts == [g.num_edges(etype) for etype in g.canonical_etypes]
    assert plain.ndata[dglite.NTYPE].dtype == plain.edata[dglite.ETYPE].dtype == torch.int64
    types, ids = plain.ndata[dglite.NTYPE].tolist(), plain.ndata[dglite.NID].tolist()
    for i, (u, v) in enumerate(pairs(plain)):
        etype = g.canonical_etypes[plain.edata[dglite.ETYPE][i]]
        assert (g.ntypes[types[u]], etype[1], g.ntypes[types[v]]) == etype
        assert pairs(g, etype)[plain.edata[dglite.EID][i]] == (ids[u], ids[v])
    back = dglite.to_heterogeneous(plain, g.ntypes, g.etypes)
    assert back.ntypes == g.ntypes and back.canonical_etypes == g.canonical_etypes and back.idtype == g.idtype
    for name in g.ntypes:
        assert back.nodes[name].data["h"].tolist() == g.nodes[name].data["h"].tolist()
        assert set(back.nodes[name].data) == {"h", dglite.NID}
        assert [types[i] for i in back.nodes[name].data[dglite.NID]] == [g.ntypes.index(name)] * g.num_nodes(name)
    for etype in g.canonical_etypes:
        assert pairs(back, etype) == pairs(g, etype)
        assert back.edges[etype].data["w"].tolist() == g.edges[etype].data["w"].tolist()


def test_one_number_may_name_several_relations() -> None:
    g = dglite.graph(([0, 2, 1], [1, 3, 0]))
    g.ndata["kind"], g.edata["kind"] = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 0, 0])
    result = dglite.to_heterogeneous(g, ["b", "a"], ["r"], "kind", "kind")
    assert result.canonical_etypes == [("a", "r", "a"), ("b", "r", "b")] and result.ntypes == ["a", "b"]
    assert result.edges["b", "r", "b"].data[dglite.EID].tolist() == [0, 2]
    meta = nx.MultiDiGraph([("a", "b", "r"), ("a", "a", "r"), ("b", "b", "r")])
    full = dglite.to_heterogeneous(g, ["b", "a"], ["r"], "kind", "kind", meta)
    assert len(full.canonical_etypes) == 3 and full.num_edges(("a", "r", "b")) == 0
    with pytest.raises(DGLError, match="which the metagraph does not have"):
        dglite.to_heterogeneous(g, ["b", "a"], ["r"], "kind", "kind", nx.MultiDiGraph([("a", "b", "r")]))


def test_types_need_not_be_stored() -> None:
    g = dglite.heterograph({FOLLOWS: ([0], [1]), PLAYS: ([0], [0])}, idtype=torch.int32)
    plain = dglite.to_homogeneous(g, store_type=False)
    assert set(plain.ndata) == {dglite.NID} and plain.idtype == torch.int32 == plain.ndata[dglite.NID].dtype
    again = dglite.to_homogeneous(plain)
    assert again.ndata[dglite.NTYPE].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g, h: dglite.to_homogeneous(h, ndata=["x"]), "'x' is not on all of the nodes"),
        (lambda g, h: dglite.to_heterogeneous(g, ["a"], ["r"]), "nodes have no feature '_TYPE'"),
        (lambda g, h: dglite.to_heterogeneous(h, ["a"], ["r"]), "must have one node type"),
        (lambda g, h: dglite.to_heterogeneous(g, ["a"], ["r"], "k", "k"), "run from 0 to 1, but there are 1 names"),
        (lambda g, h: dglite.to_heterogeneous(g, ["a"], ["r"], "f", "k"), "must be an integer for each node"),
        (lambda g, h: dglite.block_to_graph(g), "not a block"),
    ],
)
def test_what_cannot_be_converted_is_refused(call: Any, message: str) -> None:
    g, h = dglite.graph(([0], [1])), dglite.heterograph({FOLLOWS: ([0], [1]), PLAYS: ([0], [0])})
    g.ndata["k"], g.ndata["f"], g.edata["k"] = torch.tensor([0, 1]), torch.rand(2), torch.tensor([0])
    h.nodes["user"].data["x"] = torch.ones(2)
    with pytest.raises(DGLError, match=message):
        call(g, h)


def test_blocks_become_graphs() -> None:
    block = dglite.create_block({("A", "AB", "B"): ([1, 2, 3], [2, 1, 0]), ("B", "BA", "A"): ([2, 1], [2, 3])})
    block.srcnodes["A"].data["h"] = torch.arange(4)
    g = dglite.block_to_graph(block)
    assert g.ntypes == ["A_src", "B_src", "A_dst", "B_dst"] and not g.is_block
    assert g.canonical_etypes == [("A_src", "AB", "B_dst"), ("B_src", "BA", "A_dst")]
    assert g.nodes["A_src"].data["h"] is block.srcnodes["A"].data["h"] and pairs(g, "AB") == pairs(block, "AB")
    plain = dglite.to_homogeneous(block)
    assert plain.num_nodes() == sum(g.num_nodes(name) for name in g.ntypes) and pairs(plain)[0] == (1, 4 + 3 + 4 + 2)


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_relations_without_edges_need_a_metagraph(idtype: Any) -> None:
    counts = {"n": 1, "m": 0, "lonely": 2}
    g = dglite.heterograph({("n", "f", "m"): ([], []), ("n", "r", "n"): ([0], [0])}, counts, idtype=idtype)
    plain = dglite.to_homogeneous(g)
    with pytest.warns(DGLWarning, match="no edge is of type 'f'.* give metagraph="):
        result = dglite.to_heterogeneous(plain, g.ntypes, g.etypes)
    assert result.canonical_etypes == [("n", "r", "n")] and result.ntypes == g.ntypes
    back = dglite.to_heterogeneous(plain, g.ntypes, g.etypes, metagraph=g.metagraph())
    assert back.canonical_etypes == g.canonical_etypes and back.ntypes == g.ntypes and back.idtype == idtype
    assert [back.num_nodes(ntype) for ntype in g.ntypes] == [g.num_nodes(ntype) for ntype in g.ntypes]
    meta = g.metagraph()
    meta.remove_node("lonely")
    with pytest.raises(DGLError, match="nodes of type 'lonely', which the metagraph does not have"):
        dglite.to_heterogeneous(plain, g.ntypes, g.etypes, metagraph=meta)


def test_features_that_a_type_lacks_can_be_tried_for():
    g = dglite.heterograph({("a", "r", "a"): ([0], [1]), ("a", "s", "b"): ([0], [0])})
    g.nodes["a"].data["x"] = torch.ones(2, 1)
    with pytest.raises(KeyError, match=r"^feature 'x' is not on all of the nodes; on all are \[\]$"):
        dglite.to_homogeneous(g, ndata=["x"])
    with pytest.raises(dglite.DGLError, match="feature 'x'"):
        dglite.to_homogeneous(g, ndata=["x"])
