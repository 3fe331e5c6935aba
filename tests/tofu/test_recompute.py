"""Blocks under torch.utils.checkpoint are computed again in the backward pass: equal losses, less memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from dglite import DGLError, tofu
from tests.tofu.workers import Workers


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    workers = Workers(2, tmp_path_factory.mktemp("recompute"))
    yield workers
    workers.stop()


class Blocks(nn.Module):
    """Residual blocks, each under ``checkpoint`` if ``again`` is "again" or "reentrant"."""

    def __init__(self, again: str, dropout: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.again = again
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Linear(16, 64), nn.GELU(), nn.Dropout(dropout), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 16)
            )
            for _ in range(4)
        )
        self.first = nn.Linear(16, 16)
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = x + (checkpoint(block, x, use_reentrant=self.again == "reentrant") if self.again else block(x))
        return x


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(256, 16).double(), torch.randint(16, (256,))


def plan(again: str) -> tofu.PartitionPlan:
    module = Blocks(again)
    return tofu.plan(module, F.cross_entropy, batch(), torch.optim.SGD(module.parameters(), 0.1), workers=2)


def train(rank: int, again: str, dropout: float) -> list[float]:
    module = Blocks(again, dropout)
    step = tofu.parallelize(module, F.cross_entropy, torch.optim.SGD(module.parameters(), 0.1))
    return [step(*batch()).item() for _ in range(3)]


def test_a_checkpointed_block_needs_less_memory() -> None:
    assert plan("again").memory < 0.8 * plan("").memory


def test_two_processes_train_as_one(two: Workers) -> None:
    module = Blocks("again")
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(module(batch()[0]), batch()[1])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert two.run(train, "again", 0.0) == [pytest.approx(losses, rel=1e-6)] * 2


def gradients(rank: int) -> list[float]:
    """Return directional derivatives of a step with dropout, by gradients and by differences of losses."""
    module = Blocks("again", 0.5)
    optimizer = torch.optim.SGD(module.parameters(), 1e-4)
    step = tofu.parallelize(module, F.cross_entropy, optimizer)
    step.prepare(*batch())
    step._count = 7
    before = step.backward(*batch()).item()
    norm = step.clip_grad_norm_(1e9).item()
    step.update()
    step._count = 7  # the same numbers are drawn
    after = step.backward(*batch()).item()
    return [(before - after) / 1e-4, norm**2]


def test_dropout_draws_the_same_numbers_again(two: Workers) -> None:
    for difference, derivative in two.run(gradients):
        assert difference == pytest.approx(derivative, rel=1e-2)


def test_the_generator_is_left_as_it_was() -> None:
    module = Blocks("again", 0.5)
    state = torch.get_rng_state()
    tofu.capture(module, F.cross_entropy, batch_like())
    assert torch.equal(torch.get_rng_state(), state)


def batch_like() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty(256, 16, dtype=torch.double, device="meta"), torch.empty(256, dtype=torch.long, device="meta")


def test_reentrant_checkpoints_are_refused() -> None:
    with pytest.raises(DGLError, match="use_reentrant=False"):
        plan("reentrant")
