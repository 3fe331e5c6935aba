"""Features by graph, type, rows and node pairs; writing is out of place; wrong writes change nothing."""

from __future__ import annotations

import pickle

import pytest
import torch

from dglite.column import Scheme
from dglite.convert import create_block, graph, heterograph
from dglite.errors import DGLError
from dglite.transforms import to_block

PLAYS, KNOWS = ("user", "plays", "game"), ("user", "knows", "user")


def triangle():
    return graph(([0, 1, 2, 0], [1, 2, 0, 1]))


def typed():
    return heterograph({PLAYS: ([0, 1, 2], [0, 1, 0]), KNOWS: ([0, 1], [1, 2])})


def test_columns():
    g = triangle()
    g.ndata["h"], g.edata["w"] = torch.ones(3, 2), torch.arange(4)
    assert g.ndata["h"].shape == (3, 2) and g.edata["w"].tolist() == [0, 1, 2, 3]
    assert g.srcdata["h"] is g.dstdata["h"] is g.nodes["_N"].data["h"] is g.nodes[:].data["h"] is g.ndata["h"]
    assert g.edges["_E"].data["w"] is g.edges[:].data["w"] is g.edata["w"]
    assert g.node_attr_schemes() == {"h": Scheme((2,), torch.float32)}
    assert g.edge_attr_schemes() == {"w": Scheme((), torch.int64)}
    g.ndata.pop("h")
    assert not g.ndata


def test_rows():
    g = triangle()
    column = torch.zeros(3, 2, requires_grad=True)
    g.ndata["h"] = column
    g.nodes[[0, 2]].data["h"] = torch.ones(2, 2)
    assert g.ndata["h"].tolist() == [[1, 1], [0, 0], [1, 1]] and column.sum() == 0
    g.ndata["h"].sum().backward()
    assert column.grad.tolist() == [[0, 0], [1, 1], [0, 0]]
    g.nodes[torch.tensor([False, True, False])].data["h"] = torch.full((1, 2), 5.0)
    assert g.nodes[1].data["h"].tolist() == [[5, 5]]
    g.nodes[0].data.update(a=torch.ones(1), b=torch.ones(1))
    assert g.ndata["a"].tolist() == [1, 0, 0] and set(g.nodes[0].data) == {"h", "a", "b"} and len(g.nodes[0].data) == 3
    with pytest.raises(DGLError, match="drop the whole column"):
        del g.nodes[0].data["h"]


def test_rows_of_edges_by_ids_and_by_ends():
    g = triangle()
    g.edges[[1, 3]].data["w"] = torch.ones(2)
    assert g.edata["w"].tolist() == [0, 1, 0, 1]
    g.edges[0, 1].data["w"] = torch.tensor([7.0])  # the first of two parallel edges
    assert g.edata["w"].tolist() == [7, 1, 0, 1]
    g.edges[[0, 0, 0], [1, 1, 1]].data["w"] = torch.tensor([7.0, 8.0, 9.0])  # both, and the first again
    assert g.edata["w"].tolist() == [9, 1, 0, 8]
    assert g.edges[g.edges()].data["w"].tolist() == [9, 1, 0, 8]
    assert g.edges[[1, 2], [2, 0]].data["w"].tolist() == [1, 0]
    with pytest.raises(DGLError, match="no edge from node 1 to node 0"):
        g.edges[1, 0]
    with pytest.raises(DGLError, match="edge id 4 does not exist"):
        g.edges[4]


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda g, x: g.ndata.update(h=x), "first dimension must be 3, one row for each node"),
        (lambda g, x: g.edata.update(h=x), "first dimension must be 4, one row for each edge"),
        (lambda g, x: g.nodes[[0, 1]].data.update(h=x), "first dimension must be 2"),
        (lambda g, x: g.edges[0].data.update(h=x), "first dimension must be 1"),
    ],
)
def test_wrong_row_counts_change_nothing(write, message):
    g = triangle()
    with pytest.raises(DGLError, match=message):
        write(g, torch.ones(7))
    assert not g.ndata and not g.edata


