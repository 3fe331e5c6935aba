"""What the laws of layers do not say of pooling."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import dglite
from dglite.errors import DGLError
from dglite.nn import GlobalAttentionPooling, MaxPooling, SetTransformerDecoder, SetTransformerEncoder, SortPooling
from dglite.nn.functional import SetSizes, set_attention, set_pairs
from tests.nn import dense
from tests.versions import compiles_whole

SIZES = [
    ([3, 3], [3, 3]),
    ([1, 9, 2, 5, 2], [1, 9, 2, 5, 2]),
    ([2, 2, 2], [4, 0, 7]),
    ([5, 0, 3], [2, 6, 2]),
    ([0, 0], [0, 0]),
    ([4], [0]),
]


@pytest.mark.parametrize(("query_sizes", "key_sizes"), SIZES)
@pytest.mark.parametrize("compiled", [False, True])
def test_attention_stays_inside_each_graph(compiled: bool, query_sizes: list[int], key_sizes: list[int]) -> None:
    queries, keys = dense.double(sum(query_sizes), 2, 3), dense.double(sum(key_sizes), 2, 3, seed=1)
    values = dense.double(sum(key_sizes), 2, 3, seed=2)
    rows = []
    for q, k, v in zip(queries.split(query_sizes), keys.split(key_sizes), values.split(key_sizes), strict=True):
        weights = torch.softmax(torch.einsum("qhd,khd->qkh", q, k) / 3**0.5, 1)
        rows.append(torch.einsum("qkh,khd->qhd", weights, v))
    expected = torch.cat(rows)
    plan = (
        SetSizes(torch.tensor(query_sizes), torch.tensor(key_sizes))
        if compiled
        else set_pairs(np.array(query_sizes), np.array(key_sizes))
    )
    result = set_attention(plan, queries, keys, values)
    torch.testing.assert_close(result, expected)
    if expected.numel() and expected.requires_grad and sum(key_sizes):
        for x, y in zip(
            torch.autograd.grad(result.square().sum(), (queries, keys, values)),
            torch.autograd.grad(expected.square().sum(), (queries, keys, values)),
            strict=True,
        ):
            torch.testing.assert_close(x, y)


def test_padding_stays_below_three_quarters() -> None:
    sizes = np.random.default_rng(0).integers(1, 300, 200)
    classes = set_pairs(sizes, sizes).classes
    scores = sum(one.queries.shape[0] * one.queries.shape[1] * one.keys.shape[1] for one in classes)
    assert (sizes**2).sum() <= scores < 4 * (sizes**2).sum()


def test_several_node_types_are_explained() -> None:
    g = dglite.heterograph({("a", "to", "b"): ([0], [0])})
    with pytest.raises(DGLError, match=r"MaxPooling reads nodes of one type.*\['a', 'b'\]"):
        MaxPooling()(g, torch.ones(2, 1))


def test_arguments_are_checked() -> None:
    with pytest.raises(KeyError, match="block_type='mab'"):
        SetTransformerEncoder(4, 2, 2, 4, block_type="mab")
    with pytest.raises(KeyError, match="needs m"):
        SetTransformerEncoder(4, 2, 2, 4, block_type="isab")
    g = dense.graph()
    with pytest.raises(DGLError, match=r"gate_nn made \(4, 2\).*expected \(4, 1\)"):
        GlobalAttentionPooling(torch.nn.Linear(3, 2))(g, torch.ones(4, 3))
    with pytest.raises(DGLError, match=r"SortPooling: feat has shape \(4,\)"):
        SortPooling(2)(g, torch.ones(4))
    assert not g.ndata


def test_attention_is_dropped_while_training_only() -> None:
    layer, g, x = SetTransformerDecoder(4, 2, 2, 4, 1, 2, dropouta=0.5), dense.graph(), torch.randn(4, 4)
    assert not torch.equal(layer(g, x), layer(g, x))
    layer.eval()
    assert torch.equal(layer(g, x), layer(g, x))


def test_a_compiled_program_drops_attention() -> None:
    sizes = torch.tensor([1, 3, 0, 2])
    values = torch.ones(6, 2, 3, dtype=torch.float64)
    queries, keys = dense.double(6, 2, 3), dense.double(6, 2, 3, seed=1)

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seed: int = 3) -> torch.Tensor:
        torch.manual_seed(seed)
        return set_attention(SetSizes(sizes, sizes), q, k, v, 0.5)

    assert torch.autograd.gradcheck(function, (queries, keys, values.requires_grad_()), fast_mode=True)
    results = torch.stack([function(queries, keys, values, seed) for seed in range(200)])
    assert set(results[:, 0].unique().tolist()) == {0.0, 2.0}
    torch.testing.assert_close(results.mean(0), torch.ones_like(values), rtol=0, atol=0.3)


def test_seeds_do_without_keys_until_somebody_looks_at_them() -> None:
    layer, g = SetTransformerDecoder(4, 2, 3, 5, 1, 2).double(), dglite.batch([dense.graph(), dense.lonely_graph()])
    x, seen = dense.double(8, 4), []
    expected = layer(g, x)
    layer.pma.mha.proj_k.register_forward_hook(lambda module, given, keys: seen.append(keys.shape))
    torch.testing.assert_close(layer(g, x), expected)
    assert seen == [(8, 6)]


def test_initial_values_are_glorots() -> None:
    layer = SetTransformerEncoder(64, 4, 32, 128, 1, "isab", 16).layers[0]
    for parameter in (layer.inducing_points, layer.mha[0].proj_q.weight, layer.mha[1].ffn[3].weight):
        assert parameter.abs().max().item() == pytest.approx((6 / sum(parameter.shape)) ** 0.5, rel=0.02)
    assert bool((layer.mha[0].norm_in.weight == 1).all())


@compiles_whole
def test_a_compiled_model_pools_other_batches() -> None:
    torch._dynamo.reset()
    layer = GlobalAttentionPooling(torch.nn.Linear(3, 1), torch.nn.Linear(3, 2))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for sizes in ([2, 0, 3], [4, 1, 1], [5], [1, 2, 3, 4]):
        graphs = [dglite.graph(([], []), num_nodes=size) for size in sizes]
        g, x = dglite.batch(graphs), torch.randn(sum(sizes), 3)
        torch.testing.assert_close(compiled(g, x), layer(g, x))
