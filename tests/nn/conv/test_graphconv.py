"""GraphConv against its formula on dense matrices."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import dglite
from dglite import DGLGraph
from dglite.errors import DGLError
from dglite.nn import EdgeWeightNorm, GraphConv
from tests.nn import dense

GRAPHS = [dense.graph, dense.block, dense.bipartite]
NORMS = ["both", "right", "left", "none"]


def _scaled(g: DGLGraph, norm: str, weight: torch.Tensor | None) -> torch.Tensor:
    plain, weighted = dense.matrix(g), dense.matrix(g, weight)
    in_degrees, out_degrees = plain.sum(1).clamp(min=1)[:, None], plain.sum(0).clamp(min=1)[None, :]
    divisor = {"both": (in_degrees * out_degrees).sqrt(), "right": in_degrees, "left": out_degrees, "none": 1.0}[norm]
    return weighted / divisor


@pytest.mark.parametrize("make", GRAPHS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("sizes", [(5, 2), (2, 5)], ids=["narrowing", "widening"])
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
def test_it_is_the_formula(make: Callable[[], DGLGraph], norm: str, sizes: tuple[int, int], weighted: bool) -> None:
    g = make()
    layer = GraphConv(*sizes, norm=norm).double()
    torch.nn.init.normal_(layer.bias)
    feat = dense.double(g.num_src_nodes(), sizes[0])
    weight = dense.positive(g.num_edges()) if weighted else None
    expected = _scaled(g, norm, weight) @ feat @ layer.weight + layer.bias
    torch.testing.assert_close(layer(g, feat, edge_weight=weight), expected)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("sizes", [(3, 2), (2, 3)], ids=["narrowing", "widening"])
def test_gradients(norm: str, sizes: tuple[int, int]) -> None:
    g = dense.block()
    layer = GraphConv(*sizes, norm=norm, weight=False, activation=torch.tanh).double()

    def run(feat: torch.Tensor, matrix: torch.Tensor, edge_weight: torch.Tensor) -> torch.Tensor:
        return layer(g, feat, weight=matrix, edge_weight=edge_weight)

    inputs = dense.double(5, sizes[0]), dense.double(*sizes, seed=1), dense.positive(5)
    assert torch.autograd.gradcheck(run, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(run, inputs, fast_mode=True)


def test_more_feature_axes_are_carried_along() -> None:
    g, layer = dense.graph(), GraphConv(3, 2).double()
    feat = dense.double(4, 6, 3)
    expected = torch.stack([layer(g, feat[:, i]) for i in range(6)], dim=1)
    torch.testing.assert_close(layer(g, feat), expected)


def test_of_a_pair_the_source_counts() -> None:
    g, layer = dense.bipartite(), GraphConv(3, 2).double()
    source = dense.double(5, 3)
    torch.testing.assert_close(layer(g, (source, dense.double(3, 7))), layer(g, source))


@pytest.mark.parametrize("shape", [(8,), (8, 1)])
def test_edge_weights_may_have_an_axis_of_length_one(shape: tuple[int, ...]) -> None:
    g, layer, feat = dense.graph(), GraphConv(3, 2).double(), dense.double(4, 3)
    weight = dense.positive(8)
    torch.testing.assert_close(
        layer(g, feat, edge_weight=weight.reshape(shape)), layer(g, feat, edge_weight=weight), rtol=0, atol=0
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_graph_serves_layers_of_several_dtypes(dtype: torch.dtype) -> None:
    g = dense.graph()
    GraphConv(3, 2).to(torch.float64)(g, dense.double(4, 3))
    GraphConv(3, 2)(g, torch.ones(4, 3))
    assert GraphConv(3, 2).to(dtype)(g, torch.ones(4, 3, dtype=dtype)).dtype is dtype


@pytest.mark.parametrize(("classic", "norm"), [(True, "both"), (False, "none")])
def test_classic_normalisation_is_a_truth_value(classic: bool, norm: str) -> None:
    with pytest.warns(DeprecationWarning, match="use norm='both' or norm='none'") as caught:
        layer = GraphConv(2, 2, norm=classic)
    assert layer._norm == norm and caught[0].filename == __file__


def test_a_changed_graph_is_normalised_anew() -> None:
    g, layer, feat = dense.graph(), GraphConv(3, 2).double(), dense.double(4, 3)
    layer(g, feat)
    g.add_edges([0, 1], [2, 3])
    torch.testing.assert_close(layer(g, feat), _scaled(g, "both", None) @ feat @ layer.weight)


def test_nodes_without_in_edges_are_refused_unless_allowed() -> None:
    g, feat = dense.lonely_graph(), dense.double(4, 3)
    layer = GraphConv(3, 2).double()
    for _ in range(2):  # the second time, the answer comes from the adjacency's cache
        with pytest.raises(DGLError, match=r"2 of 4 nodes have no in-edge \(the first is node 0\).*self-loops"):
            layer(g, feat)
    torch.nn.init.normal_(layer.bias)
    layer.set_allow_zero_in_degree(True)
    result = layer(g, feat)
    torch.testing.assert_close(result, _scaled(g, "both", None) @ feat @ layer.weight + layer.bias)
    torch.testing.assert_close(result[0], layer.bias.detach())


def test_an_empty_graph_gives_an_empty_result() -> None:
    g = dglite.graph(([], []), num_nodes=0)
    assert GraphConv(3, 2)(g, torch.ones(0, 3)).shape == (0, 2)


def test_a_weight_is_given_once() -> None:
    g, feat = dense.graph(), dense.double(4, 3)
    with pytest.raises(DGLError, match="weight=False"):
        GraphConv(3, 2).double()(g, feat, weight=dense.double(3, 2))


def test_without_a_weight_the_features_are_summed() -> None:
    g, feat = dense.graph(), dense.double(4, 3)
    torch.testing.assert_close(GraphConv(3, 3, norm="none", weight=False, bias=False)(g, feat), dense.matrix(g) @ feat)


@pytest.mark.parametrize(
    ("feat", "edge_weight", "message"),
    [
        (torch.ones(3, 3), None, r"shape \(3, 3\) was given for 4 source nodes"),
        (torch.ones(4, 3), torch.ones(7), r"shape \(7,\) was given for 8 edges"),
        (torch.tensor(1.0), None, r"shape \(\) was given for 4 source nodes"),
    ],
)
def test_wrong_numbers_of_rows_are_refused(feat: torch.Tensor, edge_weight: torch.Tensor | None, message: str) -> None:
    with pytest.raises(DGLError, match=message):
        GraphConv(3, 2)(dense.graph(), feat, edge_weight=edge_weight)


def test_an_unknown_norm_is_refused() -> None:
    with pytest.raises(DGLError, match="norm='sym' is not known; expected one of both, right, left, none"):
        GraphConv(3, 2, norm="sym")


def test_parameters_have_dgl_names() -> None:
    assert {name: tuple(p.shape) for name, p in GraphConv(3, 2).state_dict().items()} == {
        "weight": (3, 2),
        "bias": (2,),
    }
    assert not GraphConv(3, 2, weight=False, bias=False).state_dict()
    assert repr(GraphConv(3, 2)) == "GraphConv(in=3, out=2, normalization=both, activation=None)"


# -- EdgeWeightNorm ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", GRAPHS)
@pytest.mark.parametrize("norm", ["both", "right", "none"])
@pytest.mark.parametrize("eps", [0.0, 0.5])
def test_edge_weights_are_divided_by_weighted_degrees(make: Callable[[], DGLGraph], norm: str, eps: float) -> None:
    g = make()
    weight = dense.positive(g.num_edges())
    src, dst = (ids.long() for ids in g.edges())
    incoming, outgoing = dense.matrix(g, weight).sum(1) + eps, dense.matrix(g, weight).sum(0) + eps
    divisor = {"both": (outgoing[src] * incoming[dst]).sqrt(), "right": incoming[dst], "none": 1.0}[norm]
    torch.testing.assert_close(EdgeWeightNorm(norm, eps)(g, weight), weight / divisor)


@pytest.mark.parametrize("norm", ["both", "right"])
def test_gradients_of_normalised_weights(norm: str) -> None:
    g = dense.graph()
    assert torch.autograd.gradcheck(
        lambda weight: EdgeWeightNorm(norm)(g, weight), (dense.positive(8),), fast_mode=True
    )


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.ones(8, 2), "one number per edge"),
        (torch.ones(3), "for 8 edges"),
        (torch.arange(8.0), "must be positive; got 0"),
        (torch.arange(8.0) - 2, "must be positive; got -2"),
    ],
)
def test_weights_that_cannot_be_normalised_are_refused(weight: torch.Tensor, message: str) -> None:
    with pytest.raises(DGLError, match=message):
        EdgeWeightNorm()(dense.graph(), weight)


def test_a_left_normalisation_of_weights_is_refused() -> None:
    with pytest.raises(DGLError, match="norm='left' is not known"):
        EdgeWeightNorm("left")
