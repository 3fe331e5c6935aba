"""Exchange with PyTorch Geometric, where it is installed."""

from __future__ import annotations

import pytest
import torch

import dglite
from dglite import DGLError
from dglite.io import from_pyg, to_pyg
from tests.io.graphs import assert_same, block, heterogeneous

data = pytest.importorskip("torch_geometric.data")


def test_data_becomes_a_graph():
    result = data.Data(
        x=torch.rand(4, 2),
        edge_index=torch.tensor([[0, 3, 1], [1, 0, 1]]),
        edge_attr=torch.rand(3, 5),
        y=torch.tensor([1]),
        train_mask=torch.tensor([True, False, True, True]),
    )
    g = from_pyg(result)
    assert [end.tolist() for end in g.edges()] == [[0, 3, 1], [1, 0, 1]]
    assert set(g.ndata) == {"x", "train_mask"}
    assert set(g.edata) == {"edge_attr"}
    assert g.ndata["x"] is result.x
    assert g.num_nodes() == 4


def test_a_sparse_matrix_gives_edges_and_weights():
    weights = torch.tensor([[0.0, 0.5, 0.0], [0.0, 0.0, 0.25], [1.0, 0.0, 0.0]])
    g = from_pyg(data.Data(adj_t=weights.t().to_sparse_csr(), num_nodes=3))
    src, dst = g.edges()
    assert torch.equal(weights[src, dst], g.edata["edge_weight"])
    assert len(src) == 3


def test_data_without_edges():
    g = from_pyg(data.Data(x=torch.rand(3, 1)))
    assert (g.num_nodes(), g.num_edges()) == (3, 0)
    assert from_pyg(data.Data()).num_nodes() == 0


def test_hetero_data_becomes_a_graph():
    result = data.HeteroData()
    result["user"].x = torch.rand(3, 2)
    result["game"].num_nodes = 9
    result["user", "plays", "game"].edge_index = torch.tensor([[0, 2], [8, 1]])
    result["user", "plays", "game"].time = torch.tensor([5, 6])
    g = from_pyg(result)
    assert (g.num_nodes("user"), g.num_nodes("game")) == (3, 9)
    assert [end.tolist() for end in g.edges(etype="plays")] == [[0, 2], [8, 1]]
    assert g.edges["plays"].data["time"].tolist() == [5, 6]
    assert torch.equal(g.nodes["user"].data["x"], result["user"].x)
    assert list(g.nodes["game"].data) == []


@pytest.mark.parametrize("idtype", ["int32", "int64"])
def test_graphs_come_back(idtype):
    g = dglite.graph(([0, 1, 1], [2, 2, 1]), num_nodes=5, idtype=idtype)
    g.ndata["x"], g.edata["edge_attr"] = torch.rand(5, 2), torch.rand(3)
    result = to_pyg(g)
    assert result.edge_index.dtype == torch.int64
    assert result.validate()
    assert_same(g.long(), from_pyg(result))
    g = heterogeneous()
    result = to_pyg(g)
    assert result.num_nodes == g.num_nodes()
    assert_same(g, from_pyg(result))


def test_what_has_no_counterpart_is_refused():
    with pytest.raises(DGLError, match="block"):
        to_pyg(block())
    g = dglite.graph(([0], [1]))
    g.ndata["x"], g.edata["x"] = torch.ones(2), torch.ones(1)
    with pytest.raises(DGLError, match=r"features \['x'\]"):
        to_pyg(g)
    with pytest.raises(DGLError, match="expected torch_geometric"):
        from_pyg(g)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"edge_index": torch.zeros(3, 4, dtype=torch.long)}, r"a tensor \(2, num_edges\), got shape \(3, 4\)"),
        ({"edge_index": torch.zeros(4, dtype=torch.long)}, r"got shape \(4,\)"),
        ({"edge_index": "x"}, "got str"),
        ({"edge_index": torch.zeros(2, 4)}, "must be integers"),
        ({"edge_index": torch.full((2, 4), 9)}, "source node id 9 does not exist"),
        ({"edge_index": torch.full((2, 4), -1)}, "negative"),
        ({"adj_t": "x"}, "adj_t must be a sparse matrix, got str"),
    ],
)
def test_edges_that_are_none_are_named(attributes, message):
    with pytest.raises(DGLError, match=message):
        from_pyg(data.Data(num_nodes=3, **attributes))
