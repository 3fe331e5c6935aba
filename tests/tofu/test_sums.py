"""Products that are added up are one operator, so that partial results are reduced once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from dglite.tofu import capture, plan_captured
from dglite.tofu.sums import merge_products

Tensor = torch.Tensor


def two(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return a @ b + c @ b


def three_seen_as_stacks(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return ((a @ b).view(2, 2, 5) + (c @ b).view(2, 2, 5)) + (a @ b).view(2, 2, 5)


def with_another(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return (a @ b + a[:, :5]) + c @ b


def four(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return (a @ b + c @ b) + (a @ b + c @ b)


def read_again(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    product = a @ b
    return product + c @ b, product


@pytest.mark.parametrize(
    ("function", "products"), [(two, 2), (three_seen_as_stacks, 3), (with_another, 2), (four, 0), (read_again, 0)]
)
def test_sums_of_products_are_merged(function: Callable[..., Any], products: int) -> None:
    tensors = [torch.randn(shape, dtype=torch.float64) for shape in [(4, 6), (6, 5), (4, 6)]]
    module = make_fx(function)(*tensors)
    expected = module(*tensors)
    gone = merge_products(module.graph)
    merged = [n for n in module.graph.nodes if n.target is torch.ops.dglite.sum_mm.default]
    assert [len(n.args[0]) for n in merged] == ([products] if products else [])
    assert bool(gone) == bool(products) and not {*gone} & {*module.graph.nodes}
    module.graph.lint()
    torch.testing.assert_close(GraphModule(module, module.graph)(*tensors), expected)


class Branches(nn.Module):
    """Three layers of one input, which has a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64, bias=False)
        self.branches = nn.ModuleList(nn.Linear(64, n, bias=False) for n in (128, 64, 64))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        return sum(branch(x).square().sum() for branch in self.branches)


def test_the_gradient_of_a_shared_input_is_reduced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.device("meta"):
        module, x = Branches(), torch.empty(8, 64)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    merged = plan_captured(capture(module, None, [x], optimizer), 2)
    monkeypatch.setattr("dglite.tofu.sums.MOST", 0)
    apart = plan_captured(capture(module, None, [x], optimizer), 2)
    assert apart.bytes - merged.bytes == 2 * x.numel() * 4, "two reduce-scatters less, between two workers"
