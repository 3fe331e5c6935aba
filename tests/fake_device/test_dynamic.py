"""Vertex programs on a GPU: as on the CPU, with one copy to it for a call and no wait."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import dglite
from dglite import DGLGraph, dynamic
from dglite.errors import DGLError
from dglite.ops import devices
from tests.dynamic.programs import BinaryTreeLSTM, Chain, ChildSumTreeLSTM, Gated, Mixed
from tests.dynamic.test_propagation import Cell, featured
from tests.fake_device.device import DEVICE, KIND, recorded

WIDTH, SIZE = 6, 8
TREES = [([0, 1], [2, 2]), ([0, 1, 2, 3], [2, 2, 4, 4]), ([0], [1]), ([0, 1], [2, 2])]
CHAINS = [([0, 1, 2], [1, 2, 3]), ([0], [1]), ([], [])]
DAG = [([0, 0, 1, 2, 2, 0, 3, 3], [1, 2, 3, 3, 4, 4, 4, 5])]


class Attention(dynamic.VertexFunction):
    """Reductions other than sums over children, and torch functions without a kernel."""

    def __init__(self, in_feats: int, size: int) -> None:
        super().__init__(state=size)
        self.W, self.score, self.norm = nn.Linear(in_feats, size), nn.Linear(size, 1), nn.LayerNorm(size)

    def forward(self) -> None:
        children, x = self.gather_all(), self.W(self.pull())
        weights = children.softmax(self.score(children.states))
        h = torch.tanh(x + children.sum(weights * children.states) + children.max() - children.mean())
        self.scatter(h)
        self.push(self.norm(h).cumsum(1), h.softmax(1))


PROGRAMS: list[tuple[Callable[[int, int], Any], Any]] = [
    (BinaryTreeLSTM, TREES),
    (ChildSumTreeLSTM, DAG),
    (Chain, CHAINS),
    (Gated, DAG),
    (Attention, DAG),
]


def batch_of(edges: Any, device: str = "cpu") -> DGLGraph:
    return dglite.batch([dglite.graph(pair, num_nodes=max([0, *pair[0], *pair[1]]) + 1) for pair in edges]).to(device)


def outputs_and_gradients(program: Any, g: DGLGraph, *inputs: Any, **options: Any) -> list[torch.Tensor]:
    """Return what is pushed, and the gradients of the inputs that want one and of the parameters."""
    program.zero_grad()
    result = program(g, *inputs, **options)
    outs = list(result) if isinstance(result, tuple) else [result]
    sum((out * torch.linspace(-1, 1, out.numel(), device=out.device).view(out.shape)).sum() for out in outs).backward()
    given = [x.values if isinstance(x, dynamic.Partial) else x for x in inputs]
    return [*outs, *(x.grad for x in given if x.requires_grad), *(p.grad for p in program.parameters())]


def alike(actual: list[torch.Tensor], want: list[torch.Tensor], tolerance: float = 1e-4) -> None:
    torch.testing.assert_close([x.cpu() for x in actual], want, rtol=tolerance, atol=tolerance)


def check(program: Any, edges: Any, device: str, *inputs: torch.Tensor) -> None:
    """Compare a program's results and gradients there with those of the CPU."""
    there = copy.deepcopy(program).to(device)
    want = outputs_and_gradients(program, batch_of(edges), *inputs)
    moved = [x.detach().to(device).requires_grad_(x.requires_grad) for x in inputs]
    alike(outputs_and_gradients(there, batch_of(edges, device), *moved), want)


@pytest.mark.parametrize(("make", "edges"), PROGRAMS)
def test_programs(make, edges):
    torch.manual_seed(0)
    x = torch.randn(batch_of(edges).num_nodes(), WIDTH, requires_grad=True)
    check(make(WIDTH, SIZE), edges, DEVICE, x)


@pytest.mark.parametrize("switches", [{"eager": False}, {"lazy": False}, {"fuse": False}])
def test_without_optimisations(switches):
    torch.manual_seed(0)
    x = torch.randn(batch_of(DAG).num_nodes(), WIDTH, requires_grad=True)
    with dynamic.options(**switches):
        check(Mixed(WIDTH, SIZE), DAG, DEVICE, x)


def test_double_precision_and_several_turns():
    torch.manual_seed(0)
    program = ChildSumTreeLSTM(WIDTH, SIZE).double()
    there, g = copy.deepcopy(program).to(DEVICE), batch_of(TREES, DEVICE)
    for _ in range(2):
        x = torch.randn(g.num_nodes(), WIDTH, dtype=torch.float64, requires_grad=True)
        want = outputs_and_gradients(program, batch_of(TREES), x)
        moved = x.detach().to(DEVICE).requires_grad_()
        alike(outputs_and_gradients(there, g, moved), want, 1e-12)


