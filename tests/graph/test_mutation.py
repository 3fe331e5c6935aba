"""A graph that was changed equals the graph built afresh, features included; a call that fails changes nothing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dglite.frame
from dglite.batch import batch
from dglite.convert import create_block, graph, heterograph
from dglite.errors import DGLError
from dglite.graph import DGLGraph


def featured(src, dst, n):
    """Return a graph whose features name its nodes and edges."""
    g = graph((src, dst), num_nodes=n)
    g.ndata["name"] = torch.arange(n)
    g.edata["name"] = torch.arange(len(src))
    return g


def snapshot(g):
    nodes = {name: dict(g.nodes[name].data) for name in g.ntypes} if not g.is_block else {}
    edges = [(*(x.tolist() for x in g.edges(etype=etype)), dict(g.edges[etype].data)) for etype in g.canonical_etypes]
    return repr((g.num_nodes(), nodes, edges))


def test_new_edges_bring_their_nodes():
    g = featured([0, 1], [1, 2], 3)
    g.add_edges([0, 5], 4)
    assert g.num_nodes() == 6 and g.ndata["name"].tolist() == [0, 1, 2, 0, 0, 0] and g.in_degrees(4) == 2
    h = heterograph({("a", "x", "b"): ([0], [0]), ("b", "y", "c"): ([0], [0])})
    h.add_edges(1, 3, etype="x")
    assert [h.num_nodes(name) for name in "abc"] == [2, 4, 1] and h.out_degrees(etype="y").tolist() == [1, 0, 0, 0]
    with pytest.raises(DGLError, match="node 2 does not exist, and the nodes of a block are fixed"):
        create_block(([0], [0])).add_edges(0, 2)


def test_a_batch_that_loses_nodes_or_edges_stays_a_batch():
    g = batch([graph(([0, 1], [1, 2])), graph(([], [])), graph(([0, 0], [1, 1]))])
    g.remove_edges([0, 3])
    assert g.batch_num_edges().tolist() == [1, 0, 1] and g.batch_num_nodes().tolist() == [3, 0, 2]
    g.remove_nodes([2, 0])
    assert g.batch_num_edges().tolist() == [0, 0, 1] and g.batch_num_nodes().tolist() == [1, 0, 2]
    g.add_nodes(0)
    g.add_edges([], [])
    assert g.batch_num_edges().tolist() == [0, 0, 1] and g.batch_num_nodes().tolist() == [1, 0, 2]
    g.add_edges(0, 1)
    assert g.batch_size == 1


def test_the_classic_way():
    g = DGLGraph()
    assert g.num_nodes() == 0 and g.idtype == torch.int64
    g.add_nodes(3)
    g.add_edges([0, 1], [1, 2])
    g.add_edges(2, 0)
    g.add_edges(0, torch.tensor([0, 1]))
    assert [x.tolist() for x in g.edges()] == [[0, 1, 2, 0, 0], [1, 2, 0, 0, 1]]
    assert DGLGraph([(0, 1), (1, 2)]).num_nodes() == 3


def test_added_rows_take_given_features_or_initial_ones():
    g = featured([0, 1], [1, 2], 3)
    g.add_nodes(2, {"name": torch.tensor([7, 8]), "new": torch.ones(2, 2)})
    assert g.ndata["name"].tolist() == [0, 1, 2, 7, 8] and g.ndata["new"][:, 0].tolist() == [0, 0, 0, 1, 1]
    g.add_nodes(1)
    assert g.ndata["name"].tolist() == [0, 1, 2, 7, 8, 0]
    g.add_edges([4, 5], 0, {"name": torch.tensor([5, 6])})
    assert g.edata["name"].tolist() == [0, 1, 5, 6] and g.in_degrees().tolist() == [2, 1, 1, 0, 0, 0]
    g.add_edges([], [])
    g.add_nodes(0)
    assert g.num_nodes() == 6 and g.num_edges() == 4


def test_removing_edges_renumbers_in_order():
    g = featured([0, 1, 2, 0], [1, 2, 0, 1], 3)
    g.remove_edges([0, 2, 2], store_ids=True)
    assert [x.tolist() for x in g.edges()] == [[1, 0], [2, 1]]
    assert g.edata["name"].tolist() == g.edata[dglite.frame.EID].tolist() == [1, 3]
    g.remove_edges(torch.tensor([False, True]))
    assert g.edata["name"].tolist() == [1]
    g = featured([0, 1, 2], [1, 2, 0], 3)
    g.remove_edges((0, 1))  # two ids, not the edge from 0 to 1
    assert g.edata["name"].tolist() == [2]


def test_removing_nodes_takes_their_edges_along():
    g = featured([0, 1, 2, 3, 3], [1, 2, 0, 3, 0], 4)
    g.remove_nodes([1], store_ids=True)
    assert [x.tolist() for x in g.edges()] == [[1, 2, 2], [0, 2, 0]]
    assert g.ndata["name"].tolist() == g.ndata[dglite.frame.NID].tolist() == [0, 2, 3]
    assert g.edata["name"].tolist() == g.edata[dglite.frame.EID].tolist() == [2, 3, 4]
    g.remove_nodes(slice(None))
    assert g.num_nodes() == g.num_edges() == 0


def test_old_ids_are_stored_of_every_type():
    g = heterograph({("a", "x", "b"): ([0, 1, 1], [0, 1, 0]), ("b", "y", "b"): ([0, 1], [1, 1])})
    g.remove_edges([0], etype="x", store_ids=True)
    assert [g.edges[etype].data[dglite.frame.EID].tolist() for etype in ("x", "y")] == [[1, 2], [0, 1]]
    g.remove_nodes([0], ntype="a", store_ids=True)
    assert [g.nodes[ntype].data[dglite.frame.NID].tolist() for ntype in ("a", "b")] == [[1], [0, 1]]
    assert [g.edges[etype].data[dglite.frame.EID].tolist() for etype in ("x", "y")] == [[0, 1], [0, 1]]


def test_types_change_on_their_own():
    g = heterograph({("user", "plays", "game"): ([0, 1, 2], [0, 1, 0]), ("user", "knows", "user"): ([0, 1], [1, 2])})
    g.edges["plays"].data["w"] = torch.arange(3)
    g.add_nodes(2, ntype="game")
    g.add_edges([0, 0], [2, 3], {"w": torch.tensor([8, 9])}, etype="plays")
    assert g.num_nodes("game") == 4 and g.num_nodes("user") == 3 and g.num_edges("knows") == 2
    g.remove_nodes(0, ntype="user")
    assert g.edges["plays"].data["w"].tolist() == [1, 2]
    assert [x.tolist() for x in g.edges(etype="plays")] == [[0, 1], [1, 0]]
    assert [x.tolist() for x in g.edges(etype="knows")] == [[0], [1]]
    with pytest.raises(DGLError, match="name one of"):
        g.add_nodes(1)
    with pytest.raises(DGLError, match="name one of"):
        g.add_edges(0, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g.add_nodes(-1), "must be an integer >= 0, got -1"),
        (lambda g: g.add_nodes(1.5), "must be an integer >= 0, got 1.5"),
        (lambda g: g.add_nodes(2, {"name": torch.ones(3, dtype=torch.int64)}), "first dimension must be 2"),
        (lambda g: g.add_nodes(1, {"name": torch.ones(1)}), "torch.float32"),
        (lambda g: g.add_edges([0, -1], [2, 2]), "node id -1 is negative"),
        (lambda g: g.add_edges([0.5], [1]), "must be integers"),
        (lambda g: g.add_edges([0, 1], [0, 1, 2]), "2 source nodes but 3 destination nodes"),
        (lambda g: g.add_edges([0], [1], {"name": torch.ones(2, dtype=torch.int64)}), "first dimension must be 1"),
        (lambda g: g.remove_edges([2]), "edge id 2 does not exist"),
        (lambda g: g.remove_nodes([3]), "node id 3 does not exist"),
    ],
)
def test_a_failed_change_leaves_the_graph_as_it_was(change, message):
    g = featured([0, 1], [1, 2], 3)
    before = snapshot(g)
    with pytest.raises(DGLError, match=message):
        change(g)
    assert snapshot(g) == before


def test_slices_and_blocks_are_not_changed_in_place():
    g = heterograph({("user", "plays", "game"): ([0], [0]), ("user", "knows", "user"): ([0], [0])})
    for change in (lambda x: x.add_edges(0, 0), lambda x: x.add_nodes(1, ntype="user"), lambda x: x.remove_edges(0)):
        with pytest.raises(DGLError, match=r"a slice g\['plays'\] shares its nodes"):
            change(g["plays"])
    copy = g["plays"].clone()
    copy.add_edges(0, 0)
    assert copy.num_edges() == 2 and g.num_edges("plays") == 1
    block = create_block(([0], [0]))
    for change in (lambda x: x.add_nodes(1, ntype="_N"), lambda x: x.remove_nodes(0, ntype="_N")):
        with pytest.raises(DGLError, match="nodes of a block are fixed"):
            change(block)


def test_a_slice_made_before_a_change_stays_whole():
    g = heterograph({("user", "plays", "game"): ([0], [0]), ("user", "knows", "user"): ([0], [0])})
    g.nodes["user"].data["h"] = torch.ones(1)
    part = g["plays"]
    g.add_nodes(2, ntype="user")
    assert part.num_nodes("user") == 1 and part.srcdata["h"].shape == (1,)
    assert g.nodes["user"].data["h"].shape == (3,)


def test_changes_keep_the_index_type_and_gradients():
    g = graph((torch.tensor([0], dtype=torch.int32), torch.tensor([1], dtype=torch.int32)))
    x = torch.ones(2, requires_grad=True)
    g.ndata["h"] = x
    g.add_nodes(1)
    g.add_edges([2], [0])
    g.remove_nodes([0])
    assert g.idtype == torch.int32 and g.edges()[0].dtype == torch.int32
    g.ndata["h"].sum().backward()
    assert x.grad.tolist() == [0, 1]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("nodes"), st.integers(0, 3)),
        st.tuples(st.just("edges"), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=4)),
        st.tuples(st.just("drop edges"), st.sets(st.integers(0, 9), max_size=3)),
        st.tuples(st.just("drop nodes"), st.sets(st.integers(0, 9), max_size=2)),
    ),
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_changed_graph_equals_one_built_afresh(steps):
    g, nodes, edges, fresh = featured([0, 1], [1, 0], 2), [0, 1], [(0, 1, 0), (1, 0, 1)], 100
    for verb, what in steps:
        if verb == "nodes":
            names = list(range(fresh, fresh + what))
            g.add_nodes(what, {"name": torch.tensor(names, dtype=torch.int64)})
            nodes += names
        elif verb == "edges":
            pairs = [(u, v) for u, v in what if u < len(nodes) and v < len(nodes)]
            names = list(range(fresh, fresh + len(pairs)))
            ends = [u for u, _ in pairs], [v for _, v in pairs]
            g.add_edges(*ends, {"name": torch.tensor(names, dtype=torch.int64)})
            edges += [(nodes[u], nodes[v], name) for (u, v), name in zip(pairs, names, strict=True)]
        elif verb == "drop edges":
            gone = [i for i in what if i < len(edges)]
            g.remove_edges(gone)
            edges = [edge for i, edge in enumerate(edges) if i not in gone]
        else:
            gone = [i for i in what if i < len(nodes)]
            names = {nodes[i] for i in gone}
            g.remove_nodes(gone)
            nodes = [name for name in nodes if name not in names]
            edges = [edge for edge in edges if edge[0] not in names and edge[1] not in names]
        fresh += 10
    afresh = graph(([nodes.index(u) for u, _, _ in edges], [nodes.index(v) for _, v, _ in edges]), num_nodes=len(nodes))
    assert g.ndata["name"].tolist() == nodes and g.edata["name"].tolist() == [name for _, _, name in edges]
    for form in ("coo", "csr", "csc"):
        for actual, expected in zip(g.adj_tensors(form), afresh.adj_tensors(form), strict=True):
            assert actual.tolist() == expected.tolist()
