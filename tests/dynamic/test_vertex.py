"""Vertex programs against the plain evaluation of the same function, vertex after vertex."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import nn

import dglite
from dglite import DGLGraph, dynamic
from dglite.dynamic.execution.script import ProgramScript
from dglite.dynamic.program import layout
from tests.dynamic.plain import evaluate
from tests.dynamic.programs import BinaryTreeLSTM, Chain, ChildSumTreeLSTM, Gated, Mixed
from tests.versions import has_exact_elu

TREE = ([0, 1, 2, 3, 5], [2, 2, 4, 4, 6])
DAG = ([0, 0, 1, 2, 2, 0, 3, 3], [1, 2, 3, 3, 4, 4, 4, 5])
"""Node 0 has three parents; one edge skips two levels; node 5 has one child."""
SWITCHES = [{}, {"eager": False}, {"lazy": False}, {"fuse": False}, {"eager": False, "lazy": False, "fuse": False}]

FEW = [layout.MOST_ROWS, 0]
"""Products of how many rows are of kernels; with 0 none is."""


@pytest.fixture
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "MOST_ROWS", request.param)
    monkeypatch.setattr(ProgramScript, "most_rows", request.param)


def graph(edges: tuple[list[int], list[int]], num_nodes: int) -> DGLGraph:
    return dglite.graph(edges, num_nodes=num_nodes)


def check(function: Callable, plain: Callable, tensors: list[torch.Tensor], tolerance: float = 1e-10) -> None:
    """Compare values and the gradients of all ``tensors``."""
    ours, theirs = (x if isinstance(x, tuple) else (x,) for x in (function(), plain()))
    weights = [torch.randn_like(x) for x in theirs]
    for x, y in zip(ours, theirs, strict=True):
        torch.testing.assert_close(x, y, rtol=tolerance, atol=tolerance)
    losses = [sum((x * w).sum() for x, w in zip(out, weights, strict=True)) for out in (ours, theirs)]
    result, expected = (torch.autograd.grad(loss, tensors, allow_unused=True) for loss in losses)
    for x, y, tensor in zip(result, expected, tensors, strict=True):
        missing = torch.zeros_like(tensor)
        torch.testing.assert_close(
            missing if x is None else x, missing if y is None else y, rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("switches", SWITCHES, ids=lambda s: "-".join(s) or "all")
@pytest.mark.parametrize("kind", [BinaryTreeLSTM, ChildSumTreeLSTM, Gated, Mixed])
@pytest.mark.parametrize("few", FEW, indirect=True)
@pytest.mark.usefixtures("few")
def test_a_tree_and_a_dag(kind: type, switches: dict[str, bool]) -> None:
    torch.manual_seed(0)
    for edges in (TREE,) if kind is BinaryTreeLSTM else (TREE, DAG):
        g = graph(edges, 7)
        program, x = kind(3, 5).double(), torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
        with dynamic.options(**switches):
            check(lambda: program(g, x), lambda: evaluate([program], g, x), [x, *program.parameters()])  # noqa: B023


@pytest.mark.parametrize("size", [1, 16, 37])
@pytest.mark.parametrize("few", FEW, indirect=True)
@pytest.mark.usefixtures("few")
def test_float32_and_widths_that_fill_no_vector(size: int) -> None:
    torch.manual_seed(0)
    g, program, x = graph(TREE, 7), BinaryTreeLSTM(4, size), torch.randn(7, 4, requires_grad=True)
    check(lambda: program(g, x), lambda: evaluate([program], g, x), [x, *program.parameters()], 1e-5)


def test_gradcheck() -> None:
    torch.manual_seed(0)
    g, program = graph(DAG, 6), ChildSumTreeLSTM(2, 2).double()
    x = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    names, parameters = zip(*program.named_parameters(), strict=True)

    def run(x: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        return torch.cat(torch.func.functional_call(program, dict(zip(names, values, strict=True)), (g, x)), 1)

    assert torch.autograd.gradcheck(
        run, (x, *(p.detach().clone().requires_grad_() for p in parameters)), fast_mode=True
    )


def test_a_chain_is_torchs_lstm() -> None:
    torch.manual_seed(0)
    lengths = [5, 1, 3]
    edges = [(i, i + 1) for start, n in ((0, 5), (6, 3)) for i in range(start, start + n - 1)]
    g = graph(tuple(map(list, zip(*edges, strict=True))), 9)
    program, lstm = Chain(3, 4), nn.LSTM(3, 4)
    with torch.no_grad():
        for name, x in program.cell.named_parameters():
            getattr(lstm, f"{name}_l0").copy_(x)
    x = torch.randn(9, 3)
    expected = torch.cat([lstm(part)[0] for part in x.split(lengths)])
    torch.testing.assert_close(program(g, x), expected)
    backwards = torch.cat([lstm(part.flip(0))[0].flip(0) for part in x.split(lengths)])
    torch.testing.assert_close(program(dglite.reverse(g), x), backwards)


def test_inputs_of_some_vertices() -> None:
    torch.manual_seed(0)
    g, program = graph(TREE, 7), BinaryTreeLSTM(3, 4).double()
    nodes = torch.tensor([5, 0, 1, 3])
    values = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)

    def whole() -> torch.Tensor:
        return torch.zeros(7, 3, dtype=torch.float64).index_copy(0, nodes, values)

    check(
        lambda: program(g, dynamic.Partial(nodes, values)),
        lambda: evaluate([program], g, whole()),
        [values, *program.parameters()],
    )


def test_kinds_of_vertices_have_functions_of_their_own() -> None:
    torch.manual_seed(0)

    class Leaf(dynamic.VertexFunction):
        def __init__(self) -> None:
            super().__init__(state=(4, 4))
            self.W = nn.Linear(3, 8)

        def forward(self) -> None:
            h, c = torch.tanh(self.W(self.pull())).chunk(2, 1)
            self.scatter(h, c)
            self.push(h, c)

    functions = Leaf().double(), ChildSumTreeLSTM(3, 4).double()
    program, g = dynamic.ByKind(*functions), graph(DAG, 6)
    kinds = torch.tensor([0, 1, 0, 1, 1, 1])
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    check(
        lambda: program(g, x, kinds=kinds),
        lambda: evaluate(functions, g, x, kinds=kinds),
        [x, *program.parameters()],
    )


def test_several_inputs_and_embeddings() -> None:
    torch.manual_seed(0)

    class Words(dynamic.VertexFunction):
        def __init__(self) -> None:
            super().__init__(state=4)
            self.words = nn.Embedding(10, 4)

        def forward(self) -> None:
            word, weight = self.pull()
            h = torch.tanh(self.words(word) * weight + self.gather_all().sum())
            self.scatter(h)
            self.push(h)

    program, g = Words().double(), graph(TREE, 7)
    words, weight = torch.arange(7), torch.randn(7, 1, dtype=torch.float64, requires_grad=True)
    check(
        lambda: program(g, words, weight),
        lambda: evaluate([program], g, words, weight),
        [weight, *program.parameters()],
    )


def test_batches_and_lists_of_graphs_and_calls_in_a_row() -> None:
    torch.manual_seed(0)
    program, graphs = BinaryTreeLSTM(3, 4), [graph(TREE, 7), graph(([0], [1]), 2), graph(([], []), 1)]
    x = torch.randn(10, 3)
    apart = torch.cat([program(g, part) for g, part in zip(graphs, x.split([7, 2, 1]), strict=True)])
    torch.testing.assert_close(program(graphs, x), apart)
    torch.testing.assert_close(program(dglite.batch(graphs), x), apart)
    first, second = program(graphs, x), program(graphs, 2 * x)  # two calls before either goes backward
    (grad,) = torch.autograd.grad(first.sum(), [program.U.weight])
    torch.autograd.grad(second.sum(), [program.U.weight])
    (alone,) = torch.autograd.grad(program(graphs, x).sum(), [program.U.weight])
    torch.testing.assert_close(grad, alone)


@pytest.mark.parametrize("num_nodes", [0, 1])
@pytest.mark.parametrize("kind", [BinaryTreeLSTM, ChildSumTreeLSTM])
def test_no_vertex_and_one_vertex(kind: type, num_nodes: int) -> None:
    torch.manual_seed(0)
    program, g = kind(3, 4), graph(([], []), num_nodes)
    x = torch.randn(num_nodes, 3, requires_grad=True)
    out = program(g, x)
    out = out if isinstance(out, torch.Tensor) else out[0]
    assert out.shape == (num_nodes, 4)
    out.sum().backward()
    if num_nodes:
        expected = evaluate([program], g, x)
        torch.testing.assert_close(out, expected if isinstance(expected, torch.Tensor) else expected[0])


def test_a_chain_of_ten_thousand() -> None:
    torch.manual_seed(0)
    n, program = 10_000, Chain(2, 2)
    g = graph((list(range(n - 1)), list(range(1, n))), n)
    x = torch.randn(n, 2, requires_grad=True)
    out = program(g, x)
    out[-1].sum().backward()
    lstm = nn.LSTM(2, 2)
    lstm.load_state_dict({f"{name}_l0": value for name, value in program.cell.state_dict().items()})
    torch.testing.assert_close(out, lstm(x)[0], rtol=1e-4, atol=1e-5)
    assert x.grad is not None and torch.isfinite(x.grad).all()


def test_what_needs_no_gradient_gets_none() -> None:
    program, g = BinaryTreeLSTM(3, 4), graph(TREE, 7)
    with torch.no_grad():
        assert not program(g, torch.randn(7, 3)).requires_grad
    program.U.weight.requires_grad_(False)
    program(g, torch.randn(7, 3)).sum().backward()
    assert program.U.weight.grad is None
    assert program.W.weight.grad is not None


def test_nan_parameters_give_nan() -> None:
    program, g = BinaryTreeLSTM(3, 4), graph(TREE, 7)
    with torch.no_grad():
        program.U.weight.fill_(float("nan"))
    assert program(g, torch.randn(7, 3))[4].isnan().all()


def test_shapes_and_dtypes_may_differ_between_calls() -> None:
    class Sum(dynamic.VertexFunction):
        def forward(self) -> None:
            total = self.pull().sum(-1, keepdim=True) + self.gather_all().sum()
            self.scatter(total)
            self.push(total)

    program, g = Sum(state=1), graph(([0], [1]), 2)
    for width in (3, 5):
        for dtype in (torch.float32, torch.float64):
            torch.testing.assert_close(program(g, torch.ones(2, width, dtype=dtype))[1, 0].item(), 2.0 * width)


def test_dropout_draws_anew_for_every_vertex_and_call() -> None:
    class Dropped(dynamic.VertexFunction):
        def __init__(self) -> None:
            super().__init__(state=64)
            self.dropout = nn.Dropout(0.25)

        def forward(self) -> None:
            h = self.dropout(self.pull())
            self.scatter(h)
            self.push(h)

    program, g, x = Dropped(), graph(TREE, 7), torch.ones(7, 64, requires_grad=True)
    first, second = program(g, x), program(g, x)
    assert not torch.equal(first, second)
    torch.testing.assert_close(first.unique(), torch.tensor([0, 4 / 3]))
    (grad,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(grad, first.detach())  # the mask that was drawn
    torch.testing.assert_close(program.eval()(g, x), x)


def test_copies_and_pickles_have_parameters_of_their_own() -> None:
    program, g, x = BinaryTreeLSTM(3, 4), graph(TREE, 7), torch.randn(7, 3)
    expected = program(g, x)
    for other in (copy.deepcopy(program), pickle.loads(pickle.dumps(program))):
        torch.testing.assert_close(other(g, x), expected)
        with torch.no_grad():
            other.U.weight.zero_()
        assert not torch.allclose(other(g, x)[4], expected[4])
    torch.testing.assert_close(program(g, x), expected)


def test_backward_twice_with_a_graph_that_is_kept() -> None:
    program, g, x = BinaryTreeLSTM(3, 4), graph(TREE, 7), torch.randn(7, 3, requires_grad=True)
    loss = program(g, x).sum()
    (first,) = torch.autograd.grad(loss, x, retain_graph=True)
    (second,) = torch.autograd.grad(loss, x)
    torch.testing.assert_close(first, second)


def test_parameters_that_are_replaced_are_seen() -> None:
    program, g, x = BinaryTreeLSTM(3, 4), graph(TREE, 7), torch.randn(7, 3)
    before = program(g, x)
    program.U.weight = nn.Parameter(torch.zeros_like(program.U.weight))
    after = program(g, x)
    assert not torch.allclose(before[4], after[4])
    torch.testing.assert_close(after, evaluate([program], g, x))


@pytest.mark.parametrize("kind", [BinaryTreeLSTM, ChildSumTreeLSTM])
def test_several_threads_give_the_same(kind: type) -> None:
    torch.manual_seed(0)
    program, graphs = kind(16, 64), [graph(TREE, 7)] * 200
    x, threads = torch.randn(1400, 16, requires_grad=True), torch.get_num_threads()
    results = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            out = program(graphs, x)
            out = out if isinstance(out, torch.Tensor) else out[0]
            results.append([out, *torch.autograd.grad(out.square().sum(), [x, *program.parameters()])])
    finally:
        torch.set_num_threads(threads)
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)


class Bent(dynamic.VertexFunction):
    """A function of one number."""

    def __init__(self, function: Callable) -> None:
        super().__init__(state=1)
        self.function = function

    def forward(self) -> None:
        x = self.pull() + self.gather_all().sum()
        self.scatter(0 * x)
        self.push(self.function(x))


@pytest.mark.parametrize(
    ("function", "special"),
    [(nn.functional.elu, -1e-20 if has_exact_elu() else -0.5), (lambda x: x.clamp(-0.5, 0.5), float("nan"))],
)
def test_elu_and_clamp_at_special_values(function: Callable, special: float) -> None:
    x = torch.tensor([[1e3], [special], [0.2], [-3.0]], requires_grad=True)
    result, expected = Bent(function)(graph(([0], [3]), 4), x), function(x)
    torch.testing.assert_close(result, expected, rtol=1e-6, atol=0, equal_nan=True)
    (ours,), (theirs,) = (torch.autograd.grad(y.sum(), x) for y in (result, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=0)
