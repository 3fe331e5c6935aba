"""Reports of subgraphs: by ids, by masks, by distance, with ids given twice."""

from __future__ import annotations

import pytest
import torch

import dglite
from tests.reports.cases import ids, pairs, report


@report("dmlc/dgl#4109", "a node given twice led to wrong edges; it is refused", also="dmlc/dgl#4637 dmlc/dgl#3853")
def test_nodes_given_twice_are_refused() -> None:
    g = dglite.graph(([100, 101, 102], [101, 102, 100]))
    with pytest.raises(dglite.DGLError, match=r"100.*more than once"):
        g.subgraph(ids(100, 100, 101, 101))
    assert pairs(g.subgraph(ids(101, 100))) == [(1, 0)]


@report("dmlc/dgl#1709", "masks as ids of nodes and edges", also="dmlc/dgl#1629")
def test_subgraphs_by_masks() -> None:
    g = dglite.heterograph(
        {("u", "plays", "g"): ([0, 1, 1, 2], [0, 0, 2, 1]), ("u", "knows", "u"): ([0, 1, 1], [1, 2, 2])}
    )
    part = g.edge_subgraph(
        {("u", "knows", "u"): torch.tensor([False, True, True]), "plays": torch.tensor([False, False, True, False])}
    )
    assert (part.num_nodes("u"), part.num_nodes("g")) == (2, 1)
    assert part.edges["knows"].data[dglite.EID].tolist() == [1, 2]
    assert part.edges["plays"].data[dglite.EID].tolist() == [2]
    with pytest.raises(dglite.DGLError, match="3"):
        g.subgraph({"u": torch.tensor([True, False])})


@report("pyg-team/pytorch_geometric#6654", "a mask of one type beside ids of another")
def test_a_mask_beside_ids() -> None:
    g = dglite.heterograph({("a", "r", "b"): ([0, 1, 2], [0, 0, 3])})
    part = dglite.node_subgraph(g, {"a": torch.tensor([True, True, False]), "b": ids(0, 3)})
    assert pairs(part, "r") == [(0, 0), (1, 0)] and part.nodes["b"].data[dglite.NID].tolist() == [0, 3]


@report("dmlc/dgl#5880", "subgraphs that keep the graph's node ids", also="dmlc/dgl#5906")
def test_subgraphs_that_keep_ids() -> None:
    g = dglite.graph(([0, 1, 2, 1], [1, 2, 3, 0]))
    g.ndata["h"], g.edata["w"] = torch.arange(4.0), torch.arange(4.0)
    part = g.subgraph([2, 1], relabel_nodes=False)
    assert part.num_nodes() == 4 and pairs(part) == [(1, 2)] and part.ndata["h"].tolist() == [0, 1, 2, 3]
    assert part.edata["w"].tolist() == [1]


@report("pyg-team/pytorch_geometric#9756", "edges of the first of two hops were left out", also="dmlc/dgl#3458")
def test_edges_of_all_hops() -> None:
    g = dglite.graph(([1, 2, 3, 0], [0, 1, 1, 4]))
    part, seed = dglite.khop_in_subgraph(g, 0, 2)
    assert part.edata[dglite.EID].tolist() == [0, 1, 2]
    assert part.ndata[dglite.NID].tolist() == [0, 1, 2, 3] and seed.tolist() == [0]
    part, seed = dglite.khop_out_subgraph(g, ids(2), 2)
    assert part.edata[dglite.EID].tolist() == [0, 1] and part.ndata[dglite.NID][seed].tolist() == [2]


@report("dmlc/dgl#2929", "ids of the larger graph are stored where they are asked for")
def test_ids_are_stored_on_demand() -> None:
    g = dglite.graph(([0, 1, 2], [1, 2, 3]))
    for cut in (dglite.node_subgraph, dglite.edge_subgraph, dglite.in_subgraph, dglite.out_subgraph):
        assert dglite.EID in cut(g, [1, 2]).edata
        without = cut(g, [1, 2], store_ids=False)
        assert dglite.EID not in without.edata and dglite.NID not in without.ndata
