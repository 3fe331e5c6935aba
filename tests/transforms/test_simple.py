"""Simple and compact graphs, against their definitions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dglite
from dglite import DGLError
from dglite.graph import DGLGraph
from tests.transforms.graphs import multigraphs, pairs, typed_graphs


@settings(max_examples=50, deadline=None)
@given(multigraphs(), st.sampled_from(["arbitrary", "sum", "mean"]))
def test_simple_graphs_have_each_pair_once(g: DGLGraph, aggregator: str) -> None:
    before = pairs(g)
    g.edata["w"] = torch.rand(len(before), 2, dtype=torch.float64)
    simple, mapping = dglite.to_simple(
        g, return_counts="n", writeback_mapping=True, copy_edata=True, aggregator=aggregator
    )
    after = pairs(simple)
    assert after == sorted(set(before)) and simple.idtype == g.idtype == mapping.dtype
    assert [after[i] for i in mapping.tolist()] == before
    assert simple.edata["n"].dtype == g.idtype
    assert simple.edata["n"].tolist() == [before.count(pair) for pair in after]
    assert simple.ndata["name"].tolist() == g.ndata["name"].tolist()
    assert (dglite.EID in simple.edata) == (aggregator == "arbitrary")
    if aggregator == "arbitrary":
        assert torch.equal(simple.edata[dglite.EID], simple.edata["name"].to(g.idtype))
    for i, pair in enumerate(after):
        same = [j for j, other in enumerate(before) if other == pair]
        x, names = g.edata["w"][same], g.edata["name"][same]
        expected = {"arbitrary": x[0], "sum": x.sum(0), "mean": x.mean(0)}[aggregator]
        torch.testing.assert_close(simple.edata["w"][i], expected)
        assert (
            simple.edata["name"][i]
            == {"arbitrary": names[0], "sum": names.sum(), "mean": names.sum() // len(names)}[aggregator]
        )


@settings(max_examples=20, deadline=None)
@given(typed_graphs())
def test_types_are_made_simple_one_by_one(g: DGLGraph) -> None:
    simple, mappings = g.to_simple(writeback_mapping=True, copy_ndata=False)
    assert dict(simple.ndata) == {} and set(mappings) == set(g.canonical_etypes)
    for etype in g.canonical_etypes:
        assert pairs(simple, etype) == sorted(set(pairs(g, etype)))
        assert simple.edges[etype].data["count"].sum() == g.num_edges(etype)
    assert list(dglite.to_simple_graph(g).edata) == ["count"]


def test_unknown_aggregators_are_refused() -> None:
    with pytest.raises(DGLError, match="aggregator='max'"):
        dglite.to_simple(dglite.graph(([0], [1])), aggregator="max")
    with pytest.raises(DGLError, match="a block cannot be made simple"):
        dglite.to_simple(dglite.create_block(([0], [0])))


@settings(max_examples=50, deadline=None)
@given(multigraphs(), st.data())
def test_compact_graphs_keep_the_nodes_that_edges_name(g: DGLGraph, data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.integers(0, g.num_nodes() - 1), unique=True))
    other = dglite.graph(([0], [0]), num_nodes=g.num_nodes(), idtype=g.idtype)
    result, second = dglite.compact_graphs([g, other], always_preserve=torch.tensor(kept, dtype=g.idtype))
    ids = result.ndata[dglite.NID].tolist()
    u, v = g.edges()
    assert ids == list(dict.fromkeys([*kept, *u.tolist(), *v.tolist(), 0])) == second.ndata[dglite.NID].tolist()
    assert [(ids[a], ids[b]) for a, b in pairs(result)] == pairs(g) and [ids[a] for a, _ in pairs(second)] == [0]
    assert result.ndata["name"].tolist() == ids and result.edata["name"].tolist() == g.edata["name"].tolist()


def test_compaction_by_type() -> None:
    g = dglite.heterograph({("user", "plays", "game"): ([1, 3], [3, 5])}, {"user": 20, "game": 10})
    other = dglite.heterograph({("user", "plays", "game"): ([1, 6], [6, 8])}, {"user": 20, "game": 10})
    first, second = dglite.compact_graphs([g, other])
    assert {name: ids.tolist() for name, ids in first.ndata[dglite.NID].items()} == {
        "user": [1, 3, 6],
        "game": [3, 5, 6, 8],
    }
    assert pairs(second) == [(0, 2), (2, 3)]
    assert dglite.compact_graphs(g, {"game": [9]}).nodes["game"].data[dglite.NID].tolist() == [9, 3, 5]
    bare = dglite.compact_graphs(g, copy_ndata=False, copy_edata=False)
    assert list(bare.nodes["user"].data) == [dglite.NID]
    with pytest.raises(DGLError, match="graph 1 must be over the same nodes"):
        dglite.compact_graphs([g, dglite.graph(([0], [1]))])
