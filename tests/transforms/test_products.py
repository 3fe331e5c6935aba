"""Line graphs against NetworkX, powers and products of adjacency matrices against NumPy."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import dglite
from dglite import DGLError
from dglite.graph import DGLGraph
from tests.transforms.graphs import FOLLOWS, LIKES, PLAYS, multigraphs, pairs, typed_graphs


def dense(g: DGLGraph, etype: Any = None) -> np.ndarray:
    adjacency = g.adjacency(etype)
    result = np.zeros((adjacency.num_src, adjacency.num_dst), np.int64)
    np.add.at(result, adjacency.endpoints(), 1)
    return result


@settings(max_examples=50, deadline=None)
@given(multigraphs())
def test_line_graphs_are_those_of_networkx(g: DGLGraph) -> None:
    expected = nx.line_graph(dglite.to_networkx(g), create_using=nx.MultiDiGraph)
    ends = pairs(g)
    seen: dict[tuple[int, int], int] = {}
    keys = []  # NetworkX names a parallel edge (u, v, which of them)
    for pair in ends:
        keys.append((*pair, seen.setdefault(pair, 0)))
        seen[pair] += 1
    result = g.line_graph(shared=True)
    assert result.num_nodes() == g.num_edges() and result.ndata["name"].tolist() == g.edata["name"].tolist()
    others = sorted((a, b) for a, b in expected.edges() if a != b)  # a self-loop does not follow itself
    assert sorted((keys[a], keys[b]) for a, b in pairs(result)) == others
    onward = [(a, b) for a, b in pairs(result) if ends[a] != ends[b][::-1]]
    assert pairs(g.line_graph(backtracking=False)) == onward


@settings(max_examples=40, deadline=None)
@given(multigraphs(max_edges=10), st.integers(0, 4))
def test_powers_count_paths(g: DGLGraph, k: int) -> None:
    expected = np.linalg.matrix_power(dense(g), k)
    assert dglite.khop_adj(g, k).tolist() == expected.tolist() and dglite.khop_adj(g, k).dtype == torch.float32
    result = dglite.khop_graph(g, k)
    assert dense(result).tolist() == expected.tolist() and pairs(result) == sorted(pairs(result))
    assert result.ndata["name"] is g.ndata["name"] and result.idtype == g.idtype
    assert dict(dglite.khop_graph(g, k, copy_ndata=False).ndata) == {}


@settings(max_examples=40, deadline=None)
@given(
    typed_graphs(), st.sampled_from([["plays"], ["follows"], ["plays", "likes"], ["follows", PLAYS, LIKES, "plays"]])
)
def test_metapaths_join_what_they_reach(g: DGLGraph, path: list[Any]) -> None:
    reached = dense(g, path[0])
    for etype in path[1:]:
        reached = reached @ dense(g, etype)
    result = dglite.metapath_reachable_graph(g, path)
    assert pairs(result) == [tuple(x) for x in np.argwhere(reached).tolist()]
    last = "user" if path[-1] in ("likes", "follows") else "game"
    assert result.canonical_etypes == [("user", "_E", last)] and result.is_homogeneous == (last == "user")
    assert result.nodes["user"].data["h"] is g.nodes["user"].data["h"]


def weighted(seed: int, num_src: int, num_dst: int, names: tuple[str, str] = ("a", "b")) -> DGLGraph:
    rng = np.random.default_rng(seed)
    chosen = np.argwhere(rng.random((num_src, num_dst)) < 0.4)
    rng.shuffle(chosen)
    etype = (names[0], "r", names[1])
    g = dglite.heterograph({etype: (chosen[:, 0], chosen[:, 1])}, {names[0]: num_src, names[1]: num_dst})
    g.edata["w"] = torch.from_numpy(rng.random(len(chosen)))
    return g


def dense_weights(g: DGLGraph) -> Tensor:
    adjacency = g.adjacency()
    src, dst = (torch.from_numpy(x.copy()).long() for x in adjacency.endpoints())
    result = torch.zeros(adjacency.num_src, adjacency.num_dst, dtype=torch.float64)
    return result.index_put((src, dst), g.edata["w"], accumulate=True)


@pytest.mark.parametrize("seed", range(4))
def test_product_and_its_gradient(seed: int) -> None:
    a, b = weighted(seed, 4, 5), weighted(seed + 10, 5, 3, ("b", "c"))
    result = dglite.adj_product_graph(a, b, "w", etype="ab")
    torch.testing.assert_close(dense_weights(result), dense_weights(a) @ dense_weights(b))
    assert result.canonical_etypes == [("a", "ab", "c")] and pairs(result) == sorted(set(pairs(result)))

    def run(x: Tensor, y: Tensor) -> Tensor:
        a.edata["w"], b.edata["w"] = x, y
        return dglite.adj_product_graph(a, b, "w").edata["w"]

    inputs = a.edata["w"].clone().requires_grad_(), b.edata["w"].clone().requires_grad_()
    assert torch.autograd.gradcheck(run, inputs, fast_mode=True) and torch.autograd.gradgradcheck(
        run, inputs, fast_mode=True
    )
    back = dglite.adj_product_graph(a, weighted(seed, 5, 4, ("b", "a")), "w")
    assert back.is_homogeneous and back.ntypes == ["a"]


@pytest.mark.parametrize("seed", range(4))
def test_sum_and_its_gradient(seed: int) -> None:
    parts = [weighted(seed + i, 4, 5) for i in range(3)]
    result = dglite.adj_sum_graph(parts, "w")
    torch.testing.assert_close(dense_weights(result), sum(dense_weights(g) for g in parts))
    assert result.ntypes == parts[0].ntypes and pairs(result) == sorted({pair for g in parts for pair in pairs(g)})
    x = parts[0].edata["w"].clone().requires_grad_()
    parts[0].edata["w"] = x
    dglite.adj_sum_graph(parts, "w").edata["w"].sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1] * len(x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: dglite.khop_graph(g, -1), "k must be an integer >= 0"),
        (lambda g: dglite.line_graph(dglite.heterograph({PLAYS: ([0], [0])})), "line_graph: the graph must have one"),
        (lambda g: dglite.metapath_reachable_graph(g, []), "the metapath is empty"),
        (
            lambda g: dglite.metapath_reachable_graph(
                dglite.heterograph({PLAYS: ([0], [0]), FOLLOWS: ([0], [0])}), ["plays", "follows"]
            ),
            "does not start from 'game'",
        ),
        (
            lambda g: dglite.adj_product_graph(weighted(0, 2, 3), weighted(0, 2, 3), "w"),
            "A ends at 3 nodes, B starts from 2",
        ),
        (lambda g: dglite.adj_sum_graph([weighted(0, 2, 3), weighted(0, 3, 3)], "w"), "graph 1 must have"),
        (lambda g: dglite.adj_sum_graph([], "w"), "list of graphs is empty"),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, message: str) -> None:
    with pytest.raises(DGLError, match=message):
        call(dglite.graph(([0], [1])))
