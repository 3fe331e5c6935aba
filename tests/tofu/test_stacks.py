"""Products of stacked matrices with their leading dimensions apart."""

from __future__ import annotations

import pytest
import torch
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from dglite.tofu.aten import strategies_of
from dglite.tofu.decompositions import decompositions
from dglite.tofu.stacks import keep_stacks

aten = torch.ops.aten


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention over (samples, rows, heads, features)."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return (torch.softmax(q @ k.transpose(-1, -2), -1) @ v).transpose(1, 2).square().sum()


def step(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.func.grad(attention, argnums=(0, 1, 2))(*inputs)


def merged(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a product of stacks, and a sum over the samples and heads that were merged for it."""
    product = aten.bmm(a.view(6, 4, 5), b.view(6, 5, 3))
    return product.sum(0), product.view(2, 3, 4, 3)


@pytest.mark.parametrize(
    ("function", "inputs"),
    [(step, [(2, 4, 3, 5)] * 3), (merged, [(2, 3, 4, 5), (2, 3, 5, 3)])],
)
def test_a_graph_computes_the_same_with_dimensions_apart(function: object, inputs: list[tuple[int, ...]]) -> None:
    tensors = [torch.randn(shape, dtype=torch.float64) for shape in inputs]
    module = make_fx(function, decompositions())(*tensors)  # type: ignore[arg-type]
    expected = module(*tensors)
    gone = keep_stacks(module.graph)
    alive = set(module.graph.nodes)
    assert gone and not alive & set(gone) and all(result is None or result in alive for result in gone.values())
    assert aten.bmm.default not in {node.target for node in module.graph.nodes}
    module.graph.lint()
    for result, right in zip(GraphModule(module, module.graph)(*tensors), expected, strict=True):
        torch.testing.assert_close(result, right)


def test_heads_can_be_split() -> None:
    tensors = [torch.randn(2, 4, 3, 5) for _ in range(3)]
    graph = make_fx(step, decompositions())(*tensors).graph
    keep_stacks(graph)
    for node in graph.nodes:
        if node.op == "call_function" and len(node.meta["val"].shape) == 4:
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
            extents = {s.extent for s in strategies_of(node.target, args, kwargs)}
            assert {2, 3} <= extents, node
