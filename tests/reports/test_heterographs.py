"""Reports of graphs with several types, and of blocks: features of their two sides, conversions, subgraphs."""

from __future__ import annotations

import pytest
import torch

import dglite
import dglite.function as fn
from dglite.graph import DGLGraph
from tests.reports.cases import ids, pairs, report


def users_and_games() -> DGLGraph:
    """Return 3 users who follow each other and play 3 games."""
    g = dglite.heterograph(
        {("user", "plays", "game"): ([0, 1, 1, 2], [0, 0, 2, 1]), ("user", "follows", "user"): ([0, 1, 1], [1, 2, 2])}
    )
    g.nodes["user"].data["feat"] = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    return g


@report("dmlc/dgl#7452", "a column set on a block's destinations went to the sources", also="dmlc/dgl#4287")
def test_destination_features_of_a_block() -> None:
    g = dglite.heterograph({("a", "r", "b"): ([0, 1], [0, 0]), ("b", "s", "a"): ([0, 1], [0, 1])})
    block = dglite.to_block(g)
    rows = {ntype: torch.arange(float(block.num_dst_nodes(ntype))) for ntype in ("a", "b")}
    block.dstdata["copy"] = rows
    assert {ntype: block.dstdata["copy"][ntype].tolist() for ntype in rows} == {
        ntype: values.tolist() for ntype, values in rows.items()
    }
    assert "copy" not in block.srcdata and block.dstnodes["a"].data["copy"].tolist() == rows["a"].tolist()


@report("dmlc/dgl#4241", "features of nodes come along to both sides of a block")
def test_features_come_along_to_a_block() -> None:
    g = dglite.heterograph({("a", "w", "p"): (torch.arange(4), torch.arange(4, 8))})
    g.ndata["s"] = {"a": torch.zeros(4, 2), "p": torch.ones(8, 2)}
    block = dglite.to_block(g)
    assert block.srcdata["s"]["a"].tolist() == [[0, 0]] * 4 and block.dstdata["s"]["p"].tolist() == [[1, 1]] * 4
    assert block.dstdata[dglite.NID]["p"].tolist() == [4, 5, 6, 7]
    columns = g.ndata["s"]
    columns["a"] = torch.ones(4, 2)  # of the dictionary, not of the graph
    assert g.nodes["a"].data["s"].tolist() == [[0, 0]] * 4
    g.ndata["s"] = columns
    assert g.nodes["a"].data["s"].tolist() == [[1, 1]] * 4


@report("dmlc/dgl#4075", "results in a block are on its destinations")
def test_results_in_a_block() -> None:
    block = dglite.to_block(dglite.graph(([2, 3, 0], [0, 0, 1])), ids(0, 1))
    block.srcdata["h"] = 2.0 ** block.srcdata[dglite.NID]
    block.update_all(fn.copy_u("h", "m"), fn.sum("m", "y"))
    assert block.dstdata["y"].tolist() == [12, 1] and "y" not in block.srcdata


@report("dmlc/dgl#2613", "a block's two sides have the same type's name and other sizes")
def test_sides_of_a_block() -> None:
    block = dglite.to_block(dglite.heterograph({("_U", "_V", "_U"): ([1, 2], [0, 0])}), {"_U": ids(0)})
    assert block.srctypes == block.dsttypes == ["_U"] and block.canonical_etypes == [("_U", "_V", "_U")]
    assert (block.num_src_nodes("_U"), block.num_dst_nodes("_U")) == (3, 1) and block.is_block


@report("dmlc/dgl#2555", "blocks made of ids, and graphs made of blocks")
def test_blocks_made_of_ids() -> None:
    block = dglite.create_block(([0, 2, 2], [0, 0, 1]), num_src_nodes=4, num_dst_nodes=2)
    assert block.is_block and (block.num_src_nodes(), block.num_dst_nodes()) == (4, 2)
    block.srcdata["x"], block.dstdata["y"] = torch.arange(4.0), torch.tensor([7.0, 8.0])
    g = dglite.block_to_graph(block)
    assert pairs(g) == [(0, 0), (2, 0), (2, 1)] and not g.is_block
    assert g.ntypes == ["_N_src", "_N_dst"]
    assert g.nodes["_N_src"].data["x"].tolist() == [0, 1, 2, 3] and g.nodes["_N_dst"].data["y"].tolist() == [7, 8]


