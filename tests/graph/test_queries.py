"""Queries give what an edge list gives, in the form that was asked for: numbers for a number, tensors else."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dglite.convert import create_block, graph, heterograph
from dglite.errors import DGLError

SRC, DST = [0, 1, 2, 0, 3], [1, 2, 0, 1, 3]  # a repeated edge, a self-loop, and node 4 without edges


def homogeneous(idtype):
    return graph((torch.tensor(SRC, dtype=idtype), torch.tensor(DST, dtype=idtype)), num_nodes=5)


def relation(idtype):
    edges = {
        ("user", "plays", "game"): (SRC, DST),
        ("user", "knows", "user"): ([0], [1]),
        ("game", "costs", "coin"): ([], []),
    }
    return heterograph(edges, {"user": 5, "game": 5, "coin": 0}, idtype=idtype)["plays"]


def block(idtype):
    return create_block((SRC, DST), 5, 5, idtype=idtype)


@pytest.fixture(params=[homogeneous, relation, block])
def make(request):
    return request.param


@pytest.fixture(params=[torch.int32, torch.int64])
def g(make, request):
    return make(request.param)


def lists(result):
    return tuple(x.tolist() for x in result) if isinstance(result, tuple) else result.tolist()


def test_ids_have_the_graphs_dtype(g):
    answers = [g.in_degrees(), g.out_degrees([0]), g.successors(0), g.predecessors(1), g.edge_ids([0], [1])]
    answers += [*g.edges(), *g.edges("all", "srcdst"), *g.find_edges([0]), *g.in_edges(1), *g.out_edges([0, 1])]
    answers += [g.srcnodes(), g.dstnodes(), *g.edge_ids([0], [1], return_uv=True), *g.adj_tensors("csc")]
    assert {x.dtype for x in answers} == {g.idtype}


def test_degrees(g):
    assert g.in_degrees().tolist() == [1, 2, 1, 1, 0]
    assert g.out_degrees().tolist() == [2, 1, 1, 1, 0]
    assert g.in_degrees(1) == 2 and isinstance(g.in_degrees(1), int)
    assert g.out_degrees(np.int64(0)) == 2
    assert g.in_degrees([1, 1]).tolist() == [2, 2]
    assert g.in_degrees(torch.tensor(1)).tolist() == [2]
    assert g.in_degrees([]).tolist() == []


def test_edges_between(g):
    assert g.has_edges_between(0, 1) is True and g.has_edges_between(1, 0) is False
    assert g.has_edges_between([0, 1], [1, 0]).tolist() == [True, False]
    assert g.has_edges_between(0, [1, 2]).tolist() == [True, False]
    assert g.edge_ids(0, 1) == 0 and isinstance(g.edge_ids(0, 1), int)
    assert g.edge_ids([3, 0], [3, 1]).tolist() == [4, 0]
    assert lists(g.edge_ids(0, 1, return_uv=True)) == ([0, 0], [1, 1], [0, 3])
    assert lists(g.edge_ids([3, 0], [3, 1], return_uv=True)) == ([3, 0, 0], [3, 1, 1], [4, 0, 3])
    assert lists(g.edge_ids([], [])) == []
    assert g.is_multigraph


def test_neighbours(g):
    assert lists(g.predecessors(1)) == [0, 0] and lists(g.successors(0)) == [1, 1]
    assert lists(g.predecessors(4)) == [] and lists(g.successors(torch.tensor([3]))) == [3]


def test_find_edges(g):
    assert lists(g.find_edges(3)) == ([0], [1])
    assert lists(g.find_edges([4, 0])) == ([3, 0], [3, 1])
    assert lists(g.find_edges([])) == ([], [])
    assert lists(g.find_edges((4, 0))) == ([3, 0], [3, 1])  # a tuple is ids, as a list is


@pytest.mark.parametrize("form", ["uv", "eid", "all"])
def test_edges_by_node(g, form):
    pick = {"uv": lambda u, v, e: (u, v), "eid": lambda u, v, e: e, "all": lambda u, v, e: (u, v, e)}[form]
    assert lists(g.in_edges([1, 2], form)) == pick([0, 0, 1], [1, 1, 2], [0, 3, 1])
    assert lists(g.in_edges(1, form)) == pick([0, 0], [1, 1], [0, 3])
    assert lists(g.out_edges([3, 0], form)) == pick([3, 0, 0], [3, 1, 1], [4, 0, 3])
    assert lists(g.out_edges(4, form)) == pick([], [], [])
    assert lists(g.all_edges(form)) == pick(SRC, DST, [0, 1, 2, 3, 4])
    assert lists(g.edges(form, order=None)) == pick(SRC, DST, [0, 1, 2, 3, 4])
    assert lists(g.edges(form, order="srcdst")) == pick([0, 0, 1, 2, 3], [1, 1, 2, 0, 3], [0, 3, 1, 2, 4])


def test_what_queries_return_is_not_the_graphs_own_memory(g):
    for result in (*g.edges(), *g.adj_tensors("csc"), g.in_degrees(), g.batch_num_edges()):
        result.fill_(9)
    assert lists(g.edges()) == (SRC, DST) and g.in_degrees(1) == 2 and g.batch_num_edges().tolist() == [5]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda g: g.in_degrees(5), "node id 5 does not exist; ids run from 0 to 4"),
        (lambda g: g.out_degrees([0, -1]), "node id -1 is negative"),
        (lambda g: g.predecessors(9), "node id 9 does not exist"),
        (lambda g: g.successors([0, 1]), "expected one node, got 2"),
        (lambda g: g.in_edges([0.5]), "must be integers, got dtype float64"),
        (lambda g: g.find_edges(5), "edge id 5 does not exist; ids run from 0 to 4"),
        (lambda g: g.edge_ids(1, 0), "no edge from node 1 to node 0"),
        (lambda g: g.edge_ids([0, 2], [1, 2]), "no edge from node 2 to node 2"),
        (lambda g: g.has_edges_between([0, 1], [1, 2, 3]), "2 source nodes but 3 destination nodes"),
        (lambda g: g.edges(form="x"), "form='x' is not understood"),
        (lambda g: g.edges(order="x"), "order='x' is not understood"),
        (lambda g: g.in_edges(0, etype="x"), "edge type 'x' does not exist"),
    ],
)
def test_bad_questions(g, ask, message):
    with pytest.raises(DGLError, match=message):
        ask(g)


def test_nodes():
    g = homogeneous(torch.int64)
    assert g.num_nodes() == len(g) == 5
    assert g.num_edges() == 5
    assert g.num_src_nodes() == g.num_dst_nodes() == 5
    assert g.has_nodes(4) is True and g.has_nodes(5) is False and g.has_nodes(-1) is False
    assert g.has_nodes([0, 9, -1]).tolist() == [True, False, False]
    assert 4 in g and 5 not in g
    assert g.nodes().tolist() == [0, 1, 2, 3, 4] and len(g.nodes) == 5 and [int(v) for v in g.nodes] == [0, 1, 2, 3, 4]
    assert bool(graph(([], [])))


def test_empty_graphs_answer():
    for g in (graph(([], [])), graph(([], []), num_nodes=3)):
        n = g.num_nodes()
        assert g.num_edges() == 0 and g.in_degrees().tolist() == [0] * n and lists(g.edges("all")) == ([], [], [])
        assert not g.is_multigraph and g.has_edges_between([], []).tolist() == []
        assert lists(g.in_edges(list(range(n)))) == ([], [])
        with pytest.raises(DGLError, match="edge id 0 does not exist; there are no edges"):
            g.find_edges(0)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=25))
def test_agrees_with_networkx(pairs):
    oracle = networkx.MultiDiGraph()
    oracle.add_nodes_from(range(8))
    oracle.add_edges_from(pairs)
    g = graph(pairs, num_nodes=8)
    assert g.in_degrees().tolist() == [d for _, d in oracle.in_degree()]
    assert g.out_degrees().tolist() == [d for _, d in oracle.out_degree()]
    for v in range(8):
        assert sorted(g.predecessors(v).tolist()) == sorted(u for u, _ in oracle.in_edges(v))
        assert sorted(g.successors(v).tolist()) == sorted(u for _, u in oracle.out_edges(v))
    grid = np.indices((8, 8)).reshape(2, -1)
    assert g.has_edges_between(*grid).tolist() == [oracle.has_edge(u, v) for u, v in grid.T.tolist()]
    assert g.is_multigraph == (len(set(pairs)) < len(pairs))
