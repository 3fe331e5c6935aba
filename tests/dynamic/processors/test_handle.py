"""What a handle promises beside the numbers: asynchrony, errors, and what it cannot do."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dglite import DGLError, dynamic
from dglite.dynamic.processors import host

SGD = torch.optim.SGD


def make(**options: Any) -> tuple[nn.Linear, Any]:
    """Return a small model and its handle."""
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    return model, dynamic.persistent(model.parameters(), SGD(model.parameters(), lr=0.1, **options))


def loss_of(model: nn.Module, label: int = 0) -> Any:
    return F.cross_entropy(model(dynamic.lazy(torch.ones(4))), dynamic.lazy(label))


def weights(model: nn.Module) -> list[torch.Tensor]:
    return [x.detach().clone() for x in model.parameters()]


def test_a_step_returns_the_loss_of_the_step_before() -> None:
    model, handle = make()
    assert handle.sync() is None
    first = dynamic.run(loss_of(model)).item()
    assert handle.step(loss_of(model)) is None
    assert handle.step(loss_of(model)) == pytest.approx(first)
    last = handle.sync()
    assert last < first
    assert handle.sync() == last


def test_a_parameter_that_is_changed_after_sync_counts() -> None:
    model, handle = make()
    handle.step(loss_of(model))
    handle.sync()
    with torch.no_grad():
        model.weight.fill_(1.0)
        model.bias.zero_()
    handle.step(loss_of(model))
    assert handle.sync() == pytest.approx(math.log(3))


def test_two_handles_take_turns() -> None:
    one, first = make()
    other, second = make()
    for label in (0, 1, 2):
        first.step(loss_of(one, label))
        second.step(loss_of(other, label))
    assert first.sync() == second.sync()
    for x, y in zip(weights(one), weights(other), strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=0)


def test_values_of_lazy_tensors_wait_for_the_step() -> None:
    model, handle = make()
    handle.step(loss_of(model))
    value = dynamic.run(loss_of(model)).item()
    handle.sync()
    assert value == dynamic.run(loss_of(model)).item()


def test_steps_are_seen_by_torch_as_changes_in_place() -> None:
    model, handle = make()
    saved = (model.weight * model.weight).sum()
    handle.step(loss_of(model))
    handle.sync()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.backward()


def test_nan_parameters_give_nan() -> None:
    model, handle = make()
    with torch.no_grad():
        model.weight[0, 0] = math.nan
    handle.step(loss_of(model))
    assert math.isnan(handle.sync())
    assert all(x.isnan().all() for x in weights(model))


@pytest.mark.parametrize("label", [3, -1])
@pytest.mark.parametrize("optimizer", [SGD, torch.optim.Adam])
def test_an_error_of_a_step_is_raised_by_the_next_call(label: int, optimizer: Callable[..., Any]) -> None:
    model = nn.Sequential(nn.Linear(4, 3))
    handle = dynamic.persistent(model.parameters(), optimizer(model.parameters(), lr=0.1))
    handle.step(loss_of(model))
    handle.sync()
    before = weights(model)
    handle.step(loss_of(model, label))
    with pytest.raises(IndexError, match=f"label {label} "):
        handle.step(loss_of(model))
    for x, y in zip(weights(model), before, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=0)
    handle.step(loss_of(model, label))
    with pytest.raises(IndexError, match=f"label {label} "):
        handle.sync()
    counts = [int(state["step"]) for state in handle._optimizer.state.values() if "step" in state]
    assert set(counts) <= {1}
    handle.step(loss_of(model))
    assert math.isfinite(handle.sync())


def test_the_label_that_torch_ignores() -> None:
    model, handle = make()
    before = weights(model)
    handle.step(loss_of(model, -100))
    assert handle.sync() == 0
    for x, y in zip(weights(model), before, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=0)


def test_what_has_no_instruction_runs_slowly_and_says_so() -> None:
    def losses(model: nn.Module) -> list[Any]:
        hidden = torch.special.erf(model(dynamic.lazy(torch.ones(4))))
        return [F.cross_entropy(hidden, dynamic.lazy(1)), hidden.sum()]

    ours, handle = make(momentum=0.9)
    with pytest.warns(UserWarning, match="no instruction for special_erf"):
        handle.step(losses(ours))
    handle.step(loss_of(ours))
    handle.step(losses(ours))
    handle.sync()
    expected, _ = make()
    optimizer = SGD(expected.parameters(), lr=0.1, momentum=0.9)
    for choose in (losses, loss_of, losses):
        optimizer.zero_grad()
        dynamic.backward(choose(expected))
        optimizer.step()
    for x, y in zip(weights(ours), weights(expected), strict=True):
        torch.testing.assert_close(x, y)
    assert all(x.grad is None for x in ours.parameters())


def test_parameters_of_others_stay_as_they_are() -> None:
    model, handle = make()
    other = nn.Linear(3, 3)
    before = weights(other)
    handle.step(F.cross_entropy(other(model(dynamic.lazy(torch.ones(4)))), dynamic.lazy(0)))
    handle.sync()
    for x, y in zip(weights(other), before, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=0)
    with pytest.raises(DGLError, match="depend on no parameter"):
        handle.step(other(dynamic.lazy(torch.ones(3))).sum())


def test_frozen_parameters_stay_as_they_are() -> None:
    model, handle = make()
    model.bias.requires_grad_(False)
    bias = model.bias.detach().clone()
    handle.step(loss_of(model))
    handle.sync()
    torch.testing.assert_close(model.bias, bias, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("losses", "message"),
    [
        (lambda model: [], "empty list"),
        (lambda model: [torch.ones(())], "got Tensor"),
        (lambda model: model(dynamic.lazy(torch.ones(4))), "one floating-point number"),
        (lambda model: dynamic.lazy(torch.ones(4)).sum(), "depend on no parameter"),
        (lambda model: dynamic.lazy(model.weight * 2.0).sum(), "computed by torch"),
        (lambda model: F.linear(dynamic.lazy(torch.ones(4)), model.weight * 2.0).sum(), "computed by torch"),
    ],
)
def test_losses_that_are_none(losses: Callable[[Any], Any], message: str) -> None:
    model, handle = make()
    before = weights(model)
    with pytest.raises(DGLError, match=message):
        handle.step(losses(model))
    assert handle.sync() is None
    handle.step([loss_of(model)])
    handle.sync()
    assert not torch.equal(weights(model)[0], before[0])


@pytest.mark.parametrize(
    ("parameters", "optimizer", "message"),
    [
        ([], SGD, "no parameters"),
        ([torch.ones(2, 3, requires_grad=True)], torch.optim.RMSprop, "RMSprop"),
        ([torch.ones(2, requires_grad=True)], lambda p: torch.optim.Adam(p, amsgrad=True), "amsgrad"),
        ([torch.ones(3, 2).t().requires_grad_()], SGD, "not contiguous"),
        ([torch.ones(3, dtype=torch.float16, requires_grad=True)], SGD, "float16"),
        ([torch.ones(3, requires_grad=True)], lambda p: SGD([*p, torch.ones(2, requires_grad=True)]), "same list"),
    ],
)
def test_handles_that_cannot_be(parameters: list[torch.Tensor], optimizer: Callable[..., Any], message: str) -> None:
    optimizer = optimizer(parameters or [torch.ones(1, requires_grad=True)])
    with pytest.raises(DGLError, match=message):
        dynamic.persistent(parameters, optimizer)


def test_a_handle_without_processors() -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(DGLError, match="processors=0"):
        dynamic.persistent(model.parameters(), SGD(model.parameters()), processors=0)


def test_the_number_of_processors_changes_no_bit() -> None:
    runs = []
    for processors in (None, 1, 2, 3):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(40, 70), nn.Tanh(), nn.Linear(70, 5))
        handle = dynamic.persistent(model.parameters(), SGD(model.parameters(), lr=0.1), processors)
        for label in range(5):
            handle.step(
                [F.cross_entropy(model(dynamic.lazy(torch.ones(3, 40))), dynamic.lazy(torch.tensor([label] * 3)))]
            )
        runs.append([handle.sync(), *weights(model)])
    for other in runs[1:]:
        assert other[0] == runs[0][0]
        assert all(torch.equal(x, y) for x, y in zip(other[1:], runs[0][1:], strict=True))


@pytest.mark.parametrize(("cores", "threads", "fewer"), [(4, 4, 3), (8, 4, 4), (1, 1, 1), (1, 2, 1)])
def test_processors_leave_a_core_to_python_where_it_has_none(
    cores: int, threads: int, fewer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "num_cores", lambda: cores)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    count = host.ProcessorCount(None)
    assert int(count) == threads
    count.note(2 * host.WINDOW, 2 * host.WINDOW)
    assert int(count) == fewer


def test_processors_take_all_cores_while_python_computes_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "num_cores", lambda: 2)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    counts = {count: host.ProcessorCount(count) for count in (None, 1, 2)}
    assert [int(count) for count in counts.values()] == [2, 1, 2]
    for share, expected in [(0.5, 1), (0.3, 2), (0.4, 2), (0.5, 1), (0.4, 1), (0.0, 2)]:
        for count in counts.values():
            before = int(count)
            count.note(host.WINDOW / 2, share * host.WINDOW / 2)
            assert int(count) == before
            count.note(host.WINDOW, share * host.WINDOW)
        assert [int(count) for count in counts.values()] == [expected, 1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_has_processors_of_its_own() -> None:
    model, handle = make()
    handle.step(loss_of(model))
    child = os.fork()
    if child == 0:
        handle.step(loss_of(model))
        os._exit(0 if handle.sync() is not None else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert handle.sync() is not None
