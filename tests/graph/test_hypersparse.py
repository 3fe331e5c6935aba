"""Few edges among many ids: results are those of the same graph with its ids renumbered, and memory goes by edges."""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import dglite
from dglite import DGLError, ops

COUNT, EDGES = 3_000_000, 2000
_RNG = np.random.default_rng(0)
NODES = np.sort(_RNG.choice(COUNT, 300, replace=False))
SMALL_SRC, SMALL_DST = _RNG.integers(0, 300, (2, EDGES))


def pair(idtype: torch.dtype = torch.int64, few: int = EDGES) -> tuple[Any, Any]:
    """Return a graph of many ids, and the same graph with the nodes that have edges numbered in their order."""
    src, dst = SMALL_SRC[:few], SMALL_DST[:few]
    large = dglite.graph((NODES[src], NODES[dst]), num_nodes=COUNT, idtype=idtype)
    return large, dglite.graph((src, dst), num_nodes=len(NODES), idtype=idtype)


def edges(g: Any, nodes: np.ndarray | None = None) -> list[list[int]]:
    ends = [x.numpy() for x in g.edges(form="all")]
    return [(x if nodes is None or i == 2 else nodes[x]).tolist() for i, x in enumerate(ends)]


ASKED = torch.from_numpy(_RNG.integers(0, 300, 700)), torch.from_numpy(_RNG.integers(0, 300, 700))


def of(x: torch.Tensor, g: Any) -> torch.Tensor:
    """Return nodes of the small graph as those of ``g``."""
    return (torch.from_numpy(NODES)[x] if g.num_nodes() == COUNT else x).to(g.idtype)


QUERIES: dict[str, Callable[[Any], Any]] = {
    "has_edges_between": lambda g: g.has_edges_between(of(ASKED[0], g), of(ASKED[1], g)).tolist(),
    "has one edge": lambda g: g.has_edges_between(int(of(ASKED[0], g)[0]), int(of(ASKED[1], g)[0])),
    "edge_ids": lambda g: g.edge_ids(of(ASKED[0], g), of(ASKED[1], g), return_uv=True)[2].tolist(),
    "in_degrees": lambda g: g.in_degrees(of(ASKED[0], g)).tolist(),
    "out_degrees": lambda g: g.out_degrees(of(ASKED[0], g)).tolist(),
    "is_multigraph": lambda g: g.is_multigraph,
    "edges by source": lambda g: g.edges(form="eid", order="srcdst").tolist(),
    "counts of to_simple": lambda g: dglite.to_simple(g).edata["count"].tolist(),
    "bfs_nodes_generator": lambda g: [
        torch.searchsorted(of(torch.arange(300), g), x).tolist() for x in dglite.bfs_nodes_generator(g, of(ASKED[0], g))
    ],
    "norm_by_dst": lambda g: dglite.norm_by_dst(g).tolist(),
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("few", [40, EDGES])
def test_queries(name, few):
    large, small = pair(few=few)
    assert QUERIES[name](large) == QUERIES[name](small)


GRAPHS: dict[str, Callable[[Any], Any]] = {
    "to_simple": dglite.to_simple,
    "to_bidirected": dglite.to_bidirected,
    "khop_graph": lambda g: dglite.khop_graph(g, 2),
    "khop_graph of one hop": lambda g: dglite.khop_graph(g, 1),
    "pickle": lambda g: pickle.loads(pickle.dumps((g.create_formats_(), g)[1])),
    "slice_batch": lambda g: dglite.slice_batch(dglite.batch([g, g]), 1),
}
NUMBERED: dict[str, Callable[[Any], Any]] = {
    "compact_graphs": dglite.compact_graphs,
    "preserved": lambda g: dglite.compact_graphs(g, of(torch.tensor([7, 7, 2]), g)),
    "to_block": dglite.to_block,
    "edge_subgraph": lambda g: dglite.edge_subgraph(g, torch.arange(0, g.num_edges(), 3)),
    "node_subgraph": lambda g: dglite.node_subgraph(g, of(torch.arange(299, 0, -2), g)),
    "node_subgraph of one": lambda g: dglite.node_subgraph(g, of(torch.tensor([5]), g)),
    "khop_in_subgraph": lambda g: dglite.khop_in_subgraph(g, of(torch.tensor([5, 9]), g), 1)[0],
    "khop_out_subgraph": lambda g: dglite.khop_out_subgraph(g, of(torch.tensor([5, 9]), g), 1)[0],
}


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_over_all_nodes(name, idtype):
    large, small = (GRAPHS[name](g) for g in pair(idtype))
    assert edges(large) == edges(small, NODES) and large.num_nodes() == COUNT and large.idtype == idtype


@pytest.mark.parametrize("few", [0, 40, EDGES])
@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("name", NUMBERED)
def test_graphs_with_new_numbers(name, idtype, few):
    large, small = (NUMBERED[name](g) for g in pair(idtype, few))
    assert edges(large) == edges(small)
    assert large.srcdata[dglite.NID].tolist() == NODES[small.srcdata[dglite.NID].numpy()].tolist()
    assert large.srcdata[dglite.NID].dtype == idtype


def test_sddmm_and_its_gradient():
    large, small = pair()
    x, y = torch.randn(2, 300, 3)
    results = []
    for g in (large, small):
        nodes = of(torch.arange(300), g).long()
        h, k = (torch.zeros(g.num_nodes(), 3).index_copy(0, nodes, z).requires_grad_() for z in (x, y))
        out = ops.u_dot_v(g, h, k)
        (out**2).sum().backward()
        results.append((out.detach(), h.grad[nodes], k.grad[nodes]))
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected)


def test_scores_of_a_function_copy_no_column():
    results = []
    for g in pair():
        nodes = of(torch.arange(300), g).long()
        g.ndata["h"] = torch.zeros(g.num_nodes(), 1).index_copy(0, nodes, torch.arange(300.0)[:, None])
        g.apply_edges(lambda edges: {"s": edges.src["h"] + 2 * edges.dst["h"]})
        results.append(g.edata["s"] + 0)
    assert torch.equal(*results)


def test_a_node_that_is_repeated_is_named():
    large, _ = pair()
    with pytest.raises(DGLError, match=f"node {NODES[3]} of type '_N' is given more than once"):
        dglite.node_subgraph(large, NODES[[1, 3, 2, 3]])


@pytest.mark.parametrize("name", ["to_simple", "to_bidirected", "compact_graphs", "to_block", "edge_subgraph"])
def test_no_memory_for_ids(name):
    call = (GRAPHS | NUMBERED)[name]
    call(pair()[0])  # kernels are compiled
    large, _ = pair()
    tracemalloc.start()
    call(large)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < COUNT // 2


def test_two_edges_among_billions_of_ids():
    count = 2_200_000_000
    g = dglite.graph(([count - 1, 3], [3, 5]), num_nodes=count)
    assert edges(dglite.compact_graphs(g)) == [[0, 1], [1, 2], [0, 1]]
    assert dglite.to_block(g, [5, 3]).srcdata[dglite.NID].tolist() == [5, 3, count - 1]
    assert g.has_edges_between([3, 3], [5, 3]).tolist() == [True, False]
    assert g.in_degrees([3, 0]).tolist() == [1, 0] and not g.is_multigraph
    assert dglite.to_simple(g).num_edges() == 2
