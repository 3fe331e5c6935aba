"""Every operator and every formula against torch: values, gradients, and each way of running them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import dglite
from dglite import dynamic
from dglite.backend import active
from dglite.backend.rules import RULES
from dglite.expr import Call, Constant, Expr, Operand, Side, derivative, evaluate
from dglite.formulas import ALIASES, FORMULAS
from dglite.opspec import COMPARISONS, MESSAGES, OPERATORS
from tests.recorder.common import assert_recorded, compiled
from tests.reference import FUNCTIONS

POSITIVE = ("log", "log2", "log10", "sqrt", "rsqrt", "power")
FLOATS = [name for name in FORMULAS if name not in COMPARISONS]
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "add": [{"alpha": 3}],
    "sub": [{"alpha": -2}],
    "rsub": [{"alpha": 0.5}],
    "addcmul": [{"value": 0.3}],
    "hardtanh": [{"min_val": -0.2, "max_val": 0.7}],
    "leaky_relu": [{"negative_slope": 0.2}],
    "elu": [{"alpha": 0.4}],
    "celu": [{"alpha": 2.0}],
    "softplus": [{"beta": 2.0}, {"beta": 3.0, "threshold": 0.5}],
    "gelu": [{"approximate": "tanh"}],
    "clamp": [{"min": -0.3}, {"max": 0.4}, {"min": -0.3, "max": 0.4}],
}
CASES = [(name, options) for name in FLOATS for options in (*([{}] if name != "clamp" else []), *OPTIONS.get(name, []))]


def torchs(name: str) -> Any:
    function = getattr(torch, name, None) or getattr(F, name, None)
    assert function is not None, f"torch has no {name}"
    return function


def numbers(name: str, count: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(len(name))
    results = [2 * torch.randn(40, dtype=torch.float64, generator=generator) for _ in range(count)]
    return [(x.abs() + 0.1 if name in POSITIVE else x).requires_grad_() for x in results]


@pytest.fixture(autouse=True, scope="module")
def in_float64() -> Iterator[None]:
    """Let torch make float64 of Python's numbers, as of those in ``torch.where``."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def checked_formula(name: str, expr: Expr, xs: list[torch.Tensor], function: Any) -> None:
    """Assert that an expression and its derivatives are those of a torch function."""
    want = function(*xs)
    result = evaluate(expr, xs, active.functions)
    torch.testing.assert_close(result, want, rtol=1e-9, atol=1e-11)
    if want.dtype is torch.bool:
        return
    gradients = torch.autograd.grad(want, xs, torch.ones_like(want), allow_unused=True)
    for slot, gradient in enumerate(gradients):
        actual = evaluate(derivative(expr, Operand(Side.E, slot)), xs, active.functions)
        expected = torch.zeros_like(want) if gradient is None else gradient
        torch.testing.assert_close(torch.as_tensor(actual, dtype=want.dtype).expand(40), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", list(OPERATORS))
def test_operators(name: str) -> None:
    entry = OPERATORS[name]
    xs = numbers(name, entry.arity)
    operands = [Operand(Side.E, slot) for slot in range(entry.arity)]
    assert len(entry.gradient) == entry.arity
    if name == "where":
        xs, operands = xs[1:], [operands[0].call("gt", 0.0), *operands[:2]]
        checked_formula(name, operands[0].call(name, *operands[1:]), xs, lambda x, y: torch.where(x > 0, x, y))
        return
    expr = operands[0].call(name, *operands[1:])
    checked_formula(name, expr, xs, torchs({"power": "pow"}.get(name, name)))
    arrays = [x.detach().numpy() for x in xs]
    assert entry.numpy is None or np.allclose(
        evaluate(expr, arrays, FUNCTIONS), torchs(entry.torch.split(".")[-1])(*xs).detach()
    )


@pytest.mark.parametrize("name", [name for name in OPERATORS if name not in (*COMPARISONS, "sign", "where")])
def test_derivatives_agree_with_finite_differences(name: str) -> None:
    entry, h = OPERATORS[name], 1e-6
    arrays = [x.detach().numpy() for x in numbers(name, entry.arity)]
    expr = Operand(Side.E, 0).call(name, *(Operand(Side.E, slot) for slot in range(1, entry.arity)))
    for slot in range(entry.arity):
        ends = []
        for step in (h, -h):
            moved = [x + step if place == slot else x for place, x in enumerate(arrays)]
            ends.append(evaluate(expr, moved, FUNCTIONS))
        slope = evaluate(derivative(expr, Operand(Side.E, slot)), arrays, FUNCTIONS)
        np.testing.assert_allclose(np.broadcast_to(slope, 40), (ends[0] - ends[1]) / (2 * h), rtol=1e-5, atol=1e-7)


def called(name: str, options: dict[str, Any], xs: list[Any]) -> Any:
    return torchs(name)(*xs, **options)


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_formulas(name: str, options: dict[str, Any]) -> None:
    formula = FORMULAS[name]
    assert name not in ALIASES
    xs = numbers(name, formula.required)
    operands, given = formula.arguments(*xs, **options)
    bounds = [torch.tensor(x, dtype=torch.float64) for x in list(operands.values())[len(xs) :]]
    expr = formula.bind(tuple(operands), tuple(given.items()))
    assert expr is not None
    if bounds:  # of clamp
        expr = with_numbers(expr, len(xs), bounds)
    checked_formula(name, expr, xs, lambda *xs: called(name, options, list(xs)))


def with_numbers(expr: Expr, first: int, values: list[torch.Tensor]) -> Expr:
    if isinstance(expr, Operand):
        return Constant(float(values[expr.slot - first])) if expr.slot >= first else expr
    if isinstance(expr, Call):
        return Call(expr.op, tuple(with_numbers(arg, first, values) for arg in expr.args))
    return expr


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_in_recorded_functions(name: str, options: dict[str, Any]) -> None:
    xs = [x.detach().float().requires_grad_() for x in numbers(name, FORMULAS[name].required)]
    g = dglite.graph((torch.arange(40), torch.arange(40) % 7))
    for slot, x in enumerate(xs):
        g.edata[f"x{slot}"] = x

    owner = "torch" if hasattr(torch, name) else "F"
    columns = ", ".join(f"edges.data['x{slot}']" for slot in range(len(xs)))
    given = "".join(f", {key}={value!r}" for key, value in options.items())
    message = compiled(f"def f(edges):\n    return {{'m': {owner}.{name}({columns}{given})}}\n")
    assert_recorded(message, g)
    g.apply_edges(message)
    compare(g.edata["m"], called(name, options, xs), xs)


def compare(result: torch.Tensor, want: torch.Tensor, xs: list[torch.Tensor]) -> None:
    torch.testing.assert_close(result, want, rtol=2e-5, atol=2e-6)
    ones = torch.ones_like(want)
    grads = torch.autograd.grad(result, xs, ones, allow_unused=True)
    for a, b in zip(grads, torch.autograd.grad(want, xs, ones, allow_unused=True), strict=True):
        torch.testing.assert_close(
            torch.zeros(40) if a is None else a, torch.zeros(40) if b is None else b, rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("name", [name for name in FLOATS if FORMULAS[name].operands == ("input",)])
def test_on_lazy_tensors(name: str) -> None:
    (x,) = (x.detach().float().requires_grad_() for x in numbers(name, 1))
    results = [torchs(name)(dynamic.lazy(row)) for row in x.split(20)]
    for value, row in zip([result.value() for result in results], x.split(20), strict=True):
        torch.testing.assert_close(value, torchs(name)(row), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", [name for name in FLOATS if not name.startswith("clamp")])
def test_on_arrays(name: str) -> None:
    xs = numbers(name, FORMULAS[name].required)
    want = torchs(name)(*xs)
    arrays = [x.detach().numpy() for x in xs]
    out = RULES[name].value(*arrays)
    np.testing.assert_allclose(out, want.detach().numpy(), rtol=1e-9, atol=1e-11)
    expected = torch.autograd.grad(want, xs, torch.ones_like(want), allow_unused=True)
    for slot, gradient in enumerate(expected):
        rule = RULES[name]
        g = np.ones_like(out)
        grads = rule.each(slot, g, out, *arrays) if rule.each else rule.gradients[slot](g, out, *arrays)  # type: ignore[misc]
        np.testing.assert_allclose(grads, 0 if gradient is None else gradient.numpy(), rtol=1e-9, atol=1e-9)


def test_options_without_a_formula_are_executed_as_written() -> None:
    x = torch.tensor([-1.0, float("nan"), -torch.inf])
    g = dglite.graph((torch.arange(3), torch.arange(3)))
    g.edata["x"] = x
    g.apply_edges(lambda edges: {"m": F.leaky_relu(edges.data["x"], 0.0)})
    torch.testing.assert_close(g.edata["m"], F.leaky_relu(x, 0.0), equal_nan=True)


def test_messages_are_operators() -> None:
    assert set(MESSAGES.values()) <= OPERATORS.keys()
    for name in MESSAGES:
        assert callable(getattr(dglite.function, f"u_{name}_v")) and callable(getattr(dglite.ops, f"u_{name}_v"))
