"""Models of transformers, made small, train over two processes as in one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tofu_zoo
import torch
from torch import nn

from dglite import tofu
from dglite.tofu.aten import strategies_of
from dglite.tofu.verify import verify
from tests.tofu.workers import Workers

transformers = pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    workers = Workers(2, tmp_path_factory.mktemp("zoo"))
    yield workers
    workers.stop()


def test_products_of_experts_are_split_by_columns() -> None:
    rows, experts, ends = torch.randn(6, 4).double(), torch.randn(3, 4, 8).double(), torch.tensor([2, 2, 6])
    pytest.importorskip("transformers.integrations.moe")
    operators = torch.ops.transformers
    verify(operators.grouped_mm_fallback.default, (rows, experts, ends), {})
    gradient = torch.randn(6, 8).double()
    verify(operators.grouped_mm_fallback_backward.default, (rows, experts, ends, gradient), {})
    indices = {s.index for s in strategies_of(operators.grouped_mm_fallback.default, (rows, experts, ends))}
    assert indices == {"j", "k"}


def train(rank: int, name: str) -> list[float]:
    return tofu_zoo.losses(name, 2)


@pytest.mark.parametrize("name", [*tofu_zoo.TEXT, *tofu_zoo.MASKED, *tofu_zoo.PAIRS, *tofu_zoo.OTHERS])
def test_two_processes_train_as_one(two: Workers, name: str) -> None:
    assert two.run(train, name) == [pytest.approx(tofu_zoo.losses(name, 1), rel=1e-5)] * 2


def checkpointed() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """Return a model that keeps no activations, and a batch, equal in each process."""
    torch.manual_seed(0)
    module, _, _, batch = tofu_zoo.models()["Llama"](tiny=True)
    module.gradient_checkpointing_enable({"use_reentrant": False})
    return module.double().train(), batch


def train_checkpointed(rank: int) -> list[float]:
    module, batch = checkpointed()
    step = tofu.parallelize(module, torch.optim.AdamW(module.parameters(), 0.01))
    return [step(**batch).item() for _ in range(3)]


def test_checkpointed_blocks_train_as_in_one_process(two: Workers) -> None:
    module, batch = checkpointed()
    optimizer = torch.optim.AdamW(module.parameters(), 0.01)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = module(**batch).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert two.run(train_checkpointed) == [pytest.approx(losses, rel=1e-6)] * 2