class Leaf(dynamic.VertexFunction):
    def __init__(self, in_feats: int, size: int) -> None:
        super().__init__(state=size)
        self.W = nn.Linear(in_feats, size)

    def forward(self) -> None:
        h = torch.tanh(self.W(self.pull()))
        self.scatter(h)
        self.push(h)


class Inner(Leaf):
    def forward(self) -> None:
        h = torch.tanh(self.gather_all().max() + self.W(self.pull()))
        self.scatter(h)
        self.push(h)


@pytest.mark.parametrize("of_device", [False, True])
def test_kinds_and_partial_inputs(of_device):
    """Kinds and nodes of the host are read without waiting; those of the device are waited for."""
    torch.manual_seed(0)
    program, g = dynamic.ByKind(Leaf(WIDTH, SIZE), Inner(WIDTH, SIZE)), batch_of(TREES)
    kinds, nodes = (g.in_degrees() > 0).long(), torch.tensor([0, 2, 3, 7])
    values = torch.randn(4, WIDTH, requires_grad=True)
    want = outputs_and_gradients(program, g, dynamic.Partial(nodes, values), kinds=kinds)
    there, moved = copy.deepcopy(program).to(DEVICE), values.detach().to(DEVICE).requires_grad_()
    kinds, nodes = (x.to(DEVICE if of_device else "cpu") for x in (kinds, nodes))
    alike(outputs_and_gradients(there, g.to(DEVICE), dynamic.Partial(nodes, moved), kinds=kinds), want)
    with recorded() as events:
        there(g.to(DEVICE), dynamic.Partial(nodes, moved), kinds=kinds)
    assert len(events.waits) == 2 * of_device


class Looks(dynamic.VertexFunction):
    """Inputs that are integers and booleans, a number of the host, and an embedding."""

    def __init__(self, size: int) -> None:
        super().__init__(state=size)
        self.words, self.scale = nn.Embedding(10, size), torch.tensor(0.5)

    def forward(self) -> None:
        word, known = self.pull()
        h = torch.where(known[:, None], self.words(word), self.gather_all().sum()) * self.scale
        self.scatter(h)
        self.push(h)


def test_inputs_that_are_no_floats():
    torch.manual_seed(0)
    program, g = Looks(SIZE), batch_of(TREES)
    words, known = torch.arange(g.num_nodes()) % 10, g.in_degrees() == 0
    want = outputs_and_gradients(program, g, words, known)
    there = copy.deepcopy(program).to(DEVICE)
    actual = outputs_and_gradients(there, g.to(DEVICE), words.to(DEVICE), known.to(DEVICE))
    alike(actual, want)


# -- copies and waits --------------------------------------------------------------------------------------------------
def test_a_step_copies_once_and_waits_for_nothing():
    program = BinaryTreeLSTM(WIDTH, SIZE).to(DEVICE)
    optimizer = torch.optim.SGD(program.parameters(), lr=0.1)

    def step(trees: Any) -> None:
        g = batch_of(trees, DEVICE)
        x = torch.zeros(g.num_nodes(), WIDTH, device=DEVICE)
        optimizer.zero_grad()
        program(g, x).sum().backward()
        optimizer.step()

    step(TREES)
    for trees in (TREES, TREES[:2], TREES * 3):
        with recorded() as events:
            step(trees)
        assert events.waits == []
        assert len(events.copies) == 1 and events.copies[0].startswith("to device")


def test_a_level_and_class_is_a_launch_for_each_side_of_a_product(monkeypatch):
    """A level of a Tree-LSTM: states are gathered, multiplied by torch, and go through the gates."""
    launches = list[str]()
    runner = type(devices.device_on(torch.device(DEVICE)).queue)
    launch = runner.launch
    monkeypatch.setattr(runner, "launch", lambda self, *args: (launches.append(args[1]), launch(self, *args))[1])
    program = BinaryTreeLSTM(WIDTH, SIZE).to(DEVICE)

    def count(depth: int) -> int:
        """Return the launches for a chain of one-sided trees."""
        nodes = torch.arange(depth)
        g = dglite.graph((nodes, nodes + 1)).to(DEVICE)
        launches.clear()
        with torch.no_grad():
            program(g, torch.zeros(g.num_nodes(), WIDTH, device=DEVICE))
        return len(launches)

    assert count(8) - count(4) == 2 * 4


# -- gradients of gradients, dropout ------------------------------------------------------------------------
def test_second_derivatives():
    torch.manual_seed(0)
    program, g = ChildSumTreeLSTM(WIDTH, SIZE), batch_of(DAG)
    there = copy.deepcopy(program).to(DEVICE)
    x = torch.randn(g.num_nodes(), WIDTH)

    def penalty(program: Any, g: DGLGraph, x: torch.Tensor) -> list[torch.Tensor]:
        x = x.detach().requires_grad_()
        (grad,) = torch.autograd.grad(program(g, x)[0].pow(2).sum(), x, create_graph=True)
        program.zero_grad()
        grad.pow(2).sum().backward()
        return [grad, x.grad, *(p.grad for p in program.parameters())]

    alike(penalty(there, g.to(DEVICE), x.to(DEVICE)), penalty(program, g, x))


