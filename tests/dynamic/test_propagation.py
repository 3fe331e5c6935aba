"""``prop_nodes_topo`` as a vertex program against message passing, frontier after frontier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import dglite
from dglite import DGLGraph
from dglite import function as fn
from dglite.dynamic.propagation import propagate_as_program

TREE = ([0, 1, 2, 3, 5, 6], [2, 2, 4, 4, 7, 7])
DAG = ([0, 0, 1, 2, 2, 0, 3, 3, 6], [1, 2, 3, 3, 4, 4, 4, 5, 5])
"""Nodes with none to three children, children with several parents, a double edge to none: one of two levels."""


class Cell(nn.Module):
    """A Tree-LSTM's functions as methods."""

    def __init__(self, size: int, scale: float = 1.0) -> None:
        super().__init__()
        self.U, self.size, self.scale = nn.Linear(size, 3 * size), size, scale
        self.drop = nn.Dropout(0.5)

    def message(self, edges: Any) -> dict[str, Any]:
        return {"h": edges.src["h"], "c": self.scale * edges.src["c"], "x": edges.dst["x"]}

    def reduce(self, nodes: Any) -> dict[str, Any]:
        gates = self.U(nodes.mailbox["h"].sum(1)) + nodes.data["iou"]
        return {"iou": gates, "c": (torch.sigmoid(nodes.mailbox["x"]) * nodes.mailbox["c"]).sum(1)}

    def apply(self, nodes: Any) -> dict[str, Any]:
        i, o, u = nodes.data["iou"].chunk(3, 1)
        c = torch.sigmoid(i) * torch.tanh(u) + nodes.data["c"]
        return {"h": torch.sigmoid(o) * torch.tanh(c), "c": c}

    def dropped(self, nodes: Any) -> dict[str, Any]:
        return {"h": self.drop(nodes.mailbox["h"].sum(1))}


def featured(edges: tuple[list[int], list[int]], size: int = 4, dtype: torch.dtype = torch.float64) -> DGLGraph:
    g = dglite.graph(edges, num_nodes=8)
    torch.manual_seed(0)
    for name, width in (("iou", 3 * size), ("h", size), ("c", size), ("x", size)):
        g.ndata[name] = torch.randn(8, width, dtype=dtype, requires_grad=True)
    g.ndata["other"] = torch.arange(8)
    return g


def plain(g: DGLGraph, *functions: Any) -> None:
    g.prop_nodes(dglite.topological_nodes_generator(g), *functions)


def check(make: Callable[[], DGLGraph], functions: Callable[[], tuple], parameters: list[torch.Tensor]) -> None:
    """Compare what is written, and gradients."""
    found = []
    for run in (lambda *args: propagate_as_program(*args), plain):
        g = make()
        leaves = [x for x in g.ndata.values() if x.requires_grad]
        done = run(g, *functions())
        assert done is not False
        outs = dict(g.ndata)
        loss = sum((x * torch.arange(x.numel()).view_as(x)).sum() for x in outs.values() if x.is_floating_point())
        found.append((outs, torch.autograd.grad(loss, [*leaves, *parameters], allow_unused=True)))
    (ours, our_grads), (theirs, their_grads) = found
    assert ours.keys() == theirs.keys()
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name])
    for x, y in zip(our_grads, their_grads, strict=True):
        assert x is not None or y is None or not y.any()
        torch.testing.assert_close(x if x is not None else y, y if y is not None else torch.zeros_like(x))


@pytest.mark.parametrize("edges", [TREE, DAG], ids=["tree", "dag"])
def test_what_is_written_and_gradients(edges: tuple) -> None:
    cell = Cell(4).double()
    check(lambda: featured(edges), lambda: (cell.message, cell.reduce, cell.apply), list(cell.parameters()))


