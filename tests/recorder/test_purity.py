"""Which functions may be recorded, and that recording changes no side effect, no random number and no branch."""

from __future__ import annotations

import functools
import math
import random
import time
from random import random as draw
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dglite
from dglite import function as fn
from dglite.recorder import refusal
from tests.recorder.common import ForReal, assert_as_for_real, for_real, multigraph, recorded, values

COPY = fn.copy_u("h", "m")
SCALE, COUNTER, SETTINGS = 2.0, 0, {"scale": 3.0, "calls": 0}
LOG: list[Any] = []
GENERATOR = np.random.default_rng(0)
TORCH_GENERATOR = torch.Generator()


def doubled(x: Any) -> Any:
    return x * 2


def noisy(x: Any) -> Any:
    LOG.append(1)
    return x


class Model(nn.Module):
    """Methods of a layer as functions."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.calls, self.seen = nn.Linear(3, 3).double(), 0, {"calls": 0}

    def plain(self, nodes: Any) -> Any:
        return {"out": self.linear(nodes.mailbox["m"].sum(1))}

    def counting(self, nodes: Any) -> Any:
        self.calls = self.calls + 1
        return {"out": nodes.mailbox["m"].sum(1)}

    def noting(self, nodes: Any) -> Any:
        self.seen["calls"] = self.seen["calls"] + 1
        return {"out": nodes.mailbox["m"].sum(1)}

    def helped(self, nodes: Any) -> Any:
        return {"out": self._help(nodes.mailbox["m"].sum(1))}

    def _help(self, x: Any) -> Any:
        self.calls += 1
        return x


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return x


class Tally:
    """A class that functions reach by its name."""

    calls = 0

    @classmethod
    def add_one(cls) -> None:
        cls.calls += 1


class Drawing:
    """An object whose method draws from a generator of its own."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)

    def reduce(self, nodes: Any) -> Any:
        return {"out": nodes.mailbox["m"].sum(1) * self.generator.random()}


