"""Degree buckets: orders are permutations, edges of a node stay in edge-id order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dglite.scheduler.bucket import buckets_of
from dglite.structure.adjacency import Adjacency


def adjacency(num_nodes: int, src: list[int], dst: list[int]) -> Adjacency:
    return Adjacency.from_coo(num_nodes, num_nodes, np.array(src, np.int64), np.array(dst, np.int64))


def test_a_small_relation() -> None:
    buckets = buckets_of(adjacency(5, [0, 0, 1, 3, 2, 2, 2], [1, 1, 2, 3, 0, 1, 2]))
    assert buckets.nodes.tolist() == [4, 0, 3, 2, 1]
    assert buckets.num_empty == 1
    assert (buckets.degrees, buckets.node_sizes, buckets.edge_sizes) == ([1, 2, 3], [2, 1, 1], [2, 2, 3])
    assert buckets.edges.tolist() == [4, 3, 2, 6, 0, 1, 5]
    assert [ends.tolist() for ends in buckets.adjacency.coo()] == [[2, 3, 1, 2, 0, 0, 2], [0, 3, 2, 2, 1, 1, 1]]


def test_a_relation_without_edges_has_no_buckets() -> None:
    for num_nodes in (0, 3):
        buckets = buckets_of(adjacency(num_nodes, [], []))
        assert len(buckets) == 0 and buckets.num_empty == num_nodes and len(buckets.receivers) == 0


def test_buckets_are_made_once_for_a_relation() -> None:
    relation = adjacency(2, [0], [1])
    assert buckets_of(relation) is buckets_of(relation)


@given(st.integers(1, 10).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n - 1), max_size=30))))
def test_the_laws(case: tuple[int, list[int]]) -> None:
    num_nodes, dst = case
    buckets = buckets_of(adjacency(num_nodes, dst, dst))
    degrees = np.bincount(dst, minlength=num_nodes) if dst else np.zeros(num_nodes, int)
    assert sorted(buckets.nodes.tolist()) == list(range(num_nodes))
    assert sorted(buckets.edges.tolist()) == list(range(len(dst)))
    assert buckets.degrees == sorted(set(degrees[degrees > 0].tolist()))
    assert buckets.num_empty + sum(buckets.node_sizes) == num_nodes
    start_node = start_edge = 0
    for degree, nodes, edges in zip(buckets.degrees, buckets.node_sizes, buckets.edge_sizes, strict=True):
        assert edges == nodes * degree
        members = buckets.receivers[start_node : start_node + nodes]
        rows = buckets.edges[start_edge : start_edge + edges].reshape(nodes, degree)
        for node, row in zip(members, rows, strict=True):
            assert degrees[node] == degree
            assert row.tolist() == [i for i, d in enumerate(dst) if d == node]
        start_node, start_edge = start_node + nodes, start_edge + edges
