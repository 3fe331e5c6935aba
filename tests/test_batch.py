"""A batch is the disjoint union of its graphs, and taking it apart gives them back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dglite
from dglite import DGLError
from dglite.batch import batch, merge, slice_batch, unbatch
from dglite.convert import create_block, graph, heterograph
from dglite.graph import DGLGraph


def contents(g: DGLGraph) -> Any:
    """Return all that a graph holds, as plain values."""
    nodes = {n: (g.num_nodes(n), {k: v.tolist() for k, v in g.nodes[n].data.items()}) for n in g.ntypes}
    edges = {}
    for etype in g.canonical_etypes:
        ends = [end.tolist() for end in g.edges(etype=etype)]
        edges[etype] = ends, {k: v.tolist() for k, v in g.edges[etype].data.items()}
    return g.idtype, nodes, edges


USER, GAME = ("user", "follows", "user"), ("user", "plays", "game")


@st.composite
def homogeneous(draw: st.DrawFn) -> DGLGraph:
    n = draw(st.integers(0, 5))
    ids = st.integers(0, max(n - 1, 0))
    ends = draw(st.lists(st.tuples(ids, ids), max_size=8)) if n else []
    g = graph(([u for u, _ in ends], [v for _, v in ends]), num_nodes=n)
    g.ndata["h"] = torch.rand(n, 2)
    g.edata["w"] = torch.arange(len(ends))
    return g


@st.composite
def heterogeneous(draw: st.DrawFn) -> DGLGraph:
    users, games = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    u, v = st.integers(0, users - 1), st.integers(0, games - 1)
    follows, plays = draw(st.lists(st.tuples(u, u), max_size=5)), draw(st.lists(st.tuples(u, v), max_size=5))
    g = heterograph({USER: follows, GAME: plays}, {"user": users, "game": games}, idtype=torch.int32)
    g.nodes["user"].data["h"] = torch.rand(users)
    g.edges[GAME].data["w"] = torch.rand(len(plays), 1)
    return g


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(homogeneous()), min_size=1, max_size=5))
def test_unbatch_undoes_batch(graphs: list[DGLGraph]) -> None:
    check_round_trip(graphs)


@settings(max_examples=40, deadline=None)
@given(st.lists(heterogeneous(), min_size=1, max_size=4))
def test_unbatch_undoes_batch_of_several_types(graphs: list[DGLGraph]) -> None:
    check_round_trip(graphs)


def check_round_trip(graphs: list[DGLGraph]) -> None:
    joined = batch(graphs)
    assert joined.batch_size == len(graphs)
    for actual, expected in zip(unbatch(joined), graphs, strict=True):
        assert contents(actual) == contents(expected)
    for i, expected in enumerate(graphs):
        assert contents(slice_batch(joined, i)) == contents(expected)
    for ntype in joined.ntypes:
        assert joined.batch_num_nodes(ntype).tolist() == [g.num_nodes(ntype) for g in graphs]
    for etype in joined.canonical_etypes:
        assert joined.batch_num_edges(etype).tolist() == [g.num_edges(etype) for g in graphs]
        offset = 0
        ends = [torch.empty(0, dtype=joined.idtype)] * 2
        src, _, dst = etype
        src_offset = dst_offset = 0
        for g in graphs:
            u, v = g.edges(etype=etype)
            ends = [torch.cat([ends[0], u + src_offset]), torch.cat([ends[1], v + dst_offset])]
            src_offset, dst_offset = src_offset + g.num_nodes(src), dst_offset + g.num_nodes(dst)
        assert offset == 0 and [x.tolist() for x in joined.edges(etype=etype)] == [x.tolist() for x in ends]


def test_batches_are_flattened() -> None:
    g1, g2 = graph(([0], [1])), graph(([0, 1, 2], [1, 2, 0]))
    inner = batch([g1, g2])
    outer = batch([inner, g2, inner])
    assert outer.batch_num_nodes().tolist() == [2, 3, 3, 2, 3] and outer.batch_num_edges().tolist() == [1, 3, 3, 1, 3]
    assert [contents(g) for g in unbatch(outer)] == [contents(g) for g in (g1, g2, g2, g1, g2)]


@pytest.mark.parametrize("nested", [False, True])
def test_a_batch_of_one_is_a_graph_of_its_own(nested: bool) -> None:
    g = graph(([0, 1], [1, 2]), num_nodes=3)
    g.ndata["x"], g.edata["w"] = torch.arange(3.0), torch.arange(2.0)
    g = batch([g, g]) if nested else g
    joined, before = batch([g]), contents(g)
    assert contents(joined) == before
    assert joined.batch_num_nodes().tolist() == ([3, 3] if nested else [3])
    assert joined.batch_num_edges().tolist() == ([2, 2] if nested else [2])
    joined.ndata["x"].add_(1)
    joined.add_edges([0], [2])
    assert contents(g) == before
    assert not batch([g], ndata=None, edata=["w"]).ndata


def test_a_batch_of_one_has_what_was_made_of_the_structure() -> None:
    g = graph(([0, 1], [2, 2]))
    known = g.adjacency().csc()
    result = batch([g])
    assert result.adjacency().csc() is known
    result.add_edges(0, 1)
    assert g.num_edges() == 2 and g.adjacency().csc() is known
    restricted = batch([g.formats(["coo"])])
    assert set(restricted.formats()["created"] + restricted.formats()["not created"]) == {"coo", "csr", "csc"}


def test_features_are_chosen_by_name() -> None:
    g1, g2 = graph(([0], [1])), graph(([0], [1]))
    for g in (g1, g2):
        g.ndata["a"], g.ndata["b"], g.edata["w"] = torch.ones(2), torch.ones(2), torch.ones(1)
    assert set(batch([g1, g2]).ndata) == {"a", "b"}
    only = batch([g1, g2], ndata=["a"], edata=None)
    assert set(only.ndata) == {"a"} and set(only.edata) == set()
    del g2.ndata["b"]
    assert set(batch([g1, g2], ndata=["a"]).ndata) == {"a"}
    with pytest.raises(DGLError, match=r"features \['a', 'b'\], those of another \['a'\]"):
        batch([g1, g2])
    with pytest.raises(DGLError, match="'b' is not on all of the nodes"):
        batch([g1, g2], ndata=["b"])
    with pytest.raises(DGLError, match="ndata must be a list of feature names"):
        batch([g1, g2], ndata="a")


def test_graphs_without_rows_need_no_features() -> None:
    g1, empty = graph(([0], [1])), graph(([], []), num_nodes=1)
    g1.edata["w"], g1.ndata["h"], empty.ndata["h"] = torch.ones(1), torch.ones(2), torch.zeros(1)
    joined = batch([empty, g1, empty])
    assert joined.edata["w"].tolist() == [1] and joined.ndata["h"].tolist() == [0, 1, 1, 0]
    assert [g.num_edges() for g in unbatch(joined)] == [0, 1, 0]


def test_gradients_flow_through_a_batch() -> None:
    x = torch.rand(2, dtype=torch.float64, requires_grad=True)
    g = graph(([0], [1]))
    g.ndata["h"] = x
    first, second = unbatch(batch([g, g]))
    (first.ndata["h"].sum() + 2 * second.ndata["h"].sum()).backward()
    assert x.grad is not None and x.grad.tolist() == [3, 3]


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_the_id_type_is_kept(idtype: torch.dtype) -> None:
    joined = batch([graph(([0], [1]), idtype=idtype)] * 2)
    assert joined.idtype == idtype == joined.edges()[0].dtype == unbatch(joined)[1].edges()[0].dtype
    assert joined.batch_num_nodes().dtype == joined.batch_num_edges().dtype == idtype


def test_splits_may_be_given() -> None:
    joined = batch([graph(([0, 1, 2], [1, 2, 3])), graph(([0, 0, 0, 1], [0, 1, 2, 0])), graph(([0], [1]))])
    first, second = unbatch(joined, torch.tensor([4, 5]), torch.tensor([3, 5]))
    assert (first.num_nodes(), first.num_edges(), second.num_nodes(), second.num_edges()) == (4, 3, 5, 5)
    assert second.edges()[0].tolist() == [0, 0, 0, 1, 3]
    with pytest.raises(DGLError, match="edge 3, 4 -> 4, joins nodes of different graphs"):
        unbatch(joined, torch.tensor([4, 5]), torch.tensor([4, 4]))
    with pytest.raises(DGLError, match="must sum to its 9 nodes"):
        unbatch(joined, torch.tensor([4, 4]), torch.tensor([3, 5]))
    with pytest.raises(DGLError, match="of the same length"):
        unbatch(joined, torch.tensor([4, 5]))
    assert joined.batch_size == 3


def test_one_graph_is_a_batch_of_one() -> None:
    g = graph(([0, 1], [1, 0]))
    g.ndata["h"] = torch.ones(2)
    assert [contents(x) for x in unbatch(g)] == [contents(g)] and contents(slice_batch(g, 0)) == contents(g)


def test_a_slice_can_tell_its_ids() -> None:
    joined = batch([graph(([0, 1], [1, 2])), graph(([1], [0]))])
    part = slice_batch(joined, -1, store_ids=True)
    assert part.ndata[dglite.NID].tolist() == [3, 4] and part.edata[dglite.EID].tolist() == [2]
    with pytest.raises(DGLError, match="graph 2 does not exist; the batch has 2"):
        slice_batch(joined, 2)


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        ([], "list of graphs is empty"),
        ([graph(([0], [1])), 3], "item 1 is a int"),
        ([graph(([0], [1])), heterograph({GAME: ([0], [0])})], "graph 1 has node types"),
        ([graph(([0], [1])), graph(([0], [1]), idtype=torch.int32)], "graph 1 has ids of int32, graph 0 of int64"),
        ([create_block(([0], [0]))], "blocks cannot be batched"),
    ],
)
def test_what_cannot_be_batched_is_refused(graphs: list[Any], message: str) -> None:
    with pytest.raises(DGLError, match=message):
        batch(graphs)


def test_features_must_agree() -> None:
    g1, g2 = graph(([0], [1])), graph(([0], [1]))
    g1.ndata["h"], g2.ndata["h"] = torch.ones(2), torch.ones(2, dtype=torch.float64)
    with pytest.raises(DGLError, match=r"torch.float32; got \(\) torch.float64"):
        batch([g1, g2])
    g2.ndata["h"] = torch.ones(2, 3)
    with pytest.raises(DGLError, match=r"got \(3,\)"):
        batch([g1, g2])


def test_merge_lays_graphs_over_each_other() -> None:
    g, h = graph(([0, 1], [2, 3])), graph(([1, 2], [0, 4]))
    g.ndata["x"], h.ndata["x"], h.ndata["y"] = torch.zeros(4), torch.ones(5), torch.ones(5)
    g.edata["w"] = torch.ones(2)
    merged = merge([g, h])
    assert [x.tolist() for x in merged.edges()] == [[0, 1, 1, 2], [2, 3, 0, 4]]
    assert merged.ndata["x"].tolist() == [1] * 5 and merged.ndata["y"].tolist() == [1] * 5
    assert merged.edata["w"].tolist() == [1, 1, 0, 0]
    assert merge([h, g]).ndata["x"].tolist() == [0, 0, 0, 0, 1]
    assert set(g.ndata) == {"x"} and g.num_nodes() == 4
