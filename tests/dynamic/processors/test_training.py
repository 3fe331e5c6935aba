"""Persistent processors against lazy batching with torch's optimizers: the same losses, the same parameters."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dglite import dynamic
from tests.dynamic.batching.models import Tagger, TreeLSTM, random_tree

SGD, ADAM = torch.optim.SGD, torch.optim.Adam
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: SGD(p, lr=0.1),
    "sgd decay": lambda p: SGD(p, lr=0.1, weight_decay=0.01),
    "momentum": lambda p: SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
    "nesterov": lambda p: SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1),
    "adagrad decay": lambda p: torch.optim.Adagrad(p, lr=0.1, weight_decay=0.01),
    "adam": lambda p: ADAM(p, lr=0.01, weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
}
Losses = Callable[[Any, int], list[Any]]


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """Let torch, and so the processors, have two threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def train(
    make: Callable[[], nn.Module],
    losses: Losses,
    optimizer: Callable[[Any], torch.optim.Optimizer],
    persistent: bool,
    steps: int = 3,
) -> tuple[list[float], nn.Module, torch.optim.Optimizer]:
    """Return the losses of some steps, the model and the optimizer after them."""
    torch.manual_seed(0)
    model = make()
    optim = optimizer(model.parameters())
    if persistent:
        handle = dynamic.persistent(model.parameters(), optim, processors=torch.get_num_threads())
        values = [handle.step(losses(model, step)) for step in range(steps)]
        assert values[0] is None
        return [*values[1:], handle.sync()], model, optim  # type: ignore[list-item]
    values = []
    for step in range(steps):
        optim.zero_grad()
        values.append(dynamic.backward(losses(model, step)).item())
        optim.step()
    return values, model, optim


def check(
    make: Callable[[], nn.Module],
    losses: Losses,
    optimizer: Callable[[Any], torch.optim.Optimizer] = OPTIMIZERS["sgd"],
    dtype: torch.dtype = torch.float64,
    steps: int = 3,
) -> None:
    """Assert that persistent processors and torch's optimizer come to the same."""

    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        expected, ours, other = train(make, losses, optimizer, False, steps)
        result, theirs, optim = train(make, losses, optimizer, True, steps)
    finally:
        torch.set_default_dtype(before)
    tolerance = {"rtol": 2e-5, "atol": 1e-5} if dtype is torch.float32 else {"rtol": 1e-10, "atol": 1e-12}
    torch.testing.assert_close(torch.tensor(result), torch.tensor(expected), **tolerance)
    torch.testing.assert_close(dict(theirs.named_parameters()), dict(ours.named_parameters()), **tolerance)
    for one, two in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(dict(optim.state[two]), dict(other.state[one]), **tolerance)
        assert two.grad is None


def tree_losses(batch: int) -> Losses:
    """Return the losses of ``batch`` random trees, others in each step."""

    def losses(model: Any, step: int) -> list[Any]:
        generator, terms = random.Random(step), list[Any]()
        for _ in range(batch):
            model(random_tree(generator, generator.randrange(1, 7)), dynamic.lazy, terms)
        return terms

    return losses


@pytest.fixture
def no_warnings(recwarn: pytest.WarningsRecorder) -> Iterator[None]:
    """Fail if a step was not done by processors."""
    yield
    assert not [w for w in recwarn if "persistent processors" in str(w.message)]


pytestmark = pytest.mark.usefixtures("no_warnings")


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_change_parameters_and_state_as_torch_does(name: str) -> None:
    check(TreeLSTM, tree_losses(2), OPTIMIZERS[name])


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("wrap", [lambda f: f, dynamic.cell], ids=["operations", "cells"])
def test_trees_in_float32(batch: int, wrap: Any) -> None:
    check(lambda: TreeLSTM(wrap), tree_losses(batch), dtype=torch.float32)


def test_a_tagger_of_sentences() -> None:
    sentences: Sequence[Sequence[int]] = [[1, 2, 3, 1, 5], [4], [8, 7, 1]]

    def losses(model: Any, step: int) -> list[Any]:
        return [x for words in sentences for x in model(words, [w % 3 for w in words], dynamic.lazy)]

    check(Tagger, losses, OPTIMIZERS["momentum"])


