"""Layers that read a module's weights in place of calling it call it where hooks wait for that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import dglite
from dglite.nn import ChebConv, EGATConv, EGNNConv, GATConv, GatedGraphConv, GMMConv, NNConv, SGConv, TAGConv
from tests.nn import dense

CASES: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...]]] = {
    "linear": (lambda: ChebConv(4, 3, 3), (4,)),
    "fc": (lambda: SGConv(4, 3, 2), (4,)),
    "lin": (lambda: TAGConv(4, 3, 2), (4,)),
    "gru": (lambda: GatedGraphConv(4, 4, 2, 1), (4,)),
    "fc_nj": (lambda: EGATConv(4, 2, 3, 3, 2), (4, "2")),
    "edge_mlp": (lambda: EGNNConv(4, 5, 3, 2), (4, 3, "2")),
    "edge_mlp.0": (lambda: EGNNConv(4, 5, 3), (4, 3)),
    "edge_func": (lambda: NNConv(4, 3, nn.Linear(2, 12)), (4, "2")),
}


def inputs(g: dglite.DGLGraph, widths: tuple[Any, ...]) -> list[torch.Tensor]:
    return [
        dense.double(g.num_edges() if isinstance(width, str) else g.num_nodes(), int(width), seed=i)
        for i, width in enumerate(widths)
    ]


def check(layer: nn.Module, name: str, call: Callable[[], Any]) -> None:
    expected, seen = call(), []
    layer.get_submodule(name).register_forward_hook(lambda *given: seen.append(given))
    torch.testing.assert_close(call(), expected)
    assert seen


@pytest.mark.parametrize("name", CASES)
def test_hooks_of_its_modules_are_called(name: str) -> None:
    make, widths = CASES[name]
    g, layer = dense.graph(), make().double()
    given = inputs(g, widths)
    check(layer, name, lambda: layer(g, *given))


def test_hooks_of_mixtures_and_pairs_are_called() -> None:
    g = dense.graph()
    x, pseudo = inputs(g, (4, "2"))
    mixture = GMMConv(4, 3, 2, 3).double()
    check(mixture, "fc", lambda: mixture(g, x, pseudo))
    pairs = GATConv((4, 4), 3, 2).double()
    check(pairs, "fc_dst", lambda: pairs(g, (x, x * 2)))


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_weight_computed_by_a_hook_is_new_each_time() -> None:
    g, layer = dense.graph(), SGConv(4, 3, 2).double()
    (x,) = inputs(g, (4,))
    expected = layer(g, x)
    nn.utils.weight_norm(layer.fc)
    with torch.no_grad():
        layer.fc.weight_g.mul_(2)
    torch.testing.assert_close(layer(g, x), 2 * (expected - layer.fc.bias) + layer.fc.bias)


def test_a_parametrized_weight_is_read_as_it_is() -> None:
    g, layer = dense.graph(), ChebConv(4, 3, 3, activation=None).double()
    (x,) = inputs(g, (4,))
    expected = layer(g, x) - layer.linear.bias

    class Doubled(nn.Module):
        def forward(self, weight: torch.Tensor) -> torch.Tensor:
            return 2 * weight

    nn.utils.parametrize.register_parametrization(layer.linear, "weight", Doubled())
    torch.testing.assert_close(layer(g, x) - layer.linear.bias, 2 * expected)
