"""Random expression graphs: every strategy gives what plain torch gives, values and gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import hypothesis.strategies as st
import torch
from hypothesis import given, settings

from dglite import dynamic

W, V = torch.linspace(-1, 1, 16, dtype=torch.float64).reshape(4, 4), torch.linspace(1, -1, 16, dtype=torch.float64)
OPERATIONS: Sequence[Callable[..., Any]] = (
    lambda x, y, w, v: torch.tanh(x),
    lambda x, y, w, v: x * y,
    lambda x, y, w, v: x - 0.5 * y,
    lambda x, y, w, v: x @ w,
    lambda x, y, w, v: torch.sigmoid(y @ v),
    lambda x, y, w, v: torch.cat([x[2:], y[:2]]),
    lambda x, y, w, v: torch.cat([part * x[1] for part in y.chunk(2)]),
    lambda x, y, w, v: torch.softmax(x, 0),
    lambda x, y, w, v: torch.relu(x) + v[1],
    lambda x, y, w, v: torch.stack([x, y]).sum(0),
)


def program(inputs: Any, steps: Sequence[tuple[int, int, int]], w: Any, v: Any) -> list[Any]:
    """Return all values of a random program: each step applies an operation to two values before it."""
    values = list(inputs)
    for operation, first, second in steps:
        values.append(OPERATIONS[operation](values[first % len(values)], values[second % len(values)], w, v))
    return values[len(inputs) :]


STEPS = st.lists(st.tuples(st.integers(0, len(OPERATIONS) - 1), st.integers(0, 99), st.integers(0, 99)), min_size=1)


@settings(max_examples=40, deadline=None)
@given(
    steps=STEPS,
    picks=st.lists(st.integers(0, 99), min_size=1, max_size=4),
    strategy=st.sampled_from(["agenda", "depth", "none"]),
    looks=st.sets(st.integers(0, 99), max_size=2),
)
def test_random_programs(steps: Any, picks: list[int], strategy: str, looks: set[int]) -> None:
    x = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
    w, v = W.clone().requires_grad_(), V.reshape(4, 4).clone().requires_grad_()
    expected = program(x, steps, w, v)
    chosen = [pick % len(expected) for pick in picks]
    total = sum(((k + 1) * expected[i]).sum() for k, i in enumerate(chosen))
    grads = torch.autograd.grad(total, [x, w, v], allow_unused=True)
    lazies = program(dynamic.lazy(x), steps, w, v)
    for look in looks:
        i = look % len(lazies)
        torch.testing.assert_close(lazies[i].value(strategy), expected[i].detach())
    values = dynamic.run([lazies[i] for i in chosen], strategy=strategy)
    for i, value in zip(chosen, values, strict=True):
        torch.testing.assert_close(value, expected[i])
    result = torch.autograd.grad(
        sum(((k + 1) * value).sum() for k, value in enumerate(values)), [x, w, v], allow_unused=True
    )
    for a, b in zip(result, grads, strict=True):
        assert a is not None or b is None
        if a is not None:
            torch.testing.assert_close(a, torch.zeros_like(a) if b is None else b)
