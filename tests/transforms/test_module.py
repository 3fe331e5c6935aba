"""Transforms as objects do what the functions do, type by type, and leave the graph that they are given alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings

import dglite
from dglite import DGLError
from dglite import transforms as T
from dglite.graph import DGLGraph
from tests.transforms.graphs import FOLLOWS, LIKES, PLAYS, multigraphs, pairs, typed_graphs


def contents(g: DGLGraph) -> Any:
    nodes = {n: (g.num_nodes(n), {k: v.tolist() for k, v in g.nodes[n].data.items()}) for n in g.ntypes}
    return nodes, {e: (pairs(g, e), {k: v.tolist() for k, v in g.edges[e].data.items()}) for e in g.canonical_etypes}


EVERY = [
    T.AddSelfLoop(),
    T.AddSelfLoop(allow_duplicate=True, new_etypes=True),
    T.RemoveSelfLoop(),
    T.AddReverse(),
    T.AddReverse(copy_edata=True, sym_new_etype=True),
    T.ToSimple(),
    T.AddMetaPaths({"both": ["plays", "likes"]}),
    T.NodeShuffle(),
    T.DropNode(),
    T.DropEdge(),
    T.AddEdge(),
    T.FeatMask(0.5, ["h"]),
    T.RowFeatNormalizer(False, ["h"]),
    T.GCNNorm(),
    T.Compose([T.RemoveSelfLoop(), T.AddReverse(), T.DropEdge(0.1)]),
]


@settings(max_examples=10, deadline=None)
@given(typed_graphs())
def test_the_graph_given_is_left_alone(g: DGLGraph) -> None:
    before = contents(g)
    for transform in EVERY:
        result = transform(g)
        assert result is not g and contents(g) == before, transform


@settings(max_examples=30, deadline=None)
@given(typed_graphs())
def test_loops_and_reverses_by_type(g: DGLGraph) -> None:
    proper = [pair for pair in pairs(g, FOLLOWS) if pair[0] != pair[1]]
    loops = [(i, i) for i in range(g.num_nodes("user"))]
    looped = T.AddSelfLoop(new_etypes=True, fill_data="sum")(g)
    assert pairs(looped, FOLLOWS) == proper + loops and pairs(looped, PLAYS) == pairs(g, PLAYS)
    assert pairs(looped, ("user", "self", "user")) == loops and looped.num_edges(
        ("game", "self", "game")
    ) == g.num_nodes("game")
    assert T.AddSelfLoop(new_etypes=True)(looped).canonical_etypes == looped.canonical_etypes
    twice = T.AddSelfLoop(allow_duplicate=True, edge_feat_names=["w"], fill_data=7)(g)
    assert pairs(twice, FOLLOWS) == pairs(g, FOLLOWS) + loops
    assert twice.edges[FOLLOWS].data["w"][g.num_edges(FOLLOWS) :].tolist() == [7] * len(loops)
    assert pairs(T.RemoveSelfLoop()(g), FOLLOWS) == proper
    turned = T.AddReverse(copy_edata=True)(g)
    assert pairs(turned, FOLLOWS) == pairs(g, FOLLOWS) + [(v, u) for u, v in pairs(g, FOLLOWS)]
    assert turned.edges[FOLLOWS].data["w"].tolist() == g.edges[FOLLOWS].data["w"].tolist() * 2
    assert pairs(turned, ("game", "rev_plays", "user")) == [(v, u) for u, v in pairs(g, PLAYS)]
    assert turned.edges["rev_plays"].data["w"].tolist() == g.edges["plays"].data["w"].tolist()
    assert turned.canonical_etypes == sorted(turned.canonical_etypes) and turned.num_edges(LIKES) == g.num_edges(LIKES)
    bare = T.AddReverse()(g)
    assert bare.edges[FOLLOWS].data["w"][g.num_edges(FOLLOWS) :].tolist() == [0] * g.num_edges(FOLLOWS)
    assert dict(bare.edges["rev_plays"].data) == {}
    separate = T.AddReverse(sym_new_etype=True)(g)
    assert pairs(separate, ("user", "rev_follows", "user")) == [(v, u) for u, v in pairs(g, FOLLOWS)]
    assert pairs(separate, FOLLOWS) == pairs(g, FOLLOWS)
    with pytest.raises(DGLError, match=r"edge type .*rev_.* exists already"):
        T.AddReverse()(bare)


@settings(max_examples=20, deadline=None)
@given(typed_graphs())
def test_metapaths_become_edge_types(g: DGLGraph) -> None:
    reached = dglite.metapath_reachable_graph(g, [PLAYS, LIKES])
    paths = T.AddMetaPaths({"co": [PLAYS, LIKES]})(g)
    assert pairs(paths, ("user", "co", "user")) == pairs(reached) and paths.num_edges(FOLLOWS) == g.num_edges(FOLLOWS)
    assert paths.edges[FOLLOWS].data["w"] is g.edges[FOLLOWS].data["w"]
    alone = T.AddMetaPaths({"co": [PLAYS, LIKES]}, keep_orig_edges=False)(g)
    assert (
        alone.canonical_etypes == [("user", "co", "user")]
        and alone.nodes["user"].data["h"] is g.nodes["user"].data["h"]
    )


@settings(max_examples=20, deadline=None)
@given(multigraphs())
def test_structure_of_one_type(g: DGLGraph) -> None:
    assert contents(T.LineGraph(False)(g)) == contents(dglite.line_graph(g, False, shared=True))
    assert contents(T.KHopGraph(2)(g)) == contents(dglite.khop_graph(g, 2))
    assert contents(T.ToSimple("n", "sum")(g)) == contents(dglite.to_simple(g, "n", copy_edata=True, aggregator="sum"))
    levi = T.ToLevi()(g)
    assert levi.canonical_etypes == [("edge", "e2n", "node"), ("node", "n2e", "edge")] and levi.idtype == g.idtype
    assert pairs(levi, "n2e") == [(u, i) for i, (u, _) in enumerate(pairs(g))]
    assert pairs(levi, "e2n") == [(i, v) for i, (_, v) in enumerate(pairs(g))]
    assert levi.nodes["node"].data["name"].tolist() == g.ndata["name"].tolist()
    assert levi.nodes["edge"].data["name"].tolist() == g.edata["name"].tolist()


def test_encodings_are_written() -> None:
    g = dglite.graph(([0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]))
    g.edata["w"] = torch.ones(8)
    compose = T.Compose([T.RandomWalkPE(3, "walk", "w"), T.LapPE(2, "lap", "values"), T.SVDPE(2, random_flip=False)])(g)
    assert dict(g.ndata) == {} and torch.equal(compose.ndata["walk"], dglite.random_walk_pe(g, 3))
    assert compose.ndata["lap"].shape == (4, 2) and torch.equal(
        compose.ndata["svd_pe"], dglite.svd_pe(g, 2, random_flip=False)
    )
    torch.testing.assert_close(compose.ndata["values"], torch.ones(4, 2))
    assert set(T.LaplacianPE(6, padding=True)(g).ndata) == {"PE"}


def test_transforms_show_themselves_and_demand_a_call() -> None:
    assert repr(T.Compose([T.AddSelfLoop(), T.ToSimple()])) == "Compose([\n  AddSelfLoop(),\n  ToSimple()\n])"
    with pytest.raises(TypeError, match="abstract"):
        type("Nothing", (T.BaseTransform,), {})()
    block = dglite.create_block({PLAYS: ([0], [0])})
    with pytest.raises(DGLError, match="a block takes no more edge types"):
        T.AddReverse()(block)


# -- at random ---------------------------------------------------------------------------------------------------
def big() -> DGLGraph:
    dglite.seed(0)
    g = dglite.rand_graph(400, 4000)
    g.ndata["h"], g.edata["w"] = torch.arange(400 * 8.0).reshape(400, 8) + 1, torch.arange(4000.0)
    return g


def test_random_transforms_change_as_much_as_asked() -> None:
    g = big()
    assert 240 < T.DropNode(0.3)(g).num_nodes() < 320
    dropped = T.DropEdge(0.3)(g)
    assert 2650 < dropped.num_edges() < 2950
    ends = pairs(g)
    assert pairs(dropped) == [ends[int(i)] for i in dropped.edata["w"]]
    added = T.AddEdge(0.25)(g)
    assert added.num_edges() == 5000 and pairs(added)[:4000] == ends and not added.edata["w"][4000:].any()
    shuffled = T.NodeShuffle()(g)
    assert pairs(shuffled) == ends and not torch.equal(shuffled.ndata["h"], g.ndata["h"])
    assert torch.equal(shuffled.ndata["h"].sort(0).values, g.ndata["h"])
    masked = T.FeatMask(0.5, ["h"])(g).ndata["h"]
    columns = (masked == 0).all(0)
    assert torch.equal(masked[:, ~columns], g.ndata["h"][:, ~columns]) and 0 < columns.sum() < 8
    column = T.FeatMask(0.5, None, ["w"])
    weights = [column(g).edata["w"] for _ in range(20)]
    assert {x.tolist() == g.edata["w"].tolist() for x in weights} == {True, False}, "a feature (rows,) is one column"
    assert all(x.tolist() == g.edata["w"].tolist() or not x.any() for x in weights)
    for transform in (T.DropNode(0), T.DropEdge(0), T.AddEdge(0), T.FeatMask(0, ["h"])):
        assert contents(transform(g)) == contents(g)
    assert T.DropNode(1)(g).num_nodes() == 0 == T.DropEdge(1)(g).num_edges()


@pytest.mark.parametrize(
    "transform", [T.DropNode(), T.DropEdge(), T.AddEdge(), T.NodeShuffle(), T.FeatMask(0.5, ["h"])], ids=repr
)
def test_random_transforms_follow_the_seed(transform: Any) -> None:
    g, results = big(), []
    for seed in (1, 1, 2):
        dglite.seed(seed)
        results.append(contents(transform(g)))
    assert results[0] == results[1] != results[2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda g: T.DropNode(1.5), "a number from 0 to 1, got 1.5"),
        (lambda g: T.AddEdge(-1), "ratio must be a number >= 0"),
        (lambda g: T.FeatMask(0.5, ["x"])(g), "no type has a feature 'x'"),
        (lambda g: T.SIGNDiffusion(1, diffuse_op="heat"), "diffuse_op='heat'"),
    ],
)
def test_settings_are_checked(make: Any, message: str) -> None:
    with pytest.raises(DGLError, match=message):
        make(big())


def test_rows_are_normalised() -> None:
    g = dglite.graph(([0], [1]), num_nodes=3)
    g.ndata["h"], g.edata["w"] = torch.tensor([[1.0, 3.0], [0.0, 0.0], [-1.0, 2.0]]), torch.tensor([[2.0, 2.0]])
    normalizer = T.RowFeatNormalizer(node_feat_names=["h"], edge_feat_names=["w"])(g)
    assert normalizer.ndata["h"].tolist() == [[0.25, 0.75], [0, 0], [-1, 2]] and normalizer.edata["w"].tolist() == [
        [0.5, 0.5]
    ]
    lifted = T.RowFeatNormalizer(True, ["h"])(g).ndata["h"]
    torch.testing.assert_close(lifted, torch.tensor([[2 / 6, 4 / 6], [0.5, 0.5], [0, 1]]))


def test_rows_whose_sum_is_less_than_one_stay() -> None:
    g = dglite.graph(([0], [1]), num_nodes=3)
    g.ndata["h"] = torch.tensor([[0.25, 0.5], [-3.0, 2.5], [0.5, 1.5]])
    normalizer = T.RowFeatNormalizer(node_feat_names=["h"])(g)
    assert normalizer.ndata["h"].tolist() == [[0.25, 0.5], [-3.0, 2.5], [0.25, 0.75]]
