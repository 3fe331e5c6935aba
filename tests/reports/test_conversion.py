"""Reports of graphs from and to NetworkX, SciPy and edge lists."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as ssp
import torch

import dglite
from tests.reports.cases import pairs, report


@report("dmlc/dgl#283", "features of edges from NetworkX failed; nodes need not be numbers")
def test_edge_features_from_networkx() -> None:
    source = nx.DiGraph()
    source.add_node(5, features=[5.0, 9.0])
    source.add_node(1, features=[2.0, 3.0])
    source.add_node(2, features=[1.0, 4.0])
    source.add_edge(5, 1, features=[7.0])
    source.add_edge(1, 2, features=[3.0])
    g = dglite.from_networkx(source, node_attrs=["features"], edge_attrs=["features"])
    by_edge = dict(zip(pairs(g), g.edata["features"].flatten().tolist(), strict=True))
    assert g.ndata["features"].tolist() == [[2, 3], [1, 4], [5, 9]]  # nodes in sorted order
    assert by_edge == {(2, 0): 7, (0, 1): 3}


@report("dmlc/dgl#341", "an undirected edge becomes two, both with its features")
def test_undirected_graphs_from_networkx() -> None:
    source = nx.Graph()
    source.add_edge(0, 1, w=0.5)
    source.add_edge(2, 1, w=2.5)
    g = dglite.from_networkx(source, edge_attrs=["w"])
    by_edge = dict(zip(pairs(g), g.edata["w"].tolist(), strict=True))
    assert by_edge == {(0, 1): 0.5, (1, 0): 0.5, (1, 2): 2.5, (2, 1): 2.5}


@report("dmlc/dgl#262", "the order of an edge list was lost")
def test_order_of_an_edge_list() -> None:
    edges = [(3, 1), (0, 2), (3, 1), (2, 0), (0, 0)]
    assert pairs(dglite.graph(edges)) == edges
    src, dst = np.array(edges).T
    assert pairs(dglite.graph((src, dst))) == edges and pairs(dglite.graph((src.tolist(), torch.tensor(dst)))) == edges


@report("dmlc/dgl#94", "graphs without edges could not be converted")
def test_networkx_graphs_without_edges() -> None:
    source = nx.DiGraph()
    source.add_nodes_from(range(3))
    g = dglite.from_networkx(source)
    assert g.num_nodes() == 3 and g.num_edges() == 0
    back = dglite.to_networkx(g)
    assert sorted(back.nodes) == [0, 1, 2] and back.number_of_edges() == 0


@report("dmlc/dgl#1983", "repeated edges and ids survive the way to NetworkX and back")
def test_repeated_edges_in_networkx() -> None:
    g = dglite.graph(([0, 1, 0, 2], [1, 2, 1, 2]))
    g.edata["w"], g.ndata["x"] = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([5.0, 6.0, 7.0])
    middle = dglite.to_networkx(g, node_attrs=["x"], edge_attrs=["w"])
    assert sorted((u, v, data["id"], float(data["w"])) for u, v, data in middle.edges(data=True)) == [
        (0, 1, 0, 1),
        (0, 1, 2, 3),
        (1, 2, 1, 2),
        (2, 2, 3, 4),
    ]
    back = dglite.from_networkx(middle, node_attrs=["x"], edge_attrs=["w"], edge_id_attr_name="id")
    assert pairs(back) == pairs(g) and back.edata["w"].tolist() == [1, 2, 3, 4]
    assert back.ndata["x"].tolist() == [5, 6, 7]


@report("dmlc/dgl#247", "weights from SciPy belonged to other edges")
@pytest.mark.parametrize("kind", [ssp.coo_matrix, ssp.csr_matrix, ssp.csc_matrix, ssp.coo_array])
def test_weights_from_scipy(kind: type) -> None:
    row, col, value = [2, 0, 1, 0], [1, 2, 0, 1], [1.0, 2.0, 3.0, 4.0]
    g = dglite.from_scipy(kind((value, (row, col)), shape=(4, 4)), eweight_name="w")
    by_edge = dict(zip(pairs(g), g.edata["w"].tolist(), strict=True))
    assert by_edge == dict(zip(zip(row, col, strict=True), value, strict=True)) and g.num_nodes() == 4


@report("dmlc/dgl#148", "the adjacency and its transpose were mixed up once both had been asked for")
def test_adjacency() -> None:
    g = dglite.heterograph({("a", "r", "b"): ([0, 1, 1], [2, 0, 0])}, num_nodes_dict={"a": 2, "b": 3})
    assert g.adj("r").to_dense().tolist() == [[0, 0, 1], [2, 0, 0]]
    assert g.adj_external(etype="r", scipy_fmt="coo").toarray().tolist() == [[0, 0, 1], [2, 0, 0]]
    for _ in range(2):
        assert g.adj_external(etype="r", transpose=True, scipy_fmt="csr").toarray().tolist() == [[0, 2], [0, 0], [1, 0]]
        assert g.adj_external(etype="r", transpose=False, scipy_fmt="csr").toarray().tolist() == [[0, 0, 1], [2, 0, 0]]


@report(
    "pyg-team/pytorch_geometric#9171", "isolated nodes at the end were lost", also="pyg-team/pytorch_geometric#10815"
)
def test_isolated_nodes_at_the_end() -> None:
    source = nx.DiGraph([(0, 1)])
    source.add_node(4)
    assert dglite.from_networkx(source).num_nodes() == 3  # nodes 0, 1 and 4
    g = dglite.from_scipy(ssp.coo_matrix(([1.0], ([0], [1])), shape=(5, 5)))
    assert g.num_nodes() == 5 and dglite.to_networkx(g).number_of_nodes() == 5
    assert dglite.to_homogeneous(dglite.heterograph({("n", "e", "n"): ([0], [1])}, {"n": 5})).num_nodes() == 5
    batched = dglite.batch([g, dglite.graph(([], []), num_nodes=1)])
    assert [part.num_edges() for part in dglite.unbatch(batched)] == [1, 0]
