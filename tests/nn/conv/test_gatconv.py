"""GATConv against its formula, edge by edge."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import scipy.sparse
import torch

import dglite
from dglite import DGLGraph
from dglite.errors import DGLError
from dglite.nn import GATConv
from tests.nn import dense

HEADS, OUT = 3, 2


def _expected(
    layer: GATConv, g: DGLGraph, source: torch.Tensor, destination: torch.Tensor, weight: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the layer's result and attention, written over edges."""
    src, dst = (ids.long() for ids in g.edges())
    fc_src, fc_dst = (layer.fc_src, layer.fc_dst) if hasattr(layer, "fc_src") else (layer.fc, layer.fc)
    hidden_src = fc_src(source).reshape(-1, HEADS, OUT)
    hidden_dst = fc_dst(destination).reshape(-1, HEADS, OUT)
    scores = (hidden_src * layer.attn_l).sum(-1)[src] + (hidden_dst * layer.attn_r).sum(-1)[dst]
    scores = torch.where(scores > 0, scores, 0.2 * scores)
    attention = dense.softmax_by_destination(g, scores)[..., None]
    if weight is not None:
        attention = attention * weight[:, None, None]
    result = source.new_zeros(g.num_dst_nodes(), HEADS, OUT).index_add(0, dst, attention * hidden_src[src])
    if isinstance(layer.res_fc, torch.nn.Linear):
        result = result + layer.res_fc(destination).reshape(-1, HEADS, OUT)
    elif layer.res_fc is not None:
        result = result + destination.reshape(-1, HEADS, OUT)
    if layer.bias is not None:
        result = result + layer.bias.reshape(HEADS, OUT)
    return result, attention


def _layer(in_feats: int | tuple[int, int] = 4, **options: object) -> GATConv:
    torch.manual_seed(0)
    layer = GATConv(in_feats, OUT, HEADS, **options).double()  # type: ignore[arg-type]
    if layer.bias is not None:
        torch.nn.init.normal_(layer.bias)
    return layer


@pytest.mark.parametrize("make", [dense.graph, dense.block])
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize(
    ("in_feats", "options"),
    [(4, {}), (4, {"bias": False}), (4, {"residual": True}), (HEADS * OUT, {"residual": True})],
    ids=["plain", "no bias", "residual matrix", "residual identity"],
)
def test_it_is_the_formula(
    make: Callable[[], DGLGraph], weighted: bool, in_feats: int, options: dict[str, object]
) -> None:
    g, layer = make(), _layer(in_feats, **options)
    feat = dense.double(g.num_src_nodes(), in_feats)
    weight = dense.positive(g.num_edges()) if weighted else None
    expected = _expected(layer, g, feat, feat[: g.num_dst_nodes()], weight)
    torch.testing.assert_close(layer(g, feat, edge_weight=weight, get_attention=True), expected)
    torch.testing.assert_close(layer(g, feat, edge_weight=weight), expected[0])


@pytest.mark.parametrize("make", [dense.graph, dense.block, dense.bipartite])
@pytest.mark.parametrize("sizes", [4, (4, 5)], ids=["one matrix", "two matrices"])
@pytest.mark.parametrize("residual", [False, True])
def test_a_pair_of_features(make: Callable[[], DGLGraph], sizes: int | tuple[int, int], residual: bool) -> None:
    g, layer = make(), _layer(sizes, residual=residual)
    feat = dense.double(g.num_src_nodes(), 4), dense.double(g.num_dst_nodes(), 5 if sizes != 4 else 4, seed=1)
    torch.testing.assert_close(layer(g, feat), _expected(layer, g, *feat)[0])


