"""How many messages there are: an ``int`` in a degree bucket, a number of each node where a reducer is recorded."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import dglite
from dglite import function as fn
from dglite.scheduler.learned import why_bucketed
from tests.recorder.common import assert_as_for_real, compiled, values
from tests.versions import exports

COPY = fn.copy_u("h", "m")

RECORDED = """
    s / d | s * d | d * s | s - d | d + s | 1 / d * s | s * (d + 0.0) | s * d ** 0.5 | s * (2 * d - 1) | s * (-d)
    d / s | s * m.size(1) | s * m.size()[1] | s * m.shape[-2] | s * (1 / (d - 2)) | s * (d // 2) | s * (d % 2)
    s * np.log(d + 1) | np.log(d + 1) * s | s * (avg / np.log(d + 1)) | s * (np.log(d + 1) / avg) | s * np.sqrt(d)
    s * (1.5 * avg / d + 2) | s * abs(1 - d) | torch.div(s, d) | torch.mul(s, np.log1p(d)) | s.div(d) | s.sub(d)
    torch.cat([s, s * np.log(d + 1), s / np.log(d + 1)], 1) | (m * d).sum(1) | (m / d).sum(1)
    ((m - s[:, None] / d) ** 2).sum(1) | (m * np.log(d)).max(1)[0] | torch.where(m > d - 2.5, m, -m).sum(1)
    s.unsqueeze(-1) * d | s * m.shape[2] * d | s * learned / d | s.view(-1, 3, 1) / d
    torch.sqrt((m * m).mean(1) - m.mean(1) ** 2 + 1e-5) * d | s * (np.float64(2) * d)
    torch.relu((m * m).mean(1) - m.mean(1) * m.mean(1)) + m.mean(1) + m.mean(-2)
"""
"""Reducers by what they make of the sum ``s`` of the messages ``m`` and their number ``d``."""

BUCKETED = """
    s if d > 3 else s * 2 | s * float(d) | s * int(d) | s * math.log(d + 1) | s * range(d)[-1] | s * bool(d)
    s + torch.zeros(d).sum() | s + torch.arange(d).sum() | s * len(str(d)) | s * (d == 3) | s * (d > 3) | s * round(d)
    s * torch.tensor(d) | s * torch.tensor(float(d)) | s * torch.as_tensor(d) | s + np.zeros(d).sum() | s ** d
    d ** s | s * (W * d) | s * max(d, 3) | s * min(3, d) | s * np.maximum(d, 3) | s * np.power(d, 2)
    m.view(-1, d * 3).sum(1, keepdim=True) + s | m.view(m.shape[0], -1).sum(1, keepdim=True) + s | s * m.shape[0]
    m.expand(-1, d, -1).sum(1) | s * sum(m.shape) | s * (3 in m.shape) | s * len(m.shape[:2]) | s * math.prod(m.shape)
    (lambda a, b, c: s * b)(*m.shape) | s * torch.add(s, d, alpha=d) | s * m.numel() | s * m.shape.numel()
    f"{d}" and s
"""


MAY_DIVIDE_BY_ZERO = ["s * (1 / (d - 2))"]
"""Reducers that raise for some numbers of messages, of which a program knows that they are positive."""


def reducer(text: str) -> Any:
    names = {"np": np, "math": math, "avg": torch.tensor(1.7, dtype=torch.float64), "W": values(3, seed=3)}
    names["learned"] = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    source = "def f(nodes):\n    m = nodes.mailbox['m']\n    s, d = m.sum(1), m.shape[1]\n"
    return compiled(f"{source}    return {{'out': {text}}}\n", **names)


def each(table: str) -> list[str]:
    return [text.strip() for line in table.strip().splitlines() for text in line.split(" | ") if text.strip()]


@pytest.mark.parametrize("text", each(RECORDED))
def test_numbers_of_messages_are_recorded(text: str) -> None:
    function = reducer(text)
    assert_as_for_real(COPY, function)
    assert why_bucketed(function) is None


@pytest.mark.parametrize("text", each(BUCKETED))
def test_what_needs_one_number_is_run_for_each_degree(text: str) -> None:
    function = reducer(text)
    assert_as_for_real(COPY, function)
    assert why_bucketed(function) is not None


def test_a_division_by_zero_is_pythons() -> None:
    g = dglite.graph(([0, 1, 2], [1, 2, 2]))
    g.ndata["h"] = torch.ones(3, 3)
    with pytest.raises(ZeroDivisionError):
        g.update_all(COPY, reducer("s * (1 / (d - 1))"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_results_have_the_dtype_of_the_messages(dtype: torch.dtype) -> None:
    g = dglite.graph((torch.arange(700) % 5, torch.zeros(700, dtype=torch.int64)), num_nodes=5)
    g.ndata["h"] = values(5, 3).to(dtype)
    g.update_all(COPY, reducer("m.max(1)[0] * (1 / d) + d"))
    assert g.ndata["out"].dtype == dtype
    torch.testing.assert_close(g.ndata["out"][0], g.ndata["h"].max(0)[0] * (1 / 700) + 700)
    assert not g.ndata["out"][1:].any()


def test_gradients_reach_a_number_that_is_learned() -> None:
    function = reducer("s * learned * np.log(d + 1) + s * (learned / d)")
    learned = function.__globals__["learned"]
    g = dglite.graph(([0, 1, 2, 2], [1, 2, 2, 1]), num_nodes=4)
    g.ndata["h"] = values(4, 3)
    g.update_all(COPY, function)
    g.ndata["out"].sum().backward()
    sums = g.ndata["h"][[0, 2]].sum() + g.ndata["h"][[1, 2]].sum()
    torch.testing.assert_close(learned.grad, sums * (math.log(3) + 0.5))


def test_a_compiled_function_is_right_or_refused() -> None:
    """It depends on what torch took to be dynamic in this process before."""
    torch._dynamo.reset()
    g = dglite.graph(([0, 1, 2, 2], [1, 2, 2, 1]), num_nodes=4)
    function = reducer("s / d")

    def run(g: dglite.DGLGraph, x: torch.Tensor) -> torch.Tensor:
        with g.local_scope():
            g.ndata["h"] = x
            g.update_all(COPY, function)
            return g.ndata["out"]

    x = values(4, 3)
    try:
        result = torch.compile(run, backend="aot_eager")(g, x)
    except dglite.DGLError as error:
        assert "each in-degree" in str(error)
    else:
        torch.testing.assert_close(result, run(g, x))


class Model(torch.nn.Module):
    """A model whose reduce function reads the number of messages."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.function = reducer(text)

    def forward(self, g: dglite.DGLGraph, x: torch.Tensor) -> torch.Tensor:
        with g.local_scope():
            g.ndata["h"] = x
            g.update_all(COPY, self.function)
            return g.ndata["out"]


@pytest.mark.parametrize("text", [text for text in each(RECORDED) if text not in MAY_DIVIDE_BY_ZERO])
@exports
def test_numbers_of_messages_are_in_programs_for_any_graph(text: str) -> None:
    model = Model(text)
    if "learned" in text:
        model.function.__globals__["learned"].requires_grad_(False)
    g = dglite.graph(([0, 1, 2, 2], [1, 2, 2, 1]), num_nodes=4)
    programs = [dglite.export(model, g, values(4, 3), portable=portable).module() for portable in (False, True)]
    for other in (g, dglite.rand_graph(7, 30), dglite.graph(([0], [1]), num_nodes=2)):
        x = values(other.num_nodes(), 3)
        for program, graph in zip(programs, (other, dglite.to_tensors(other)), strict=True):
            torch.testing.assert_close(program(graph, x), model(other, x))


@pytest.mark.parametrize("text", [*MAY_DIVIDE_BY_ZERO, "s if d > 3 else s * 2", "s * math.log(d + 1)", "s ** d"])
@exports
def test_a_program_for_any_graph_says_why_not(text: str) -> None:
    torch._dynamo.reset()
    g = dglite.graph(([0, 1, 2, 2], [1, 2, 2, 1]), num_nodes=4)
    with pytest.raises(dglite.DGLError, match="each in-degree"):
        dglite.export(Model(text), g, values(4, 3))
