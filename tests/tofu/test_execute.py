"""Training steps over processes give what one process gives, send what the plan says, and fail clearly everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from dglite import tofu
from tests.tofu.workers import Workers


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    workers = Workers(2, tmp_path_factory.mktemp("two"))
    yield workers
    workers.stop()


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    workers = Workers(4, tmp_path_factory.mktemp("four"))
    yield workers
    workers.stop()


class Convolutions(nn.Module):
    """Convolutions with normalizations, a shortcut and pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8)
        self.second, self.pool, self.out = nn.Conv2d(8, 8, 3, padding=1), nn.MaxPool2d(3, 2, 1), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(torch.relu(self.norm(self.first(x))))
        return self.out((x + self.second(x)).mean((2, 3)))


class Block(nn.Module):
    """A causal language model of one block."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(16, 12), nn.LayerNorm(12)
        self.qkv, self.out, self.head = nn.Linear(12, 36), nn.Linear(12, 12), nn.Linear(12, 16)
        self.mlp = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 12))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        n, length, _ = x.shape
        q, k, v = (y.view(n, length, 3, 4).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(n, length, 12))
        return self.head(x + self.mlp(x)).flatten(0, 1)


class Words(nn.Module):
    """A language model of an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm, self.out = nn.Embedding(10, 8), nn.LSTM(8, 8, 2, batch_first=True), nn.Linear(8, 10)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(self.words(ids))[0]).flatten(0, 1)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4))


def work(name: str) -> tuple[nn.Module, Any, tuple[torch.Tensor, ...]]:
    """Return a module, a loss and inputs, equal in each process, in float64."""
    module, loss, inputs = _work(name)
    return module.double(), loss, tuple(x.double() if x.is_floating_point() else x for x in inputs)


def _work(name: str) -> tuple[nn.Module, Any, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    data = torch.Generator().manual_seed(1)

    def ids(*shape: int) -> torch.Tensor:
        return torch.randint(10, shape, generator=data)

    entropy = functional.cross_entropy
    if name == "mlp":
        return mlp(), functional.mse_loss, (torch.randn(8, 6, generator=data), torch.randn(8, 4, generator=data))
    if name == "convolutions":
        return Convolutions(), entropy, (torch.randn(4, 3, 16, 12, generator=data), torch.tensor([0, 4, 2, 1]))
    if name == "attention":
        return Block(), entropy, (ids(4, 6), ids(24))
    return Words(), entropy, (ids(4, 3), ids(12))


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "adam": lambda p: torch.optim.AdamW(p, 0.01),
}


def alone(name: str, optimizer: str, steps: int = 4) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Train in one process."""
    module, loss, inputs = work(name)
    optim = OPTIMIZERS[optimizer](module.parameters())
    losses = []
    for _ in range(steps):
        optim.zero_grad()
        value = loss(module(*inputs[:-1]), inputs[-1])
        value.backward()
        optim.step()
        losses.append(value.item())
    return losses, {k: v.detach() for k, v in module.state_dict().items()}


def train(rank: int, name: str, optimizer: str, steps: int = 4) -> Any:
    module, loss, inputs = work(name)
    step = tofu.parallelize(module, loss, OPTIMIZERS[optimizer](module.parameters()))
    losses = [step(*inputs).item() for _ in range(steps)]
    assert step.plan is not None
    return losses, step.gather(), step.bytes, step.plan.bytes, {n: tuple(p.shape) for n, p in step.parts().items()}


def check(workers: Workers, name: str, optimizer: str) -> list[Any]:
    losses, state = alone(name, optimizer)
    found = workers.run(train, name, optimizer)
    for got, whole, *_ in found:
        assert got == pytest.approx(losses, rel=1e-9)
        for key, value in whole.items():
            torch.testing.assert_close(value, state[key], rtol=1e-6, atol=1e-6)
    return found


@pytest.mark.parametrize("name", ["mlp", "convolutions", "attention", "lstm"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_two_processes_train_as_one(two: Workers, name: str, optimizer: str) -> None:
    check(two, name, optimizer)


@pytest.mark.parametrize("name", ["mlp", "convolutions", "attention", "lstm"])
def test_four_processes_train_as_one(four: Workers, name: str) -> None:
    check(four, name, "sgd")