def test_unknown_features_and_types():
    g = typed()
    with pytest.raises(KeyError, match="no feature 'x' on the 'user' nodes; there are none"):
        g.nodes["user"].data["x"]
    with pytest.raises(DGLError, match="node type 'robot' does not exist; expected one of"):
        g.nodes["robot"]
    with pytest.raises(DGLError, match="edge type 'likes' does not exist"):
        g.edges["likes"]
    with pytest.raises(DGLError, match="2 node types; name one of"):
        g.nodes[0]


def test_several_types_give_dictionaries():
    g = typed()
    g.ndata["h"] = {"user": torch.ones(3), "game": torch.zeros(2)}
    g.nodes["game"].data["price"] = torch.ones(2)
    assert {name: x.tolist() for name, x in g.ndata["h"].items()} == {"game": [0, 0], "user": [1, 1, 1]}
    assert list(g.ndata["price"]) == ["game"] and g.ndata["nothing"] == {} and set(g.ndata) == {"h", "price"}
    assert len(g.ndata) == 2 and "price" in repr(g.ndata)
    g.edata["w"] = {"plays": torch.ones(3), KNOWS: torch.zeros(2)}
    assert set(g.edata["w"]) == {PLAYS, KNOWS} and g.edges["plays"].data["w"].sum() == 3
    del g.ndata["h"]
    assert "h" not in g.nodes["user"].data
    with pytest.raises(KeyError, match="no type has a feature 'h'"):
        del g.ndata["h"]


def test_data_of_several_types_can_be_pickled():
    g = typed()
    g.ndata["h"] = {"user": torch.ones(3), "game": torch.zeros(2)}
    for data, users in ((g.ndata, 3), (to_block(g).dstdata, 2)):
        again = pickle.loads(pickle.dumps(data))
        again["x"] = {"game": torch.ones(2)}
        assert {name: x.tolist() for name, x in again["h"].items()} == {"game": [0, 0], "user": [1] * users}
        assert list(again["x"]) == ["game"] and "x" not in data
    assert list(pickle.loads(pickle.dumps(g.edata))) == []


def test_a_name_that_no_type_has_is_not_in_the_data_of_several_types():
    g = typed()
    assert g.ndata["h"] == {} and "h" not in g.ndata and g.ndata.get("h") is None and g.ndata.pop("h", 3) == 3
    with pytest.raises(KeyError, match="no type has a feature 'h'"):
        g.ndata.pop("h")
    column = {"user": torch.ones(3)}
    assert list(g.ndata.setdefault("h", column)) == ["user"] and "h" in g.ndata and "h" not in g.edata
    assert list(g.ndata.setdefault("h", {"game": torch.ones(2)})) == list(g.ndata.get("h")) == ["user"]
    assert g.ndata.pop("h")["user"].tolist() == [1, 1, 1] and "h" not in g.ndata


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.ones(3), "must be a dictionary from type to tensor, got Tensor"),
        ({"user": torch.ones(3), "game": torch.ones(9)}, "must be 2, one row for each 'game' node"),
        ({"user": torch.ones(3), "robot": torch.ones(1)}, "node type 'robot' does not exist"),
    ],
)
def test_bad_dictionaries_change_nothing(value, message):
    g = typed()
    with pytest.raises(DGLError, match=message):
        g.ndata["h"] = value
    assert not g.ndata


def test_a_relation_slice_shares_features():
    g = typed()
    part = g["plays"]
    part.srcdata["h"] = torch.ones(3)
    g.nodes["game"].data["p"] = torch.ones(2)
    part.edata["w"] = torch.ones(3)
    assert g.nodes["user"].data["h"].sum() == 3 and part.dstdata["p"].sum() == 2
    assert g.edges["plays"].data["w"] is part.edata["w"]
    assert part.nodes["user"].data is g.nodes["user"].data


