"""Lazy batching on a GPU: values and gradients are those of the CPU, and nothing waits."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
import torch
from torch import nn

import dglite
from dglite import dynamic
from dglite.errors import DGLError
from dglite.ops import devices
from tests.dynamic.batching.models import Tagger, TreeLSTM, random_tree
from tests.dynamic.programs import BinaryTreeLSTM
from tests.fake_device.device import DEVICE, KIND, recorded


def of_trees(model: Any) -> list[Any]:
    generator, losses = random.Random(0), list[Any]()
    for leaves in (1, 4, 3, 6):
        model(random_tree(generator, leaves), dynamic.lazy, losses)
    return losses


def of_sentences(model: Any) -> list[Any]:
    sentences = [([1, 2, 3], [0, 1, 2]), ([4, 5, 1, 1], [2, 2, 0, 1])]
    return [loss for words, tags in sentences for loss in model(words, tags, dynamic.lazy)]


def trained(model: Any, losses_of: Any, strategy: str = "agenda") -> list[torch.Tensor]:
    """Return the sum of the losses and the gradients of all parameters."""
    model.zero_grad()
    return [dynamic.backward(losses_of(model), strategy), *(p.grad for p in model.parameters())]


def alike(actual: list[torch.Tensor], want: list[torch.Tensor]) -> None:
    torch.testing.assert_close([x.cpu() for x in actual], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("strategy", ["agenda", "depth", "none"])
@pytest.mark.parametrize(("make", "losses_of"), [(TreeLSTM, of_trees), (Tagger, of_sentences)])
def test_models(make, losses_of, strategy, wrapped):
    torch.manual_seed(0)
    model = make(dynamic.cell) if wrapped else make()
    want = trained(model, losses_of, strategy)
    there = (make(dynamic.cell) if wrapped else make()).to(DEVICE)
    there.load_state_dict(model.state_dict())
    for _ in range(2):
        with recorded() as events:
            actual = trained(there, losses_of, strategy)
        alike(actual, want)
    assert events.waits == [] and not [x for x in events.copies if x.startswith("to host")]


def functions(x: Any, weight: Any, scores: Any) -> list[Any]:
    """Return values by kernels of formulas, of sums, by products, and by torch's functions."""
    y = torch.tanh(x @ weight) * scores[:3].sum() + x[1]
    return [y.softmax(-1), (y * y).sum(), torch.cat([y, x]).cumsum(0), torch.where(y > 0, y, -y), y.max()]


def test_functions_and_their_gradients():
    torch.manual_seed(0)
    tensors = [torch.randn(size, requires_grad=True) for size in ((4,), (4, 3), (5,))]

    def results(device: str) -> list[torch.Tensor]:
        moved = [x.detach().to(device).requires_grad_() for x in tensors]
        outs = [out for _ in range(2) for out in functions(*map(dynamic.lazy, moved))]
        values = dynamic.run(outs)
        sum(value.sum() for value in values).backward()
        return [*values, *(x.grad for x in moved)]

    alike(results(DEVICE), results("cpu"))


def test_values_in_between():
    """What was computed stays; later values of the session are computed from it."""
    torch.manual_seed(0)
    linear = nn.Linear(4, 4)
    there, x = copy.deepcopy(linear).to(DEVICE), torch.randn(4)

    def chain(model: nn.Linear, x: torch.Tensor) -> list[torch.Tensor]:
        first = torch.relu(model(dynamic.lazy(x)))
        between = first.value()
        return [between, dynamic.run(model(first) + dynamic.lazy(1.5) * 2)]

    alike(chain(there, x.to(DEVICE)), chain(linear, x))
    alike(chain(there, x), chain(linear, x))


def test_a_vertex_program_of_lazy_input():
    torch.manual_seed(0)
    program, embed = BinaryTreeLSTM(4, 6), nn.Linear(4, 4)
    g = dglite.graph(([0, 1, 2, 3], [2, 2, 4, 4]))
    x = torch.randn(5, 4)

    def total(program: Any, embed: Any, g: dglite.DGLGraph, x: torch.Tensor) -> list[torch.Tensor]:
        parameters = [*program.parameters(), *embed.parameters()]
        for p in parameters:
            p.grad = None
        loss = program(g, torch.tanh(embed(dynamic.lazy(x)))).sum()
        return [dynamic.backward(loss), *(p.grad for p in parameters)]

    there = copy.deepcopy(program).to(DEVICE), copy.deepcopy(embed).to(DEVICE)
    alike(total(*there, g.to(DEVICE), x.to(DEVICE)), total(program, embed, g, x))


def test_second_derivatives():
    torch.manual_seed(0)
    tensors = [torch.randn(size) for size in ((4,), (4, 3))]

    def penalty(device: str) -> list[torch.Tensor]:
        x, weight = (x.to(device).requires_grad_() for x in tensors)
        out = dynamic.run(torch.tanh(dynamic.lazy(x) @ weight).sum())
        (grad,) = torch.autograd.grad(out, x, create_graph=True)
        grad.pow(2).sum().backward()
        return [grad, x.grad, weight.grad]

    alike(penalty(DEVICE), penalty("cpu"))


def test_what_lies_elsewhere_is_named(monkeypatch):
    here, there = nn.Linear(4, 3), nn.Linear(4, 4).to(DEVICE)
    loss = here(there(dynamic.lazy(torch.ones(4)))).sum()
    with pytest.raises(DGLError, match=f"shape \\[3, 4\\] .* is on cpu, but others .* on {DEVICE}: move the whole"):
        dynamic.backward(loss)
    x = dynamic.lazy(torch.ones(4, requires_grad=True))
    with pytest.raises(DGLError, match=r"shape \[4\] that is a parameter or wants a gradient is on cpu"):
        there(x).value()
    monkeypatch.delitem(devices.RUNNERS, KIND)
    with pytest.raises(DGLError, match=f"got a tensor on {DEVICE}, where dglite has no kernels for {KIND}"):
        there(dynamic.lazy(torch.ones(4)))
