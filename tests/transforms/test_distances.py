"""Shortest paths against NetworkX; labels against their definition."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dglite
from dglite import DGLError
from dglite.graph import DGLGraph
from tests.transforms.graphs import multigraphs


@settings(max_examples=60, deadline=None)
@given(multigraphs(), st.data())
def test_paths_are_shortest(g: DGLGraph, data: st.DataObject) -> None:
    expected = dict(nx.all_pairs_shortest_path_length(dglite.to_networkx(g)))
    hops, paths = dglite.shortest_dist(g, return_paths=True)
    n = g.num_nodes()
    longest = max(hops.max().item(), 0)
    assert hops.dtype == torch.int64 and paths.shape == (n, n, longest)
    src, dst = (x.tolist() for x in g.edges())
    for i in range(n):
        for j in range(n):
            length = expected[i].get(j, -1)
            assert hops[i, j] == length
            edges = paths[i, j].tolist()
            assert edges[max(length, 0) :] == [-1] * (longest - max(length, 0))
            node = i
            for edge in edges[: max(length, 0)]:
                assert src[edge] == node
                node = dst[edge]
            assert node == j or length <= 0
    root = data.draw(st.integers(0, n - 1))
    assert dglite.shortest_dist(g, root).tolist() == hops[root].tolist()
    one, path = dglite.shortest_dist(g, root, return_paths=True)
    assert one.tolist() == hops[root].tolist() and path.shape == (n, max(one.max().item(), 0))


def test_the_published_paths() -> None:
    g = dglite.graph(([0, 1, 1, 2], [2, 0, 3, 3]))
    hops, paths = dglite.shortest_dist(g, return_paths=True)
    assert hops.tolist() == [[0, -1, 1, 2], [1, 0, 2, 1], [-1, -1, 0, 1], [-1, -1, -1, 0]]
    assert paths[0].tolist() == [[-1, -1], [-1, -1], [0, -1], [0, 3]] and paths[1][2].tolist() == [1, 0]
    empty = dglite.graph(([], []))
    assert dglite.shortest_dist(empty).shape == (0, 0)
    with pytest.raises(DGLError, match="node id 4 does not exist"):
        dglite.shortest_dist(g, 4)


@settings(max_examples=60, deadline=None)
@given(multigraphs(min_nodes=2), st.data())
def test_labels_come_from_both_distances(g: DGLGraph, data: st.DataObject) -> None:
    s, t = data.draw(st.lists(st.integers(0, g.num_nodes() - 1), min_size=2, max_size=2, unique=True))
    walk = dglite.to_networkx(g).to_undirected()
    without_t, without_s = walk.copy(), walk.copy()
    without_t.remove_node(t)
    without_s.remove_node(s)
    one = nx.single_source_shortest_path_length(without_t, s)
    other = nx.single_source_shortest_path_length(without_s, t)
    labels = dglite.double_radius_node_labeling(g, s, t).tolist()
    for node in range(g.num_nodes()):
        if node in (s, t):
            assert labels[node] == 1
        elif node not in one or node not in other:
            assert labels[node] == 0
        else:
            half, odd = divmod(one[node] + other[node], 2)
            assert labels[node] == 1 + min(one[node], other[node]) + half * (half + odd - 1)


def test_the_published_labels() -> None:
    g = dglite.graph(([0, 0, 0, 0, 1, 1, 2, 4], [1, 2, 3, 6, 3, 4, 4, 5]))
    assert dglite.double_radius_node_labeling(g, 0, 1).tolist() == [1, 1, 3, 2, 3, 7, 0]
