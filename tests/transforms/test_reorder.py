"""A reordered graph is the same graph: features and edges under their old ids."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
import torch

import dglite
from dglite import DGLError, reorder_graph
from dglite.transforms.reorder import locality_order

NODE_ORDERS = [None, "locality", "rcmk", "degree", "custom"]
EDGE_ORDERS = [None, "src", "dst", "custom"]


def random_graph(num_nodes: int = 40, num_edges: int = 200, idtype: torch.dtype = torch.int64) -> dglite.DGLGraph:
    """Return a graph with parallel edges, self-loops and nodes without edges, and features on both."""
    torch.manual_seed(0)
    src, dst = (torch.randint(num_nodes - 3, (num_edges,)) for _ in range(2)) if num_edges else (torch.zeros(2, 0),) * 2
    src, dst = src.flatten()[:num_edges].to(idtype), dst.flatten()[:num_edges].to(idtype)
    g = dglite.graph((src, dst), num_nodes=num_nodes)
    g.ndata["h"] = torch.randn(num_nodes, 3)
    g.edata["w"] = torch.randn(num_edges)
    return g


def config_for(g: dglite.DGLGraph) -> dict[str, torch.Tensor]:
    return {"nodes_perm": torch.randperm(g.num_nodes()), "edges_perm": torch.randperm(g.num_edges())}


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("edges", EDGE_ORDERS)
@pytest.mark.parametrize("nodes", NODE_ORDERS)
@pytest.mark.parametrize(("num_nodes", "num_edges"), [(40, 200), (7, 0), (0, 0)])
def test_it_is_the_same_graph(nodes, edges, idtype, num_nodes, num_edges):
    g = random_graph(num_nodes, num_edges, idtype)
    result = reorder_graph(g, nodes, edges, permute_config=config_for(g))
    assert (result.num_nodes(), result.num_edges(), result.idtype) == (num_nodes, num_edges, idtype)
    old_nodes, old_edges = result.ndata[dglite.NID], result.edata[dglite.EID]
    assert old_nodes.dtype == old_edges.dtype == idtype
    assert sorted(old_nodes.tolist()) == list(range(num_nodes))
    assert sorted(old_edges.tolist()) == list(range(num_edges))
    assert result.ndata["h"].equal(g.ndata["h"][old_nodes.long()])
    assert result.edata["w"].equal(g.edata["w"][old_edges.long()])
    for end, old_end in zip(result.edges(), g.edges(), strict=True):
        assert old_nodes[end.long()].equal(old_end[old_edges.long()])
    if nodes is None:
        assert old_nodes.tolist() == list(range(num_nodes))
    if edges is None:
        assert old_edges.tolist() == list(range(num_edges))


@pytest.mark.parametrize("edges", ["src", "dst"])
def test_edges_are_sorted_by_both_ends_and_parallel_ones_keep_their_order(edges):
    result = reorder_graph(random_graph(), "degree", edges)
    src, dst = result.edges()
    keys = (result.edata["_ID"], dst, src) if edges == "src" else (result.edata["_ID"], src, dst)
    assert np.lexsort(keys).tolist() == list(range(result.num_edges()))


def test_edges_by_destination_need_no_edge_ids():
    result = reorder_graph(random_graph(), "degree", "dst")
    assert result.adjacencies[0].formats == ("csc",)
    assert result.adjacencies[0].csc().edge_ids is None


def test_messages_are_the_same():
    g = random_graph()
    result = reorder_graph(g, "locality", "dst")
    old, new = (dglite.ops.u_mul_e_sum(x, x.ndata["h"], x.edata["w"][:, None]) for x in (g, result))
    torch.testing.assert_close(new, old[result.ndata["_ID"]])


def test_the_given_graph_stays_as_it_is():
    g = random_graph()
    before = [x.clone() for x in (*g.edges(), g.ndata["h"], g.edata["w"])]
    csr = g.adj_tensors("csr")
    for nodes in NODE_ORDERS:
        reorder_graph(g, nodes, "src", permute_config=config_for(g))
    assert all(x.equal(y) for x, y in zip((*g.edges(), g.ndata["h"], g.edata["w"]), before, strict=True))
    assert all(x.equal(y) for x, y in zip(g.adj_tensors("csr"), csr, strict=True))
    assert list(g.ndata) == ["h"] and list(g.edata) == ["w"]


def test_ids_are_stored_only_where_wanted():
    result = reorder_graph(random_graph(), "degree", store_ids=False)
    assert list(result.ndata) == ["h"] and list(result.edata) == ["w"]


def test_the_examples_of_the_documentation_of_dgl():
    g = dglite.graph(([0, 1, 2, 3, 4], [2, 2, 3, 2, 3]))
    for edges, old in (("src", [4, 3, 1, 2, 0]), ("dst", [4, 2, 3, 1, 0])):
        result = reorder_graph(g, "rcmk", edges)
        assert result.ndata["_ID"].tolist() == [4, 3, 1, 2, 0] and result.edata["_ID"].tolist() == old
    nodes = {"nodes_perm": [3, 2, 0, 4, 1]}
    result = reorder_graph(g, "custom", permute_config=nodes)
    assert result.ndata["_ID"].tolist() == result.edata["_ID"].tolist() == [3, 2, 0, 4, 1]
    result = reorder_graph(g, edge_permute_algo="custom", permute_config={"edges_perm": [1, 2, 3, 4, 0]})
    assert result.ndata["_ID"].tolist() == [0, 1, 2, 3, 4] and result.edata["_ID"].tolist() == [1, 2, 3, 4, 0]


def test_degree_puts_hubs_first():
    result = reorder_graph(random_graph(), "degree")
    degrees = result.in_degrees() + result.out_degrees()
    assert (degrees[1:] <= degrees[:-1]).all()


def lattice(side: int) -> dglite.DGLGraph:
    """Return a square lattice, each node linked to four neighbours, under shuffled ids."""
    ids = np.random.default_rng(0).permutation(side * side).reshape(side, side)
    pairs = [(ids[1:].ravel(), ids[:-1].ravel()), (ids[:, 1:].ravel(), ids[:, :-1].ravel())]
    u, v = (np.concatenate(ends) for ends in zip(*pairs, strict=True))
    return dglite.graph((np.concatenate([u, v]), np.concatenate([v, u])))


def mean_distance(g: dglite.DGLGraph) -> float:
    """Return how far apart the ids of neighbours are."""
    src, dst = g.edges()
    return (src - dst).abs().double().mean().item()


@pytest.mark.parametrize(("order", "closer"), [("locality", 4), ("rcmk", 8)])
def test_hidden_locality_is_found(order, closer):
    g = lattice(60)
    assert mean_distance(reorder_graph(g, order)) * closer < mean_distance(g)


def test_communities_become_runs_of_ids():
    rng = np.random.default_rng(0)
    community, num_nodes = rng.permutation(1200) // 60, 1200
    members = np.argsort(community, kind="stable").reshape(20, 60)
    src = rng.integers(num_nodes, size=20_000)
    inside = members[community[src], rng.integers(60, size=20_000)]
    dst = np.where(rng.random(20_000) < 0.9, inside, rng.integers(num_nodes, size=20_000))
    result = reorder_graph(dglite.graph((src, dst), num_nodes=num_nodes), "locality")
    actual = community[result.ndata["_ID"].numpy()]
    assert (np.diff(actual) != 0).sum() < 60  # 19 if all were found; 1140 or so in random order


@pytest.mark.parametrize("num_nodes", [0, 1, 5])
def test_locality_of_nodes_without_links(num_nodes):
    loops = dglite.graph((list(range(num_nodes)), list(range(num_nodes))), num_nodes=num_nodes)
    assert locality_order(loops.adjacencies[0]).tolist() == list(range(num_nodes))


def test_metis_orders_by_partition(monkeypatch):
    seen = {}

    def part_graph(parts, xadj, adjncy):
        seen.update(parts=parts, xadj=xadj.tolist(), adjncy=adjncy.tolist())
        return 1, [1, 0, 1, 0]

    monkeypatch.setitem(sys.modules, "pymetis", types.SimpleNamespace(part_graph=part_graph))
    g = dglite.graph(([0, 0, 1, 2, 2], [1, 1, 0, 2, 3]))
    result = reorder_graph(g, "metis", permute_config={"k": 2})
    assert result.ndata["_ID"].tolist() == [1, 3, 0, 2]
    # Undirected, without loops and parallel edges, as METIS wants it.
    assert seen == {"parts": 2, "xadj": [0, 1, 2, 3, 4], "adjncy": [1, 0, 3, 2]}


def test_metis_says_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    g = random_graph()
    with pytest.raises(DGLError, match=r"number of partitions, permute_config=\{'k': ...\}, must be an integer"):
        reorder_graph(g, "metis")
    with pytest.raises(DGLError, match="needs the package pymetis"):
        reorder_graph(g, "metis", permute_config={"k": 2})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"node_permute_algo": "best"}, "node_permute_algo='best' is not known; expected None or one of"),
        ({"edge_permute_algo": "best"}, "edge_permute_algo='best' is not known; expected 'src'"),
        ({"node_permute_algo": "custom"}, r"needs permute_config\['nodes_perm'\], a permutation of 0 .. 39"),
        ({"edge_permute_algo": "custom"}, r"needs permute_config\['edges_perm'\], a permutation of 0 .. 199"),
        ({"node_permute_algo": "custom", "permute_config": {"nodes_perm": [0, 1]}}, "not a permutation of 0 .. 39"),
        ({"node_permute_algo": "custom", "permute_config": {"nodes_perm": [0] * 40}}, "not a permutation of 0 .. 39"),
        ({"edge_permute_algo": "custom", "permute_config": {"edges_perm": [0] * 200}}, "not a permutation of 0 .. 199"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(DGLError, match=message):
        reorder_graph(random_graph(), **arguments)


def test_several_types_and_blocks_are_refused():
    several = dglite.heterograph({("a", "x", "b"): ([0], [0])})
    with pytest.raises(DGLError, match="one node type and one edge type, got 2 node types and 1 edge types"):
        reorder_graph(several)
    with pytest.raises(DGLError, match="got a block"):
        reorder_graph(dglite.create_block(([0], [0])))


def test_a_named_type_is_kept_and_all_formats_are_allowed():
    g = dglite.heterograph({("user", "knows", "user"): ([0, 1], [1, 2])}).formats("csc")
    result = reorder_graph(g, "degree")
    assert result.canonical_etypes == [("user", "knows", "user")]
    assert {*result.formats()["created"], *result.formats()["not created"]} == {"coo", "csr", "csc"}
