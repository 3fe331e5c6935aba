"""What the laws of layers do not say of graph transformers."""

from __future__ import annotations

import math

import pytest
import torch

from dglite.errors import DGLError
from dglite.nn import (
    BiasedMHA,
    DegreeEncoder,
    EGTLayer,
    GraphormerLayer,
    LapPosEncoder,
    SpatialEncoder,
    SpatialEncoder3d,
)


def test_rows_that_pad_are_not_trained() -> None:
    degrees, distances = DegreeEncoder(2, 3, "out"), SpatialEncoder(2, 3)
    assert not degrees(torch.tensor([[0]])).any() and not distances(torch.tensor([[[-1]]])).any()
    (degrees(torch.tensor([[0, 1]])).sum() + distances(torch.tensor([[[-1, 0]]])).sum()).backward()
    for table in (degrees.encoder.weight, distances.embedding_table.weight):
        assert not table.grad[0].any() and bool((table.grad[1] == 1).all())


def test_without_types_distances_are_doubled() -> None:
    layer, coord = SpatialEncoder3d(4, 2, 3), torch.randn(2, 3, 3)
    typed = layer(coord, torch.zeros(2, 3, dtype=torch.int64))  # at first all gammas are 1 and all betas 0
    torch.testing.assert_close(layer(coord), typed)
    layer(coord).sum().backward()
    assert layer.gamma.weight.grad is None and layer.means.grad.any()


@pytest.mark.parametrize("training", [False, True])
def test_a_transformer_reads_no_empty_places(training: bool) -> None:
    torch.manual_seed(0)
    layer = LapPosEncoder("Transformer", 1, 4, 8, 2, batch_norm=True, num_post_layer=1).train(training)
    for module in layer.modules():
        if isinstance(module, torch.nn.Dropout | torch.nn.MultiheadAttention):
            module.p = module.dropout = 0.0
    values, vectors = torch.randn(3, 4), torch.randn(3, 4)
    values[1:, 2:] = vectors[1:, 2:] = math.nan
    out = layer(values, vectors)
    out.sum().backward()
    assert out.shape == (3, 8) and bool(out.isfinite().all())
    assert all(bool(x.grad.isfinite().all()) for x in layer.parameters() if x.grad is not None)
    if not training:
        shorter = LapPosEncoder("Transformer", 1, 2, 8, 2, num_post_layer=1).eval()
        shorter.load_state_dict({name: x for name, x in layer.state_dict().items() if "raw_norm" not in name})
        scale = 1 / math.sqrt(1 + layer.raw_norm.eps)
        torch.testing.assert_close(out[1:], shorter(scale * values[1:, :2], scale * vectors[1:, :2]))
    assert "raw_norm.running_mean" in layer.state_dict() and "pe_encoder.layers.0.norm2.bias" in layer.state_dict()


def test_weights_are_dropped_while_training_only() -> None:
    for kind in ("add", "mul"):
        layer, x, bias = (
            BiasedMHA(4, 2, attn_bias_type=kind, attn_drop=0.5),
            torch.randn(1, 6, 4),
            torch.ones(1, 6, 6, 2),
        )
        assert not torch.equal(layer(x, bias), layer(x, bias))
        layer.eval()
        assert torch.equal(layer(x, bias), layer(x, bias))


@pytest.mark.parametrize("masked", [False, True])
def test_a_bias_that_wants_no_gradient_is_added_the_same(masked: bool) -> None:
    torch.manual_seed(0)
    layer, x, bias = BiasedMHA(4, 2, attn_drop=0.0), torch.randn(2, 3, 4), torch.randn(2, 3, 3, 2, requires_grad=True)
    mask = torch.tensor([[[0, 1, 0], [1, 1, 1], [0, 0, 0]]] * 2) if masked else None
    torch.testing.assert_close(layer(x, bias.detach(), mask), layer(x, bias, mask))


def test_initial_values_are_dgls() -> None:
    layer = BiasedMHA(64, 4)
    assert layer.q_proj.weight.abs().max().item() == pytest.approx((3 / 128) ** 0.5, rel=0.02)
    assert layer.out_proj.weight.abs().max().item() == pytest.approx((6 / 128) ** 0.5, rel=0.02)
    assert not layer.out_proj.bias.any()
    encoder = SpatialEncoder3d(2000, 1, 5)
    for x in (encoder.means, encoder.stds):
        assert 0 <= x.min() < 0.1 and 2.9 < x.max() <= 3


def test_arguments_are_checked() -> None:
    with pytest.raises(DGLError, match="BiasedMHA: feat_size=5 is no multiple of num_heads=2"):
        BiasedMHA(5, 2)
    with pytest.raises(DGLError, match="EGTLayer: feat_size=5 is no multiple of num_heads=2"):
        EGTLayer(5, 3, 2, 0)
    with pytest.raises(ValueError, match="direction='up'"):
        DegreeEncoder(3, 2, "up")
    with pytest.raises(ValueError, match="model_type='MLP'"):
        LapPosEncoder("MLP", 1, 3, 2)
    with pytest.raises(DGLError, match=r"coord has shape \(3, 3\)"):
        SpatialEncoder3d(3)(torch.zeros(3, 3))
    assert isinstance(GraphormerLayer(4, 5, 2).ffn[1], torch.nn.ReLU)
    assert isinstance(EGTLayer(4, 3, 2, 0).node_ffn[2], torch.nn.ELU)
