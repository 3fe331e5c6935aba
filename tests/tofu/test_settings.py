"""Settings that change between steps take effect, or are errors in every process."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from dglite import DGLError, DGLWarning, tofu
from dglite.tofu.settings import CallSettings
from tests.tofu.test_loop import batch, net
from tests.tofu.workers import Workers

pytestmark = pytest.mark.filterwarnings("ignore:a new plan")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    workers = Workers(2, tmp_path_factory.mktemp("settings"))
    yield workers
    workers.stop()


def weighted(scale: list[float], weights: torch.Tensor) -> Callable[..., torch.Tensor]:
    return lambda out, y: functional.cross_entropy(out, y, weight=weights.double()) * scale[0]


def work() -> tuple[nn.Module, torch.optim.Optimizer, list[float], torch.Tensor]:
    module = net()
    return module, torch.optim.SGD(module.parameters(), 0.1, momentum=0.5), [1.0], torch.ones(4)


def losses(run: Callable[..., Any], change: str | None) -> list[float]:
    """Return the losses of three steps, with a change after the first."""
    module, optimizer, scale, weights = work()
    step = run(module, weighted(scale, weights), optimizer)
    x, y = batch()
    out = [step(x, y).item()]
    if change == "forward hook":
        module[2].register_forward_hook(lambda child, inputs, out: out * 0.5)
    if change == "pre-hook":
        module[2].register_forward_pre_hook(lambda child, inputs: (inputs[0] * 0.5,))
    if change == "backward hook":
        module[2].register_full_backward_hook(lambda child, result, of: tuple(g * 0.5 for g in result))
    if change == "attribute":
        module[1].eps = 0.5
    if change == "momentum of statistics":
        module[1].momentum = 0.9
    if change == "replaced module":
        module[2] = nn.Sigmoid()
    if change == "appended module":
        module.append(nn.Tanh())
    if change == "closure":
        scale[0] = 0.25
    if change == "tensor of the loss":
        weights[1] = 3.0
    out += [step(x, y).item() for _ in range(2)]
    if change == "momentum of statistics":  # read in evaluation only
        module.eval()
        logits = step.forward(x) if hasattr(step, "forward") else module(x).detach()
        out.append(logits.sum().item())
    return out


def ordinary(module: nn.Module, loss: Any, optimizer: torch.optim.Optimizer) -> Callable[..., torch.Tensor]:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        value = loss(module(x), y)
        value.backward()
        optimizer.step()
        return value

    return step


CHANGES = [
    *("forward hook", "pre-hook", "backward hook", "attribute", "momentum of statistics", "replaced module"),
    *("appended module", "closure", "tensor of the loss"),
]


def changed(rank: int) -> dict[str, list[float]]:
    return {change: losses(tofu.parallelize, change) for change in CHANGES}


def test_changed_settings_take_effect(two: Workers) -> None:
    expected = {change: losses(ordinary, change) for change in CHANGES}
    unchanged = losses(ordinary, None)
    for result in two.run(changed):
        for change in CHANGES:
            assert result[change] == pytest.approx(expected[change], rel=1e-9), change
            assert expected[change] != pytest.approx(unchanged, rel=1e-9), change


def errors_of_steps(rank: int) -> dict[str, str]:
    """Return the errors of steps that cannot be run, after the first."""

    def new_parameter(module: nn.Module, optimizer: Any, step: Any) -> None:
        module[0].weight = nn.Parameter(torch.zeros(8, 6).double())

    def assigned(module: nn.Module, optimizer: Any, step: Any) -> None:
        module.load_state_dict(net().state_dict(), assign=True)

    def foreign(module: nn.Module, optimizer: Any, step: Any) -> None:
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})

    def hook_of_one_rank(module: nn.Module, optimizer: Any, step: Any) -> None:
        if rank:
            module[0].register_forward_hook(lambda child, inputs, out: out * 2)

    def rank_values(module: nn.Module, optimizer: Any, step: Any) -> None:
        with torch.no_grad():
            module[0].weight.copy_(torch.full((8, 6), float(rank)))

    def rank_state(module: nn.Module, optimizer: Any, step: Any) -> None:
        state = step.state_dict(full=True)
        step.load_state_dict({name: value + rank for name, value in state.items()})

    def rank_norm(module: nn.Module, optimizer: Any, step: Any) -> None:
        step.backward(*batch())
        step.clip_grad_norm_(1.0 + rank)

    def other_call(module: nn.Module, optimizer: Any, step: Any) -> None:
        (step.backward if rank else step)(*batch())

    def without_gradients(module: nn.Module, optimizer: Any, step: Any) -> None:
        with torch.no_grad():
            step(*batch())

    def input_gradient(module: nn.Module, optimizer: Any, step: Any) -> None:
        x, y = batch()
        step(x.requires_grad_(), y)

    def array(module: nn.Module, optimizer: Any, step: Any) -> None:
        x, y = batch()
        step(x.numpy(), y)

    def record(module: nn.Module, optimizer: Any, step: Any) -> None:
        step(SimpleNamespace(x=batch()[0]), batch()[1])

    def new_loss(module: nn.Module, optimizer: Any, step: Any) -> None:
        step.loss = functional.mse_loss

    results = {}
    for act in (
        *(new_parameter, assigned, foreign, hook_of_one_rank, rank_values, rank_state, rank_norm, other_call),
        *(without_gradients, input_gradient, array, record, new_loss),
    ):
        module, optimizer, scale, weights = work()
        step = tofu.parallelize(module, weighted(scale, weights), optimizer)
        step(*batch())
        with pytest.raises((DGLError, AttributeError)) as caught:
            act(module, optimizer, step)
            step(*batch())
        results[act.__name__] = str(caught.value)
    return results


def test_what_cannot_take_effect_is_an_error_in_every_process(two: Workers) -> None:
    words = {
        "new_parameter": "0.weight of the module",
        "assigned": "assign=True",
        "foreign": "not those of the module",
        "hook_of_one_rank": "changes of their modules",
        "rank_values": "new values of 0.weight",
        "rank_state": "new values of the state",
        "rank_norm": "max_norm",
        "other_call": "calls (step",
        "without_gradients": "no_grad",
        "input_gradient": "requires a gradient",
        "array": "numpy.ndarray",
        "record": "SimpleNamespace",
        "new_loss": "setter",
    }
    for errors in two.run(errors_of_steps):
        assert errors.keys() == words.keys()
        for name, word in words.items():
            assert word in errors[name], (name, errors[name])


class Writes(nn.Module):
    """Writes what a partitioned step cannot write."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layer, self.kind, self.count, self.total = nn.Linear(6, 4).double(), kind, 0, torch.zeros(())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind == "count":
            self.count += 1
        if self.kind == "random":
            return self.layer(x) * random.random()
        if self.kind == "numpy":
            return self.layer(x) * float(np.random.rand())
        if self.kind == "input":
            x *= 2
        if self.kind == "tensor":
            self.total += 1
        if self.kind == "kept":
            self.last = x * 2
        return self.layer(x)


