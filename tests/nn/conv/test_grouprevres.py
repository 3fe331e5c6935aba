"""GroupRevRes against the same sums written out."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dglite import DGLGraph
from dglite.errors import DGLError
from dglite.nn import GraphConv, GroupRevRes
from tests.nn import dense


class Chain(nn.Module):
    def __init__(self, depth: int, groups: int) -> None:
        super().__init__()
        size = 4 // groups
        self.layers = nn.ModuleList(GroupRevRes(GraphConv(size, size), groups) for _ in range(depth))

    def forward(self, g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
        x = x * 1
        for layer in self.layers:
            x = layer(g, x)
        return x


def plain(chain: Chain, g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
    for layer in chain.layers:
        parts = x.chunk(layer.groups, -1)
        z, outputs = sum(parts[1:]), []
        for part, module in zip(parts, layer.gnn_modules, strict=True):
            z = part + module(g, z)
            outputs.append(z)
        x = torch.cat(outputs, -1)
    return x


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("groups", [2, 4])
def test_values_and_gradients(depth: int, groups: int) -> None:
    torch.manual_seed(0)
    g, x, chain = dense.graph(), dense.double(4, 4), Chain(depth, groups).double()
    ours, expected = chain(g, x), plain(chain, g, x)
    torch.testing.assert_close(ours, expected)
    inputs, outer = [x, *chain.parameters()], torch.randn_like(ours)
    theirs = torch.autograd.grad((expected * outer).sum(), inputs)
    for _ in range(2):  # the graph is kept, and gives its gradient again
        for a, b in zip(torch.autograd.grad((ours * outer).sum(), inputs, retain_graph=True), theirs, strict=True):
            torch.testing.assert_close(a, b)


def test_only_the_last_output_of_a_chain_is_kept() -> None:
    torch.manual_seed(0)
    result = Chain(4, 2).double()(dense.graph(), dense.double(4, 4))
    call, kept = result.grad_fn.call, []
    while call is not None:
        kept.append(call.output is not None)
        call = call.before
    assert kept == [True, False, False, False]


def test_an_output_that_is_read_twice() -> None:
    torch.manual_seed(0)
    g, x, chain = dense.graph(), dense.double(4, 4), Chain(2, 2).double()
    first, second = chain.layers
    h = first(g, x * 1)
    torch.testing.assert_close(
        torch.autograd.grad((second(g, h) + h).sum(), x)[0],
        torch.autograd.grad((plain(chain, g, x) + _first(chain, g, x)).sum(), x)[0],
    )
    h = first(g, x * 1)
    second(g, h)  # makes h's call drop its output, and gives no gradient
    expected = torch.autograd.grad(_first(chain, g, x).sum(), x)[0]
    torch.testing.assert_close(torch.autograd.grad(h.sum(), x)[0], expected)


def _first(chain: Chain, g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
    left, right = x.chunk(2, -1)
    z = left + chain.layers[0].gnn_modules[0](g, right)
    return torch.cat([z, right + chain.layers[0].gnn_modules[1](g, z)], -1)


def test_dropout_is_drawn_as_it_was() -> None:
    class Dropped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.drop = GraphConv(2, 2), nn.Dropout(0.5)

        def forward(self, g: DGLGraph, x: torch.Tensor) -> torch.Tensor:
            return self.drop(self.conv(g, x))

    torch.manual_seed(0)
    g, x, layer = dense.graph(), dense.double(4, 4), GroupRevRes(Dropped()).double()
    second = GroupRevRes(Dropped()).double()
    results = []
    for shift in (1e-6, -1e-6):
        torch.manual_seed(1)
        results.append(second(g, layer(g, x + shift)).sum())
    torch.manual_seed(1)
    (gradient,) = torch.autograd.grad(second(g, layer(g, x)).sum(), x)
    torch.testing.assert_close(gradient.sum(), (results[0] - results[1]) / 2e-6, rtol=1e-5, atol=1e-5)


def test_further_arguments_are_cut_too() -> None:
    class Scaled(nn.Module):
        def forward(self, g: DGLGraph, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
            return x * factor

    g, x, factor = dense.graph(), dense.double(4, 4), dense.double(4, 4, seed=1)
    layer = GroupRevRes(Scaled())
    assert torch.autograd.gradcheck(lambda x, f: layer(g, x * 1, f), (x, factor), fast_mode=True)


def test_groups_that_do_not_divide() -> None:
    with pytest.raises(DGLError, match=r"2 groups do not divide features of shape \(4, 3\)"):
        GroupRevRes(GraphConv(1, 1))(dense.graph(), torch.ones(4, 3))


@pytest.mark.parametrize("frozen", [False, True])
def test_parameters_of_a_functional_call_are_those_of_its_gradient(frozen: bool) -> None:
    """They are out of the module again when the gradient is computed; frozen ones count for the input's."""
    g, chain, x = dense.graph(), Chain(2, 2).double(), dense.double(dense.graph().num_nodes(), 4)
    values = {name: 2 * p.detach() + 0.1 for name, p in chain.named_parameters()}
    names = [name for name in values if not (frozen and name.endswith("weight"))]

    def total(x: torch.Tensor, *some: torch.Tensor) -> torch.Tensor:
        parameters = {**values, **dict(zip(names, some, strict=True))}
        return torch.func.functional_call(chain, parameters, (g, x)).sin().sum()

    sources = [x.detach(), *(values[name] for name in names)]
    by_transform = torch.func.grad(total, tuple(range(len(sources))))(*sources)
    inputs = [source.clone().requires_grad_() for source in sources]
    torch.testing.assert_close(torch.autograd.grad(total(*inputs), inputs), by_transform)