@report("dmlc/dgl#1956", "users without edges of one type are users nonetheless")
def test_nodes_without_edges_of_a_type() -> None:
    g = dglite.heterograph({("user", "sees", "movie"): ([0, 0], [0, 1]), ("user", "watches", "tv"): ([1], [0])})
    assert {ntype: g.num_nodes(ntype) for ntype in g.ntypes} == {"user": 2, "movie": 2, "tv": 1}
    assert g.out_degrees(etype="sees").tolist() == [2, 0] and g.out_degrees(etype="watches").tolist() == [0, 1]
    with pytest.raises(dglite.DGLError, match=r"sees.*node id 3 does not exist among 2"):
        dglite.heterograph({("user", "sees", "movie"): ([0, 3], [0, 1])}, num_nodes_dict={"user": 2, "movie": 2})


@report("dmlc/dgl#2986", "functions of edges of a block mixed its two sides up")
def test_functions_of_edges_of_a_block() -> None:
    g = dglite.heterograph({("user", "follows", "user"): ([0, 1, 0], [1, 0, 2])})
    block = dglite.to_block(dglite.in_subgraph(g, {"user": ids(2, 0)}), {"user": ids(2, 0)})
    block.srcdata["x"], block.dstdata["x"] = 1.0 * block.srcdata[dglite.NID], -1.0 * block.dstdata[dglite.NID]
    block.apply_edges(lambda edges: {"e": torch.stack([edges.src["x"], edges.dst["x"]], 1)})
    block.apply_edges(fn.u_sub_v("x", "x", "d"))
    expected = {(0, 2): [0.0, -2.0], (1, 0): [1.0, 0.0]}
    src, dst = block.edges()
    back = zip(block.srcdata[dglite.NID][src].tolist(), block.dstdata[dglite.NID][dst].tolist(), strict=True)
    assert [expected[edge] for edge in back] == block.edata["e"].tolist()
    assert torch.equal(block.edata["d"], block.edata["e"][:, 0] - block.edata["e"][:, 1])


@report("dmlc/dgl#2540", "edges of a block are numbered within it; its ids lead back")
def test_ids_of_a_block() -> None:
    g = dglite.graph(([104, 105, 7], [105, 104, 8]), num_nodes=200)
    block = dglite.to_block(dglite.in_subgraph(g, [105, 104]), ids(105, 104))
    src, dst = block.edges()
    back = zip(block.srcdata[dglite.NID][src].tolist(), block.dstdata[dglite.NID][dst].tolist(), strict=True)
    assert sorted(back) == [(104, 105), (105, 104)] and block.dstdata[dglite.NID].tolist() == [105, 104]


@report("dmlc/dgl#4486", "to_block with the sources given crashed")
def test_block_with_sources_given() -> None:
    g = dglite.graph(([4, 5, 4, 9], [0, 0, 1, 2]), num_nodes=10)
    part = dglite.in_subgraph(g, [0, 1])
    block = dglite.to_block(part, ids(1, 0), include_dst_in_src=False, src_nodes=ids(5, 4))
    assert block.srcdata[dglite.NID].tolist() == [5, 4] and block.dstdata[dglite.NID].tolist() == [1, 0]
    assert sorted(pairs(block)) == [(0, 1), (1, 0), (1, 1)]


@report("dmlc/dgl#1401", "blocks whose sources do not repeat the destinations")
def test_block_without_destinations_among_sources() -> None:
    g = dglite.graph(([3, 0, 3], [0, 1, 1]))
    block = dglite.to_block(g, ids(0, 1), include_dst_in_src=False)
    assert sorted(block.srcdata[dglite.NID].tolist()) == [0, 3] and block.num_dst_nodes() == 2
    assert dglite.to_block(g, ids(0, 1)).srcdata[dglite.NID].tolist()[:2] == [0, 1]


