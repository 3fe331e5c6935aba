"""Layers of dense adjacency matrices against those of graphs."""

from __future__ import annotations

import pytest
import torch

from dglite.errors import DGLError
from dglite.nn import ChebConv, DenseChebConv, DenseGraphConv, DenseSAGEConv, GraphConv, SAGEConv
from tests.nn import dense


@pytest.mark.parametrize("norm", ["both", "right", "none"])
@pytest.mark.parametrize("sizes", [(4, 3), (3, 4)])
def test_graph_conv(norm: str, sizes: tuple[int, int]) -> None:
    torch.manual_seed(0)
    g, x = dense.graph(), dense.double(4, sizes[0])
    layer, expected = DenseGraphConv(*sizes, norm).double(), GraphConv(*sizes, norm).double()
    expected.load_state_dict(layer.state_dict())
    torch.testing.assert_close(layer(dense.matrix(g), x), expected(g, x))
    assert torch.autograd.gradcheck(
        layer, ((dense.matrix(g) + 0.3).requires_grad_(), x), fast_mode=True
    )  # sums away from 1


def test_sage_conv_of_a_pair() -> None:
    torch.manual_seed(0)
    g, source, destination = dense.bipartite(), dense.double(5, 4), dense.double(3, 4, seed=1)
    layer, expected = DenseSAGEConv(4, 3).double(), SAGEConv(4, 3, "gcn").double()
    expected.load_state_dict({"fc_neigh.weight": layer.fc.weight, "bias": layer.fc.bias})
    torch.testing.assert_close(layer(dense.matrix(g), (source, destination)), expected(g, (source, destination)))


@pytest.mark.parametrize("lambda_max", [None, 1.5])
def test_cheb_conv(lambda_max: float | None) -> None:
    torch.manual_seed(0)
    g, x = dense.graph(), dense.double(4, 4)
    layer, expected = DenseChebConv(4, 3, 3).double(), ChebConv(4, 3, 3, activation=None).double()
    flat = layer.W.detach().permute(2, 0, 1).reshape(3, 12)
    expected.load_state_dict({"linear.weight": flat, "linear.bias": layer.bias})
    if lambda_max is None:
        root = g.in_degrees().double() ** -0.5
        laplacian = torch.eye(4, dtype=torch.float64) - root[:, None] * dense.matrix(g) * root
        largest = torch.linalg.eigvals(laplacian).real.max().item()
    torch.testing.assert_close(layer(dense.matrix(g), x, lambda_max), expected(g, x, [lambda_max or largest]))


def test_what_is_no_matrix_is_refused() -> None:
    with pytest.raises(DGLError, match=r"DenseGraphConv: adj is \(4, 5\); expected a dense matrix .* with 4 columns"):
        DenseGraphConv(3, 2)(torch.ones(4, 5), torch.ones(4, 3))
    with pytest.raises(DGLError, match="DenseSAGEConv: adj is DGLGraph"):
        DenseSAGEConv(3, 2)(dense.graph(), torch.ones(4, 3))  # type: ignore[arg-type]
    with pytest.raises(DGLError, match="norm='left' is not known"):
        DenseGraphConv(3, 2, "left")
