"""Frontiers are those of NetworkX's searches, and every law that they have by name."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dglite
from dglite import DGLError
from dglite import function as fn
from dglite.graph import DGLGraph
from dglite.kernels.cpu.graph import traverse


@st.composite
def graphs(draw: st.DrawFn, acyclic: bool = False) -> DGLGraph:
    n = draw(st.integers(1, 9))
    ids = st.integers(0, n - 1)
    ends = draw(st.lists(st.tuples(ids, ids), max_size=24))
    if acyclic:
        ends = [(min(u, v), max(u, v)) for u, v in ends if u != v]
    idtype = draw(st.sampled_from([torch.int32, torch.int64]))
    return dglite.graph(([u for u, _ in ends], [v for _, v in ends]), num_nodes=n, idtype=idtype)


def walk(g: DGLGraph, reverse: bool) -> nx.MultiDiGraph:
    result = dglite.to_networkx(g)
    return result.reverse() if reverse else result


@settings(max_examples=60, deadline=None)
@given(graphs(), st.data(), st.booleans())
def test_breadth_first_levels_are_distances(g: DGLGraph, data: st.DataObject, reverse: bool) -> None:
    sources = data.draw(st.lists(st.integers(0, g.num_nodes() - 1), max_size=3))
    near = nx.multi_source_dijkstra_path_length(walk(g, reverse), set(sources)) if sources else {}
    levels = [x.tolist() for x in dglite.bfs_nodes_generator(g, sources, reverse)]
    assert [sorted(level) for level in levels] == [
        sorted(n for n, d in near.items() if d == i) for i in range(1 + max(near.values(), default=-1))
    ]
    tree = [x.tolist() for x in dglite.bfs_edges_generator(g, sources, reverse)]
    assert len(tree) == max(len(levels) - 1, 0)
    for i, edges in enumerate(tree):
        u, v = g.find_edges(edges)
        tail, head = (v, u) if reverse else (u, v)
        assert set(tail.tolist()) <= set(levels[i]) and head.tolist() == levels[i + 1]


@settings(max_examples=60, deadline=None)
@given(graphs(acyclic=True), st.booleans())
def test_topological_levels_are_longest_paths(g: DGLGraph, reverse: bool) -> None:
    levels = list(nx.topological_generations(walk(g, reverse)))
    results = [x.tolist() for x in dglite.topological_nodes_generator(g, reverse)]
    assert results == [sorted(level) for level in levels]


@settings(max_examples=80, deadline=None)
@given(graphs(), st.data(), st.booleans())
def test_depth_first_edges_are_those_of_networkx(g: DGLGraph, data: st.DataObject, reverse: bool) -> None:
    source = data.draw(st.integers(0, g.num_nodes() - 1))
    simple = dglite.graph(
        list(dict.fromkeys(zip(*(x.tolist() for x in g.edges()), strict=True))), num_nodes=g.num_nodes()
    )
    plain = nx.DiGraph()
    plain.add_nodes_from(range(g.num_nodes()))
    u, v = (x.tolist() for x in simple.edges())
    plain.add_edges_from(zip(v, u, strict=True) if reverse else zip(u, v, strict=True))
    edges, labels = dglite.dfs_labeled_edges_generator(simple, source, reverse, True, True)
    names = {"forward": 0, "reverse": 1, "nontree": 2}
    # NetworkX calls the root's coming and going edges too.
    expected = [
        (a, b, names[kind]) for a, b, kind in nx.dfs_labeled_edges(plain, source) if kind != "forward" or a != b
    ]
    expected.remove((source, source, 1))
    results = []
    for edge, label in zip(edges, labels, strict=True):
        a, b = u[edge.item()], v[edge.item()]
        results.append((b, a, label.item()) if reverse else (a, b, label.item()))
    assert results == expected
    forward = [x.item() for x in dglite.dfs_edges_generator(simple, source, reverse)]
    assert forward == [e.item() for e, label in zip(edges, labels, strict=True) if label.item() == 0]
    for kinds in ((True, False), (False, True)):
        some, marks = dglite.dfs_labeled_edges_generator(simple, source, reverse, *kinds)
        keep = {0, *([1] if kinds[0] else [2])}
        assert [x.item() for x in some] == [e.item() for e, m in zip(edges, labels, strict=True) if m.item() in keep]
        assert {m.item() for m in marks} <= keep


def test_the_example_of_six_nodes() -> None:
    g = dglite.graph(([0, 1, 1, 2, 2, 3], [1, 2, 3, 3, 4, 5]))
    assert [x.tolist() for x in dglite.bfs_edges_generator(g, 0)] == [[0], [1, 2], [4, 5]]
    edges, labels = dglite.dfs_labeled_edges_generator(g, 0, has_nontree_edge=True)
    assert [x.tolist() for x in edges] == [[0], [1], [3], [5], [4], [2]]
    assert [x.tolist() for x in labels] == [[0], [0], [0], [0], [0], [2]]


def test_searches_of_several_components_go_side_by_side() -> None:
    g = dglite.graph(([0, 1, 1, 2, 2, 3], [1, 2, 3, 3, 4, 5]))
    both = dglite.batch([g, g])
    assert [x.tolist() for x in dglite.dfs_edges_generator(both, [0, 8])] == [[0, 9], [1, 11], [3, 10], [5], [4]]
    assert dglite.dfs_edges_generator(both, []) == () == dglite.bfs_nodes_generator(both, [])


def test_searches_do_not_depend_on_where_they_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    u, v = torch.randint(30, (2, 80))
    g, acyclic = dglite.graph((u, v), num_nodes=30), dglite.graph((torch.minimum(u, v), torch.maximum(u, v) + 1))
    results = []
    for steps in (1 << 23, 1):
        monkeypatch.setattr(traverse, "STEPS_PER_CALL", steps)
        edges, labels = dglite.dfs_labeled_edges_generator(g, [0, 1, 0], has_reverse_edge=True, has_nontree_edge=True)
        levels = dglite.bfs_nodes_generator(g, [3, 4]), dglite.bfs_edges_generator(g, 3)
        some = [*edges, *labels, *levels[0], *levels[1], *dglite.topological_nodes_generator(acyclic)]
        results.append([x.tolist() for x in some])
    assert results[0] == results[1]


def test_what_has_no_order_is_refused() -> None:
    cycle = dglite.graph(([0, 1, 2, 3], [1, 2, 1, 0]))
    with pytest.raises(DGLError, match="the graph has a cycle: node 1 and 1 others"):
        dglite.topological_nodes_generator(cycle)
    with pytest.raises(DGLError, match="node id 9 does not exist"):
        dglite.bfs_nodes_generator(cycle, 9)
    two = dglite.heterograph({("user", "plays", "game"): ([0], [0])})
    with pytest.raises(DGLError, match="join different node types"):
        dglite.bfs_nodes_generator(two, 0)


def chain() -> DGLGraph:
    g = dglite.graph(([0, 1, 2, 1], [1, 2, 3, 4]))
    g.ndata["h"] = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    return g


@pytest.mark.filterwarnings("ignore:g.register:DeprecationWarning")
def test_propagation_visits_frontiers_in_order() -> None:
    def add(nodes: Any) -> Any:
        return {"h": nodes.data["h"] + nodes.data["s"]}

    pair = fn.copy_u("h", "m"), fn.sum("m", "s")
    g = chain()
    dglite.prop_nodes_topo(g, *pair, apply_node_func=add)
    assert g.ndata["h"].tolist() == [1, 3, 6, 10, 8]
    g = chain()
    dglite.prop_nodes_bfs(g, 1, *pair, apply_node_func=add)
    assert g.ndata["h"].tolist() == [1, 3, 6, 10, 8]
    g = chain()
    dglite.prop_edges_dfs(g, 1, *pair, apply_node_func=add)
    assert g.ndata["h"].tolist() == [1, 2, 5, 9, 7]
    g = chain()
    dglite.prop_nodes_topo(g, *pair, reverse=True, apply_node_func=add)
    assert g.ndata["h"].tolist() == [1, 3, 5, 7, 7]
    with pytest.raises(DGLError, match="Pass it as apply_node_func="):
        dglite.prop_nodes_topo(g, *pair, add)
    g = chain()
    g.register_message_func(pair[0])
    g.register_reduce_func(pair[1])
    dglite.prop_nodes(g, [[1], [2]])
    dglite.prop_edges(g, [[0]])
    assert g.ndata["s"].tolist() == [0, 1, 2, 0, 0]