def closures() -> dict[str, Any]:
    """Return reduce functions by what they do; the second of each pair says whether they may be recorded."""
    kept: list[Any] = []
    count, model, weight = 0, Model(), torch.ones(3, dtype=torch.float64)
    buffer = torch.zeros(1)
    normed, counting, nested = nn.BatchNorm1d(3).double(), Counting(), nn.Sequential(Counting())

    def nonlocal_write(nodes: Any) -> Any:
        nonlocal count
        count = count + 1
        return {"out": nodes.mailbox["m"].sum(1)}

    def global_write(nodes: Any) -> Any:
        global COUNTER
        COUNTER = COUNTER + 1
        return {"out": nodes.mailbox["m"].sum(1)}

    def appends(nodes: Any) -> Any:
        kept.append(len(nodes))
        return {"out": nodes.mailbox["m"].sum(1)}

    def sets_an_item(nodes: Any) -> Any:
        SETTINGS["calls"] = SETTINGS["calls"] + 1
        return {"out": nodes.mailbox["m"].sum(1)}

    def writes_a_tensor(nodes: Any) -> Any:
        buffer[0] = buffer[0] + 1
        return {"out": nodes.mailbox["m"].sum(1)}

    def prints(nodes: Any) -> Any:
        print("reducing")
        return {"out": nodes.mailbox["m"].sum(1)}

    def branches(nodes: Any) -> Any:
        if len(nodes) > 1:
            return {"out": nodes.mailbox["m"].sum(1)}
        return {"out": nodes.mailbox["m"].mean(1)}

    def generates(nodes: Any) -> Any:
        yield nodes

    def adds_in_place(nodes: Any) -> Any:
        x = nodes.mailbox["m"].sum(1)
        x += 1
        return {"out": x}

    def default_list(nodes: Any, log: Any = kept) -> Any:
        log.append(1)
        return {"out": nodes.mailbox["m"].sum(1)}

    def keyword_default_list(nodes: Any, *, log: Any = kept) -> Any:
        log.append(1)
        return {"out": nodes.mailbox["m"].sum(1)}

    def scaled(nodes: Any, factor: float = 2.0) -> Any:
        return {"out": nodes.mailbox["m"].sum(1) * factor}

    def catches(nodes: Any) -> Any:
        try:
            x = nodes.mailbox["m"].median(1)[0]
        except:  # noqa: E722
            x = nodes.mailbox["m"].sum(1)
        return {"out": x}

    return {
        "writes a global": (global_write, False),
        "writes a nonlocal": (nonlocal_write, False),
        "appends to a list": (appends, False),
        "sets an item of a dict": (sets_an_item, False),
        "writes into a tensor of its own": (writes_a_tensor, False),
        "prints": (prints, False),
        "branches": (branches, False),
        "is a generator": (generates, False),
        "adds in place": (adds_in_place, False),
        "has a list as default": (default_list, False),
        "has a list as keyword default": (keyword_default_list, False),
        "catches every error": (catches, False),
        "sets an attribute": (model.counting, False),
        "sets an item of an attribute": (model.noting, False),
        "calls a method that sets an attribute": (model.helped, False),
        "calls a helper that appends": (lambda nodes: {"out": noisy(nodes.mailbox["m"].sum(1))}, False),
        "calls a class that counts": (lambda nodes: {"out": Tally.add_one() or nodes.mailbox["m"].sum(1)}, False),
        "works in place": (lambda nodes: {"out": nodes.mailbox["m"].sum(1).mul_(2)}, False),
        "works in place by keyword": (lambda nodes: {"out": F.relu(nodes.mailbox["m"].sum(1), inplace=True)}, None),
        "draws from random": (lambda nodes: {"out": nodes.mailbox["m"].sum(1) * random.random()}, False),
        "draws from a name of random": (lambda nodes: {"out": nodes.mailbox["m"].sum(1) * draw()}, False),
        "draws from numpy.random": (lambda nodes: {"out": nodes.mailbox["m"].sum(1) * np.random.rand()}, False),
        "draws from a NumPy generator": (lambda nodes: {"out": nodes.mailbox["m"].sum(1) * GENERATOR.random()}, False),
        "draws from a torch generator": (
            lambda nodes: {"out": nodes.mailbox["m"].sum(1) * torch.rand(1, generator=TORCH_GENERATOR)},
            False,
        ),
        "draws from its object's generator": (Drawing().reduce, False),
        "reads the time": (lambda nodes: {"out": nodes.mailbox["m"].sum(1) + 0 * time.time()}, False),
        "uses a layer with running statistics": (lambda nodes: {"out": normed(nodes.mailbox["m"].sum(1))}, False),
        "uses a layer that counts": (lambda nodes: {"out": counting(nodes.mailbox["m"].sum(1))}, False),
        "uses a layer that holds one that counts": (lambda nodes: {"out": nested(nodes.mailbox["m"].sum(1))}, False),
        "is an object": (ForReal(lambda nodes: {"out": nodes.mailbox["m"].sum(1)}), False),
        "is a lambda": (lambda nodes: {"out": nodes.mailbox["m"].sum(1)}, True),
        "has a number as default": (scaled, True),
        "is a partial": (functools.partial(scaled, factor=3.0), True),
        "is a method of a layer": (model.plain, True),
        "calls a helper": (lambda nodes: {"out": doubled(nodes.mailbox["m"].sum(1))}, True),
        "reads a global number": (lambda nodes: {"out": nodes.mailbox["m"].sum(1) * SCALE}, True),
        "reads a global dict": (lambda nodes: {"out": nodes.mailbox["m"].sum(1) * SETTINGS["scale"]}, True),
        "reads a tensor": (lambda nodes: {"out": nodes.mailbox["m"].sum(1) * weight}, True),
        "uses math": (lambda nodes: {"out": nodes.mailbox["m"].sum(1) * math.sqrt(2)}, True),
        "uses a layer": (lambda nodes: {"out": model.linear(nodes.mailbox["m"].sum(1))}, True),
    }


CASES = closures()


@pytest.mark.parametrize("what", [name for name, (_, may) in CASES.items() if may is not None])
def test_which_functions_may_be_recorded(what: str) -> None:
    function, may = CASES[what]
    message = refusal(function, once=True)
    assert (message is None) == may, message


EFFECTS = [
    "writes a global",
    "appends to a list",
    "sets an item of a dict",
    "sets an attribute",
    "sets an item of an attribute",
    "calls a helper that appends",
    "calls a method that sets an attribute",
    "calls a class that counts",
    "has a list as default",
    "has a list as keyword default",
    "writes into a tensor of its own",
    "uses a layer that counts",
    "uses a layer that holds one that counts",
]


def state_of(function: Any) -> list[Any]:
    """Return the numbers that a function of the table above may have changed."""
    plain = getattr(function, "__func__", function)
    results: list[Any] = [COUNTER, len(LOG), SETTINGS["calls"], Tally.calls]
    owners = [getattr(function, "__self__", None)]
    for value in [*(cell.cell_contents for cell in plain.__closure__ or ()), *(plain.__defaults__ or ())]:
        owners.append(value)
    owners += (plain.__kwdefaults__ or {}).values()
    for value in owners:
        if isinstance(value, nn.Module):
            results += [layer.calls for layer in value.modules() if hasattr(layer, "calls")]
            results += [value.seen["calls"]] if isinstance(value, Model) else []
        elif isinstance(value, torch.Tensor):
            results += value.tolist()
        elif isinstance(value, list):
            results.append(len(value))
    return results


