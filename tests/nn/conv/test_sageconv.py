"""SAGEConv against its formulas, node by node."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import dglite
from dglite import DGLGraph
from dglite.backend import torch_memory, torch_tensors
from dglite.errors import DGLError
from dglite.nn import SAGEConv
from dglite.nn.functional import convolution
from tests.nn import dense

AGGREGATORS = ["mean", "gcn", "pool", "lstm"]
SIZES = [(4, 2), (3, 3), (2, 4)]


def _expected(
    layer: SAGEConv,
    kind: str,
    g: DGLGraph,
    source: torch.Tensor,
    destination: torch.Tensor,
    weight: torch.Tensor | None,
) -> torch.Tensor:
    src, dst = (ids.long() for ids in g.edges())
    hidden = layer.fc_pool(source).relu() if kind == "pool" else source
    rows = []
    for node in range(g.num_dst_nodes()):
        edges = torch.nonzero(dst == node).flatten()
        messages = hidden[src[edges]] * (1 if weight is None else weight[edges][:, None])
        if kind == "gcn":
            rows.append((messages.sum(0) + destination[node]) / (len(edges) + 1))
        elif len(edges) == 0:
            rows.append(torch.zeros_like(hidden[0]))
        elif kind == "lstm":
            rows.append(layer.lstm(messages)[0][-1])
        else:
            rows.append(messages.mean(0) if kind == "mean" else messages.max(0).values)
    result = layer.fc_neigh(torch.stack(rows))
    if kind == "gcn":
        return result if layer.bias is None else result + layer.bias
    return result + layer.fc_self(destination)


def _layer(in_feats: int | tuple[int, int], out_feats: int, kind: str, **options: object) -> SAGEConv:
    torch.manual_seed(0)
    return SAGEConv(in_feats, out_feats, kind, **options).double()  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [dense.graph, dense.block, dense.lonely_graph])
@pytest.mark.parametrize("kind", AGGREGATORS)
@pytest.mark.parametrize("sizes", SIZES, ids=["narrowing", "equal", "widening"])
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
def test_it_is_the_formula(make: Callable[[], DGLGraph], kind: str, sizes: tuple[int, int], weighted: bool) -> None:
    g, layer = make(), _layer(*sizes, kind)
    feat = dense.double(g.num_src_nodes(), sizes[0])
    weight = dense.positive(g.num_edges()) if weighted else None
    expected = _expected(layer, kind, g, feat, feat[: g.num_dst_nodes()], weight)
    torch.testing.assert_close(layer(g, feat, edge_weight=weight), expected)


@pytest.mark.parametrize("make", [dense.graph, dense.block, dense.bipartite])
@pytest.mark.parametrize("kind", AGGREGATORS)
@pytest.mark.parametrize("sizes", SIZES, ids=["narrowing", "equal", "widening"])
def test_a_pair_of_features(make: Callable[[], DGLGraph], kind: str, sizes: tuple[int, int]) -> None:
    g = make()
    destination_size = sizes[0] if kind == "gcn" else sizes[0] + 1
    layer = _layer((sizes[0], destination_size), sizes[1], kind)
    feat = dense.double(g.num_src_nodes(), sizes[0]), dense.double(g.num_dst_nodes(), destination_size, seed=1)
    torch.testing.assert_close(layer(g, feat), _expected(layer, kind, g, *feat, None))


@pytest.mark.parametrize("kind", AGGREGATORS)
@pytest.mark.parametrize("sizes", [(3, 2), (2, 3)], ids=["narrowing", "widening"])
def test_gradients(kind: str, sizes: tuple[int, int]) -> None:
    g, layer = dense.block(), _layer(*sizes, kind)
    names, values = zip(*layer.named_parameters(), strict=True)

    def run(feat: torch.Tensor, weight: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        named = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(layer, named, (g, feat, weight))

    assert torch.autograd.gradcheck(run, (dense.double(5, sizes[0]), dense.positive(5), *values), fast_mode=True)


def test_the_activation_comes_before_the_norm() -> None:
    g, feat = dense.graph(), dense.double(4, 3)
    layer = _layer(3, 2, "mean")
    plain = layer(g, feat)
    layer.activation, layer.norm = torch.relu, lambda x: x - 1
    torch.testing.assert_close(layer(g, feat), plain.relu() - 1)


@pytest.mark.parametrize("kind", AGGREGATORS)
def test_a_graph_without_edges_leaves_the_node_itself(kind: str) -> None:
    g, feat = dglite.graph(([], []), num_nodes=3), dense.double(3, 4)
    layer = _layer(4, 2, kind)
    torch.testing.assert_close(layer(g, feat), _expected(layer, kind, g, feat, feat, None))


def test_the_graph_keeps_no_trace() -> None:
    g = dense.graph()
    _layer(3, 2, "lstm")(g, dense.double(4, 3), edge_weight=dense.positive(8))
    assert not list(g.ndata.keys())
    assert not list(g.edata.keys())


def test_input_dropout_hits_both_uses_of_a_node_alike() -> None:
    g = dglite.graph(([0, 1], [0, 1]))
    layer = SAGEConv(64, 64, "mean", feat_drop=0.5, bias=False)
    torch.nn.init.eye_(layer.fc_self.weight)
    torch.nn.init.eye_(layer.fc_neigh.weight)
    result = layer(g, torch.ones(2, 64))
    assert set(result.unique().tolist()) == {0.0, 4.0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, 2, "max"), "aggregator_type='max' is not known; expected one of mean, gcn, pool, lstm"),
        (((3, 4), 2, "gcn"), r"both sides need one size; got in_feats=\(3, 4\)"),
    ],
)
def test_what_cannot_be_constructed(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(DGLError, match=message):
        SAGEConv(*arguments)  # type: ignore[arg-type]


def test_wrong_numbers_of_rows_are_refused() -> None:
    with pytest.raises(DGLError, match=r"shape \(7,\) was given for 8 edges"):
        SAGEConv(3, 2, "mean")(dense.graph(), torch.ones(4, 3), edge_weight=torch.ones(7))


@pytest.mark.parametrize(
    ("kind", "bias", "expected"),
    [
        ("mean", True, {"fc_neigh.weight", "fc_self.weight", "fc_self.bias"}),
        ("gcn", True, {"fc_neigh.weight", "bias"}),
        ("gcn", False, {"fc_neigh.weight"}),
        ("pool", False, {"fc_neigh.weight", "fc_self.weight", "fc_pool.weight", "fc_pool.bias"}),
    ],
)
def test_parameters_have_dgl_names(kind: str, bias: bool, expected: set[str]) -> None:
    assert set(SAGEConv(3, 2, kind, bias=bias).state_dict()) == expected


@pytest.mark.parametrize("sizes", SIZES, ids=["narrowing", "equal", "widening"])
def test_large_products_are_added_in_place_unless_somebody_keeps_them(
    sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    g, layer = dense.graph(), _layer(*sizes, "mean")
    feat = dense.double(g.num_nodes(), sizes[0]).requires_grad_()
    inputs = [feat, *layer.parameters()]
    expected = layer(g, feat)
    gradients = torch.autograd.grad((expected**2).sum(), inputs)
    for module in (convolution, torch_tensors, torch_memory):
        monkeypatch.setattr(module, "LARGE", 1)
    result = layer(g, feat)
    assert torch.allclose(result, expected)
    for actual, target in zip(torch.autograd.grad((result**2).sum(), inputs), gradients, strict=True):
        assert torch.allclose(actual, target)
    kept: list[torch.Tensor] = []
    layer.fc_self.register_forward_hook(lambda module, given, output: kept.append(output))
    assert torch.allclose(layer(g, feat), expected) and torch.allclose(
        kept[0], feat @ layer.fc_self.weight.T + layer.fc_self.bias
    )


def test_a_module_without_a_weight_may_take_a_matrix_s_place() -> None:
    g, layer = dense.graph(), _layer(3, 3, "mean")
    layer.fc_self = torch.nn.Identity()
    feat = dense.double(g.num_nodes(), 3)
    own, without = layer(g, feat), layer(g, (feat, torch.zeros_like(feat)))
    assert torch.allclose(own - without, feat)
