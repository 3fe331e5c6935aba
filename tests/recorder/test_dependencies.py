"""The result of a purity check is cached while everything that it read is unchanged, and keeps nothing alive."""

from __future__ import annotations

import functools
import gc
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from dglite import function as fn
from dglite.recorder import may_write, refusal
from tests.recorder.common import compiled, for_real, multigraph

NOTES: list[Any] = []


def noting(self: Any, x: Any) -> Any:
    NOTES.append(x)
    return x


def calls_of(run: Callable[[], None]) -> int:
    """Return how many functions written in Python a run calls, once it has been run before."""
    count = 0

    def note(frame: types.FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    for _ in range(3):
        run()
    gc.collect()
    gc.disable()  # finalizers of what other tests left are calls, too
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


class Helper:
    """What a message calls that is not a function."""

    def __call__(self, x: Any) -> Any:
        return x * 2


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3).double()

    def forward(self, x: Any) -> Any:
        return self.linear(x)


class Layer(nn.Module):
    """A layer that gives its methods, or functions made by them, to verbs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.inner, self.act, self.scale = nn.Linear(3, 3).double(), Inner(), torch.tanh, 2.0
        self.steps = nn.Sequential(nn.Linear(3, 3).double(), nn.ReLU())

    def help(self, x: Any) -> Any:
        return self.act(x) * self.scale

    def message(self, edges: Any) -> Any:
        return {"m": self.help(self.steps(self.inner(self.linear(edges.src["h"]))))}

    def closure(self) -> Any:
        return lambda edges: {"m": self.help(self.steps(self.inner(self.linear(edges.src["h"]))))}


class Object:
    """An object that is called with a batch."""

    scale = 2.0

    def __init__(self) -> None:
        self.layer = Layer()

    def __call__(self, edges: Any) -> Any:
        return {"m": self.layer.linear(edges.src["h"]) * self.scale}


def hooked(layer: Layer) -> None:
    layer.inner.linear.register_forward_hook(lambda *args: None)


def swapped(layer: Layer) -> None:
    layer.steps[1] = nn.ReLU(inplace=True)


def grown(layer: Layer) -> None:
    layer.steps.append(nn.ReLU(inplace=True))


def made_to_write(layer: Layer) -> None:
    layer.steps[1].inplace = True


def helped_by_an_attribute(layer: Layer) -> None:
    layer.help = functools.partial(noting, layer)  # type: ignore[method-assign]


def acting(layer: Layer) -> None:
    layer.act = functools.partial(noting, layer)


def forwarded(layer: Layer) -> None:
    layer.inner.forward = functools.partial(noting, layer.inner)  # type: ignore[method-assign]


def forwarded_inside(layer: Layer) -> None:
    layer.linear.forward = functools.partial(noting, layer.linear)  # type: ignore[method-assign]


def of_another_class(layer: Layer) -> None:
    layer.inner.__class__ = type("Noting", (Inner,), {"forward": noting})


def given_an_attribute(layer: Layer) -> None:
    layer.src = [object()]  # type: ignore[assignment]


CHANGES = [
    hooked, swapped, grown, made_to_write, helped_by_an_attribute, acting, forwarded, forwarded_inside,
    of_another_class, given_an_attribute,
]  # fmt: skip


@pytest.mark.parametrize("style", ["method", "closure", "partial"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_a_layer_is_seen_at_the_next_call(change: Any, style: str) -> None:
    layer, other = Layer(), Layer()

    def function(of: Layer) -> Any:
        return (
            of.closure() if style == "closure" else functools.partial(of.message) if style == "partial" else of.message
        )

    for _ in range(2):
        assert refusal(function(layer)) is None and refusal(function(other)) is None
    change(layer)
    for _ in range(2):
        assert refusal(function(layer)) is not None and refusal(function(other)) is None


@pytest.mark.parametrize(
    ("owner", "name"),
    [(Layer, "help"), (Inner, "forward"), (nn.Linear, "forward"), (nn.Module, "__call__"), (Inner, "__call__")],
)
def test_a_method_that_is_replaced_on_its_class_is_seen(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Layer()
    for _ in range(2):
        assert refusal(layer.message) is None
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, noting)
        for _ in range(2):
            assert refusal(layer.message) is not None
    assert refusal(layer.message) is None


def test_what_a_user_overrides_of_a_library_s_layer_is_looked_at() -> None:
    class Noting(nn.Softmax):
        dim = property(lambda self: NOTES.append(1) or 1, lambda self, value: None)  # type: ignore[func-returns-value]

    class Plain(nn.Softmax):
        pass

    for layer, may in ((Noting(1), False), (Plain(1), True)):
        function = compiled("def f(edges):\n    return {'m': layer(edges.src['h'])}\n", layer=layer)
        assert (refusal(function) is None) == may


def test_a_new_base_of_a_class_is_seen() -> None:
    class Base:
        def help(self, x: Any) -> Any:
            return x

    class Noting:
        help = noting

    class Plain(Base):
        def message(self, edges: Any) -> Any:
            return {"m": self.help(edges.src["h"])}

    function = Plain().message
    for _ in range(2):
        assert refusal(function) is None
    Plain.__bases__ = (Noting,)
    assert refusal(function) is not None


def test_state_counts_where_a_function_is_called_once() -> None:
    layer = Layer()

    def reduce(nodes: Any) -> Any:
        return {"out": layer.linear(nodes.mailbox["m"].sum(1))}

    for _ in range(2):
        assert refusal(reduce, once=True) is None
    layer.linear.register_buffer("calls", torch.zeros(1))
    assert refusal(reduce, once=True) is not None and refusal(reduce) is None
    layer.linear.calls = None
    assert refusal(reduce, once=True) is None


def test_what_stands_in_containers_is_seen() -> None:
    layers, table = [nn.Linear(3, 3), nn.ReLU()], {"scale": 2.0, "acts": [torch.exp]}

    def message(edges: Any) -> Any:
        return {"m": layers[1](layers[0](edges.src["h"])) * table["scale"]}

    assert calls_of(lambda: refusal(message)) <= 30
    for change, may in (
        (lambda: table.update(scale=3), True),
        (lambda: table["acts"].append(NOTES.append), False),  # type: ignore[attr-defined]
        (lambda: table["acts"].pop(), True),  # type: ignore[attr-defined]
        (lambda: layers.append(nn.ReLU(inplace=True)), False),
        (lambda: layers.pop(), True),
        (lambda: layers[1].register_forward_hook(lambda *args: None), False),
        (lambda: layers.__setitem__(1, nn.ReLU()), True),
        (lambda: table.update(scale=object()), False),
    ):
        change()
        assert (refusal(message) is None) == may
        assert (refusal(message) is None) == may


def test_what_a_helper_reads_is_seen() -> None:
    inner = compiled("def f(x):\n    return g(x)\n", g=torch.exp)
    helper = functools.partial(inner)
    function = compiled("def f(edges):\n    return {'m': help(edges.src['h'])}\n", help=inner)
    for _ in range(2):
        assert refusal(function) is None
    for name, value in (("g", NOTES.append), ("g", torch.exp)):
        inner.__globals__[name] = value
        assert (refusal(function) is None) == (value is torch.exp)
    inner.__defaults__ = (NOTES.append,)
    assert refusal(function) is not None
    inner.__defaults__ = None
    inner.__code__ = compiled("def f(x):\n    print(x)\n    return x\n").__code__
    assert refusal(function) is not None and refusal(helper) is not None


def test_an_object_that_is_called_is_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    one, helper = Object(), Helper()
    function = compiled("def f(edges):\n    return {'m': help(edges.src['h'])}\n", help=helper)
    for _ in range(2):
        assert refusal(one) is None and refusal(function) is None and not may_write(one)
    monkeypatch.setattr(Helper, "__call__", noting)
    assert refusal(function) is not None
    monkeypatch.setattr(Object, "scale", [object()])
    assert refusal(one) is not None
    one.scale = 3.0
    assert refusal(one) is None
    one.layer.linear.register_forward_hook(lambda *args: None)
    assert refusal(one) is not None
    monkeypatch.setattr(Object, "__call__", noting)
    assert refusal(one) is not None


def test_a_layer_that_is_given_is_not_mistaken_for_its_forward() -> None:
    class Apply(nn.Module):
        def forward(self, nodes: Any) -> Any:
            return {"out": nodes.data["h"]}

    one, other = Apply(), Apply()
    for function in (one, other, one.forward, other.forward):
        assert refusal(function) is None
    other.register_forward_hook(lambda *args: None)
    assert refusal(one) is None and refusal(other) is not None and refusal(other.forward) is None


def test_a_partial_of_a_method_is_checked_with_its_object() -> None:
    class Counting:
        calls = 0

        def _count(self) -> float:
            self.calls += 1
            return 1.0

        def reduce(self, nodes: Any) -> Any:
            return {"out": nodes.mailbox["m"].sum(1) * self._count()}

    counts = []
    for wrap in (functools.partial, for_real):
        one = Counting()
        multigraph().update_all(fn.copy_u("h", "m"), wrap(one.reduce))
        counts.append(one.calls)
    assert counts[0] == counts[1] == 2


def test_a_cached_result_keeps_nothing_alive() -> None:
    g = multigraph()

    def run(cyclic: bool) -> list[Any]:
        layer, one = Layer(), Object()
        if cyclic:
            layer.act, layer.own = layer.help, [layer]  # type: ignore[assignment]
            one.layer.act = one
            layer.act = torch.tanh

        class Local(nn.Module):
            def forward(self, edges: Any) -> Any:
                return {"m": layer.linear(edges.src["h"])}

        local = Local()
        for function in (layer.message, layer.closure(), one, local, local.forward, functools.partial(layer.message)):
            for _ in range(2):
                g.update_all(function, fn.sum("m", "out"))
                g.apply_edges(function)
        return [weakref.ref(x) for x in (layer, one, layer.linear, local)]

    for cyclic in (False, True):
        died = run(cyclic)
        gc.collect()
        assert [ref() for ref in died] == [None] * 4


def test_a_method_that_does_not_read_its_object_is_a_plain_function() -> None:
    """It is known what it does: no method of the layer, not even a new object, is called or checked again."""

    class Conv(nn.Module):
        def message(self, edges: Any) -> Any:
            return {"m": edges.src["h"] * edges.data["w"]}

    text = "def f({}):\n    return {{'m': edges.src['h'] * edges.data['w']}}\n"
    plain, method = compiled(text.format("edges")), compiled(text.format("self, edges"))
    summing = lambda nodes: {"out": nodes.mailbox["m"].sum(1)}  # noqa: E731
    g, owner = multigraph(), Conv()
    expected = calls_of(lambda: g.update_all(plain, summing))
    assert calls_of(lambda: g.update_all(types.MethodType(method, owner), summing)) <= expected + 8
    assert calls_of(lambda: g.update_all(types.MethodType(method, Conv()), summing)) <= expected + 40


def test_a_cached_result_is_compared_in_a_few_calls() -> None:
    layer = Layer()
    functions = layer.message, functools.partial(layer.message), layer.closure(), Object(), layer.inner
    for function in functions:
        # At most 30, and some more where an earlier test has brought a second library of tensors.
        assert calls_of(lambda function=function: refusal(function)) <= 40  # type: ignore[misc]