def writes(rank: int) -> dict[str, str]:
    random.seed(0)
    np.random.seed(0)
    results = {}
    for kind in ("count", "random", "numpy", "kept", "input", "tensor"):
        module = Writes(kind)
        with torch.no_grad():
            module.layer.weight.fill_(0.1)
            module.layer.bias.zero_()
        step = tofu.parallelize(module, functional.cross_entropy, torch.optim.SGD(module.parameters(), 0.1))
        if kind in ("input", "tensor"):
            with pytest.raises(DGLError) as caught:
                step(*batch())
            results[kind] = str(caught.value)
        else:
            with pytest.warns(DGLWarning) as warned:
                step(*batch())
                step(*batch())
            assert len(step._compiled) == 1
            (results[kind],) = (str(w.message) for w in warned)
    return results


def test_what_a_forward_pass_writes_is_told(two: Workers) -> None:
    words = {
        "count": "Writes.count",
        "random": "draws from random",
        "numpy": "numpy.random",
        "kept": "Writes.last",
        "input": "in place into the input tensors [0]",
        "tensor": "register_buffer",
    }
    for actual in two.run(writes):
        for kind, word in words.items():
            assert word in actual[kind], actual[kind]


def thaw(rank: int) -> tuple[set[str], list[float], list[float]]:
    """Thaw a layer after the first step, save, load into a fresh step, train both on."""
    results = []
    x, y = batch()
    state: Any = None
    for _ in range(2):
        module = net()
        module[0].requires_grad_(False)
        step = tofu.parallelize(module, functional.cross_entropy, torch.optim.Adam(module.parameters(), 0.01))
        step.prepare(x, y)
        module[0].requires_grad_(True)
        if state is None:
            step(x, y)
            state = step.state_dict(full=True)
        else:
            step.load_state_dict(state)
        results.append([step(x, y).item() for _ in range(3)])
    return set(state), *results


def test_state_of_parameters_that_were_frozen_at_first_is_saved(two: Workers) -> None:
    for names, expected, resumed in two.run(thaw):
        assert {"0.weight.exp_avg", "0.weight.exp_avg_sq", "0.weight.step"} <= names
        assert resumed == pytest.approx(expected, rel=1e-12)


def test_settings_are_numbered() -> None:
    module, scale = net(), [1.0]
    settings = CallSettings(module, weighted(scale, torch.ones(4)))
    first = settings.number()
    assert settings.number() == first
    module.eval()
    assert settings.number() != first
    module.train()
    assert settings.number() == first
    handle = module[0].register_forward_hook(print)
    assert settings.number() != first
    handle.remove()
    assert settings.number() == first


class Factor:
    """An object that a module reads."""

    value = 1.0


class Scales(nn.Module):
    """A module that keeps objects of its own in a list, and reads a global one."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.factors = nn.Linear(2, 2), [Factor()]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.factors[0].value * FACTOR


FACTOR = 1.0


def test_objects_in_lists_and_globals_of_forward_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Scales()
    settings = CallSettings(module, None)
    first = settings.number()
    module.factors[0].value = 2.0
    second = settings.number()
    assert second != first
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    assert settings.number() not in (first, second)
    monkeypatch.undo()
    assert settings.number() == second
