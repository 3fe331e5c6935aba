"""Random programs on random graphs without cycles: what plain torch gives vertex by vertex, values and gradients."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dglite
from dglite import dynamic
from tests.dynamic.plain import evaluate

Operation = Callable[[Tensor, Tensor, "Weights"], Tensor]


def _writes_columns(x: Tensor, y: Tensor, p: Weights) -> Tensor:
    z = torch.zeros_like(x)
    z[:, :2] = x[:, 2:]
    z[:, 2:] += y[:, :2]
    return z


def _writes_after_a_view(x: Tensor, y: Tensor, p: Weights) -> Tensor:
    z = x + y
    part = z[:, 1:3]
    z.mul_(3.0)
    return torch.cat([part, y[:, :2]], 1)


def _writes_through_a_view(x: Tensor, y: Tensor, p: Weights) -> Tensor:
    z = x.clone()
    z.view(-1, 2, 2).add_(1)
    z[:, 0] = 0.5
    z[:, 3] = z[:, 0] + y[:, 1]
    return z.cumsum_(1)


OPERATIONS: dict[str, Operation] = {
    "tanh": lambda x, y, p: torch.tanh(x),
    "mul": lambda x, y, p: x * y,
    "rsub": lambda x, y, p: 1 - x,
    "div": lambda x, y, p: x / (1 + y.abs()),
    "softmax": lambda x, y, p: x.softmax(-1),
    "layer_norm": lambda x, y, p: F.layer_norm(x, (4,), p.b, p.b2),
    "sum": lambda x, y, p: x.sum(-1, keepdim=True) * y,
    "cumsum": lambda x, y, p: x.cumsum(1),
    "columns": lambda x, y, p: x[:, [2, 0, 1, 3]],
    "cat": lambda x, y, p: torch.cat([x[:, 1:3], y[:, :2]], 1),
    "linear": lambda x, y, p: F.linear(x, p.W, p.b),
    "turned": lambda x, y, p: (p.W @ x.T).T,
    "addmm": lambda x, y, p: torch.addmm(p.b, x, p.W, beta=0.5, alpha=2.0),
    "parts of a weight": lambda x, y, p: F.linear(x[:, :2], p.U[:, :2]),
    "products of weights": lambda x, y, p: x @ (p.W + p.W.T),
    "einsum": lambda x, y, p: torch.einsum("bi,kij,bj->bk", x, p.T, y),
    "matrices": lambda x, y, p: torch.bmm(x.view(-1, 2, 2), y.view(-1, 2, 2)).flatten(1),
    "matrices by a weight": lambda x, y, p: (x.view(-1, 2, 2) @ p.W[:2, :2]).flatten(1),
    "a weight by matrices": lambda x, y, p: (p.W[:2, :2] @ x.view(-1, 2, 2)).flatten(1),
    "matrices by a vector": lambda x, y, p: (x.view(-1, 2, 2) @ p.b[:2]).repeat(1, 2),
    "parts linearly": lambda x, y, p: F.linear(x.view(-1, 2, 2), p.W[:2, :2], p.b[:2]).flatten(1),
    "where": lambda x, y, p: torch.where((x > 0) & ~(y > 0) | (x < y), x, y * 2),
    "masked_fill": lambda x, y, p: x.masked_fill(y < 0, 0.1),
    "norm": lambda x, y, p: F.normalize(x, dim=1),
    "stack": lambda x, y, p: torch.stack([x, y], 1).sum(1),
    "attention": lambda x, y, p: (
        torch.softmax(torch.stack([x @ p.b, y @ p.b], 1), 1)[:, :, None] * torch.stack([x, y], 1)
    ).sum(1),
    "expand": lambda x, y, p: x[:, :1].expand(-1, 4) * p.b.expand(x.shape[0], 4),
    "powers": lambda x, y, p: x**2 - x.pow(3) * 0.1 + (x.abs() + 0.5) ** 0.5,
    "scalars": lambda x, y, p: x * p.s.exp() - p.b2.sum(),
    "minus a parameter": lambda x, y, p: x * 0 - p.b,
    "embedding": lambda x, y, p: F.embedding(x.argmax(1), p.W) * y + p.W[y.argmax(1)],
    "detach": lambda x, y, p: x.detach() * y,
    "columns written": _writes_columns,
    "written after a view": _writes_after_a_view,
    "written through a view": _writes_through_a_view,
}
NAMES = list(OPERATIONS)


class Weights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        sizes = {"W": (4, 4), "U": (4, 8), "T": (4, 4, 4), "b": (4,), "b2": (4,), "s": ()}
        for name, size in sizes.items():
            values = torch.randn(size, generator=generator, dtype=torch.float64) / 2
            self.register_parameter(name, nn.Parameter(values))


class Program(dynamic.VertexFunction):
    """Operations on values of the vertex and of its children; each step applies one to two values before it."""

    def __init__(self, steps: Sequence[tuple[str, str, int, int]], by_slot: bool, all_children: bool) -> None:
        super().__init__(state={"a": 4, "b": 4})
        self.steps, self.by_slot, self.all_children, self.p = steps, by_slot, all_children, Weights()

    def forward(self) -> None:
        values: list[Any] = [self.pull()]
        for k in range(4 if self.by_slot else 0):
            values += self.gather(k)
        children = self.gather_all() if self.all_children else None
        below: list[Any] = [] if children is None else [children[0], children[1]]
        for where, name, i, j in self.steps:
            if where == "vertex" or children is None:
                x, y = values[i % len(values)], values[j % len(values)]
                values.append(OPERATIONS[name](x, y, self.p))
            elif where == "child":
                below.append(OPERATIONS[name](below[i % len(below)], below[j % len(below)], self.p))
            else:
                below.append(children.each(values[i % len(values)]) * below[j % len(below)])
                values.append(children.sum(below[-1]))
        self.scatter(torch.tanh(values[-1]), values[0])
        self.push(*values[-2:])


def random_steps(rng: random.Random) -> list[tuple[str, str, int, int]]:
    places = ["vertex", "vertex", "child", "sum"]
    return [
        (rng.choice(places), rng.choice(NAMES), -rng.randrange(1, 5), -rng.randrange(1, 5))
        for _ in range(rng.randrange(1, 6))
    ]


def random_graph(rng: random.Random) -> dglite.DGLGraph:
    """A graph whose vertices have at most four children and any number of parents."""
    n, src, dst = rng.choice([1, 2, 5, 9]), list[int](), list[int]()
    order = rng.sample(range(n), n)
    for _ in range(rng.randrange(2 * n) if n > 1 else 0):
        i, j = sorted(rng.sample(range(n), 2))
        if dst.count(order[j]) < 4:
            src.append(order[i])
            dst.append(order[j])
    return dglite.graph((src, dst), num_nodes=n)


def with_gradients(outs: Sequence[Tensor], tensors: Sequence[Tensor]) -> list[Tensor]:
    weights = [torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view(out.shape) for out in outs]
    loss: Any = sum((out * weight).sum() for out, weight in zip(outs, weights, strict=True))
    grads: Sequence[Tensor | None] = [None] * len(tensors)
    if loss.requires_grad:
        grads = torch.autograd.grad(loss, tensors, allow_unused=True)
    zeros = [torch.zeros_like(x) if grad is None else grad for x, grad in zip(tensors, grads, strict=True)]
    return [*outs, *zeros]


def check(program: Program, g: dglite.DGLGraph, rng: random.Random) -> None:
    x = torch.randn(g.num_nodes(), 4, dtype=torch.float64, requires_grad=True)
    inputs: Any = x
    if rng.random() < 0.3:  # some vertices have no input
        nodes = torch.tensor(rng.sample(range(g.num_nodes()), g.num_nodes() // 2), dtype=torch.int64)
        inputs = dynamic.Partial(nodes, x[nodes])
        plain = torch.zeros_like(x).index_put((nodes,), x[nodes])
    else:
        plain = x
    tensors = [x, *program.parameters()]
    with dynamic.options(eager=rng.random() < 0.7, lazy=rng.random() < 0.7, fuse=rng.random() < 0.3):
        ours = with_gradients(program(g, inputs), tensors)
    for a, b in zip(ours, with_gradients(evaluate([program], g, plain), tensors), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("seed", range(60))
def test_vertex_programs(seed: int) -> None:
    """Also after parameters have changed, and for another graph."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    shape = rng.choice([(True, False), (False, True), (True, True)])
    program = Program(random_steps(rng), *shape)
    check(program, random_graph(rng), rng)
    with torch.no_grad():
        for parameter in program.parameters():
            parameter.add_(0.1)
    check(program, random_graph(rng), rng)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fuse", [True, False])
def test_each_operation_alone(name: str, fuse: bool) -> None:
    g, x = dglite.graph(([0, 1, 1], [2, 2, 3])), torch.linspace(-1, 1, 16, dtype=torch.float64).view(4, 4)
    program = Program([("vertex", name, -1, -3)], True, False)
    tensors = [x.requires_grad_(), *program.parameters()]
    with dynamic.options(fuse=fuse):
        ours = with_gradients(program(g, x), tensors)
    for a, b in zip(ours, with_gradients(evaluate([program], g, x), tensors), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-8)
