"""Whatever a vertex function reads besides its vertices may change between calls: the next call sees it."""

from __future__ import annotations

import functools
import random
import sys
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import dglite
from dglite import DGLError, DGLWarning, dynamic

CHAIN = dglite.graph(([0, 1], [1, 2]))
X = torch.tensor([[1.0, -2.0], [3.0, 0.5], [-1.0, 2.0]])


@dataclass
class Config:
    """Settings, as an object."""

    scale: float = 1.0


class Slots:
    """Settings in a slot."""

    __slots__ = ("slotted",)

    def __init__(self) -> None:
        self.slotted = 1.0


class Scaler:
    """An object that is not a module, with a method that reads its attributes."""

    factor = 1.0

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


def helper(x: torch.Tensor) -> torch.Tensor:
    return x * SCALE


SCALE = 1.0
ARRAY = np.ones(1)
TABLE = {"inner": {"list": [1.0, 2.0]}}
SETTINGS = types.ModuleType("settings")
SETTINGS.offset = 0.0  # type: ignore[attr-defined]


class Program(dynamic.VertexFunction):
    """Reads what the tests change."""

    class_scale = 1.0

    def __init__(self) -> None:
        super().__init__(state=2)
        self.lin, self.act, self.drop = nn.Linear(2, 2), nn.Tanh(), nn.Dropout(0.0)
        self.blocks = nn.ModuleList([nn.Linear(2, 2)])
        self.norm = nn.LayerNorm(2)
        self.scale, self.mode, self.config, self.slots, self.scaler = 1.0, "plain", Config(), Slots(), Scaler()
        self.function: Callable[..., Any] = torch.abs
        self.partial = functools.partial(torch.mul, other=1.0)
        self.constant, self.names, self.sizes = torch.ones(2), {"a"}, (1, 2)
        self.register_buffer("mask", torch.ones(2))
        self.unread = 0

    @property
    def doubled(self) -> float:
        return 2 * self.config.scale

    def inner(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x if self.mode == "plain" else x + 10

    def step(self, x: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        h = self.act(self.norm(self.drop(self.lin(x)))) * self.mask * self.constant + before
        h = self.inner(h) * self.scale * self.doubled * self.slots.slotted * self.class_scale
        h = self.partial(helper(self.scaler.apply(self.function(h)))) * float(ARRAY[0]) + SETTINGS.offset
        return h * TABLE["inner"]["list"][0] + len(self.names) + self.sizes[1]

    def forward(self) -> None:
        h = self.step(self.pull(), self.gather(0))
        self.scatter(h)
        self.push(h)


def expected(program: Program) -> torch.Tensor:
    """Compute the chain by calling the step as it is now."""
    h, rows = torch.zeros(1, 2), []
    for i in range(3):
        h = program.step(X[i : i + 1], h)
        rows.append(h)
    return torch.cat(rows)


def scale_in_class(p: Program) -> None:
    p.class_scale = 3.0  # hides that of the class


def set_global(name: str, value: Any) -> Callable[[Program], None]:
    return lambda p: setattr(sys.modules[__name__], name, value)


CHANGES: dict[str, Callable[[Program], Any]] = {
    "layer": lambda p: setattr(p, "lin", nn.Linear(2, 2)),
    "activation": lambda p: setattr(p, "act", nn.ReLU()),
    "layer of a list": lambda p: p.blocks.__setitem__(0, nn.Linear(2, 2)),
    "one more layer": lambda p: p.blocks.append(nn.Linear(2, 2)),
    "parameter": lambda p: setattr(p.lin, "weight", nn.Parameter(torch.rand(2, 2))),
    "no bias": lambda p: setattr(p.lin, "bias", None),
    "buffer": lambda p: setattr(p, "mask", torch.full((2,), 3.0)),
    "buffer in place": lambda p: p.mask.mul_(2),
    "tensor": lambda p: setattr(p, "constant", torch.full((2,), 5.0)),
    "number of a layer": lambda p: setattr(p.norm, "eps", 1.0),
    "number": lambda p: setattr(p, "scale", 0.5),
    "text": lambda p: setattr(p, "mode", "other"),
    "nested attribute": lambda p: setattr(p.config, "scale", 0.5),
    "object": lambda p: setattr(p, "config", Config(0.25)),
    "slot": lambda p: setattr(p.slots, "slotted", 2.0),
    "attribute of a helper object": lambda p: setattr(p.scaler, "factor", 2.0),
    "function": lambda p: setattr(p, "function", torch.neg),
    "partial": lambda p: setattr(p, "partial", functools.partial(torch.mul, other=4.0)),
    "set": lambda p: p.names.add("b"),
    "tuple": lambda p: setattr(p, "sizes", (1, 7)),
    "instance hides class attribute": scale_in_class,
    "global": set_global("SCALE", 2.0),
    "global function": set_global("helper", lambda x: x + 1),
    "nested container": lambda p: TABLE["inner"]["list"].__setitem__(0, 2.0),
    "array in place": lambda p: ARRAY.fill(3.0),
    "module of settings": lambda p: setattr(SETTINGS, "offset", 4.0),
    "method": lambda p: setattr(Program, "inner", lambda self, x: x * 3),
    "forward hook": lambda p: p.lin.register_forward_hook(lambda m, args, out: out * 2),
    "forward pre-hook": lambda p: p.lin.register_forward_pre_hook(lambda m, args: (args[0] * 2,)),
    "probability of dropout": lambda p: setattr(p.drop, "p", 1.0),
    "forward of one layer": lambda p: setattr(p.act, "forward", torch.sigmoid),
}


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Undo what a change did to this module."""
    before = SCALE, helper, Program.inner
    yield
    globals().update(SCALE=before[0], helper=before[1])
    Program.inner = before[2]  # type: ignore[method-assign]
    ARRAY.fill(1.0)
    TABLE["inner"]["list"][0] = 1.0
    SETTINGS.offset = 0.0  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen(name: str) -> None:
    torch.manual_seed(1)
    program = Program()
    before = program(CHAIN, X)
    torch.testing.assert_close(before, expected(program))
    CHANGES[name](program)
    after = program(CHAIN, X)
    torch.testing.assert_close(after, expected(program))
    assert not torch.allclose(before, after)


def test_a_new_layer_is_trained() -> None:
    program = Program()
    program(CHAIN, X)
    program.lin = nn.Linear(2, 2)
    program(CHAIN, X).sum().backward()
    assert program.lin.weight.grad is not None


def test_a_closure_is_seen() -> None:
    factor = 1.0

    class Closure(dynamic.VertexFunction):
        def forward(self) -> None:
            self.scatter(self.gather(0))
            self.push(self.pull() * factor)

    program = Closure(state=1)
    torch.testing.assert_close(program(CHAIN, X), X)
    factor = 2.0
    torch.testing.assert_close(program(CHAIN, X), 2 * X)


def test_what_is_not_read_costs_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    program, calls = Program(), []
    monkeypatch.setattr(program, "step", lambda x, h, step=program.step: calls.append(0) or step(x, h))
    program(CHAIN, X)
    program.unread += 1
    program.other = "new"  # type: ignore[assignment]
    program.scale = float("1.0")  # an equal number, another object
    program.eval()
    program(CHAIN, X)
    program.train()
    program(CHAIN, X)
    assert len(calls) == 2  # once for each mode


def test_modes_of_layers_are_seen() -> None:
    program = Program()
    program.drop.p = 1.0
    dropped = program(CHAIN, X)
    program.eval()
    kept = program(CHAIN, X)
    assert not torch.allclose(dropped, kept)
    torch.testing.assert_close(kept, expected(program))


def test_backward_hooks_of_layers_are_refused() -> None:
    program = Program()
    program(CHAIN, X)
    program.lin.register_full_backward_hook(lambda *_: None)
    with pytest.raises(DGLError, match="Linear has backward hooks"):
        program(CHAIN, X)


@pytest.mark.parametrize("draw", [random.random, np.random.rand])
def test_random_numbers_of_python_are_refused(draw: Callable[[], float]) -> None:
    class Draws(dynamic.VertexFunction):
        def forward(self) -> None:
            self.scatter(self.gather(0))
            self.push(self.pull() * draw())

    with pytest.raises(DGLError, match="random"):
        Draws(state=1)(CHAIN, X)


def test_a_number_that_changes_at_each_call_is_named() -> None:
    program = Program()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i in range(10):
            program.scale = 1.0 + i
            program(CHAIN, X)
    (warning,) = [w for w in caught if issubclass(w.category, DGLWarning)]
    assert "since scale changed" in str(warning.message) and warning.filename == __file__