@report("dmlc/dgl#2483", "one node type without edges of its own")
def test_a_node_type_without_edges() -> None:
    g = dglite.heterograph({("a", "a2b", "b"): ([0, 1, 2], [0, 1, 0])})
    with pytest.raises(dglite.DGLError, match="edge"):  # DGL, too: a graph has an edge type
        g.node_type_subgraph(["a"])
    both = g.node_type_subgraph(["a", "b"])
    assert pairs(both) == [(0, 0), (1, 1), (2, 0)]


@report("dmlc/dgl#7826", "to_homogeneous of a graph without edges failed")
def test_homogeneous_graph_without_edges() -> None:
    g = dglite.heterograph({("n", "f", "n"): ([], []), ("n", "r", "n"): ([], [])}, num_nodes_dict={"n": 2})
    g.ndata["h"] = ids(4, 5)
    homogeneous = dglite.to_homogeneous(g, ndata=["h"])
    assert homogeneous.num_nodes() == 2 and homogeneous.num_edges() == 0
    assert homogeneous.ndata["h"].tolist() == [4, 5] and homogeneous.ndata[dglite.NTYPE].tolist() == [0, 0]


@report("dmlc/dgl#5724", "to_homogeneous of a graph with CSC only failed")
@pytest.mark.parametrize("fmt", ["csc", "csr", "coo"])
def test_homogeneous_graph_of_one_format(fmt: str) -> None:
    g = dglite.heterograph({("A", "AB", "B"): ([1, 2, 3], [0, 1, 0]), ("B", "BA", "A"): ([1, 0], [3, 0])})
    homogeneous = dglite.to_homogeneous(g.formats(fmt))
    at = {"A": 0, "B": 4}
    types = homogeneous.edata[dglite.ETYPE].tolist()
    numbers = homogeneous.edata[dglite.EID].tolist()
    results = {(kind, number): pair for kind, number, pair in zip(types, numbers, pairs(homogeneous), strict=True)}
    original = {"AB": [(1, 0), (2, 1), (3, 0)], "BA": [(1, 3), (0, 0)]}
    for kind, (src, name, dst) in enumerate(g.canonical_etypes):
        for number, (u, v) in enumerate(original[name]):
            assert results[kind, number] == (u + at[src], v + at[dst])


@report("dmlc/dgl#6031", "equal edges of two types stay two edges of the homogeneous graph")
def test_equal_edges_of_two_types() -> None:
    g = dglite.heterograph({("u", "a", "u"): ([0, 1, 1], [1, 2, 0]), ("u", "b", "u"): ([0, 1], [1, 0])})
    homogeneous = dglite.to_homogeneous(g)
    assert sorted(pairs(homogeneous)) == [(0, 1), (0, 1), (1, 0), (1, 0), (1, 2)]
    assert homogeneous.edata[dglite.ETYPE].tolist() == [0, 0, 0, 1, 1]


@report("dmlc/dgl#4170", "the result of to_homogeneous has one type", also="dmlc/dgl#4717")
def test_homogeneous_graph_of_a_batch() -> None:
    g = dglite.heterograph({("user", "follows", "user"): ([0, 1], [1, 2]), ("dev", "makes", "game"): ([0, 1], [0, 1])})
    for ntype, value in (("user", 1.0), ("dev", 0.0), ("game", 2.0)):
        g.nodes[ntype].data["h"] = torch.full((g.num_nodes(ntype), 1), value)
    homogeneous = dglite.to_homogeneous(dglite.batch([g, g]), ndata=["h"])
    assert homogeneous.is_homogeneous and homogeneous.ntypes == ["_N"] and homogeneous.num_nodes() == 14
    values = {"user": 1.0, "dev": 0.0, "game": 2.0}
    expected = [values[g.ntypes[kind]] for kind in homogeneous.ndata[dglite.NTYPE].tolist()]
    assert homogeneous.ndata["h"].flatten().tolist() == expected


@report("dmlc/dgl#2493", "a subgraph keeps types that have no nodes left; the others' columns can be joined")
def test_types_of_a_subgraph() -> None:
    part = dglite.node_subgraph(users_and_games(), {"user": [1, 2]})
    assert part.num_nodes("game") == 0 and part.num_nodes("user") == 2
    assert pairs(part, "follows") == [(0, 1), (0, 1)] and part.num_edges("plays") == 0
    assert part.nodes["user"].data["feat"].tolist() == [[0, 1], [1, 1]]
    only = dglite.to_homogeneous(dglite.edge_type_subgraph(part, ["follows"]), ndata=["feat"])
    assert only.ndata["feat"].tolist() == [[0, 1], [1, 1]]


