"""Attention written in steps is one kernel on the fake device; nothing shows that its scores wait. As on the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import dglite
import dglite.function as fn
from dglite.nn.functional import edge_softmax
from dglite.ops import scores
from tests.fake_device.device import DEVICE, FakeRunner
from tests.scheduler.test_deferred_scores import CASES, Steps, alike

ON_HOST = {"change_through_numpy", "saved_tensor_hooks", "under_autocast", "as_arrays"}
"""Cases that are about memory of the host, or name the CPU."""
ON_DEVICES = [case for case in CASES if case.__name__ not in ON_HOST]
COPIED = {"deep_copies", "saved_to_a_file"}
"""Cases for which torch copies storages, which it does not on this device."""
FULL = os.environ.get("DGLITE_TEST_FULL") == "1"
HERE = [case for case in ON_DEVICES if case.__name__ not in COPIED][:: 1 if FULL else 4]


def waits_unnoticed(case: Callable[[Steps], Any], device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for least in (1, 1 << 62):
        monkeypatch.setattr(scores, "WORTH_DEFERRING", least)
        results.append(case(Steps(device)))
    alike(*results)


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.__name__)
def test_waiting_is_not_noticed(case: Callable[[Steps], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    waits_unnoticed(case, DEVICE, monkeypatch)


def layer(g: dglite.DGLGraph, x: torch.Tensor, left: torch.Tensor, right: torch.Tensor, p: float = 0.0) -> torch.Tensor:
    """Return graph attention, written in steps."""
    with g.local_scope():
        g.ndata.update({"x": x, "left": left, "right": right})
        g.apply_edges(fn.u_add_v("left", "right", "score"))
        weights = edge_softmax(g, F.leaky_relu(g.edata.pop("score"), 0.2))
        g.edata["a"] = F.dropout(weights, p)
        g.update_all(fn.u_mul_e("x", "a", "m"), fn.sum("m", "out"))
        return g.ndata["out"]


def attend(device: str, p: float = 0.0) -> list[torch.Tensor]:
    """Return the layer's result and gradients on a graph that is large enough."""
    torch.manual_seed(0)
    src, dst = torch.randint(300, (2, 5000))
    dst[:400] = 0  # a row that is split
    g = dglite.graph((src, dst), num_nodes=300).to(device)
    xs = [torch.randn(300, 4, width, dtype=torch.float64).to(device).requires_grad_() for width in (3, 1, 1)]
    torch.manual_seed(1)
    out = layer(g, *xs, p)
    grads = torch.autograd.grad(out.square().sum(), xs)
    return [x.detach().cpu() for x in (out, *grads)]


@pytest.mark.parametrize("p", [0.0, 0.4])
def test_the_steps_are_three_kernels(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """One forward, two backward, and none that makes or reads a tensor of the edges."""
    names, launch = [], FakeRunner.launch

    def noted(self: Any, program: Any, kernel: str, *rest: Any) -> None:
        names.append(program.name(kernel))
        launch(self, program, kernel, *rest)

    monkeypatch.setattr(FakeRunner, "launch", noted)
    result = attend(DEVICE, p)
    assert {name.partition("_")[0] for name in names} == {"attention", "convert"}
    assert len([name for name in names if name.startswith("attention") and name.endswith("rows")]) == 3
    torch.testing.assert_close(result, attend("cpu", p))