@pytest.mark.parametrize("what", EFFECTS)
def test_side_effects_are_those_of_a_real_run(what: str) -> None:
    """The multigraph has two buckets, so a reduce function runs twice."""
    changes = []
    for wrap in (lambda function: function, for_real):
        function = closures()[what][0]
        before = state_of(function)
        multigraph().update_all(COPY, wrap(function))
        changes.append([after - old for after, old in zip(state_of(function), before, strict=True)])
    assert changes[0] == changes[1] and any(changes[0])


@pytest.mark.parametrize(
    "what",
    [
        "draws from random",
        "draws from a name of random",
        "draws from numpy.random",
        "draws from a NumPy generator",
        "draws from a torch generator",
        "draws from its object's generator",
    ],
)
def test_random_numbers_are_those_of_a_real_run(what: str) -> None:
    results = []
    for wrap in (lambda function: function, for_real):
        random.seed(5)
        np.random.seed(5)
        GENERATOR.bit_generator.state = np.random.default_rng(5).bit_generator.state
        TORCH_GENERATOR.manual_seed(5)
        function = Drawing().reduce if what == "draws from its object's generator" else CASES[what][0]
        g = multigraph()
        g.update_all(COPY, wrap(function))
        results.append(g.ndata["out"])
    assert torch.equal(*results)


# -- randomness of the tensor library ----------------------------------------------------------------------------------
def drop_message(edges: Any) -> Any:
    return {"m": F.dropout(edges.src["h"] * edges.data["w"], 0.4)}


def drop_result(nodes: Any) -> Any:
    return {"out": F.dropout(nodes.mailbox["m"].sum(1), 0.4)}


def plain_sum(nodes: Any) -> Any:
    return {"out": nodes.mailbox["m"].sum(1)}


def draw_and_forget(edges: Any) -> Any:
    torch.rand(2)
    return {"m": edges.src["h"]}


def branch_at_random(edges: Any) -> Any:
    if torch.rand(1).item() < 0.5:
        return {"m": edges.src["h"]}
    return {"m": -edges.src["h"]}


def draw_for_nodes(nodes: Any) -> Any:
    return {"out": nodes.mailbox["m"].sum(1) + torch.rand(len(nodes), 3, dtype=torch.float64)}


@pytest.mark.parametrize(
    ("message", "reduce"),
    [
        (drop_message, plain_sum),
        (COPY, drop_result),
        (drop_message, drop_result),
        (draw_and_forget, plain_sum),
        (branch_at_random, plain_sum),
        (COPY, draw_for_nodes),
    ],
)
def test_random_draws_are_bit_identical(message: Any, reduce: Any) -> None:
    """Eight calls in a row, so that what was learned in one is used in the next."""
    results = []
    for wrap in (lambda function: function, for_real):
        torch.manual_seed(11)
        g = multigraph()
        outs = []
        for _ in range(8):
            g.update_all(wrap(message), wrap(reduce))
            outs.append(g.ndata["out"])
        results.append((torch.stack(outs), torch.rand(3)))
    torch.testing.assert_close(results[0][0], results[1][0], rtol=1e-12, atol=1e-12)
    assert torch.equal(results[0][1], results[1][1]), "the generator is left in another state"
    assert torch.equal(results[0][0] == 0, results[1][0] == 0)


def test_a_dropout_layer_follows_its_mode() -> None:
    drop = nn.Dropout(0.5)
    message, reduce = (
        (lambda edges: {"m": drop(edges.src["h"])}),
        (lambda nodes: {"out": drop(nodes.mailbox["m"].sum(1))}),
    )
    for mode in (True, False, True):
        drop.train(mode)
        assert_as_for_real(message, reduce)


def test_a_random_initializer_draws_as_for_real() -> None:
    results = []
    for wrap in (lambda function: function, for_real):
        g = multigraph()
        g.set_n_initializer(lambda shape, dtype, ctx, ids: torch.rand(shape, dtype=dtype))
        torch.manual_seed(2)
        g.update_all(COPY, wrap(plain_sum))
        results.append(g.ndata["out"])
    torch.testing.assert_close(*results)


def test_explain_leaves_the_generator_as_it_was() -> None:
    g, state = multigraph(), torch.get_rng_state()
    dglite.explain(g, drop_message, drop_result)
    assert torch.equal(state, torch.get_rng_state())


