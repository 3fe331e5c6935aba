"""Element-wise work at zeros, tiny and huge numbers, infinities and NaN: values and gradients are as torch's."""

from __future__ import annotations

import math

import pytest
import torch

import dglite
from tests.recorder.common import assert_recorded, compiled
from tests.recorder.test_operations import spellings
from tests.versions import has_exact_elu

ONE = """
    -x | x.abs() | x.sign() | x + 0.5 | 0.5 - x | x * 3 | x * 0 | x / 3 | 3 / x | x.reciprocal() | x.exp() | x.expm1()
    x.log() | x.sqrt() | x.rsqrt() | x.square() | x ** 2 | x ** 3 | x ** 5 | x ** -1 | x ** -2 | x ** -3 | x ** 1.5
    x ** -1.5 | x ** 0.5
    x ** -0.5 | x.tanh() | x.sigmoid() | x.relu() | F.leaky_relu(x) | F.elu(x) | F.elu(x, alpha=0.5) | F.silu(x)
    F.softplus(x) | F.logsigmoid(x) | x.clamp(-0.5, 0.5) | x.clamp(min=0) | x.clamp(max=0) | x.clamp_min(1e-10)
    torch.where(x > 0, x, 0.5) | x.masked_fill(x < 0, 2.0) | (x >= 0) * x
"""
TWO = """
    x + y | x - y | x * y | x / y | torch.maximum(x, y) | torch.minimum(x, y) | torch.where(x > y, x, y)
    torch.where(x <= y, x, y) | torch.where(x == y, x, 0.0) | torch.where(x != y, x, y)
"""


def special(dtype: torch.dtype) -> torch.Tensor:
    about = torch.finfo(dtype)
    sizes = [0.0, about.tiny / 4, about.tiny, about.tiny**0.7, about.tiny**0.3, about.eps / 4, 0.1, 0.3, 0.5, 1.0, 1.7]
    sizes += [about.max**0.3, about.max**0.6, about.max, math.inf, math.nan]
    return torch.tensor([sign * size for size in sizes for sign in (1, -1)], dtype=dtype)


def run(text: str, columns: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the value and the gradients of a message that is recorded."""
    function = compiled(f"def f(edges):\n    x, y = edges.data['x'], edges.data['y']\n    return {{'m': {text}}}\n")
    count = len(columns[0])
    g = dglite.graph((torch.zeros(count, dtype=torch.int64),) * 2, num_nodes=1)
    leaves = [x.clone().requires_grad_() for x in columns]
    g.edata["x"], g.edata["y"] = leaves
    assert_recorded(function, g)
    g.apply_edges(function)
    return with_gradients(g.edata["m"], leaves)


def with_gradients(value: torch.Tensor, leaves: list[torch.Tensor]) -> list[torch.Tensor]:
    grads = torch.autograd.grad(value, leaves, torch.ones_like(value), allow_unused=True)
    return [value.detach(), *(torch.zeros_like(x) if d is None else d for x, d in zip(leaves, grads, strict=True))]


def check(text: str, columns: list[torch.Tensor]) -> None:
    leaves = [x.clone().requires_grad_() for x in columns]
    dtype, half = columns[0].dtype, columns[0].dtype is torch.float16
    x, y = (x.float() if half else x for x in leaves)  # as the kernels compute
    expected = eval(text, {"x": x, "y": y, "torch": torch, "F": torch.nn.functional})
    expected = with_gradients(expected.to(dtype), leaves)
    rtol = {torch.float16: 1e-3, torch.float32: 2e-5, torch.float64: 1e-12}[dtype]
    tolerance = {"rtol": rtol, "atol": 2 * torch.finfo(dtype).tiny * (1e-3 if half else 1)}
    for name, result, want in zip(
        ("value", "gradient of x", "gradient of y"), run(text, columns), expected, strict=True
    ):
        wrong = ~torch.isclose(result, want, equal_nan=True, **tolerance)
        cases = zip(*(c[wrong].tolist() for c in (*columns, result, want)), strict=True)
        assert not wrong.any(), f"{name} of {text}, as (x, y, found, wanted): {list(cases)[:12]}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("text", spellings(ONE))
def test_of_one_number(text: str, dtype: torch.dtype) -> None:
    x = special(dtype)
    if text.startswith("F.elu") and not has_exact_elu():
        x = x[(x == 0) | (x.abs() >= 0.1)]  # not NaN, whose gradient is 1 there in short columns
    check(text, [x] * 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("text", spellings(TWO))
def test_of_two_numbers(text: str, dtype: torch.dtype) -> None:
    x = special(dtype)
    check(text, [x.repeat(len(x)), x.repeat_interleave(len(x))])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("number", [0.1, -3.0, 1e5, 1e-9, 65503.0, 1 / 3])
@pytest.mark.parametrize("text", ["x * c", "c - x", "torch.where(x > c, x, c)"])
def test_numbers_beside_16_bit_columns_are_float32(text: str, number: float, dtype: torch.dtype) -> None:
    function = compiled(f"def f(edges):\n    x = edges.data['x']\n    return {{'m': {text}}}\n", c=number)
    g = dglite.graph((torch.zeros(40, dtype=torch.int64),) * 2, num_nodes=1)
    g.edata["x"] = x = torch.logspace(-4, 4, 40).to(dtype)
    assert_recorded(function, g)
    g.apply_edges(function)
    expected = eval(text, {"torch": torch, "x": x.float(), "c": number}).to(dtype)
    torch.testing.assert_close(g.edata["m"], expected, rtol=0, atol=0)
