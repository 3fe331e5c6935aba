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
from dglite.dynamic.identity import FunctionIdentity
from dglite.dynamic.propagation import propagate_as_program
from dglite.recorder.dependencies import Dependencies

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
    results = []
    for run in (lambda *args: propagate_as_program(*args), plain):
        g = make()
        leaves = [x for x in g.ndata.values() if x.requires_grad]
        done = run(g, *functions())
        assert done is None
        outs = dict(g.ndata)
        loss = sum((x * torch.arange(x.numel()).view_as(x)).sum() for x in outs.values() if x.is_floating_point())
        results.append((outs, torch.autograd.grad(loss, [*leaves, *parameters], allow_unused=True)))
    (ours, our_grads), (theirs, their_grads) = results
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


def test_what_functions_capture_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of one small tree takes about a millisecond, so what is done for each call counts."""
    looked, captured = list[Any](), Dependencies.captured

    def counted(dependencies: Dependencies, called: Any, outermost: bool = True) -> Any:
        looked.append(called[0])
        return captured(dependencies, called, outermost)

    monkeypatch.setattr(Dependencies, "captured", counted)
    cell = Cell(4)
    FunctionIdentity([cell.message, cell.apply])
    assert looked == [Cell.message, Cell.apply]


def test_second_derivatives_are_those_of_message_passing() -> None:
    cell, results = Cell(4).double(), []
    for run in (propagate_as_program, plain):
        g = featured(TREE)
        leaf = g.ndata["x"]
        g.ndata["iou"] = cell.U(g.ndata["h"]) * leaf.sum(1, keepdim=True)  # made of the parameters, too
        tensors = [leaf, *cell.parameters()]
        assert run(g, cell.message, cell.reduce, cell.apply) is None
        first = torch.autograd.grad(g.ndata["h"].square().sum(), tensors, create_graph=True)
        second = torch.autograd.grad(sum(x.square().sum() for x in first), tensors)
        results.append([*first, *second])
    assert cell.U.weight is tensors[1]
    for x, y in zip(*results, strict=True):
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


TRAINED = torch.full((4,), 0.5, dtype=torch.float64, requires_grad=True)
DROPPING = Cell(4).double()
HOOKED = nn.Linear(4, 4).double()
HOOKED.register_forward_hook(lambda layer, args, out: out * 2)

UNFIT: dict[str, tuple] = {
    "random": (_message, DROPPING.dropped),
    "ids": (_message, lambda nodes: {"h": nodes.mailbox["h"].sum(1) * nodes.nodes()[:, None]}),
    "a branch": (_message, lambda nodes: {"h": nodes.mailbox["h"].sum(1) if nodes.data["h"].sum() > 0 else 0}),
    "built-in": (fn.copy_u("h", "h"), fn.sum("h", "h")),
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
        assert propagate_as_program(g, *(*functions, None)[:3])
    assert torch.equal(state, torch.get_rng_state())
    assert all(g.ndata[name] is x for name, x in before.items())


def test_graphs_that_do_not_fit_are_left_to_message_passing() -> None:
    edge_data = featured(TREE)
    edge_data.edata["w"] = torch.ones(6, 4, dtype=torch.float64)
    weighted = (lambda edges: {"h": edges.src["h"] * edges.data["w"]}, _reduce, None)
    assert propagate_as_program(edge_data, *weighted)
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
        assert propagate_as_program(g, _message, _reduce, None)
    with pytest.raises(dglite.DGLError, match="cycle"):
        dglite.prop_nodes_topo(cycle, _message, _reduce)


def test_autocast_and_functional_transforms_are_left_to_message_passing() -> None:
    g = featured(TREE)
    with torch.autocast("cpu"):
        assert propagate_as_program(g, _message, _reduce, None)
    with torch.inference_mode():
        assert propagate_as_program(g, _message, _reduce, None)
    assert propagate_as_program(g, _message, _reduce, None) is None


class NaryCell(nn.Module):
    """The cell of DGL's Tree-LSTM tutorial: a bias of its own, messages side by side."""

    def __init__(self, x_size: int, h_size: int) -> None:
        super().__init__()
        self.W_iou = nn.Linear(x_size, 3 * h_size, bias=False)
        self.U_iou = nn.Linear(2 * h_size, 3 * h_size, bias=False)
        self.b_iou = nn.Parameter(torch.randn(1, 3 * h_size))
        self.U_f = nn.Linear(2 * h_size, 2 * h_size)

    def message_func(self, edges: Any) -> dict[str, Any]:
        return {"h": edges.src["h"], "c": edges.src["c"]}

    def reduce_func(self, nodes: Any) -> dict[str, Any]:
        h_cat = nodes.mailbox["h"].view(nodes.mailbox["h"].size(0), -1)
        f = torch.sigmoid(self.U_f(h_cat)).view(*nodes.mailbox["h"].size())
        return {"iou": self.U_iou(h_cat), "c": torch.sum(f * nodes.mailbox["c"], 1)}

    def apply_node_func(self, nodes: Any) -> dict[str, Any]:
        iou = nodes.data["iou"] + self.b_iou
        i, o, u = torch.chunk(iou, 3, 1)
        i, o, u = torch.sigmoid(i), torch.sigmoid(o), torch.tanh(u)
        c = i * u + nodes.data["c"]
        return {"h": o * torch.tanh(c), "c": c}