# -- branches, stores, writes ------------------------------------------------------------------------------------------
def sign_of_the_sum(edges: Any) -> Any:
    h = edges.src["h"]
    if h.sum() > 0:
        return {"m": h}
    return {"m": -h}


def weighted_if_there_are_weights(edges: Any) -> Any:
    if "w" in edges.data:
        return {"m": edges.src["h"] * edges.data["w"]}
    return {"m": edges.src["h"]}


def all_columns(edges: Any) -> Any:
    return {name: column * 2 for name, column in edges.src.items()}


def all_sums(nodes: Any) -> Any:
    return {f"{name} sum": column.sum(1) for name, column in nodes.mailbox.items()}


def by_size(edges: Any) -> Any:
    return {"m": edges.src["h"] if len(edges) > 14 else edges.src["h"] * 2}


def per_edge(edges: Any) -> Any:
    return {"m": edges.src["h"] / edges.src["h"].shape[0]}


def by_mode(edges: Any) -> Any:
    return {"m": edges.src["h"] * (2 if torch.is_grad_enabled() else 3)}


@pytest.mark.parametrize("message", [sign_of_the_sum, weighted_if_there_are_weights, all_columns, by_size, per_edge])
def test_a_function_that_asks_is_asked_again(message: Any) -> None:
    """Graphs differ in signs, columns and sizes; columns that were seen before have the same shapes and dtypes."""

    def without_weights() -> Any:
        g = multigraph()
        del g.edata["w"]
        return g

    def negative() -> Any:
        g = multigraph()
        g.ndata["h"] = -g.ndata["h"].abs()
        return g

    def positive() -> Any:
        g = multigraph()
        g.ndata["h"] = g.ndata["h"].abs()
        return g

    def larger() -> Any:
        g = dglite.graph(([0] * 20, [1] * 20), num_nodes=2)
        g.ndata["h"], g.edata["w"] = values(2, 3, seed=1), values(20, 1, seed=2)
        g.ndata["extra"] = values(2, 3, seed=9)
        return g

    for make in (without_weights, positive, negative, larger, multigraph, without_weights):
        reduce = all_sums if message is all_columns else plain_sum
        assert_as_for_real(message, reduce, make)


def test_a_function_that_asks_for_the_edge_type_is_asked_again() -> None:
    def message(edges: Any) -> Any:
        return {"m": edges.src["h"] * {"one": 1.0, "two": 2.0}[edges.canonical_etype[1]]}

    g = dglite.heterograph({("n", "one", "n"): ([0, 1], [1, 0]), ("n", "two", "n"): ([0, 1], [1, 0])})
    g.ndata["h"] = torch.tensor([[1.0], [3.0]])
    for etype, factor in (("one", 1.0), ("two", 2.0), ("one", 1.0)):
        g.update_all(message, plain_sum, etype=etype)
        assert torch.equal(g.ndata["out"], factor * torch.tensor([[3.0], [1.0]]))


def test_a_function_that_asks_whether_gradients_are_taken_is_asked_again() -> None:
    assert_as_for_real(by_mode, plain_sum)
    g = multigraph()
    with torch.no_grad():
        g.update_all(by_mode, plain_sum)
    h = multigraph()
    h.update_all(lambda edges: {"m": edges.src["h"] * 3}, plain_sum)
    torch.testing.assert_close(g.ndata["out"], h.ndata["out"])


def no_gradient_of_weights(edges: Any) -> Any:
    h = edges.src["h"]
    with torch.no_grad():
        weight = torch.exp(h)
    return {"m": weight * h}


def no_gradient_of_means(nodes: Any) -> Any:
    m = nodes.mailbox["m"]
    with torch.no_grad():
        mean = m.mean(1)
    return {"out": m.sum(1) * mean}


def detached(edges: Any) -> Any:
    return {"m": edges.src["h"].detach() * edges.dst["h"]}


@pytest.mark.parametrize(
    ("message", "reduce"),
    [(no_gradient_of_weights, plain_sum), (COPY, no_gradient_of_means), (detached, plain_sum)],
)
def test_gradients_that_are_switched_off_stay_off(message: Any, reduce: Any) -> None:
    assert_as_for_real(message, reduce)


def relu_in_place(edges: Any) -> Any:
    h = edges.src["h"]
    F.relu(h, inplace=True)
    return {"m": h}


def writes_rows(edges: Any) -> Any:
    h = edges.src["h"]
    h[0] = 5.0
    return {"m": h}


def writes_through_a_view(edges: Any) -> Any:
    h = edges.src["h"]
    view = h.detach()
    view[0] = 5.0
    return {"m": h}