class Dropped(Leaf):
    def forward(self) -> None:
        h = torch.nn.functional.dropout(self.pull() + self.gather_all().sum(), 0.5, self.training)
        self.scatter(h)
        self.push(h)


def test_dropout_draws_a_mask_for_each_vertex():
    program, g = Dropped(WIDTH, WIDTH).to(DEVICE), batch_of([([], [])] * 40, DEVICE)
    x = torch.ones(g.num_nodes(), WIDTH, device=DEVICE, requires_grad=True)
    out = program(g, x)
    out.sum().backward()
    assert set(out.flatten().tolist()) == {0.0, 2.0} and torch.equal(x.grad.cpu(), out.detach().cpu())


# -- other devices, errors, explanations ------------------------------------------------------------------------------
@pytest.mark.parametrize(("make", "edges"), PROGRAMS)
def test_on_a_device_without_kernels(make, edges, monkeypatch):
    monkeypatch.delitem(devices.RUNNERS, KIND)
    torch.manual_seed(0)
    x = torch.randn(batch_of(edges).num_nodes(), WIDTH, requires_grad=True)
    check(make(WIDTH, SIZE), edges, DEVICE, x)


def test_what_lies_elsewhere_is_named():
    program, g = BinaryTreeLSTM(WIDTH, SIZE), batch_of(TREES)
    x = torch.zeros(g.num_nodes(), WIDTH)
    with pytest.raises(DGLError, match=f"input 0 is on {DEVICE}, but the graph is on cpu: .* g.to\\('{DEVICE}'\\)"):
        program(g, x.to(DEVICE))
    with pytest.raises(DGLError, match=f"input 0 is on cpu, but the graph is on {DEVICE}"):
        program(g.to(DEVICE), x)
    with pytest.raises(DGLError, match=f"BinaryTreeLSTM has parameters on cpu, but the graph is on {DEVICE}"):
        program(g.to(DEVICE), x.to(DEVICE))
    program.to(DEVICE)
    program(g.to(DEVICE), x.to(DEVICE))
    program.U.to("cpu")
    with pytest.raises((DGLError, RuntimeError), match="cpu"):
        program(g.to(DEVICE), x.to(DEVICE))
    cycle = dglite.graph(([0, 1], [1, 0])).to(DEVICE)
    with pytest.raises(DGLError, match="cycle of 2 nodes"):
        BinaryTreeLSTM(WIDTH, SIZE).to(DEVICE)(cycle, torch.zeros(2, WIDTH, device=DEVICE))


def test_a_program_is_explained():
    program, g = Attention(WIDTH, SIZE).to(DEVICE), batch_of(DAG, DEVICE)
    text = str(dglite.explain(program, g, torch.zeros(g.num_nodes(), WIDTH, device=DEVICE)))
    assert "GEMM" in text and "no kernel for cumsum" in text


def test_a_graph_without_edges_or_nodes():
    program = BinaryTreeLSTM(WIDTH, SIZE).to(DEVICE)
    for count in (0, 3):
        g = dglite.graph(([], []), num_nodes=count).to(DEVICE)
        x = torch.zeros(count, WIDTH, device=DEVICE, requires_grad=True)
        out = program(g, x)
        assert out.shape == (count, SIZE) and not out.isnan().any()


# -- prop_nodes_topo ---------------------------------------------------------------------------------------------------
def test_propagation_is_a_program():
    cell = Cell(4).double()
    edges = [0, 1, 2, 3, 5, 6], [2, 2, 4, 4, 7, 7]

    def propagated(cell: Cell, device: str) -> list[torch.Tensor]:
        g = featured(edges).to(device)
        g.ndata.update({name: x.detach() for name, x in g.ndata.items()})
        cell.zero_grad()
        functions = cell.message, cell.reduce, cell.apply
        assert dglite.explain(g, *functions, order="topo").is_program
        dglite.prop_nodes_topo(g, cell.message, cell.reduce, apply_node_func=cell.apply)
        results = [g.ndata[name] for name in ("h", "c", "iou")]
        sum(x.sum() for x in results).backward()
        return [*results, *(p.grad for p in cell.parameters())]

    there = copy.deepcopy(cell).to(DEVICE)
    want = propagated(cell, "cpu")
    propagated(there, DEVICE)
    with recorded() as events:
        actual = propagated(there, DEVICE)
    alike(actual, want, 1e-10)
    assert not [event for event in events.copies if event.startswith("to host")]
