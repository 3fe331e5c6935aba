"""A slice of several relations is one relation of all their edges."""

from __future__ import annotations

import pytest
import torch

from dglite import EID, ETYPE, NID, NTYPE, DGLError, create_block, heterograph


def typed(idtype=torch.int64):
    edges = {
        ("dev", "makes", "game"): ([0, 1], [0, 1]),
        ("user", "follows", "user"): ([0, 1], [1, 2]),
        ("user", "plays", "game"): ([2, 0], [0, 1]),
    }
    return heterograph(edges, idtype=idtype)


def ends(g):
    return [x.tolist() for x in g.edges()]


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_sources_and_destinations_of_different_types(idtype):
    g = typed(idtype)
    g.nodes["dev"].data["h"], g.nodes["user"].data["h"] = torch.zeros(2), torch.ones(3)
    g.nodes["user"].data["only"] = torch.ones(3)
    g.edges["makes"].data["w"], g.edges["plays"].data["w"] = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    result = g[:, :, "game"]
    assert result.canonical_etypes == [("dev+user", "makes+plays", "game")] and result.idtype == idtype
    assert ends(result) == [[0, 1, 4, 2], [0, 1, 0, 1]]
    assert result.srcdata["h"].tolist() == [0, 0, 1, 1, 1] and "only" not in result.srcdata
    assert result.edata["w"].tolist() == [1, 2, 3, 4]
    assert result.srcdata[NTYPE].tolist() == [0, 0, 2, 2, 2] and result.srcdata[NID].tolist() == [0, 1, 0, 1, 2]
    assert result.edata[ETYPE].tolist() == [0, 0, 2, 2] and result.edata[EID].tolist() == [0, 1, 0, 1]


def test_a_type_on_both_sides():
    result = typed()["user", :, :]
    assert result.canonical_etypes == [("user", "follows+plays", "game+user")]
    assert ends(result) == [[0, 1, 2, 0], [3, 4, 0, 1]] and result.num_nodes("game+user") == 5
    every = typed()[:, :, :]
    assert every.ntypes == ["dev+user", "game+user"] and every.num_edges() == 6


def test_one_type_for_both_sides():
    g = heterograph({("a", "x", "a"): ([0], [1]), ("a", "y", "a"): ([1], [0])})
    result = g["a", :, "a"]
    assert result.is_homogeneous and result.canonical_etypes == [("a", "x+y", "a")] and ends(result) == [[0, 1], [1, 0]]
    result.add_nodes(1)
    assert g.num_nodes() == 2


def test_a_name_that_relations_share_and_blocks():
    g = heterograph({("a", "x", "b"): ([0], [1]), ("c", "x", "b"): ([1], [0])})
    assert g["x"].canonical_etypes == [("a+c", "x+x", "b")] and ends(g["x"]) == [[0, 2], [1, 0]]
    block = create_block({("a", "x", "a"): ([0, 1], [0, 0]), ("a", "y", "a"): ([1], [0])})
    result = block["a", :, "a"]
    assert result.is_block and (result.num_src_nodes(), result.num_dst_nodes()) == (2, 1)
    assert ends(result) == [[0, 1, 1], [0, 0, 0]]


def test_features_of_different_shapes_are_refused():
    g = typed()
    g.nodes["dev"].data["h"], g.nodes["user"].data["h"] = torch.zeros(2), torch.ones(3, 2)
    with pytest.raises(DGLError, match="rows of feature 'h'"):
        g[:, :, "game"]
