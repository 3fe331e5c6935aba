"""``edges._graph`` and ``nodes._graph``: the graph that a batch is of, which code for DGL passes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import dglite
import dglite.function as fn
from dglite import DGLGraph

FOLLOWS, LIKES = ("user", "follows", "user"), ("user", "likes", "item")


def homogeneous() -> DGLGraph:
    g = dglite.graph(([0, 1, 2, 0], [1, 2, 2, 0]), num_nodes=5)
    g.ndata["h"] = torch.arange(10.0).reshape(5, 2)
    g.edata["w"] = torch.ones(4, 1)
    return g


def several_types() -> DGLGraph:
    g = dglite.heterograph({FOLLOWS: ([0, 1], [1, 2]), LIKES: ([0, 1, 1], [0, 0, 1])})
    g.nodes["user"].data["h"] = torch.ones(3, 2)
    g.nodes["item"].data["h"] = torch.ones(2, 2)
    return g


class Seen:
    """User-defined functions that note the graphs of their batches."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []

    def message(self, edges: Any) -> dict[str, Any]:
        self.graphs.append(edges._graph)
        return {"m": edges.src["h"] * edges._graph.num_edges()}

    def reduce(self, nodes: Any) -> dict[str, Any]:
        self.graphs.append(nodes._graph)
        return {"o": nodes.mailbox["m"].sum(1) + nodes._graph.num_edges()}

    def node(self, nodes: Any) -> dict[str, Any]:
        self.graphs.append(nodes._graph)
        return {"o": nodes.data["h"] * nodes._graph.num_edges()}

    def group(self, edges: Any) -> dict[str, Any]:
        return {"m": self.message(edges)["m"]}

    def predicate(self, batch: Any) -> Any:
        self.graphs.append(batch._graph)
        return torch.ones(len(batch))


def scaled(edges: Any) -> dict[str, Any]:
    return {"m": edges.src["h"] * edges._graph.num_edges()}


def shifted(nodes: Any) -> dict[str, Any]:
    return {"o": nodes.mailbox["m"].sum(1) + nodes._graph.num_edges()}


METHODS: dict[str, Callable[[DGLGraph, Seen], Any]] = {
    "apply_nodes": lambda g, seen: g.apply_nodes(seen.node),
    "apply_nodes of some": lambda g, seen: g.apply_nodes(seen.node, [0, 2]),
    "apply_edges": lambda g, seen: g.apply_edges(seen.message),
    "apply_edges of some": lambda g, seen: g.apply_edges(seen.message, [1, 3]),
    "update_all, message": lambda g, seen: g.update_all(seen.message, fn.sum("m", "o")),
    "update_all, reduce": lambda g, seen: g.update_all(fn.copy_u("h", "m"), seen.reduce),
    "update_all, apply": lambda g, seen: g.update_all(fn.copy_u("h", "m"), fn.sum("m", "s"), seen.node),
    "send_and_recv": lambda g, seen: g.send_and_recv([0, 1], seen.message, seen.reduce, seen.node),
    "pull": lambda g, seen: g.pull([1, 2], seen.message, seen.reduce),
    "push": lambda g, seen: g.push([0], seen.message, seen.reduce),
    "group_apply_edges": lambda g, seen: g.group_apply_edges("src", seen.group),
    "filter_nodes": lambda g, seen: g.filter_nodes(seen.predicate),
    "filter_edges": lambda g, seen: g.filter_edges(seen.predicate),
    "prop_nodes": lambda g, seen: g.prop_nodes([[1], [2]], seen.message, seen.reduce),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_graph_of_one_type_is_the_graph_itself(name: str) -> None:
    g, seen = homogeneous(), Seen()
    METHODS[name](g, seen)
    assert seen.graphs and all(graph is g for graph in seen.graphs)


def test_send_and_recv_apart() -> None:
    g, seen = homogeneous(), Seen()
    g.send([0, 2], seen.message)
    g.recv([1, 2], seen.reduce)
    assert len(seen.graphs) >= 2 and all(graph is g for graph in seen.graphs)


def test_functions_that_could_be_fused_but_for_it() -> None:
    g = homogeneous()
    for _ in range(2):  # a function that reads nothing but features would not be called again
        g.update_all(scaled, shifted)
        src, dst = g.edges()
        expected = torch.zeros(5, 2).index_add(0, dst, g.ndata["h"][src] * g.num_edges())
        expected[g.in_degrees() > 0] += g.num_edges()
        assert torch.equal(g.ndata["o"], expected)
        g.add_edges([3], [3])


def test_of_several_edge_types_it_is_the_slice_that_shares_features() -> None:
    g, seen = several_types(), Seen()
    g.update_all(seen.message, seen.reduce, etype=LIKES)
    g.apply_edges(seen.message, etype=LIKES)
    assert all(graph.canonical_etypes == [LIKES] and graph.num_edges() == 3 for graph in seen.graphs)
    seen.graphs[0].nodes["user"].data["new"] = torch.zeros(3)
    assert "new" in g.nodes["user"].data


def test_apply_nodes_of_several_types_gives_the_whole_graph() -> None:
    g, graphs = several_types(), []
    g.apply_nodes(lambda nodes: graphs.append(nodes._graph) or {"o": nodes.data["h"]}, ntype="item")
    assert graphs == [g]


def test_a_block() -> None:
    block, seen = dglite.to_block(homogeneous(), [0, 1, 2]), Seen()
    block.srcdata["h"] = torch.ones(block.num_src_nodes(), 2)
    block.update_all(seen.message, seen.reduce)
    assert all(graph is block for graph in seen.graphs)


def test_explain_says_why_such_functions_are_not_fused() -> None:
    assert "it reads the graph" in str(dglite.explain(homogeneous(), fn.copy_u("h", "m"), shifted))
