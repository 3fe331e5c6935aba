"""GATv2Conv against its formula, edge by edge."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from dglite import DGLGraph
from dglite.errors import DGLError
from dglite.nn import GATv2Conv
from tests.nn import dense

HEADS, OUT = 3, 2


def _expected(
    layer: GATv2Conv, g: DGLGraph, source: torch.Tensor, destination: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the layer's result and attention, written over edges."""
    src, dst = (ids.long() for ids in g.edges())
    left, right = (fc(x).reshape(-1, HEADS, OUT) for fc, x in ((layer.fc_src, source), (layer.fc_dst, destination)))
    both = left[src] + right[dst]
    scores = (torch.where(both > 0, both, 0.2 * both) * layer.attn).sum(-1)
    attention = dense.softmax_by_destination(g, scores)[..., None]
    result = source.new_zeros(g.num_dst_nodes(), HEADS, OUT).index_add(0, dst, attention * left[src])
    if isinstance(layer.res_fc, torch.nn.Linear):
        result = result + layer.res_fc(destination).reshape(-1, HEADS, OUT)
    elif layer.res_fc is not None:
        result = result + destination.reshape(-1, HEADS, OUT)
    return result, attention


def _layer(in_feats: int | tuple[int, int] = 4, **options: object) -> GATv2Conv:
    torch.manual_seed(0)
    layer = GATv2Conv(in_feats, OUT, HEADS, **options).double()  # type: ignore[arg-type]
    for name, parameter in layer.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    return layer


@pytest.mark.parametrize("make", [dense.graph, dense.block])
@pytest.mark.parametrize(
    ("in_feats", "options"),
    [
        (4, {}),
        (4, {"bias": False}),
        (4, {"share_weights": True}),
        (4, {"residual": True}),
        (HEADS * OUT, {"residual": True}),
    ],
    ids=["plain", "no bias", "one matrix", "residual matrix", "residual identity"],
)
@pytest.mark.parametrize("get_attention", [False, True])
def test_it_is_the_formula(
    make: Callable[[], DGLGraph], in_feats: int, options: dict[str, object], get_attention: bool
) -> None:
    g, layer = make(), _layer(in_feats, **options)
    feat = dense.double(g.num_src_nodes(), in_feats)
    expected = _expected(layer, g, feat, feat[: g.num_dst_nodes()])
    result = layer(g, feat, get_attention=get_attention)
    torch.testing.assert_close(result, expected if get_attention else expected[0])


@pytest.mark.parametrize("make", [dense.graph, dense.block, dense.bipartite])
@pytest.mark.parametrize(("sizes", "options"), [((4, 5), {}), (4, {}), (4, {"share_weights": True})])
def test_a_pair_of_features(
    make: Callable[[], DGLGraph], sizes: int | tuple[int, int], options: dict[str, object]
) -> None:
    g, layer = make(), _layer(sizes, **options)
    feat = dense.double(g.num_src_nodes(), 4), dense.double(g.num_dst_nodes(), 5 if sizes != 4 else 4, seed=1)
    torch.testing.assert_close(layer(g, feat), _expected(layer, g, *feat)[0])


@pytest.mark.parametrize("make", [dense.graph, dense.block])
def test_gradients(make: Callable[[], DGLGraph]) -> None:
    g, layer = make(), _layer(2, activation=torch.tanh)
    names, values = zip(*layer.named_parameters(), strict=True)

    def run(feat: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (g, feat))

    assert torch.autograd.gradcheck(run, (dense.double(g.num_src_nodes(), 2), *values), fast_mode=True)


def test_more_feature_axes_are_carried_along() -> None:
    g, layer = dense.graph(), _layer(residual=True)
    feat = dense.double(4, 5, 4)
    expected = torch.stack([layer(g, feat[:, i]) for i in range(5)], dim=1)
    torch.testing.assert_close(layer(g, feat), expected)


def test_dropout_acts_in_training_only_and_attention_shows_it() -> None:
    g, feat = dense.graph(), dense.double(4, 4)
    layer = _layer(attn_drop=0.5)
    torch.manual_seed(0)
    plain = layer(g, feat)
    torch.manual_seed(0)
    result, attention = layer(g, feat, get_attention=True)
    torch.testing.assert_close(result, plain)
    assert (attention == 0).any()
    layer.eval()
    torch.testing.assert_close(layer(g, feat), _expected(layer, g, feat, feat)[0])


def test_nodes_without_in_edges_are_refused_unless_allowed() -> None:
    g, feat, layer = dense.lonely_graph(), dense.double(4, 4), _layer()
    with pytest.raises(DGLError, match="2 of 4 nodes have no in-edge"):
        layer(g, feat)
    layer.set_allow_zero_in_degree(True)
    torch.testing.assert_close(layer(g, feat), _expected(layer, g, feat, feat)[0])
    assert not layer(g, feat)[0].any()


@pytest.mark.parametrize(
    ("in_feats", "options", "expected"),
    [
        (4, {}, {"attn", "fc_src.weight", "fc_src.bias", "fc_dst.weight", "fc_dst.bias"}),
        (4, {"share_weights": True, "bias": False}, {"attn", "fc_src.weight", "fc_dst.weight"}),
        ((4, 5), {"residual": True, "bias": False}, {"attn", "fc_src.weight", "fc_dst.weight", "res_fc.weight"}),
    ],
)
def test_parameters_have_dgl_names(in_feats: object, options: dict[str, object], expected: set[str]) -> None:
    layer = _layer(in_feats, **options)  # type: ignore[arg-type]
    assert set(layer.state_dict()) == expected
    assert layer.attn.shape == (1, HEADS, OUT)
    assert (layer.fc_src is layer.fc_dst) == ("share_weights" in options)
