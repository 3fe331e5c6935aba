"""How many batches recorded operations become, and what last_run tells."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from dglite import DGLError, dynamic


def chains(lengths: list[int], cell: nn.Linear, out: nn.Linear) -> list[Any]:
    """Return one loss at the end of each chain, as in Figure 2 of Neubig et al."""
    losses = []
    for length in lengths:
        state = dynamic.lazy(torch.zeros(4))
        for _ in range(length):
            state = torch.tanh(cell(state))
        losses.append(out(state).sum())
    return losses


def batches(strategy: str, losses: list[Any]) -> list[tuple[str, int]]:
    dynamic.run(losses, strategy=strategy)
    return [(name.split("[")[0], count) for name, count in dynamic.last_run().batches]


def test_losses_at_different_depths_are_one_batch_on_the_agenda() -> None:
    cell, out = nn.Linear(4, 4), nn.Linear(4, 3)
    order = batches("agenda", chains([3, 5, 2], cell, out))
    assert order == [
        *[step for alive in (3, 3, 2, 1, 1) for step in (("linear", alive), ("tanh", alive))],
        ("linear", 3),
        ("sum", 3),
    ]


def test_losses_at_different_depths_are_several_batches_by_depth() -> None:
    cell, out = nn.Linear(4, 4), nn.Linear(4, 3)
    order = batches("depth", chains([3, 5, 2], cell, out))
    assert [count for name, count in order if name == "sum"] == [1, 1, 1]
    assert len(order) == 10 + 6


def test_one_by_one_has_a_batch_for_each_operation() -> None:
    cell, out = nn.Linear(4, 4), nn.Linear(4, 3)
    order = batches("none", chains([3, 5, 2], cell, out))
    assert len(order) == 2 * 10 + 2 * 3
    assert all(count == 1 for _, count in order)


@pytest.mark.parametrize("strategy", ["agenda", "depth"])
def test_what_does_not_depend_on_the_recurrence_is_one_batch(strategy: str) -> None:
    into, step = nn.Linear(3, 4), nn.Linear(4, 4)
    words, losses = dynamic.lazy(torch.randn(9, 3)), []
    for first, last in ((0, 5), (5, 7), (7, 9)):
        state = dynamic.lazy(torch.zeros(4))
        for word in range(first, last):
            state = torch.tanh(into(words[word]) + step(state))
        losses.append(state)
    dynamic.run(losses, strategy=strategy)
    counts = [count for name, count in dynamic.last_run().batches if name.startswith("linear[3]")]
    assert counts == [9]


def test_products_with_different_weights_are_different_batches() -> None:
    layers = [nn.Linear(4, 4) for _ in range(2)]
    rows = dynamic.lazy(torch.randn(6, 4))
    dynamic.run([layers[i % 2](rows[i]) for i in range(6)])
    assert [count for _, count in dynamic.last_run().batches] == [3, 3]


def test_a_long_cycle_of_kinds_is_scheduled() -> None:
    state, layers = dynamic.lazy(torch.zeros(2)), [nn.Linear(2, 2) for _ in range(3)]
    for i in range(12):
        state = layers[i % 3](state) * 2
    dynamic.run(state)
    assert len(dynamic.last_run().batches) == 24


def test_the_report_and_the_picture() -> None:
    rows = dynamic.lazy(torch.randn(8, 4))
    layer = nn.Linear(4, 4)
    shuffled = [rows[i] for i in (3, 1, 7, 0)]
    dynamic.run([torch.tanh(layer(row)) for row in shuffled])
    report = dynamic.last_run()
    assert report.operations == 8
    assert report.batches == (("linear[4]->[4]", 4), ("tanh[4]", 4))
    assert report.bytes_gathered == 4 * 4 * 8
    assert report.strategy == "agenda"
    assert min(report.recording_seconds, report.scheduling_seconds, report.execution_seconds) > 0
    assert str(report).startswith("8 operations in 2 batches (agenda); 128 bytes gathered")
    lines = report.picture().splitlines()
    assert [line.split()[1] for line in lines] == ["linear[4]->[4]", "tanh[4]"]
    assert report.picture(most=1).count("\n") == 0
    assert "and 1 more" in report.picture(most=1)


def test_results_of_a_batch_are_used_in_place() -> None:
    rows = dynamic.lazy(torch.randn(8, 4))
    first, second = nn.Linear(4, 6), nn.Linear(6, 2)
    dynamic.run([second(torch.tanh(first(row))) for row in rows])
    assert dynamic.last_run().bytes_gathered == 8 * 4 * 8  # what was given is copied, what was computed is not


def test_an_unknown_strategy() -> None:
    with pytest.raises(DGLError, match="expected one of agenda, depth, none"):
        dynamic.run(torch.tanh(dynamic.lazy(torch.ones(2))), strategy="fast")


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_do_not_get_in_each_others_way(threads: int) -> None:
    width, samples = 2048, 24
    x, y = torch.randn(samples, width, requires_grad=True), torch.randn(width, requires_grad=True)

    def model(row: Any, shared: Any) -> Any:
        product = torch.tanh(row) * shared  # all samples add to one gradient
        overlapping = product[: width // 2] * product[width // 4 : 3 * width // 4]
        return (torch.cat([overlapping, row[: width // 2]]) + product).sum()

    expected = torch.stack([model(row, y) for row in x])
    grads = torch.autograd.grad(expected.sum(), [x, y])
    known = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        shared = dynamic.lazy(y)
        values = torch.stack(dynamic.run([model(row, shared) for row in dynamic.lazy(x)]))
        result = torch.autograd.grad(values.sum(), [x, y])
    finally:
        torch.set_num_threads(known)
    torch.testing.assert_close(values, expected)
    for a, b in zip(result, grads, strict=True):
        torch.testing.assert_close(a, b)
