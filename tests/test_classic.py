"""Classic functions do what they did, and say what to call today."""

from __future__ import annotations

import pytest
import torch

import dglite
from dglite import DGLError

TYPED = ("user", "follows", "user")


def pair():
    g = dglite.graph(([0, 1], [1, 2]))
    g.ndata["h"] = torch.arange(3.0)
    return g


def test_typed_graphs():
    with pytest.warns(DeprecationWarning, match="heterograph") as caught:
        g = dglite.graph([(0, 1), (1, 2)], "user", "follows", card=4, validate=False)
        assert dglite.graph([(0, 1), (1, 2)], "user", "follows", 4).num_nodes() == g.num_nodes()
    assert caught[0].filename == __file__
    assert g.canonical_etypes == [TYPED] and g.num_nodes("user") == 4 and g.num_edges() == 2
    with pytest.raises(TypeError, match="unexpected keyword argument 'cards'"):
        dglite.graph([(0, 1)], cards=4)


def test_a_warning_points_at_the_line_that_constructs() -> None:
    sampler = dglite.dataloading.NeighborSampler([2])
    with pytest.warns(DeprecationWarning, match="is deprecated; use") as caught:
        dglite.dataloading.NodeDataLoader(pair(), torch.arange(3), sampler)
        dglite.nn.GraphConv(2, 2, norm=True)
    assert {warning.filename for warning in caught} == {__file__}


def test_bipartite():
    with pytest.warns(DeprecationWarning, match="heterograph"):
        g = dglite.bipartite([(0, 1), (0, 0)], "user", "plays", "game", num_nodes=(2, 3))
    assert g.canonical_etypes == [("user", "plays", "game")]
    assert (g.num_nodes("user"), g.num_nodes("game"), g.idtype) == (2, 3, torch.int64)
    with pytest.warns(DeprecationWarning):
        assert dglite.bipartite(([1], [0])).ntypes == ["_U", "_V"]
    with pytest.warns(DeprecationWarning), pytest.raises(DGLError, match="both node types are 'a'"):
        dglite.bipartite(([1], [0]), "a", "x", "a")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_relations_join():
    follows = dglite.graph(([0, 1], [1, 2]), "user", "follows")
    plays = dglite.bipartite(([0], [1]), "user", "plays", "game")
    follows.ndata["h"], plays.edata["w"] = torch.arange(3.0), torch.ones(1)
    plays.nodes["game"].data["x"] = torch.ones(2)
    g = dglite.hetero_from_relations([plays, follows])
    assert g.canonical_etypes == [TYPED, ("user", "plays", "game")]
    assert (g.num_nodes("user"), g.num_nodes("game")) == (3, 2)
    assert g.nodes["user"].data["h"].tolist() == [0, 1, 2] and g.nodes["game"].data["x"].tolist() == [1, 1]
    assert g.edges["plays"].data["w"].tolist() == [1]
    assert dglite.hetero_from_relations([follows], {"user": 9}).num_nodes() == 9
    assert dglite.heterograph({TYPED: follows}).num_nodes("user") == 3
    with pytest.raises(DGLError, match="same edge type"):
        dglite.hetero_from_relations([follows, follows])


def test_batches_have_a_classic_type():
    g = pair()
    with pytest.warns(DeprecationWarning, match="dglite.batch"):
        joined = dglite.BatchedDGLGraph([g, g], ["h"], None)
    assert isinstance(joined, dglite.BatchedDGLGraph) and isinstance(joined, dglite.BatchedHeteroDGLGraph)
    assert not isinstance(g, dglite.BatchedDGLGraph) and not isinstance(3, dglite.BatchedDGLGraph)
    assert joined.batch_size == 2 and joined.ndata["h"].tolist() == [0, 1, 2] * 2
    with pytest.warns(DeprecationWarning):
        assert len(dglite.unbatch_hetero(dglite.batch_hetero([g, g, g]))) == 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_types_and_copies():
    g = pair()
    assert dglite.DGLHeteroGraph is dglite.DGLGraph
    assert dglite.as_heterograph(g) is g and dglite.as_immutable_graph(g) is g
    named = dglite.as_heterograph(g, "user", "follows")
    assert named.canonical_etypes == [TYPED] and named.nodes["user"].data["h"].tolist() == [0, 1, 2]
    h = dglite.heterograph({TYPED: ([0], [1]), ("user", "plays", "game"): ([1], [0])})
    merged = dglite.to_homo(h)
    assert merged.num_nodes() == 3 and merged.ndata[dglite.NTYPE].tolist() == [0, 1, 1]
    assert dglite.to_hetero(merged, h.ntypes, h.etypes).canonical_etypes == h.canonical_etypes
    assert dglite.to_bidirected_stale(g).num_edges() == 4
