"""DotGatConv against its formula, edge by edge."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from dglite import DGLGraph
from dglite.errors import DGLError
from dglite.nn import DotGatConv
from tests.nn import dense

HEADS, OUT = 3, 2


def _expected(
    layer: DotGatConv, g: DGLGraph, source: torch.Tensor, destination: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the layer's result and attention, written over edges."""
    src, dst = (ids.long() for ids in g.edges())
    fc_src, fc_dst = (layer.fc_src, layer.fc_dst) if hasattr(layer, "fc_src") else (layer.fc, layer.fc)
    left, right = (fc(x).reshape(-1, HEADS, OUT) for fc, x in ((fc_src, source), (fc_dst, destination)))
    attention = dense.softmax_by_destination(g, (left[src] * right[dst]).sum(-1) / OUT**0.5)[..., None]
    return source.new_zeros(g.num_dst_nodes(), HEADS, OUT).index_add(0, dst, attention * left[src]), attention


def _layer(in_feats: int | tuple[int, int] = 4, **options: object) -> DotGatConv:
    torch.manual_seed(0)
    return DotGatConv(in_feats, OUT, HEADS, **options).double()  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [dense.graph, dense.block])
@pytest.mark.parametrize("get_attention", [False, True])
def test_it_is_the_formula(make: Callable[[], DGLGraph], get_attention: bool) -> None:
    g, layer = make(), _layer()
    feat = dense.double(g.num_src_nodes(), 4)
    expected = _expected(layer, g, feat, feat[: g.num_dst_nodes()])
    result = layer(g, feat, get_attention=get_attention)
    torch.testing.assert_close(result, expected if get_attention else expected[0])


@pytest.mark.parametrize("make", [dense.graph, dense.block, dense.bipartite])
@pytest.mark.parametrize("sizes", [4, (4, 5)], ids=["one matrix", "two matrices"])
def test_a_pair_of_features(make: Callable[[], DGLGraph], sizes: int | tuple[int, int]) -> None:
    g, layer = make(), _layer(sizes)
    feat = dense.double(g.num_src_nodes(), 4), dense.double(g.num_dst_nodes(), 5 if sizes != 4 else 4, seed=1)
    torch.testing.assert_close(layer(g, feat), _expected(layer, g, *feat)[0])


@pytest.mark.parametrize("make", [dense.graph, dense.block])
def test_gradients(make: Callable[[], DGLGraph]) -> None:
    g, layer = make(), _layer(2)

    def run(feat: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(layer, {"fc.weight": weight}, (g, feat))

    assert torch.autograd.gradcheck(run, (dense.double(g.num_src_nodes(), 2), layer.fc.weight), fast_mode=True)


def test_more_feature_axes_are_carried_along() -> None:
    g, layer = dense.graph(), _layer()
    feat = dense.double(4, 5, 4)
    torch.testing.assert_close(layer(g, feat), torch.stack([layer(g, feat[:, i]) for i in range(5)], dim=1))


def test_nodes_without_in_edges_are_refused_unless_allowed() -> None:
    g, feat, layer = dense.lonely_graph(), dense.double(4, 4), _layer()
    with pytest.raises(DGLError, match="2 of 4 nodes have no in-edge"):
        layer(g, feat)
    layer.set_allow_zero_in_degree(True)
    torch.testing.assert_close(layer(g, feat), _expected(layer, g, feat, feat)[0])
    assert not layer(g, feat)[0].any()


def test_parameters_have_dgl_names() -> None:
    assert set(_layer().state_dict()) == {"fc.weight"}
    assert set(_layer((4, 5)).state_dict()) == {"fc_src.weight", "fc_dst.weight"}
