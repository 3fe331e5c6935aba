"""What vertex programs refuse, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import dglite
from dglite import DGLError, dynamic
from tests.dynamic.programs import BinaryTreeLSTM, Chain

EDGE = dglite.graph(([0], [1]))


def program(forward: Callable[[Any], None], state: Any = 2, **parts: Any) -> dynamic.VertexFunction:
    """Return a vertex function of one function and its modules."""
    instance = type("Program", (dynamic.VertexFunction,), {"forward": forward})(state)
    for name, part in parts.items():
        setattr(instance, name, part)
    return instance


def branches(self: Any) -> None:
    h = self.gather(0)
    if h.sum() > 0:
        h = h + 1
    self.scatter(h)
    self.push(h)


def looks(self: Any) -> None:
    self.push(self.pull() * self.gather(0).mean().item())


def changes_state(self: Any) -> None:
    h = self.gather(0)
    h += self.pull()
    self.scatter(h)
    self.push(h)


def changes_part_of_input(self: Any) -> None:
    x = self.pull()
    x[:, :1].mul_(2)
    self.push(x)


def writes_parameter(self: Any) -> None:
    with torch.no_grad():
        self.layer.weight.add_(1)
    self.push(self.pull())


def reads_stale(self: Any) -> None:
    y = torch.cat([self.pull(), self.pull()], 1)
    part = y[:, ::2]
    y.add_(1)
    self.push(torch.cat([part, part], 1))


def mixes_by_softmax(self: Any) -> None:
    self.push(self.pull().softmax(0))


def mixes_by_flip(self: Any) -> None:
    self.push(self.pull().flip(0))


def mixes_by_sum(self: Any) -> None:
    self.push(self.pull() + self.pull().sum(0))


def mixes_by_product(self: Any) -> None:
    self.push(self.pull().t() @ self.pull())


def draws(self: Any) -> None:
    self.push(self.pull() + torch.randn_like(self.pull()))


def joins_edges_and_vertices(self: Any) -> None:
    self.push(self.gather_all().sum(self.gather_all()[0] * self.pull()))


def scatters_other_size(self: Any) -> None:
    self.scatter(torch.cat([self.pull(), self.pull()], 1))
    self.push(self.pull())


def scatters_nothing(self: Any) -> None:
    self.push(self.gather(0))


def scatters_twice(self: Any) -> None:
    self.scatter(self.pull())
    self.scatter(self.pull())


def pushes_nothing(self: Any) -> None:
    self.scatter(self.pull())


def gathers_before_the_first(self: Any) -> None:
    self.gather(-1)


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (branches, "torch.where.*lazy batching"),
        (looks, "looks at the values"),
        (changes_state, "in place"),
        (changes_part_of_input, "in place"),
        (writes_parameter, "does not make itself"),
        (reads_stale, "after an in-place"),
        (mixes_by_softmax, "mixes vertices: _softmax"),
        (mixes_by_flip, "mixes vertices: flip"),
        (mixes_by_sum, "mixes vertices: sum"),
        (mixes_by_product, "mix"),
        (draws, "randn_like"),
        (joins_edges_and_vertices, "children.each"),
        (scatters_other_size, r"\(4,\).*declares is \(2,\)"),
        (scatters_nothing, "never scatters"),
        (scatters_twice, "scatters twice"),
        (pushes_nothing, "pushes nothing"),
        (gathers_before_the_first, "gather\\(-1\\)"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_what_a_function_must_not_do(forward: Callable, message: str) -> None:
    refused = program(forward, layer=nn.Linear(2, 2))
    for _ in range(2):  # a failed call leaves nothing behind
        with pytest.raises(DGLError, match=message):
            refused(EDGE, torch.ones(2, 2))


def test_a_cycle_is_named() -> None:
    g = dglite.graph(([0, 1, 2, 3], [1, 2, 1, 0]))
    with pytest.raises(DGLError, match=r"cycle of 2 nodes: (1 <- 2 <- 1|2 <- 1 <- 2)"):
        Chain(2, 2)(g, torch.ones(4, 2))


def test_a_vertex_with_more_children_than_are_gathered() -> None:
    g = dglite.graph(([0, 1, 2], [3, 3, 3]))
    with pytest.raises(DGLError, match="node 3 has 3 children, but F gathers children 0 to 1"):
        BinaryTreeLSTM(2, 2)(g, torch.ones(4, 2))


def test_a_gathered_vertex_whose_kind_scatters_nothing() -> None:
    silent = program(lambda self: self.push(self.pull()))

    def forward(self: Any) -> None:
        self.scatter(self.gather(0))
        self.push(self.pull())

    by_kind, x = dynamic.ByKind(program(forward), silent), torch.ones(2, 2)
    torch.testing.assert_close(by_kind(EDGE, x, kinds=torch.tensor([0, 1])), x)
    with pytest.raises(DGLError, match="node 0 is gathered"):
        by_kind(EDGE, x, kinds=torch.tensor([1, 0]))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((torch.ones(3, 2),), "each of the 2 nodes"),
        (([1.0, 2.0],), "input 0 is list"),
        ((torch.ones(2, 2, dtype=torch.float64),), "float64.*beside torch.float32"),
        ((dynamic.Partial(torch.tensor([0, 0]), torch.ones(2, 2)),), "distinct"),
        ((dynamic.Partial(torch.tensor([2]), torch.ones(1, 2)),), "1 values for 1 of 2 nodes"),
    ],
)
def test_inputs_that_do_not_fit(inputs: tuple, message: str) -> None:
    with pytest.raises(DGLError, match=message):
        Chain(2, 2)(EDGE, *inputs)


def test_kinds_that_do_not_fit() -> None:
    by_kind = dynamic.ByKind(Chain(2, 2))
    for kinds in ([0], [0, 1], [-1, 0]):
        with pytest.raises(DGLError, match="number of each vertex's function"):
            by_kind(EDGE, torch.ones(2, 2), kinds=torch.tensor(kinds))
    with pytest.raises(DGLError, match="same sizes"):
        dynamic.ByKind(Chain(2, 2), Chain(2, 3))


def test_a_parameter_changed_before_backward() -> None:
    chain = Chain(2, 2)
    out = chain(EDGE, torch.ones(2, 2))
    with torch.no_grad():
        chain.cell.weight_hh.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_graphs_of_several_types() -> None:
    g = dglite.heterograph({("a", "r", "b"): ([0], [0])})
    with pytest.raises(DGLError, match="to_homogeneous"):
        Chain(2, 2)(g, torch.ones(2, 2))


def test_verbs_outside_of_a_function() -> None:
    with pytest.raises(DGLError, match="gather belongs inside"):
        Chain(2, 2).gather(0)
    with pytest.raises(NotImplementedError, match="has no forward"):
        dynamic.VertexFunction(2)(EDGE, torch.ones(2, 2))
    with pytest.raises(DGLError, match="size of a vertex's state"):
        dynamic.VertexFunction([2.5])  # type: ignore[list-item]


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp"])
def test_scans_over_vertices(name: str) -> None:
    """The first rows of a scan come out alike without the others, and the last ones of a reversed scan."""
    for scan in (lambda x: getattr(x, name)(0), lambda x: getattr(x.flip(0), name)(0).flip(0)):

        class Program(dynamic.VertexFunction):
            def forward(self) -> None:
                self.push(scan(self.pull()))  # noqa: B023

        with pytest.raises(DGLError, match="mixes vertices"):
            Program(state=2)(EDGE, torch.ones(2, 2))


@pytest.mark.parametrize("change", ["shape", "dtype", "device"])
def test_a_parameter_whose_memory_is_replaced(change: str) -> None:
    chain, x = Chain(2, 2), torch.ones(2, 2)
    chain(EDGE, x)
    replaced = {"shape": torch.ones(12, 2), "dtype": torch.ones(8, 2).double()}.get(change)
    if replaced is None:
        chain.cell.weight_hh = torch.nn.Parameter(torch.ones(8, 2, device="meta"))
    else:
        chain.cell.weight_hh.data = replaced
    with pytest.raises(DGLError, match=r"a parameter or tensor that F reads is \(\d+, 2\)"):
        chain(EDGE, x)


def test_values_that_are_no_tensors() -> None:
    class Program(dynamic.VertexFunction):
        def forward(self) -> None:
            self.scatter(None)  # type: ignore[arg-type]

    with pytest.raises(DGLError, match="scatter got NoneType"):
        Program(state=2)(EDGE)
    with pytest.raises(DGLError, match="called without any"):
        Chain(2, 2)(EDGE)
