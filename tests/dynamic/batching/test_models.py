"""Lazily batched models give the values and gradients of the same code on plain tensors."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from dglite import dynamic
from tests.dynamic.batching.models import Parser, Tagger, TreeLSTM, gradients_of, plain, random_tree

STRATEGIES = ("agenda", "depth", "none")
WRAPS = {"operations": lambda function: function, "cells": dynamic.cell}
SENTENCES = [([1, 2, 3, 4, 5], [0, 1, 2, 0, 1]), ([7], [2]), ([3, 3, 1], [1, 1, 0])]


def tree_losses(make: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    generator = random.Random(3)
    trees = [random_tree(generator, leaves) for leaves in (1, 2, 7, 4, 9)]

    def losses(model: Any) -> list[Any]:
        terms: list[Any] = []
        for tree in trees:
            model(tree, make, terms)
        return terms

    return losses


def tagger_losses(make: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    return lambda model: [loss for words, tags in SENTENCES for loss in model(words, tags, make)]


MODELS = {"tree": (TreeLSTM, tree_losses), "tagger": (Tagger, tagger_losses)}


def compare(result: dict[str, torch.Tensor | None], expected: dict[str, torch.Tensor | None]) -> None:
    for name, grad in expected.items():
        assert grad is not None
        assert result[name] is not None, name
        torch.testing.assert_close(result[name], grad, rtol=1e-9, atol=1e-12, msg=name)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("name", MODELS)
def test_values_and_gradients_are_those_of_plain_torch(name: str, wrap: str, strategy: str) -> None:
    kind, losses_of = MODELS[name]
    model: nn.Module = kind(WRAPS[wrap])
    plain_model = kind()
    plain_model.load_state_dict(model.state_dict())
    expected = torch.stack(losses_of(plain)(plain_model))
    expected.sum().backward()
    grads = gradients_of(plain_model)

    values = torch.stack(dynamic.run(losses_of(dynamic.lazy)(model), strategy=strategy))
    torch.testing.assert_close(values, expected)
    values.sum().backward()
    compare(gradients_of(model), grads)

    total = dynamic.backward(losses_of(dynamic.lazy)(model), strategy=strategy)
    torch.testing.assert_close(total, expected.sum())
    compare(gradients_of(model), grads)


def test_losses_may_be_weighted_after_the_run() -> None:
    model = TreeLSTM()
    expected = torch.stack(tree_losses(plain)(model))
    weights = torch.randn(len(expected))
    (weights * expected).sum().backward()
    grads = gradients_of(model)
    (weights * torch.stack(dynamic.run(tree_losses(dynamic.lazy)(model)))).sum().backward()
    compare(gradients_of(model), grads)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_recording_goes_on_after_values_were_looked_at(strategy: str) -> None:
    model = Parser()
    sentences = [[1, 2, 3, 4, 5, 6], [2, 2, 8], [7]]
    pairs = [model(words, plain, lambda x: x) for words in sentences]
    torch.stack([total for total, _ in pairs]).sum().backward()
    grads = gradients_of(model)
    lazies = [model(words, dynamic.lazy, lambda x: x.value(strategy)) for words in sentences]
    assert [actions for _, actions in lazies] == [actions for _, actions in pairs]
    assert any("r" in actions for _, actions in pairs)
    total = dynamic.backward([total for total, _ in lazies], strategy=strategy)
    torch.testing.assert_close(total, torch.stack([total for total, _ in pairs]).sum())
    compare(gradients_of(model), grads)


def test_what_was_computed_is_not_computed_again() -> None:
    x = dynamic.lazy(torch.ones(3))
    y = torch.tanh(x)
    y.value()
    assert dynamic.last_run().operations == 1
    z = torch.sigmoid(y)
    z.value()
    assert dynamic.last_run().operations == 1
    z.value()
    assert dynamic.last_run().operations == 0


def test_only_what_is_needed_is_computed() -> None:
    x = dynamic.lazy(torch.ones(3))
    value, _ = torch.tanh(x), torch.exp(x)
    dynamic.run(value)
    assert dynamic.last_run().operations == 1


def test_gradients_reach_tensors_that_have_a_history() -> None:
    table = torch.randn(5, 3, requires_grad=True)
    rows = torch.tanh(table)
    (rows[1] * rows[4]).sum().backward()
    expected, table.grad = table.grad, None
    lazy = dynamic.lazy(torch.tanh(table))
    dynamic.backward((lazy[1] * lazy[4]).sum())
    torch.testing.assert_close(table.grad, expected)


def test_a_chain_of_ten_thousand_operations() -> None:
    x = torch.full((2,), 0.1, requires_grad=True)
    y = dynamic.lazy(x)
    for _ in range(10_000):
        y = y + x
    dynamic.backward(y.sum())
    torch.testing.assert_close(x.grad, torch.full((2,), 10_001.0))


def test_nan_goes_through() -> None:
    weight = torch.full((2, 2), float("nan"), requires_grad=True)
    y = dynamic.run(torch.relu(dynamic.lazy(torch.ones(2)) @ weight))
    assert y.isnan().all()
    y.sum().backward()
    assert weight.grad is not None


def test_parameters_of_float32_and_two_threads() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        layer, x = nn.Linear(96, 520, dtype=torch.float32), torch.randn(300, 96, dtype=torch.float32)
        rows = dynamic.lazy(x)
        outputs = [torch.tanh(layer(row)) * torch.sigmoid(layer(row)) for row in rows]
        dynamic.backward([y.sum() for y in outputs])
        result = gradients_of(layer)
        (torch.tanh(layer(x)) * torch.sigmoid(layer(x))).sum().backward()
        for name, grad in gradients_of(layer).items():
            torch.testing.assert_close(result[name], grad, rtol=1e-4, atol=1e-3)
    finally:
        torch.set_num_threads(threads)
