"""Persistent processors on a GPU: the kernel that tests/dynamic/processors/test_gpu.py runs on an emulated one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("no CUDA device, or a torch without CUDA", allow_module_level=True)

from dglite import dynamic
from tests.dynamic.batching.models import TreeLSTM
from tests.dynamic.processors.test_gpu import wide_losses
from tests.dynamic.processors.test_handle import loss_of, weights
from tests.dynamic.processors.test_training import OPTIMIZERS, Losses, Mixed, Wide, tree_losses

CUDA = torch.device("cuda", torch.cuda.current_device())
MODELS: dict[str, tuple[Any, Losses]] = {
    "trees": (TreeLSTM, tree_losses(3)),
    "cells": (lambda: TreeLSTM(dynamic.cell), tree_losses(3)),
    "roles": (Mixed, lambda model, step: model(step)),
    "wide": (Wide, wide_losses(1, 9, 40)),
}


def train(kind: str, name: str, device: Any, steps: int, **options: Any) -> tuple[list[Any], dict[str, torch.Tensor]]:
    """Return losses and parameters after some steps of processors on a device."""
    torch.manual_seed(0)
    make, losses = MODELS[kind]
    model = make().to(device)
    handle = dynamic.persistent(model.parameters(), OPTIMIZERS[name](model.parameters()), **options)
    results = [handle.step(losses(model, step)) for step in range(steps)]
    return [*results[1:], handle.sync()], {name: x.detach().cpu() for name, x in model.named_parameters()}


@pytest.fixture(params=[torch.float32, torch.float64], autouse=True)
def dtype(request: pytest.FixtureRequest) -> Any:
    """Let models have parameters of a dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(before)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("name", ["sgd", "nesterov", "adagrad", "adamw"])
def test_a_gpu_trains_as_the_cpu_does(kind: str, name: str, dtype: torch.dtype) -> None:
    """Over more steps than it takes to choose the rows per warp."""
    tolerance = {"rtol": 1e-3, "atol": 1e-4} if dtype is torch.float32 else {"rtol": 1e-9, "atol": 1e-11}
    torch.testing.assert_close(train(kind, name, CUDA, 7), train(kind, name, "cpu", 7), **tolerance)


@pytest.mark.parametrize("blocks", [1, 7, None])
def test_every_run_gives_the_same_bits(blocks: int | None) -> None:
    runs = [train("wide", "adamw", CUDA, 4, processors=blocks, rows_per_warp=2) for _ in range(5)]
    for run in runs[1:]:
        torch.testing.assert_close(run, runs[0], rtol=0, atol=0)


def test_steps_wait_for_what_torch_does_on_the_stream() -> None:
    model = Wide().to(CUDA)
    handle = dynamic.persistent(model.parameters(), torch.optim.SGD(model.parameters(), lr=0.1))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.no_grad():
        torch.ones(4000, 4000, device=CUDA) @ torch.ones(4000, 4000, device=CUDA)
        for x in model.parameters():
            x.zero_()
        handle.step(model([1]))
        assert handle.sync() == pytest.approx(torch.log(torch.tensor(21.0)).item(), rel=1e-6)


def test_errors_and_values() -> None:
    model = torch.nn.Linear(4, 3).to(CUDA)
    handle = dynamic.persistent(model.parameters(), torch.optim.SGD(model.parameters(), lr=0.1))
    before = weights(model)
    handle.step(loss_of(model, 3))
    with pytest.raises(IndexError, match="label 3 "):
        handle.sync()
    torch.testing.assert_close(weights(model), before, rtol=0, atol=0)
    assert torch.isfinite(loss_of(model).value())
    handle.step(loss_of(model))
    assert handle.sync() is not None