@pytest.mark.parametrize("make", [dense.graph, dense.block])
def test_gradients(make: Callable[[], DGLGraph]) -> None:
    g, layer = make(), _layer(2, activation=torch.tanh)
    names, values = zip(*layer.named_parameters(), strict=True)

    def run(feat: torch.Tensor, weight: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        named = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(layer, named, (g, feat, weight))

    assert torch.autograd.gradcheck(
        run, (dense.double(g.num_src_nodes(), 2), dense.positive(g.num_edges()), *values), fast_mode=True
    )


def test_more_feature_axes_are_carried_along() -> None:
    g, layer = dense.graph(), _layer(residual=True)
    feat = dense.double(4, 5, 4)
    expected = torch.stack([layer(g, feat[:, i]) for i in range(5)], dim=1)
    torch.testing.assert_close(layer(g, feat), expected)


def test_attention_of_each_node_sums_to_one() -> None:
    g = dense.graph()
    _, attention = _layer()(g, dense.double(4, 4), get_attention=True)
    assert attention.shape == (8, HEADS, 1)
    sums = torch.zeros(4, HEADS, 1, dtype=torch.float64).index_add(0, g.edges()[1].long(), attention)
    torch.testing.assert_close(sums, torch.ones_like(sums))


def test_dropout_acts_in_training_only() -> None:
    g, feat = dense.graph(), dense.double(4, 4)
    layer = _layer(feat_drop=0.5, attn_drop=0.5)
    torch.manual_seed(0)
    first, second = layer(g, feat), layer(g, feat)
    assert not torch.equal(first, second)
    layer.eval()
    torch.testing.assert_close(layer(g, feat), _expected(layer, g, feat, feat)[0])


def test_the_attention_returned_shows_the_dropout_that_was_applied() -> None:
    g, feat, layer = dense.graph(), dense.double(4, 4), _layer(attn_drop=0.5)
    torch.manual_seed(0)
    plain = layer(g, feat)
    torch.manual_seed(0)
    result, attention = layer(g, feat, get_attention=True)
    torch.testing.assert_close(result, plain)
    assert (attention == 0).any()


def test_nodes_without_in_edges_are_refused_unless_allowed() -> None:
    g, feat, layer = dense.lonely_graph(), dense.double(4, 4), _layer()
    with pytest.raises(DGLError, match="2 of 4 nodes have no in-edge"):
        layer(g, feat)
    layer.set_allow_zero_in_degree(True)
    torch.testing.assert_close(layer(g, feat), _expected(layer, g, feat, feat)[0])
    torch.testing.assert_close(layer(g, feat)[0], layer.bias.detach().view(HEADS, OUT))


@pytest.mark.parametrize(
    ("feat", "message"),
    [
        (torch.ones(5, 4), "for 3 destination nodes.*pass a pair"),
        ((torch.ones(5, 4), torch.ones(5, 4)), "for 3 destination nodes"),
        ((torch.ones(3, 4), torch.ones(3, 4)), "for 5 source nodes"),
    ],
)
def test_wrong_numbers_of_rows_are_refused(feat: torch.Tensor | tuple[torch.Tensor, ...], message: str) -> None:
    with pytest.raises(DGLError, match=message):
        GATConv(4, OUT, HEADS)(dense.bipartite(), feat)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("in_feats", "options", "expected"),
    [
        (4, {}, {"attn_l", "attn_r", "bias", "fc.weight"}),
        ((4, 5), {}, {"attn_l", "attn_r", "bias", "fc_src.weight", "fc_dst.weight"}),
        (4, {"residual": True}, {"attn_l", "attn_r", "fc.weight", "res_fc.weight", "res_fc.bias"}),
        (6, {"residual": True, "bias": False}, {"attn_l", "attn_r", "fc.weight"}),
    ],
)
def test_parameters_have_dgl_names(in_feats: object, options: dict[str, object], expected: set[str]) -> None:
    layer = _layer(in_feats, **options)  # type: ignore[arg-type]
    assert set(layer.state_dict()) == expected
    assert layer.attn_l.shape == (1, HEADS, OUT)


@pytest.mark.parametrize("layer", ["GATConv", "GATv2Conv"])
@pytest.mark.parametrize("separate", [False, True])
def test_sparse_features_give_what_dense_ones_do(layer, separate):
    torch.manual_seed(0)
    g = dglite.graph(([0, 1, 2, 3, 0, 1], [0, 1, 2, 3, 2, 3]))
    features = torch.randn(4, 12).masked_fill(torch.rand(4, 12) < 0.7, 0.0)
    conv = getattr(dglite.nn, layer)((12, 12) if separate else 12, 3, 2, residual=True)
    sparse = scipy.sparse.csr_matrix(features.numpy())
    results = []
    for x in (features, sparse):
        result = conv(g, (x, x) if separate else x)
        results.append((result, *torch.autograd.grad(result.sum(), list(conv.parameters()))))
    for ours, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(ours, expected)
    unprojected = getattr(dglite.nn, layer)(12, 6, 2, residual=True)
    with pytest.raises(DGLError, match="residual"):
        unprojected(g, sparse)