def test_blocks_keep_sources_and_destinations_apart():
    b = create_block(([0, 1, 2], [0, 0, 1]), 3, 2)
    b.srcdata["h"], b.dstdata["h"] = torch.ones(3), torch.zeros(2)
    assert b.srcdata["h"].shape == (3,) and b.dstdata["h"].shape == (2,)
    assert b.srcnodes["_N"].data["h"].sum() == 3 and b.dstnodes[[0]].data["h"].tolist() == [0]
    assert set(b.ndata["h"]) == {"SRC/_N", "DST/_N"}
    b.ndata["x"] = {"DST/_N": torch.ones(2)}
    assert "x" in b.dstdata and "x" not in b.srcdata
    with pytest.raises(DGLError, match="first dimension must be 2"):
        b.dstdata["h"] = torch.ones(3)


def test_sides_of_a_heterogeneous_graph():
    g = typed()
    g.srcdata["h"] = {"user": torch.ones(3)}
    assert list(g.dstdata["h"]) == ["user"]
    b = create_block({PLAYS: ([0], [1]), KNOWS: ([2], [0])}, {"user": 3}, {"game": 2, "user": 1})
    b.dstdata["h"] = {"game": torch.ones(2), "user": torch.zeros(1)}
    assert "h" not in b.srcdata and b.dstnodes["user"].data["h"].shape == (1,)
    with pytest.raises(DGLError, match="destination node type 'robot'"):
        b.dstdata["x"] = {"robot": torch.ones(1)}


def test_initializers_fill_new_rows():
    g = triangle()
    g.set_n_initializer(lambda shape, dtype, device, ids: torch.full(shape, 2, dtype=dtype))
    g.set_e_initializer(lambda shape, dtype, device, ids: torch.full(shape, 3, dtype=dtype), field="w")
    g.nodes[0].data["h"] = torch.ones(1)
    g.edges[0].data["w"] = torch.ones(1)
    assert g.ndata["h"].tolist() == [1, 2, 2] and g.edata["w"].tolist() == [1, 3, 3, 3]
    g.add_nodes(1)
    g.add_edges(3, 0)
    assert g.ndata["h"][3] == 2 and g.edata["w"][4] == 3


def test_features_of_no_width_and_no_rows():
    g = graph(([], []), num_nodes=2)
    g.ndata["h"], g.edata["w"] = torch.zeros(2, 0), torch.zeros(0, 3)
    g.nodes[[1]].data["h"] = torch.zeros(1, 0)
    assert g.ndata["h"].shape == (2, 0) and g.edata["w"].shape == (0, 3)


def test_views_say_what_they_show():
    g = typed()
    assert "user" in repr(g.nodes) and "plays" in repr(g.edges) and "data" in repr(g.nodes["user"])
    assert len(graph(([0], [1])).edges) == 1 and "h" in repr(_with_h().nodes[[0]].data)


def _with_h():
    g = triangle()
    g.ndata["h"] = torch.ones(3)
    return g


def test_rows_of_one_of_several_types():
    g = heterograph({("a", "x", "b"): ([0, 1], [0, 0])})
    g.nodes[[1], "a"].data["h"] = torch.tensor([5.0])
    assert g.nodes["a"].data["h"].tolist() == [0, 5] and g.nodes[torch.tensor([1, 0]), "a"].data["h"].tolist() == [5, 0]
    with pytest.raises(DGLError, match="node type 'c' does not exist"):
        g.nodes[[0], "c"]


def test_features_are_fetched_for_loaders():
    g = triangle()
    g.ndata["h"], g.edata["w"] = torch.arange(3.0), torch.arange(4.0)
    nodes, edges = g.get_node_storage("h"), g.get_edge_storage("w")
    assert torch.equal(nodes.fetch(torch.tensor([2, 0]), "cpu"), g.ndata["h"][[2, 0]]) and not nodes.requires_ddp()
    assert torch.equal(edges.fetch([1]), g.edata["w"][[1]])
    with pytest.raises(KeyError, match="no feature 'zz'"):
        g.get_node_storage("zz")


def test_structure_is_never_pinned():
    g = triangle()
    g.ndata["h"] = torch.arange(3.0)
    part = g.subgraph([1])
    assert g.pin_memory_() is g.unpin_memory_() is g.record_stream(None) is g and not g.is_pinned()
    assert part.materialize_data() is part and torch.equal(part.ndata["h"], g.ndata["h"][[1]])
