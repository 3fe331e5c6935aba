"""Graphs of every sort, and what it means that two are the same."""

from __future__ import annotations

import torch

import dglite
from dglite import DGLGraph

DTYPES = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128".split()


def homogeneous(idtype: str = "int64") -> DGLGraph:
    """Return a multigraph with self-loops, isolated nodes, and a feature of every dtype."""
    g = dglite.graph(([3, 0, 1, 1, 0, 3], [3, 1, 2, 2, 1, 0]), num_nodes=6, idtype=idtype)
    for i, name in enumerate(DTYPES):
        g.ndata[name] = (torch.arange(12).reshape(6, 2) - i).to(getattr(torch, name))
    g.ndata["a/name with: signs"] = torch.rand(6, 2, 3).transpose(1, 2)
    g.ndata["no width"] = torch.empty(6, 0)
    g.edata["w"] = torch.rand(6, requires_grad=True)
    return g


def heterogeneous() -> DGLGraph:
    """Return a graph of four node types, two relations of one name, one without edges, and one type in no relation."""
    edges = {
        ("user", "likes", "game"): ([0, 0, 2], [1, 3, 0]),
        ("user", "likes", "user"): ([1, 1], [0, 2]),
        ("shop", "sells", "game"): ([], []),
    }
    g = dglite.heterograph(edges, {"user": 4, "game": 5, "shop": 2, "ghost": 3})
    g.nodes["user"].data["h"] = torch.rand(4, 3)
    g.nodes["ghost"].data["h"] = torch.rand(3)
    g.edges["sells"].data["w"] = torch.empty(0, 2)
    g.edges["user", "likes", "user"].data["w"] = torch.rand(2)
    return g


def block() -> DGLGraph:
    """Return a block with two source types and one destination type."""
    g = dglite.create_block(
        {("user", "likes", "game"): ([0, 3], [1, 0]), ("game", "like", "game"): ([2, 1, 0], [0, 0, 1])},
        num_src_nodes={"user": 4, "game": 3},
        num_dst_nodes={"game": 2},
    )
    g.srcnodes["user"].data["h"] = torch.rand(4, 2)
    g.dstnodes["game"].data["h"] = torch.rand(2, 2)
    return g


def batched() -> DGLGraph:
    """Return a batch of three graphs, one of them empty."""
    g = dglite.graph(([0, 1, 3], [1, 0, 2]), num_nodes=4)
    g.set_batch_num_nodes(torch.tensor([2, 0, 2]))
    g.set_batch_num_edges(torch.tensor([2, 0, 1]))
    g.ndata["h"] = torch.rand(4, 1)
    return g


def taken() -> DGLGraph:
    """Return a graph whose feature has been selected, but not gathered yet."""
    g = dglite.graph(([0, 1], [1, 2]), num_nodes=3)
    whole = dglite.graph(([], []), num_nodes=10)
    whole.ndata["h"] = torch.arange(20.0).reshape(10, 2)
    g.node_frames = [whole.node_frame_at(0).take(torch.tensor([7, 0, 7]).numpy())]
    return g


KINDS = {
    "homogeneous": homogeneous,
    "int32": lambda: homogeneous("int32"),
    "heterogeneous": heterogeneous,
    "block": block,
    "batched": batched,
    "taken": taken,
    "empty": lambda: dglite.graph(([], [])),
    "no edges": lambda: dglite.graph(([], []), num_nodes=3),
    "int32 without edges": lambda: dglite.heterograph({}, {"a": 3}),
    "one format": lambda: homogeneous().formats("csc"),
    "two formats": lambda: homogeneous().formats(["csr", "csc"]),
}


def assert_same(g: DGLGraph, h: DGLGraph) -> None:
    """Assert that two graphs have the same types, edges by id, ids, batch sizes and features."""
    assert (g.ntypes, g.canonical_etypes, g.is_block) == (h.ntypes, h.canonical_etypes, h.is_block)
    assert (g.srctypes, g.dsttypes) == (h.srctypes, h.dsttypes)
    assert (g.node_counts, g.idtype, g.batch_size) == (h.node_counts, h.idtype, h.batch_size)
    for j, etype in enumerate(g.canonical_etypes):
        for ours, theirs in zip(g.all_edges(etype=etype), h.all_edges(etype=etype), strict=True):
            assert ours.dtype == theirs.dtype
            assert torch.equal(ours, theirs)
        assert torch.equal(g.batch_num_edges(etype), h.batch_num_edges(etype))
        assert g.adjacencies[j].allowed == h.adjacencies[j].allowed
        _assert_same_frame(g.edge_frame_at(j), h.edge_frame_at(j))
    for i, name in enumerate(g.type_graph.set_names()):
        assert torch.equal(g.batch_num_nodes(name), h.batch_num_nodes(name))
        _assert_same_frame(g.node_frame_at(i), h.node_frame_at(i))


def _assert_same_frame(ours, theirs) -> None:
    assert set(ours) == set(theirs)
    for name in ours:
        assert ours[name].dtype == theirs[name].dtype
        assert ours[name].shape == theirs[name].shape
        assert torch.equal(ours[name], theirs[name])