def test_functions_that_are_made_anew_for_each_batch() -> None:
    cell = Cell(4).double()

    def functions() -> tuple:
        size = cell.size

        def reduce(nodes: Any) -> dict[str, Any]:
            z = cell.U(nodes.mailbox["h"].sum(dim=1))
            return {"iou": z, "f": torch.sigmoid(z[:, 2 * size :]), "new": nodes.data["h"]}

        return (
            lambda edges: {"h": edges.src["h"]},
            reduce,
            lambda nodes: {"h": torch.tanh(nodes.data["iou"][:, : nodes.data["h"].shape[1]])},
        )

    for edges in (TREE, DAG, TREE):
        check(lambda: featured(edges), functions, list(cell.parameters()))  # noqa: B023


def test_without_an_apply_function_nodes_without_messages_are_left_alone() -> None:
    def functions() -> tuple:
        def reduce(nodes: Any) -> dict[str, Any]:
            total = nodes.mailbox["m"].sum(1) + nodes.data["x"]
            return {"h": total, "new": total * 2}

        return lambda edges: {"m": edges.src["h"] * edges.dst["c"]}, reduce, None

    check(lambda: featured(DAG), functions, [])


def test_a_mailbox_as_a_whole() -> None:
    cell = nn.Linear(8, 4).double()

    def functions() -> tuple:
        return (
            lambda edges: {"m": edges.src["h"]},
            lambda nodes: {"s": nodes.mailbox["m"].flatten(1), "t": torch.softmax(nodes.mailbox["m"], 1)[:, 0]},
            lambda nodes: {"h": torch.tanh(cell(torch.cat([nodes.data["x"], nodes.data["c"]], 1)))},
        )

    check(lambda: featured(TREE), functions, list(cell.parameters()))


def test_values_without_gradients() -> None:
    def reduce(nodes: Any) -> dict[str, Any]:
        return {"h": nodes.mailbox["h"].sum(1) * nodes.data["x"].data + nodes.data["c"].detach()}

    check(lambda: featured(TREE), lambda: (_message, reduce, None), [])


def test_values_of_parameters_and_settings_are_those_of_the_call() -> None:
    cell = Cell(4).double()
    for change in (lambda: None, lambda: cell.U.weight.data.mul_(2), lambda: setattr(cell, "scale", 3.0), cell.eval):
        change()
        check(lambda: featured(TREE), lambda: (cell.message, cell.reduce, cell.apply), list(cell.parameters()))
    cell.U = nn.Linear(4, 12).double()
    check(lambda: featured(TREE), lambda: (cell.message, cell.reduce, cell.apply), list(cell.parameters()))


def test_a_function_of_a_module_that_is_replaced_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell(4).double()
    functions = cell.message, cell.reduce, cell.apply
    check(lambda: featured(TREE), lambda: functions, [])
    monkeypatch.setattr(torch, "tanh", torch.sin)
    check(lambda: featured(TREE), lambda: functions, [])


def test_second_derivatives_are_those_of_message_passing() -> None:
    cell, found = Cell(4).double(), []
    for run in (propagate_as_program, plain):
        g = featured(TREE)
        leaf = g.ndata["x"]
        g.ndata["iou"] = cell.U(g.ndata["h"]) * leaf.sum(1, keepdim=True)  # made of the parameters, too
        tensors = [leaf, *cell.parameters()]
        assert run(g, cell.message, cell.reduce, cell.apply) is not False
        first = torch.autograd.grad(g.ndata["h"].square().sum(), tensors, create_graph=True)
        second = torch.autograd.grad(sum(x.square().sum() for x in first), tensors)
        found.append([*first, *second])
    assert cell.U.weight is tensors[1]
    for x, y in zip(*found, strict=True):
        torch.testing.assert_close(x, y)


def _message(edges: Any) -> dict[str, Any]:
    return {"h": edges.src["h"]}


def _reduce(nodes: Any) -> dict[str, Any]:
    return {"h": nodes.mailbox["h"].sum(1)}