@report("dmlc/dgl#1645", "types need not be named where there is one", also="dmlc/dgl#1563")
def test_subgraphs_of_one_type() -> None:
    g = dglite.graph(([0, 0, 1, 2], [1, 2, 2, 3]))
    assert pairs(g.subgraph([0, 2])) == [(0, 1)]
    part = g.edge_subgraph([3, 0])
    ends = part.ndata[dglite.NID]
    assert [(int(ends[u]), int(ends[v])) for u, v in pairs(part)] == [(2, 3), (0, 1)]


@report("dmlc/dgl#1641", "edges cut out with all nodes kept")
def test_edge_subgraph_with_all_nodes() -> None:
    g = dglite.graph(([0, 3, 1, 1], [2, 1, 2, 0]))
    part = dglite.edge_subgraph(g, ids(1, 2), relabel_nodes=False)
    assert pairs(part) == [(3, 1), (1, 2)] and part.num_nodes() == 4
    assert part.edata[dglite.EID].tolist() == [1, 2]


@report("dmlc/dgl#7410", "a type whose nodes are no destinations has none in the blocks, and layers go on")
def test_blocks_of_types_without_in_edges() -> None:
    g = dglite.heterograph({("n1", "e1", "n1"): ([0, 1, 1], [1, 2, 0]), ("n1", "e2", "n2"): ([0, 1, 2], [1, 0, 2])})
    sampler = dglite.dataloading.NeighborSampler([-1, -1])
    inputs, _, (first, second) = sampler.sample_blocks(g, {"n2": ids(0)})
    assert (second.num_edges("e2"), second.num_edges("e1"), first.num_edges("e1")) == (1, 0, 1)
    assert second.srcdata[dglite.NID]["n1"].tolist() == [1] and inputs["n1"].tolist() == [1, 0]


@report("dmlc/dgl#873", "types made of a homogeneous graph, with the metagraph given")
def test_types_of_a_homogeneous_graph() -> None:
    g = dglite.graph(([0, 1, 2, 3], [2, 3, 0, 1]))
    g.ndata[dglite.NTYPE], g.edata[dglite.ETYPE] = ids(0, 0, 1, 1), ids(0, 0, 1, 1)
    typed = dglite.to_heterogeneous(g, ["a", "b"], ["r", "s"])
    assert set(typed.canonical_etypes) == {("a", "r", "b"), ("b", "s", "a")}
    assert pairs(typed, "r") == [(0, 0), (1, 1)] and pairs(typed, "s") == [(0, 0), (1, 1)]
    assert typed.nodes["b"].data[dglite.NID].tolist() == [2, 3] and typed.edges["s"].data[dglite.EID].tolist() == [2, 3]


@report("dmlc/dgl#1277", "paths of several types as edges of one graph")
def test_graph_of_metapaths() -> None:
    g = dglite.heterograph({("p", "pa", "a"): ([0, 1, 2], [0, 0, 1]), ("a", "ap", "p"): ([0, 0, 1], [0, 1, 2])})
    g.nodes["p"].data["h"] = torch.tensor([1.0, 2.0, 3.0])
    reached = dglite.metapath_reachable_graph(g, ["pa", "ap"])
    assert sorted(pairs(reached)) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)]
    assert reached.ndata["h"].tolist() == [1, 2, 3]


@report("dmlc/dgl#1682", "ids of an earlier graph took the place of those of to_homogeneous", also="dmlc/dgl#1683")
def test_ids_of_an_earlier_graph() -> None:
    g = users_and_games()
    g.nodes["user"].data[dglite.NID], g.nodes["game"].data[dglite.NID] = ids(70, 71, 72), ids(80, 81, 82)
    homogeneous = dglite.to_homogeneous(g, ndata=[dglite.NID])
    assert homogeneous.ndata[dglite.NID].tolist() == [0, 1, 2, 0, 1, 2]