class Mixed(nn.Module):
    """Parameters that are used in all ways: as a matrix from either side, as a table, directly, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.start = nn.Embedding(40, 5), nn.Parameter(torch.randn(5))
        self.turned, self.square = nn.Parameter(torch.randn(5, 7)), nn.Parameter(torch.randn(7, 7))
        self.gate, self.unused = nn.Parameter(torch.randn(7)), nn.Linear(3, 3)

    def forward(self, step: int) -> list[Any]:
        first = dynamic.lazy(self.start) + self.words(dynamic.lazy(step)) * self.words(dynamic.lazy(39 - step))
        x = torch.tanh(first @ self.turned) * dynamic.lazy(self.gate)
        y = F.linear(x @ self.square, self.square, self.gate)
        rows = torch.stack([first, first * 2.0]) @ self.turned  # two rows of one sample
        tied = F.linear(first, self.words.weight)
        losses = [F.cross_entropy(tied, dynamic.lazy(step)), y.sum(), rows.mean(), F.softmax(y, 0)[step] * 3.0]
        return [*losses, F.log_softmax(y, 0)[1], F.nll_loss(F.log_softmax(x, 0), dynamic.lazy(2))]


@pytest.mark.parametrize("name", ["sgd", "sgd decay", "adagrad", "adam"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_parameters_in_all_roles(name: str, dtype: torch.dtype) -> None:
    check(Mixed, lambda model, step: model(step), OPTIMIZERS[name], dtype)


class Wide(nn.Module):
    """Large enough that every step is shared out, of sizes that are no multiples of vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.inner, self.out = nn.Embedding(30, 67), nn.Linear(67, 133), nn.Linear(133, 21)

    def forward(self, numbers: Sequence[int]) -> list[Any]:
        hidden = [torch.tanh(self.inner(self.words(dynamic.lazy(n)))) for n in numbers]
        return [F.cross_entropy(self.out(h), dynamic.lazy(n % 21)) for h, n in zip(hidden, numbers, strict=True)]


@pytest.mark.parametrize("count", [1, 2, 3, 9, 40])
def test_work_that_is_shared_out(count: int) -> None:
    check(Wide, lambda model, step: model([(step + n) % 30 for n in range(count)]))


@pytest.mark.parametrize("name", ["sgd", "adagrad"])
def test_few_and_many_rows_of_a_table_by_turns(name: str) -> None:
    counts = [40, 1, 2, 40, 1]
    check(Wide, lambda model, step: model([(step + n) % 30 for n in range(counts[step])]), OPTIMIZERS[name], steps=5)


def test_losses_without_a_gradient_count() -> None:
    def losses(model: Any, step: int) -> list[Any]:
        return [*model([step]), dynamic.lazy(torch.ones(())) * 2.0, dynamic.lazy(0.5)]

    check(Wide, losses)


@pytest.mark.parametrize("processors", [1, 2, 5])
def test_any_number_of_processors(processors: int) -> None:
    torch.set_num_threads(processors)
    check(Wide, lambda model, step: model(range(7)), OPTIMIZERS["adam"])
    check(TreeLSTM, tree_losses(2), OPTIMIZERS["adam"])


def test_learning_rates_may_change_between_steps() -> None:
    def losses(model: Any, step: int) -> list[Any]:
        model.optimizer.param_groups[0]["lr"] = 0.1 / (step + 1)
        return model([1, 2])

    class Scheduled(Wide):
        optimizer: torch.optim.Optimizer

    def optimizer(parameters: Any) -> torch.optim.Optimizer:
        scheduled = SGD(parameters, lr=1.0)
        Scheduled.optimizer = scheduled
        return scheduled

    check(Scheduled, losses, optimizer)


def test_values_that_were_asked_for_while_recording() -> None:
    def losses(model: Any, step: int) -> list[Any]:
        x = torch.tanh(model.inner(model.words(dynamic.lazy(step))))
        choice = int(x.value()[0] > 0)
        return [F.cross_entropy(model.out(x), dynamic.lazy(choice))]

    check(Wide, losses)