def test_it_is_what_the_public_function_does(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(DGLGraph, "prop_nodes", lambda *args: seen.append(args))
    g = featured(TREE)
    before = g.ndata["h"]
    dglite.prop_nodes_topo(g, _message, _reduce)
    torch.testing.assert_close(g.ndata["h"][2], before[0] + before[1])
    assert not seen
    dglite.prop_nodes_topo(g, _message, _reduce, reverse=True)
    assert len(seen) == 1


TRAINED = torch.ones(4, dtype=torch.float64, requires_grad=True)
DROPPING = Cell(4).double()
HOOKED = nn.Linear(4, 4).double()
HOOKED.register_forward_hook(lambda layer, args, out: out * 2)

UNFIT: dict[str, tuple] = {
    "random": (_message, DROPPING.dropped),
    "ids": (_message, lambda nodes: {"h": nodes.mailbox["h"].sum(1) * nodes.nodes()[:, None]}),
    "a branch": (_message, lambda nodes: {"h": nodes.mailbox["h"].sum(1) if nodes.data["h"].sum() > 0 else 0}),
    "built-in": (fn.copy_u("h", "h"), fn.sum("h", "h")),
    "trained": (_message, lambda nodes: {"h": nodes.mailbox["h"].sum(1) * TRAINED}),
    "hooks": (_message, lambda nodes: {"h": HOOKED(nodes.mailbox["h"].sum(1))}),
    "integers": (_message, lambda nodes: {"h": nodes.mailbox["h"].sum(1) + nodes.data["other"][:, None]}),
    "rows together": (_message, lambda nodes: {"h": nodes.mailbox["h"].sum(1) + nodes.data["x"].sum(0)}),
    "no states": (lambda edges: {"h": edges.dst["h"]}, _reduce),
    "another shape": (_message, lambda nodes: {"x": nodes.mailbox["h"].sum(1)[:, :2]}),
    "new at the leaves": (
        lambda edges: {"h": edges.src["made"]},
        _reduce,
        lambda nodes: {"made": nodes.data["h"] * 2},
    ),
    "missing": (lambda edges: {"h": edges.src["absent"]}, _reduce),
}


@pytest.mark.parametrize("functions", UNFIT.values(), ids=UNFIT)
def test_functions_that_do_not_fit_are_left_to_message_passing(functions: tuple) -> None:
    g = featured(TREE)
    state, before = torch.get_rng_state(), dict(g.ndata)
    for _ in range(2):
        assert not propagate_as_program(g, *(*functions, None)[:3])
    assert torch.equal(state, torch.get_rng_state())
    assert all(g.ndata[name] is x for name, x in before.items())


def test_graphs_that_do_not_fit_are_left_to_message_passing() -> None:
    edge_data = featured(TREE)
    edge_data.edata["w"] = torch.ones(6, 4, dtype=torch.float64)
    weighted = (lambda edges: {"h": edges.src["h"] * edges.data["w"]}, _reduce, None)
    assert not propagate_as_program(edge_data, *weighted)
    registered = featured(TREE)
    with pytest.warns(DeprecationWarning):
        registered.register_apply_node_func(lambda nodes: {"h": nodes.data["h"] * 2})
    filled = featured(TREE)
    filled.set_n_initializer(lambda shape, dtype, device, rows: torch.ones(shape, dtype=dtype), "new")
    hetero = dglite.heterograph({("a", "x", "a"): ([0], [1]), ("a", "y", "a"): ([0], [1])})
    empty = dglite.graph(([], []), num_nodes=3)
    empty.ndata["h"] = torch.ones(3, 4)
    cycle = dglite.graph(([0, 1, 2], [1, 2, 1]))
    cycle.ndata["h"] = torch.ones(3, 4)
    star = dglite.graph((list(range(40)), [40] * 40))
    star.ndata["h"] = torch.ones(41, 4)
    for g in (registered, filled, hetero, empty, cycle, star):
        assert not propagate_as_program(g, _message, _reduce, None)
    with pytest.raises(dglite.DGLError, match="cycle"):
        dglite.prop_nodes_topo(cycle, _message, _reduce)


def test_autocast_and_functional_transforms_are_left_to_message_passing() -> None:
    g = featured(TREE)
    with torch.autocast("cpu"):
        assert not propagate_as_program(g, _message, _reduce, None)
    with torch.inference_mode():
        assert not propagate_as_program(g, _message, _reduce, None)
    assert propagate_as_program(g, _message, _reduce, None)