class ChildSumCell(NaryCell):
    """The same for any number of children: a layer on the whole mailbox."""

    def __init__(self, x_size: int, h_size: int) -> None:
        super().__init__(x_size, h_size)
        self.U_iou = nn.Linear(h_size, 3 * h_size, bias=False)
        self.U_f = nn.Linear(h_size, h_size)

    def reduce_func(self, nodes: Any) -> dict[str, Any]:
        h_tild = torch.sum(nodes.mailbox["h"], 1)
        f = torch.sigmoid(self.U_f(nodes.mailbox["h"]))
        return {"iou": self.U_iou(h_tild), "c": torch.sum(f * nodes.mailbox["c"], 1)}


class ReshapingCell(NaryCell):
    def reduce_func(self, nodes: Any) -> dict[str, Any]:
        h = nodes.mailbox["h"]
        f = torch.sigmoid(self.U_f(h.reshape(len(h), -1))).reshape(h.shape)
        left, right = h.unbind(1)
        c = f[:, 0] * nodes.mailbox["c"][:, 0] + f[:, -1] * nodes.mailbox["c"][:, -1]
        return {"iou": self.U_iou(torch.cat([left, right], dim=1)), "c": c}


class RawCell(NaryCell):
    """Matrices as parameters, too, and a bias of one dimension."""

    def __init__(self, x_size: int, h_size: int) -> None:
        super().__init__(x_size, h_size)
        self.U = nn.Parameter(torch.randn(h_size, h_size))
        self.b_iou = nn.Parameter(torch.randn(3 * h_size))

    def reduce_func(self, nodes: Any) -> dict[str, Any]:
        h_cat = nodes.mailbox["h"].flatten(1)
        f = torch.sigmoid(nodes.mailbox["h"] @ self.U)
        return {"iou": self.U_iou(h_cat), "c": torch.sum(f * nodes.mailbox["c"], 1)}


CELLS = [NaryCell, ChildSumCell, ReshapingCell, RawCell]


def trees_of(cell: NaryCell, leaves: list[torch.Tensor]) -> DGLGraph:
    g = dglite.graph(TREE, num_nodes=8)
    x, h, c = leaves
    g.ndata.update({"iou": cell.W_iou(x), "h": h, "c": c})
    return g


def functions_of(cell: NaryCell) -> tuple:
    return cell.message_func, cell.reduce_func, cell.apply_node_func


@pytest.mark.parametrize("Cell", CELLS)
def test_the_cell_of_the_tutorial_is_a_program(Cell: type[NaryCell]) -> None:
    """With a parameter of its own; its gradients, second ones included, are those of message passing."""
    torch.manual_seed(0)
    cell = Cell(5, 4).double()
    leaves = [torch.randn(8, width, dtype=torch.float64, requires_grad=True) for width in (5, 4, 4)]
    assert dglite.explain(trees_of(cell, leaves), *functions_of(cell), order="topo").is_program
    sources = [*leaves, *(x for name, x in cell.named_parameters())]
    results = []
    for run in (propagate_as_program, plain):
        g = trees_of(cell, leaves)
        assert run(g, *functions_of(cell)) is None
        loss = (g.ndata["h"] * torch.arange(32.0).view(8, 4)).sum() + g.ndata["c"].square().sum()
        first = torch.autograd.grad(loss, sources, create_graph=True, allow_unused=True)
        second = torch.autograd.grad(sum(x.square().sum() for x in first if x is not None), sources, allow_unused=True)
        assert first[[name for name, _ in cell.named_parameters()].index("b_iou") + 3].any()
        results.append([g.ndata["h"], g.ndata["c"], *first, *second])
    for ours, theirs in zip(*results, strict=True):
        if ours is None:
            assert theirs is None or not theirs.any()
        else:
            torch.testing.assert_close(ours, torch.zeros_like(ours) if theirs is None else theirs)


@pytest.mark.parametrize("Cell", CELLS)
def test_all_parameters_of_the_cell_are_trained(Cell: type[NaryCell], monkeypatch: pytest.MonkeyPatch) -> None:
    """By the program's own gradient, as the public function runs it."""
    monkeypatch.setattr(DGLGraph, "prop_nodes", lambda *args: pytest.fail("level by level"))
    torch.manual_seed(0)
    cell, grads = Cell(5, 4).double(), []
    leaves = [torch.randn(8, width, dtype=torch.float64) for width in (5, 4, 4)]
    for run in ("program", "plain"):
        g = trees_of(cell, leaves)
        if run == "program":
            dglite.prop_nodes_topo(g, cell.message_func, cell.reduce_func, apply_node_func=cell.apply_node_func)
        else:
            monkeypatch.undo()
            plain(g, *functions_of(cell))
        cell.zero_grad()
        g.ndata["h"].square().sum().backward()
        grads.append([x.grad for x in cell.parameters()])
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_trained_tensor_of_no_module() -> None:
    """Used directly, and in what is computed from it alone; second derivatives are those of message passing."""
    results = []
    for run in (propagate_as_program, plain):
        g = featured(TREE)
        reduce = lambda nodes: {"h": nodes.mailbox["h"].sum(1) * TRAINED + (TRAINED * 2).exp()}  # noqa: E731
        assert run(g, _message, reduce, None) is None
        first = torch.autograd.grad(
            g.ndata["h"].square().sum(), [TRAINED, g.ndata["x"]], create_graph=True, allow_unused=True
        )
        results.append([first[0], *torch.autograd.grad(first[0].square().sum(), [TRAINED])])
    for x, y in zip(*results, strict=True):
        torch.testing.assert_close(x, y)