def writes_to_out(edges: Any) -> Any:
    h = edges.src["h"]
    torch.add(h, 1, out=h)
    return {"m": h}


def writes_and_catches(edges: Any) -> Any:
    h = edges.src["h"]
    try:
        h[0] = 5.0
    except:  # noqa: E722
        h = h * 2
    return {"m": h}


@pytest.mark.parametrize(
    "message", [relu_in_place, writes_rows, writes_through_a_view, writes_to_out, writes_and_catches]
)
def test_what_is_written_into_a_given_column_counts(message: Any) -> None:
    results = []
    for wrap in (lambda function: function, for_real):
        g = multigraph()
        g.update_all(wrap(message), plain_sum)
        results.append(g.ndata["out"])
    torch.testing.assert_close(*results)
    assert torch.equal(g.ndata["h"], multigraph().ndata["h"])


def test_an_activation_layer_that_works_in_place_counts() -> None:
    act = nn.ReLU(inplace=True)

    def message(edges: Any) -> Any:
        h = edges.src["h"]
        act(h)
        return {"m": h}

    results = []
    for wrap in (lambda function: function, for_real):
        g = multigraph()
        g.update_all(wrap(message), plain_sum)
        results.append(g.ndata["out"])
    torch.testing.assert_close(*results)


def test_a_hook_on_a_given_column_is_called() -> None:
    def triple(gradient: Any) -> Any:
        return gradient * 3

    def message(edges: Any) -> Any:
        h = edges.src["h"]
        h.register_hook(triple)
        return {"m": h}

    assert_as_for_real(message, plain_sum)


def test_a_column_that_is_kept_is_a_tensor() -> None:
    kept: dict[str, Any] = {}

    def message(edges: Any) -> Any:
        kept["h"] = edges.src["h"]
        return {"m": edges.src["h"] * 2}

    g = multigraph()
    g.update_all(message, plain_sum)
    assert type(kept["h"]) is torch.Tensor and torch.equal(kept["h"], g.ndata["h"][g.edges()[0]])


def test_running_statistics_are_updated_once_a_call() -> None:
    counts = []
    for wrap in (lambda function: function, for_real):
        norm = nn.BatchNorm1d(3).double()
        g = multigraph()
        for _ in range(3):
            g.update_all(wrap(lambda edges, norm=norm: {"m": norm(edges.src["h"])}), plain_sum)
        counts.append((int(norm.num_batches_tracked), norm.running_mean))
    assert counts[0][0] == counts[1][0] == 3
    torch.testing.assert_close(counts[0][1], counts[1][1])


def test_a_function_that_raises_leaves_the_graph_as_it_was() -> None:
    def message(edges: Any) -> Any:
        if edges.src["h"].max() > 0:
            raise ZeroDivisionError("by design")
        return {"m": edges.src["h"]}

    def reduce(nodes: Any) -> Any:
        return {"out": nodes.mailbox["m"].sum(1) / torch.ones(7)}

    g = multigraph()
    for function in (message, for_real(message)):
        with pytest.raises(ZeroDivisionError, match="by design"):
            g.update_all(function, plain_sum)
    for function in (reduce, for_real(reduce)):
        with pytest.raises(RuntimeError, match="size"):
            g.update_all(COPY, function)
    assert set(g.ndata) == {"h", "p"} and set(g.edata) == {"w", "k"}


def test_nodes_that_send_nothing_have_no_part_in_any_gradient() -> None:
    """Work on rows may run on all nodes; what it makes of those that send nothing must not be seen."""
    linear = nn.Linear(3, 3).double()
    results = []
    for wrap in (lambda function: function, for_real):
        g = multigraph()
        h = g.ndata["h"].abs()
        h[5] = 0.0
        g.ndata["h"] = h.requires_grad_()
        g.update_all(wrap(lambda edges: {"m": torch.sqrt(edges.src["h"])[:, :2]}), plain_sum)
        results.append(torch.autograd.grad(g.ndata["out"].sum(), h)[0])
        g.ndata["h"] = torch.where(torch.arange(6)[:, None] == 5, math.nan, h.detach())
        g.update_all(wrap(lambda edges: {"m": linear(edges.src["h"])}), plain_sum)
        results.append(torch.autograd.grad(g.ndata["out"].sum(), linear.weight)[0])
    torch.testing.assert_close(results[0], results[2])
    torch.testing.assert_close(results[1], results[3])


def test_recording_is_not_refused_for_what_only_computes() -> None:
    assert recorded(lambda edges: {"m": doubled(edges.src["h"]) * SCALE}, multigraph()) is not None
    assert recorded(drop_message, multigraph()) is not None
