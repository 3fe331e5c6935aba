"""What was learned of a function is used while the function means the same: whatever it reads may change any time."""

from __future__ import annotations

import builtins
import contextlib
import functools
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dglite
from dglite import function as fn
from dglite.recorder import may_write
from dglite.scheduler import messages_of
from tests.recorder.common import ForReal, assert_same, compiled, for_real, multigraph, outcome, relation_of, values

COPY, SUM = fn.copy_u("h", "m"), fn.sum("m", "out")

CASES: dict[str, Callable[[pytest.MonkeyPatch], Iterator[Any]]] = {}
"""Generators of message functions: each is made again to mean something else between two yields."""


def case(make: Callable[[pytest.MonkeyPatch], Iterator[Any]]) -> Callable[[pytest.MonkeyPatch], Iterator[Any]]:
    CASES[make.__name__.replace("_", " ")] = make
    return make


def message(text: str, **names: Any) -> Any:
    return compiled(f"def f(edges):\n    x = edges.src['h']\n    return {{'m': {text}}}\n", **names)


def doubling(x: Any) -> Any:
    return x * 2


def shifting(x: Any, *rest: Any, **more: Any) -> Any:
    return x + 5


@case
def a_built_in_function_is_shadowed_by_a_global(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    f = message("abs(x)")
    yield f
    f.__globals__["abs"] = doubling
    yield f
    del f.__globals__["abs"]
    yield f


@case
def a_built_in_function_is_replaced(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    f = message("abs(x)")
    yield f
    patch.setattr(builtins, "abs", doubling)
    yield f


@case
def equal_code_in_other_namespaces(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield message("abs(x)")
    yield message("abs(x)", abs=doubling)
    yield message("torch.exp(x)")
    yield message("torch.exp(x)", torch=types.SimpleNamespace(exp=doubling))
    yield message("c * x", c=2.0)
    yield message("c * x", c=3.0)
    yield message("c * x", c=torch.tensor(4.0).double())


@case
def equal_code_where_one_name_or_the_other_is_missing(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    for names in ({"a": F}, {"b": F}, {"a": F, "b": F}):
        f = message("(a if w else b).relu(x)", w="a" in names, **names)
        yield f


@case
def a_global_is_bound_again(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    f = message("c(x)", c=torch.exp)
    for f.__globals__["c"] in (torch.exp, torch.abs, doubling, shifting):
        yield f


@case
def a_function_of_a_module_is_replaced(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("relu", "tanh"):
        for f in (message(f"F.{name}(x)"), message(f"torch.nn.functional.{name}(x)")):
            yield f
            with patch.context() as inside:
                inside.setattr(F, name, shifting)
                yield f
            yield f
    f = message("torch.exp(x)")
    yield f
    patch.setattr(torch, "exp", shifting)
    yield f


@case
def a_module_inside_a_module_is_replaced(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    f = message("torch.nn.functional.relu(x)")
    yield f
    patch.setattr(torch.nn, "functional", types.SimpleNamespace(relu=shifting))
    yield f


@case
def a_method_or_an_operator_of_tensors_is_replaced(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    for text, name in (("x.exp()", "exp"), ("x * 2", "__mul__"), ("2 / x", "__rdiv__"), ("-x", "__neg__")):
        f = message(text)
        yield f
        with patch.context() as inside:
            inside.setattr(torch.Tensor, name, shifting)
            yield f
        yield f


@case
def a_closure_is_bound_again(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    scale: Any = 2.0

    def f(edges: Any) -> Any:
        return {"m": edges.src["h"] * scale}

    for scale in (2.0, 3.0, torch.tensor([1.0, 2.0, 3.0]).double(), torch.tensor(5.0).double()):  # noqa: B007
        yield f


@case
def a_cell_is_filled_from_outside(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    act = torch.exp

    def f(edges: Any) -> Any:
        return {"m": act(edges.src["h"])}

    yield f
    assert f.__closure__ is not None
    f.__closure__[0].cell_contents = torch.abs
    yield f


@case
def defaults_are_replaced(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    def f(edges: Any, c: Any = 2.0, *, act: Any = torch.exp) -> Any:
        return {"m": act(edges.src["h"] * c)}

    yield f
    f.__defaults__ = (3.0,)
    yield f
    f.__kwdefaults__ = {"act": torch.abs}
    yield f

    def g(edges: Any) -> Any:
        return {"m": edges.src["h"]}

    yield g
    g.__defaults__ = (edge_batch_of_twos(),)
    yield g


def edge_batch_of_twos() -> Any:
    return types.SimpleNamespace(src={"h": torch.full((14, 3), 2.0).double()})


@case
def the_code_is_replaced(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    f = message("x * 2")
    yield f
    f.__code__ = message("x * 3").__code__
    yield f


@case
def a_helper_is_defined_again(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    f = message("help(x)", help=doubling)
    yield f
    f.__globals__["help"] = shifting
    yield f
    helper = compiled("def f(x):\n    return inner(x)\n", inner=doubling)
    f = message("help(x)", help=helper)
    yield f
    helper.__globals__["inner"] = shifting
    yield f


class Scaled:
    """An object whose method is the message function."""

    shared = 2.0

    def __init__(self, own: float) -> None:
        self.own = own

    def message(self, edges: Any) -> Any:
        return {"m": edges.src["h"] * self.own * self.shared * self.inverse()}

    def inverse(self) -> float:
        return 1 / self.own**2


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.act = nn.Linear(3, 3).double(), torch.tanh

    def message(self, edges: Any) -> Any:
        return {"m": self.act(self.linear(edges.src["h"])) * (2.0 if self.training else 1.0)}


@case
def attributes_of_an_object_and_of_its_class(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    one, other = Scaled(2.0), Scaled(5.0)
    yield one.message
    yield other.message
    one.own = 7.0
    yield one.message
    patch.setattr(Scaled, "shared", 0.1)
    yield one.message
    patch.setattr(Scaled, "inverse", lambda self: 3.0)
    yield one.message
    patch.setattr(Scaled, "message", lambda self, edges: {"m": edges.src["h"]})
    yield one.message


@case
def layers_change(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    layer = Layer()
    yield layer.message
    layer.eval()
    yield layer.message
    layer.act = torch.relu
    yield layer.message
    layer.linear = nn.Linear(3, 3).double()
    yield layer.message
    with torch.no_grad():
        layer.linear.weight.mul_(2)
    yield layer.message
    layer.linear.register_forward_hook(lambda module, given, result: result * 3)
    yield layer.message


@case
def partials(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    def f(factor: Any, edges: Any, act: Any = torch.exp) -> Any:
        return {"m": act(edges.src["h"] * factor)}

    yield functools.partial(f, 2.0)
    yield functools.partial(f, 3.0)
    yield functools.partial(f, 3.0, act=torch.abs)
    f.__defaults__ = (torch.tanh,)
    yield functools.partial(f, 3.0)


@case
def containers_change_in_place(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    settings, acts = {"scale": 2.0}, [torch.exp]

    def f(edges: Any) -> Any:
        return {"m": acts[0](edges.src["h"] * settings["scale"])}

    yield f
    settings["scale"] = 3.0
    yield f
    acts[0] = torch.abs
    yield f


@case
def captured_tensors_change(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    weight = torch.tensor([1.0, 2.0, 3.0]).double()
    f = message("x * weight", weight=weight)
    yield f
    weight.mul_(2)
    yield f
    f.__globals__["weight"] = torch.tensor([[0.5]]).double()
    yield f


@pytest.mark.parametrize("what", CASES)
def test_a_change_of_what_a_function_reads_is_seen(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, function in enumerate(CASES[what](monkeypatch)):
        expected = torch.Tensor(0)
        for wrap in (for_real, lambda f: f, lambda f: f):
            g = multigraph()
            g.update_all(wrap(function), SUM)
            expected = expected if len(expected) else g.ndata["out"]
            torch.testing.assert_close(g.ndata["out"], expected, msg=lambda m, n=number: f"yield {n}: {m}")


def test_reducers_that_became_built_in_see_what_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    reduce = compiled("def f(nodes):\n    return {'out': torch.sum(nodes.mailbox['m'], 1)}\n")
    results = []
    for _ in range(2):
        g = multigraph()
        g.update_all(COPY, reduce)
        results.append(g.ndata["out"])
    monkeypatch.setattr(torch, "sum", lambda x, dim: torch.mean(x, dim))
    g, real = multigraph(), multigraph()
    g.update_all(COPY, reduce)
    real.update_all(COPY, for_real(reduce))
    torch.testing.assert_close(g.ndata["out"], real.ndata["out"])
    assert not torch.equal(g.ndata["out"], results[1])


MODES: dict[str, Callable[[], Any]] = {
    "usual": contextlib.nullcontext,
    "no grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "another default dtype": lambda: default_dtype(torch.float16),
    "deterministic": lambda: deterministic(),
}


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "text", ["x * 2", "torch.exp(x)", "torch.where(x > 0, 1.0, 0.5)", "(x * edges.dst['h']).sum(-1)", "linear(x)"]
)
def test_modes_of_torch_are_those_of_the_call(text: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    f = message(text, linear=nn.Linear(3, 3, dtype=dtype))
    for mode in (*MODES, "usual"):
        results = []
        for wrap in (lambda f: f, for_real):
            g = multigraph(dtype=dtype)
            g.ndata["h"] = g.ndata["h"].requires_grad_()
            with MODES[mode]():
                g.apply_edges(wrap(f))
            results.append(g.edata["m"])
        assert results[0].dtype == results[1].dtype and results[0].requires_grad == results[1].requires_grad, mode
        assert results[0].is_inference() == results[1].is_inference(), mode
        torch.testing.assert_close(*results, rtol=0.02, atol=0.02)


def test_half_precision_is_not_recorded_under_autocast() -> None:
    """On a GPU autocast computes some functions, exp for instance, in float32."""
    f = message("torch.exp(x)")
    for dtype, computed in ((torch.bfloat16, True), (torch.float32, False)):
        relation = relation_of(multigraph(dtype=dtype))
        messages_of(f, 0, relation)
        with MODES["autocast"]():
            messages_of(f, 0, relation)
        assert bool(relation.captured) == computed


def test_a_negative_zero_is_not_taken_for_zero() -> None:
    for text in ("x * 0.0", "x * -0.0", "x * 0.0"):
        results = []
        for wrap in (lambda f: f, for_real):
            g = multigraph()
            g.apply_edges(wrap(message(text)))
            results.append(1 / g.edata["m"])
        assert torch.equal(*results)


def test_a_kept_recording_is_still_used_where_nothing_has_changed() -> None:
    first = messages_of(message("torch.exp(abs(x))"), 0, relation_of(multigraph()))
    again = message("torch.exp(abs(x))")
    assert messages_of(again, 0, relation_of(multigraph())) is first
    again.__globals__["abs"] = torch.abs
    assert messages_of(again, 0, relation_of(multigraph())) is not first


# -- what a function writes -------------------------------------------------------------------------------------------
WRITES = {
    "an operator": "x += 1",
    "a method": "x.mul_(2)",
    "an item": "x[0] = 7.0",
    "an item by a variable": "k = 0\n    x[k] = 7.0",
    "a slice": "x[1:2] = 7.0",
    "a view": "x.detach()[0] = 7.0",
    "an argument out": "torch.exp(x, out=x)",
    "an option": "F.relu(x, inplace=True)",
    "an option by position": "F.relu(x, True)",
    "a layer": "act(x)",
    "a helper": "help(x)",
    "a method of the data model": "x.__setitem__(0, 7.0)",
    "an operator by name": "operator.iadd(x, 1)",
    "an attribute": "x.data = x.data * 2",
}


def writer(what: str, column: str) -> Any:
    def help(x: Any) -> None:
        x.add_(1)

    text = f"def f(batch):\n    x = batch.{column}\n    {WRITES[what]}\n    return {{'r': x * 1}}\n"
    return compiled(text, act=nn.ReLU(inplace=True), help=help, operator=operator)


@pytest.mark.parametrize("what", WRITES)
def test_what_a_function_writes_into_its_batch_stays_there(what: str) -> None:
    """The function sees what it wrote; the graph's columns are as they were."""
    g, given = multigraph(), multigraph()
    nodes, edges = writer(what, "data['h']"), writer(what, "data['k']")
    h, k = given.ndata["h"].clone(), given.edata["k"].clone()
    for x in (h, k):
        plain = writer(what, "data['x']")
        plain(types.SimpleNamespace(data={"x": x}))
    g.apply_nodes(nodes)
    assert torch.equal(g.ndata["r"], h)
    g.apply_edges(edges)
    assert torch.equal(g.edata["r"], k)
    g.filter_nodes(lambda batch: nodes(batch)["r"][:, 0] > 0)
    g.filter_edges(lambda batch: edges(batch)["r"][:, 0] > 0)
    g.update_all(edges, fn.sum("r", "out"))
    g.update_all(edges, lambda nodes: {"out": nodes.mailbox["r"].sum(1)}, nodes)
    for name in ("h", "p"):
        assert torch.equal(g.ndata[name], given.ndata[name]), name
    for name in ("k", "w"):
        assert torch.equal(g.edata[name], given.edata[name]), name


@pytest.mark.parametrize("what", WRITES)
def test_what_a_reducer_writes_into_its_batch_stays_there(what: str) -> None:
    """The edges are in the order of their buckets, so that the mailbox might be the stored column itself."""

    def make() -> Any:
        g = dglite.graph(([1, 2, 0, 2], [0, 1, 2, 2]))
        g.ndata["h"], g.edata["k"] = values(3, 2, seed=1), values(4, 2, seed=2)
        return g

    g = make()
    sums = writer(what, "mailbox['m']")
    g.update_all(fn.copy_e("k", "m"), lambda nodes: {"out": sums(nodes)["r"].sum(1)})
    g.update_all(lambda edges: {"m": edges.data["k"]}, lambda nodes: {"out": sums(nodes)["r"].sum(1)})
    rows = writer(what, "data['h']")
    g.update_all(fn.copy_e("k", "m"), lambda nodes: {"out": nodes.mailbox["m"].sum(1) + rows(nodes)["r"]})
    cells = writer(what, "data['k']")
    g.group_apply_edges("dst", lambda edges: {"r": cells(edges)["r"]})
    assert torch.equal(g.ndata["h"], make().ndata["h"]) and torch.equal(g.edata["k"], make().edata["k"])


def test_a_function_that_writes_nothing_is_given_the_column_itself() -> None:
    """It costs no copy, for functions, methods, and layers as functions."""

    class Apply(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3).double()

        def forward(self, nodes: Any) -> Any:
            return {"r": F.relu(self.linear(nodes.data["h"]))}

    layer = Apply()
    for function in (lambda nodes: {"r": nodes.data["h"] * 2}, layer.forward, layer):
        assert not may_write(function)
    g = multigraph()
    for function, same in (
        (lambda nodes: {"r": nodes.data["h"]}, True),
        (ForReal(lambda n: {"r": n.data["h"]}), False),
    ):
        g.apply_nodes(function)
        assert (g.ndata["r"].data_ptr() == g.ndata["h"].data_ptr()) == same


@pytest.mark.parametrize("verb", ["update_all", "pull"])
def test_gradients_of_a_column_that_is_written(verb: str) -> None:
    def apply(nodes: Any) -> Any:
        x = nodes.data["h"]
        x *= 2
        return {"out": x * nodes.data["out"]}

    def run(apply: Any) -> Any:
        def call(g: Any) -> None:
            g.update_all(COPY, SUM, apply) if verb == "update_all" else g.pull([0, 1], COPY, SUM, apply)

        return outcome(multigraph, call)

    for result, want in zip(run(apply), run(lambda n: {"out": n.data["h"] * 2 * n.data["out"]}), strict=True):
        assert_same(result, want)