def test_explain_says_whether_a_propagation_is_a_program() -> None:
    cell = NaryCell(5, 4)
    g = trees_of(cell, [torch.randn(8, width) for width in (5, 4, 4)])
    before = dict(g.ndata)
    explanation = dglite.explain(g, *functions_of(cell), order="topo")
    assert explanation.is_program and explanation.reason is None and explanation.num_frontiers == 3
    assert "runs as one vertex program" in str(explanation) and "NaryCell.message_func" in str(explanation)
    assert all(g.ndata[name] is x for name, x in before.items())
    built_in = dglite.explain(g, fn.copy_u("h", "m"), fn.sum("m", "h"), order="topo")
    assert not built_in.is_program and "built-ins" in built_in.reason
    assert "FusedReduce" in str(built_in.frontier) and "each of 3 frontiers" in str(built_in)
    with pytest.raises(dglite.DGLError, match="order='bfs'"):
        dglite.explain(g, *functions_of(cell), order="bfs")
    with pytest.raises(dglite.DGLError, match="cycle"):
        dglite.explain(dglite.graph(([0, 1], [1, 0])), *functions_of(cell), order="topo")


REASONS = {
    "random": "random numbers",
    "ids": "reads the graph, ids",
    "a branch": "it branches",
    "built-in": "built-ins",
    "hooks": "has hooks",
    "integers": "'other'",
    "rows together": "dimension 0",
    "no states": "no column of their sources",
    "another shape": "another shape",
    "missing": "'absent'",
}


@pytest.mark.parametrize("name", REASONS)
def test_the_reason_is_said(name: str) -> None:
    reason = propagate_as_program(featured(TREE), *(*UNFIT[name], None)[:3])
    assert reason is not None and REASONS[name] in reason
    assert propagate_as_program(featured(TREE), *(*UNFIT[name], None)[:3]) == reason


def test_what_is_made_of_parameters_alone_is_left_to_message_passing() -> None:
    """The engine would draw anew, or lose its second derivative."""
    cell = NaryCell(5, 4)
    noisy = lambda nodes: {"h": nodes.data["h"] + nn.functional.dropout(cell.b_iou, 0.5)[:, :4], "c": nodes.data["c"]}  # noqa: E731
    g = trees_of(cell, [torch.randn(8, width) for width in (5, 4, 4)])
    reason = propagate_as_program(g, cell.message_func, lambda nodes: {"h": nodes.mailbox["h"].sum(1)}, noisy)
    assert reason is not None


def test_a_graph_with_a_cycle_does_not_refuse_the_functions_for_others() -> None:
    message, reduce = (lambda edges: {"h": edges.src["h"]}), (lambda nodes: {"h": nodes.mailbox["h"].sum(1)})
    cycle, acyclic = dglite.graph(([0, 1, 2], [1, 2, 1])), dglite.graph(([0, 0, 1], [2, 1, 2]))  # of the same degrees
    for g in (cycle, acyclic):
        g.ndata["h"] = torch.ones(3, 4)
    assert "cycle" in (propagate_as_program(cycle, message, reduce, None) or "")
    assert propagate_as_program(acyclic, message, reduce, None) is None


def test_trees_of_many_in_degrees() -> None:
    """As those of dependencies, where a word has none to several modifiers: no, one, two, three and four children."""
    src, dst = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 3, 3, 8, 8, 8, 10, 10, 10, 10]
    cell = ChildSumCell(5, 3).double()
    torch.manual_seed(0)
    leaves = [torch.randn(11, width, dtype=torch.float64, requires_grad=True) for width in (5, 3, 3)]
    results = []
    for run in (propagate_as_program, plain):
        g = dglite.graph((src, dst), num_nodes=11)
        g.ndata.update({"iou": cell.W_iou(leaves[0]), "h": leaves[1], "c": leaves[2]})
        assert run(g, *functions_of(cell)) is None
        results.append([g.ndata["h"], *torch.autograd.grad(g.ndata["h"].cos().sum(), [leaves[0], *cell.parameters()])])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)
    g = dglite.graph(([i for v in range(9) for i in range(v)], [9 + v for v in range(9) for _ in range(v)]))
    g.ndata["h"] = torch.ones(g.num_nodes(), 4, dtype=torch.float64)
    assert "in-degrees 0, 1, 2" in propagate_as_program(g, _message, _reduce, None)
