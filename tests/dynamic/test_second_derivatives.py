"""Gradients of gradients, of vertex programs and of lazy results, against torch."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dglite
from dglite import DGLError, dynamic
from tests.dynamic.batching.models import TreeLSTM, random_tree
from tests.dynamic.plain import evaluate
from tests.dynamic.programs import BinaryTreeLSTM, Chain, ChildSumTreeLSTM, Gated, Mixed

TREE = ([0, 1, 2, 3, 5], [2, 2, 4, 4, 6])
DAG = ([0, 0, 1, 2, 2, 0, 3, 3], [1, 2, 3, 3, 4, 4, 4, 5])


def orders(results: Any, tensors: list[torch.Tensor]) -> list[torch.Tensor | None]:
    """Return first, second and third derivatives of sums of squares."""
    grads: list[torch.Tensor | None] = []
    values = list(results) if isinstance(results, list | tuple) else [results]
    for last in (False, False, True):
        total = sum((x.square() * torch.linspace(0.5, 1.5, x.numel()).view(x.shape)).sum() for x in values)
        values = list(torch.autograd.grad(total, tensors, create_graph=not last, allow_unused=True))
        grads += values
        values = [x for x in values if x is not None and x.requires_grad]
    return grads


def compare(ours: list[torch.Tensor | None], theirs: list[torch.Tensor | None]) -> None:
    for x, y in zip(ours, theirs, strict=True):
        if x is None or y is None:
            assert (x is None or not x.any()) and (y is None or not y.any())
        else:
            torch.testing.assert_close(x, y, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [BinaryTreeLSTM, ChildSumTreeLSTM, Gated, Mixed, Chain])
@pytest.mark.parametrize("edges", [TREE, DAG], ids=["tree", "dag"])
def test_a_vertex_program(kind: type, edges: Any) -> None:
    torch.manual_seed(0)
    if kind is Chain or (edges is DAG and kind is BinaryTreeLSTM):
        edges = ([0, 1, 2, 4], [1, 2, 3, 5])
    program, g = kind(3, 4).double(), dglite.graph(edges, num_nodes=8)
    x = torch.randn(8, 3, dtype=torch.float64, requires_grad=True)
    tensors = [x, *program.parameters()]
    compare(orders(program(g, x), tensors), orders(evaluate([program], g, x), tensors))


class Attention(dynamic.VertexFunction):
    """Maximum and softmax over children, a torch function without a kernel, a boolean, a weight made of weights."""

    def __init__(self) -> None:
        super().__init__(state=3)
        self.score, self.W, self.V = nn.Linear(3, 1), nn.Linear(3, 3), nn.Parameter(torch.rand(3, 3))

    def forward(self) -> None:
        children, x = self.gather_all(), self.pull()
        mixed = children.sum(children.softmax(self.score(children[0])) * children[0])
        h = torch.where(x > 0, torch.tanh(self.W(x) + mixed), children.max() - children.min(children[0].sin())) @ (
            self.V * 2
        )
        h = h + torch.cumsum(h, 1)
        self.scatter(h)
        self.push(h)


def test_reductions_of_children() -> None:
    """By finite differences, as there is no plain form of them here."""
    torch.manual_seed(0)
    program, g = Attention().double(), dglite.graph(DAG, num_nodes=6)
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x, V: program(g, x), (x, program.V), fast_mode=True)


def test_inputs_of_some_vertices_and_kinds() -> None:
    torch.manual_seed(0)
    program, g = BinaryTreeLSTM(3, 4).double(), dglite.graph(TREE)
    x, leaves = torch.randn(4, 3, dtype=torch.float64, requires_grad=True), torch.tensor([0, 1, 3, 5])
    whole = torch.zeros(7, 3, dtype=torch.float64).index_add(0, leaves, x)
    tensors = [x, *program.parameters()]
    compare(orders(program(g, dynamic.Partial(leaves, x)), tensors), orders(program(g, whole), tensors))
    by_kind, kinds = dynamic.ByKind(program, BinaryTreeLSTM(3, 4).double()), torch.tensor([0, 1, 0, 1, 1, 0, 1])
    whole = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    tensors = [whole, *by_kind.parameters()]
    ours = orders(by_kind(g, whole, kinds=kinds), tensors)
    compare(ours, orders(evaluate(list(by_kind.functions), g, whole, kinds=kinds), tensors))


def test_a_vertex_program_draws_its_dropout_once() -> None:
    class Dropped(dynamic.VertexFunction):
        def forward(self) -> None:
            h = F.dropout((self.pull() + self.gather_all().sum()).square(), 0.5)
            self.scatter(h)
            self.push(h)

    x = torch.rand(7, 40, requires_grad=True)
    h = Dropped(state=40)(dglite.graph(TREE), x)
    (first,) = torch.autograd.grad(h.sum(), x, create_graph=True)
    torch.testing.assert_close(first.detach(), torch.autograd.grad(h.sum(), x, retain_graph=True)[0])
    (second,) = torch.autograd.grad(first[1].sum(), x)
    assert ((second[1] != 0) == (h[1] != 0)).all()  # of a leaf: 2 * mask / 0.5, but for its parents


def test_a_graph_without_nodes() -> None:
    program, x = ChildSumTreeLSTM(3, 4), torch.zeros(0, 3, requires_grad=True)
    h, _ = program(dglite.graph(([], []), num_nodes=0), x)
    (first,) = torch.autograd.grad(h.sum(), x, create_graph=True, allow_unused=True)
    assert first is None or first.shape == (0, 3)


# -- lazy results ------------------------------------------------------------------------------------------------------
SAMPLES: dict[str, Callable[..., Any]] = {
    "chunks": lambda x, w, v: torch.cat([part * x[1] for part in (x @ w).chunk(2)]).sigmoid().sum(),
    "stack": lambda x, w, v: (torch.stack([x, x * x @ w]).mean() * v[0, 1] + x.sum()) / 3,
    "softmax": lambda x, w, v: (torch.softmax(x @ w, 0) * v[1]).sum() - v.square().sum(),
    "attention": lambda x, w, v: F.scaled_dot_product_attention(x[None] * v, v @ w, v).square().sum(),
    "bilinear": lambda x, w, v: torch.einsum("i,ij,j->", x, w, x @ w),
    "several results": lambda x, w, v: (x @ w).view(2, 2).max(1).values.square().sum(),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_lazy_operations(name: str) -> None:
    torch.manual_seed(0)
    rows, w, v = (torch.randn(4, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    sample = SAMPLES[name]
    lazy = dynamic.run([sample(dynamic.lazy(rows)[i], w, dynamic.lazy(v)) for i in range(4)])
    compare(orders(lazy, [rows, w, v]), orders([sample(rows[i], w, v) for i in range(4)], [rows, w, v]))


@pytest.mark.parametrize("strategy", ["agenda", "depth", "none"])
@pytest.mark.parametrize("wrap", [lambda function: function, dynamic.cell], ids=["operations", "cells"])
def test_a_lazy_tree_lstm(wrap: Any, strategy: str) -> None:
    torch.manual_seed(0)
    model = TreeLSTM(wrap).double()
    trees = [random_tree(random.Random(i), i + 1) for i in range(4)]
    results = []
    for make in (dynamic.lazy, torch.tensor):
        losses: list[Any] = []
        plain = TreeLSTM().double()
        plain.load_state_dict(model.state_dict())
        used = model if make is dynamic.lazy else plain
        used.out.weight.requires_grad_(True)
        for tree in trees:
            used(tree, make, losses)
        values = dynamic.run(losses, strategy) if make is dynamic.lazy else losses
        results.append(orders(values, list(used.parameters())))
    compare(*results)


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU], ids=lambda layer: layer.__name__)
def test_lazy_modules_and_vertex_programs(layer: Any) -> None:
    torch.manual_seed(0)
    rnn, norm = layer(3, 4).double(), nn.LayerNorm(4).double()
    program, g = ChildSumTreeLSTM(4, 2).double(), dglite.graph(TREE)
    words = nn.Embedding(9, 3).double()
    tensors = [p for module in (rnn, norm, program, words) for p in module.parameters()]
    numbers = torch.tensor([1, 4, 4, 0, 8, 2, 1])

    def loss(lazily: bool) -> Any:
        x = rnn(words(dynamic.lazy(numbers) if lazily else numbers))[0]
        h, c = program(g, norm(x))
        return (h * c).sum()

    compare(orders(dynamic.run(loss(True)), tensors), orders(loss(False), tensors))


def test_tensors_that_are_made_of_each_other() -> None:
    layer, x = nn.Linear(3, 3).double(), torch.ones(3, dtype=torch.float64, requires_grad=True)
    results = []
    for lazily in (True, False):
        y = layer(x).tanh()  # made of the layer's weights, which are used again
        z = torch.tanh(layer(dynamic.lazy(y) if lazily else y)).sum()
        results.append(orders(dynamic.run(z) if lazily else z, [x, *layer.parameters()]))
    compare(*results)


def test_what_was_computed_before_has_second_derivatives() -> None:
    x = torch.linspace(0.1, 0.4, 4, dtype=torch.float64, requires_grad=True)
    y = dynamic.lazy(x).tanh()
    y.value()
    compare(orders(dynamic.run((y * y).sum()), [x]), orders((x.tanh() * x.tanh()).sum(), [x]))


def test_random_numbers_of_lazy_results_are_refused() -> None:
    x = torch.ones(8, requires_grad=True)
    y = dynamic.run(F.dropout(dynamic.lazy(x), 0.5).sum())
    with pytest.raises(DGLError, match="depends on random numbers"):
        torch.autograd.grad(y, x, create_graph=True)
    y.backward()  # the first derivative is still there
    assert x.grad is not None
