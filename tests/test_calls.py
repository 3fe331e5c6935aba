"""How many Python calls a small operation takes: on small graphs they are its cost."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

import dglite
from dglite import function as fn
from dglite import ops

PACKAGE = str(Path(dglite.__file__).parent)


def calls(run: Callable[[], Any]) -> list[str]:
    """Return the functions of dglite that ``run`` calls when it has run before, by file and name."""
    for _ in range(3):
        run()
    seen: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            seen.append(f"{code.co_filename.removeprefix(PACKAGE)[1:]}:{code.co_name}")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return seen


pytestmark = pytest.mark.usefixtures("one_library")


@pytest.fixture
def g() -> dglite.DGLGraph:
    g = dglite.graph(([0, 1, 2, 3, 0], [1, 2, 3, 0, 2]))
    g.ndata["h"], g.edata["w"] = torch.randn(4, 8), torch.rand(5, 1)
    return g


MESSAGES = {"copy_u": fn.copy_u("h", "m"), "u_mul_e": fn.u_mul_e("h", "w", "m"), "copy_e": fn.copy_e("w", "m")}


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("reducer", ["sum", "max"])
def test_update_all_of_two_builtins_is_a_straight_line(g: dglite.DGLGraph, message: str, reducer: str) -> None:
    pair = MESSAGES[message], getattr(fn, reducer)("m", "out")
    assert len(calls(lambda: g.update_all(*pair))) <= 40


def test_a_gradient_costs_as_many_calls_again(g: dglite.DGLGraph) -> None:
    h, like = g.ndata["h"].requires_grad_(), torch.ones(4, 8)

    def run() -> None:
        g.update_all(MESSAGES["u_mul_e"], fn.sum("m", "out"))
        g.ndata["out"].backward(like)

    assert len(calls(run)) <= 125 and h.grad is not None


@pytest.mark.parametrize(
    "run",
    [
        lambda g, x, w: ops.copy_u_sum(g, x),
        lambda g, x, w: ops.u_mul_e_sum(g, x, w),
        lambda g, x, w: ops.gspmm(g, "mul", "sum", x, w),
        lambda g, x, w: ops.u_add_v(g, x, x),
    ],
    ids=["copy_u_sum", "u_mul_e_sum", "gspmm", "u_add_v"],
)
def test_an_operation_goes_to_its_kernel(g: dglite.DGLGraph, run: Callable[..., Any]) -> None:
    x, w = g.ndata["h"], g.edata["w"]
    seen = calls(lambda: run(g, x, w))
    assert len(seen) <= 50 and not [call for call in seen if "scores.py" in call]


def test_a_sum_that_comes_again_is_neither_checked_nor_bound_again(g: dglite.DGLGraph) -> None:
    seen = calls(lambda: ops.u_mul_e_sum(g, g.ndata["h"], g.edata["w"]))
    assert len(seen) <= 25 and not [call for call in seen if ":check" in call or ":bind" in call]


DERIVED: dict[str, Callable[..., torch.Tensor]] = {
    "sum": ops.u_mul_e_sum,
    "mean": ops.u_div_e_mean,
    "max": ops.u_add_e_max,
    "per edge": lambda g, x, w: ops.u_sub_v(g, x, x * 2),
    "dot": lambda g, x, w: ops.u_dot_v(g, x, x * 2),
    "softmax": lambda g, x, w: ops.edge_softmax(g, w),
    "attention": lambda g, x, w: ops.gat_attention(g, x[:, :2], x[:, 2:4], x.reshape(4, 2, 4), edge_weight=w),
    "segments": lambda g, x, w: ops.segment_reduce([1, 3], x),
}


@pytest.mark.parametrize("operation", DERIVED)
def test_gradients_check_nothing_again(g: dglite.DGLGraph, operation: str) -> None:
    """Of any order: what they read has been checked, or was made by dglite."""
    x, w = g.ndata["h"].requires_grad_(), g.edata["w"].requires_grad_()

    def forward(g: dglite.DGLGraph = g) -> torch.Tensor:
        return DERIVED[operation](g, x, w).square().sum()

    def derive(value: torch.Tensor) -> list[torch.Tensor]:
        return [
            grad
            for grad in torch.autograd.grad(value, (x, w), create_graph=True, allow_unused=True)
            if grad is not None
        ]

    assert any(":check" in call for call in calls(lambda: forward(dglite.graph(g.edges()))))
    value = forward()
    first = calls(lambda: torch.autograd.grad(value, (x, w), retain_graph=True, allow_unused=True))
    assert first and not [call for call in first if ":check" in call]
    slope = sum(grad.square().sum() for grad in derive(value))
    second = calls(lambda: torch.autograd.grad(slope, (x, w), retain_graph=True, allow_unused=True))
    assert second and not [call for call in second if ":check" in call]
