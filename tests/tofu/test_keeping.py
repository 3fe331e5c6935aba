"""What several operators need is fetched once where memory allows, and counted so."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from dglite import tofu
from dglite.tofu.baselines import fsdp
from dglite.tofu.execute import compile_plan
from dglite.tofu.keeping import share_fetches
from dglite.tofu.links import Links
from dglite.tofu.memory import memory_profile
from dglite.tofu.plan import PartitionPlan
from dglite.tofu.planning import plan_captured


class Gated(nn.Module):
    """Two layers that read the same input."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(16, 24), nn.Linear(16, 24), nn.Linear(24, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.down(functional.silu(self.gate(x)) * self.up(x)))
        return self.down(functional.silu(self.gate(x)) * self.up(x))


@pytest.fixture(scope="module")
def captured() -> tofu.Captured:
    with torch.device("meta"):
        module, inputs = Gated(), (torch.empty(128, 16), torch.empty(128, 16))
    return tofu.capture(module, functional.mse_loss, inputs, torch.optim.SGD(module.parameters(), 0.1))


def test_equal_rows_are_fetched_once(captured: tofu.Captured) -> None:
    gathering = plan_captured(captured, 4).baseline(fsdp)
    result, coarse = gathering._search_steps, gathering._coarse
    many = share_fetches(coarse, result, memory_profile(coarse, result), 1e9)
    # weights are read transposed by the forward pass, and as they are by the gradients
    assert sum(order == (1, 0) for _, order in many.first.values()) >= 2
    assert all(first not in many.first for first, _ in many.first.values())
    plan = PartitionPlan(coarse, result, memory=1e9)
    for rank in range(4):
        assert compile_plan(plan, Links(rank, 4), torch.device("meta")).bytes == plan.bytes
    assert plan.bytes == sum(step.bytes for step in result) - sum(many.bytes)


def test_what_is_kept_fits_into_the_memory(captured: tofu.Captured) -> None:
    strict = plan_captured(captured, 4).baseline(fsdp)
    profile = memory_profile(strict._coarse, strict._search_steps)
    assert strict.memory == profile.max()
    saved = []
    for memory in range(int(profile.max()), 2 * int(profile.max()), 1000):
        kept = share_fetches(strict._coarse, strict._search_steps, profile, memory)
        assert kept.peak <= max(memory, profile.max())
        saved.append((sum(kept.bytes), kept.peak))
    assert 0 < saved[0][0] < saved[-1][0]
    assert saved[-1][1] > profile.max()
