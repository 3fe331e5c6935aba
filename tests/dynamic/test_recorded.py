"""Vertex programs called with lazy inputs: run, differentiated and trained as when they are called with tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dglite
from dglite import DGLError, DGLGraph, dynamic
from dglite.dynamic.processors import plan
from tests.dynamic.programs import BinaryTreeLSTM, Chain, ChildSumTreeLSTM, Gated, Mixed

TREE = ([0, 1, 2, 3, 5], [2, 2, 4, 4, 6])
DAG = ([0, 0, 1, 2, 2, 0, 3, 3], [1, 2, 3, 3, 4, 4, 4, 5])
TWO = ([0, 0, 1, 2, 3], [1, 2, 3, 3, 4])
"""Node 0 has two parents; nobody has more than two children."""
SGD = torch.optim.SGD


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """Let torch, and so the processors, have two threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


class PointwiseFormulas(dynamic.VertexFunction):
    """No product, a parameter that is a row, two pushed values of which one is the state."""

    def __init__(self, size: int) -> None:
        super().__init__(state=size)
        self.scale = nn.Parameter(torch.rand(size))

    def forward(self) -> None:
        h = torch.tanh(self.pull() * self.scale + self.gather(0) + 2 * self.gather(1))
        self.scatter(h)
        self.push(h, h * h)


class Words(dynamic.VertexFunction):
    """Looks its word up itself, which is a torch function to the engine."""

    def __init__(self, size: int) -> None:
        super().__init__(state=size)
        self.words = nn.Embedding(9, size)

    def forward(self) -> None:
        h = torch.tanh(self.words(self.pull()) + self.gather_all().sum())
        self.scatter(h)
        self.push(h)


def values_of(result: Any) -> tuple[Any, ...]:
    """Return what is pushed as a tuple."""
    return result if isinstance(result, tuple) else (result,)


def total(pushed: Any, weights: list[Any]) -> Any:
    """Return one number that depends on all that is pushed."""
    terms = [(x * w).sum() for x, w in zip(values_of(pushed), weights, strict=True)]
    return sum(terms[1:], terms[0])


Call = Callable[[nn.Module, Any], Any]


def compare(program: nn.Module, call: Call, x: torch.Tensor, rate: float = 0.1) -> None:
    """Hold a call on a lazy input to that on a tensor: values, gradients, and what a persistent step does."""
    theirs, trained = copy.deepcopy(program), copy.deepcopy(program)
    given = x.detach().clone().requires_grad_()
    expected = call(theirs, given)
    weights = [torch.randn_like(value) for value in values_of(expected)]
    result = dynamic.run(list(values_of(call(program, dynamic.lazy(x)))))
    for ours, value in zip(result, values_of(expected), strict=True):
        torch.testing.assert_close(ours, value)
    loss = total(expected, weights)
    loss.backward()
    mine = x.detach().clone().requires_grad_()
    ours = dynamic.backward(total(call(program, dynamic.lazy(mine)), [dynamic.lazy(w) for w in weights]))
    torch.testing.assert_close(ours, loss.detach())
    torch.testing.assert_close(mine.grad, given.grad)
    for p, q in zip(program.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)
    start = nn.Parameter(x.detach().clone())
    parameters, grads = [start, *trained.parameters()], [x.grad for x in (given, *theirs.parameters())]
    handle = dynamic.persistent(parameters, SGD(parameters, lr=rate), processors=2)
    for _ in range(2):  # a plan is made, then filled in
        handle.step(total(call(trained, dynamic.lazy(start)), [dynamic.lazy(w) for w in weights]))
        assert handle.sync() == pytest.approx(loss.item())
        with torch.no_grad():
            for p, q, grad in zip(parameters, [x, *program.parameters()], grads, strict=True):
                torch.testing.assert_close(p.detach(), q.detach() - (0.0 if grad is None else rate * grad))
                p.copy_(q)


def graph(edges: tuple[list[int], list[int]], num_nodes: int = 7) -> DGLGraph:
    return dglite.graph(edges, num_nodes=num_nodes)


CASES = {
    "tree": (BinaryTreeLSTM, TREE),
    "dag of two": (BinaryTreeLSTM, TWO),
    "tree, any number": (ChildSumTreeLSTM, TREE),
    "dag, any number": (ChildSumTreeLSTM, DAG),
    "first and all": (Mixed, DAG),
    "chain": (Chain, ([0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6])),
    "no edges": (BinaryTreeLSTM, ([], [])),
    "no edges, any number": (ChildSumTreeLSTM, ([], [])),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", CASES)
def test_values_gradients_and_steps(name: str) -> None:
    kind, edges = CASES[name]
    torch.manual_seed(0)
    g, x = graph(edges), torch.randn(7, 3, dtype=torch.float64)
    compare(kind(3, 5).double(), lambda program, x: program(g, x), x)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1, 16, 37])
def test_float32_and_widths_that_fill_no_vector(size: int) -> None:
    torch.manual_seed(0)
    g, x = graph(TREE), torch.randn(7, 4)
    program, theirs = BinaryTreeLSTM(4, size), BinaryTreeLSTM(4, size)
    theirs.load_state_dict(program.state_dict())
    handle = dynamic.persistent(program.parameters(), SGD(program.parameters(), lr=0.1), processors=2)
    handle.step(program(g, dynamic.lazy(x)).sum())
    loss = theirs(g, x).sum()
    loss.backward()
    assert handle.sync() == pytest.approx(loss.item(), rel=1e-5)
    for p, q in zip(program.parameters(), theirs.parameters(), strict=True):
        assert q.grad is not None
        torch.testing.assert_close(p.detach(), q.detach() - 0.1 * q.grad)


@pytest.mark.filterwarnings("error")
def test_formulas_alone_and_a_single_vertex() -> None:
    torch.manual_seed(0)
    for edges, count in ((TREE, 7), (([], []), 1)):
        g, x = graph(edges, count), torch.randn(count, 6, dtype=torch.float64)
        compare(PointwiseFormulas(6).double(), lambda program, x: program(g, x), x)  # noqa: B023


@pytest.mark.filterwarnings("error")
def test_input_of_some_vertices_and_tensors_beside_lazy_input() -> None:
    torch.manual_seed(0)
    g, leaves = graph(TREE), torch.tensor([5, 0, 3, 1])
    compare(
        BinaryTreeLSTM(3, 4).double(),
        lambda program, x: program(g, dynamic.Partial(leaves, x)),
        torch.randn(4, 3, dtype=torch.float64),
    )

    class Two(dynamic.VertexFunction):
        def forward(self) -> None:
            x, y = self.pull()
            h = torch.tanh(x * self.gather(0) + y + self.gather(1))
            self.scatter(h)
            self.push(h)

    y = torch.randn(7, 3, dtype=torch.float64)
    compare(Two(state=3), lambda program, x: program(g, x, y), torch.randn(7, 3, dtype=torch.float64))


@pytest.mark.filterwarnings("error")
def test_vertices_of_several_kinds() -> None:
    torch.manual_seed(0)
    g, kinds = graph(TREE), torch.tensor([0, 1, 1, 0, 1, 0, 0])
    program = dynamic.ByKind(BinaryTreeLSTM(3, 4), BinaryTreeLSTM(3, 4)).double()
    compare(program, lambda program, x: program(g, x, kinds=kinds), torch.randn(7, 3, dtype=torch.float64))


@pytest.mark.filterwarnings("error")
def test_several_calls_in_one_session() -> None:
    """Of one program on two graphs, the first one's result being the second one's input."""
    torch.manual_seed(0)
    g, chain = graph(TREE), dglite.graph(([0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6]))
    program = nn.ModuleList([BinaryTreeLSTM(4, 4), Chain(4, 4)]).double()
    compare(
        program,
        lambda program, x: (program[0](g, program[0](chain, program[1](chain, x))), program[1](chain, x)),
        torch.randn(7, 4, dtype=torch.float64),
    )


def test_what_has_no_kernel_is_run_by_torch() -> None:
    torch.manual_seed(0)
    g, x = graph(DAG), torch.randn(7, 3, dtype=torch.float64)
    with pytest.warns(UserWarning, match="no instruction for Gated"):
        compare(Gated(3, 5).double(), lambda program, x: program(g, x), x)
    words = torch.randint(9, (7,))
    program, theirs = Words(4), Words(4)
    theirs.load_state_dict(program.state_dict())
    handle = dynamic.persistent(program.parameters(), SGD(program.parameters(), lr=0.1), processors=2)
    with pytest.warns(UserWarning, match="no instruction for embedding in a vertex program"):
        handle.step(program(g, dynamic.lazy(words)).sum())
    theirs(g, words).sum().backward()
    assert theirs.words.weight.grad is not None
    expected = theirs.words.weight.detach() - 0.1 * theirs.words.weight.grad
    torch.testing.assert_close(program.words.weight.detach(), expected)


def test_no_vertices() -> None:
    program = BinaryTreeLSTM(3, 4)
    h = program(graph(([], []), 0), dynamic.lazy(torch.randn(0, 3)))
    assert h.shape == (0, 4)
    assert dynamic.run(h).shape == (0, 4)


def test_a_deep_chain() -> None:
    torch.manual_seed(0)
    count = 10_000
    g = dglite.graph((list(range(count - 1)), list(range(1, count))))
    program, x = Chain(2, 3), torch.randn(count, 2)
    theirs = copy.deepcopy(program)
    handle = dynamic.persistent(program.parameters(), SGD(program.parameters(), lr=1e-3), processors=2)
    handle.step(program(g, dynamic.lazy(x)).sum())
    loss = theirs(g, x).sum()
    loss.backward()
    assert handle.sync() == pytest.approx(loss.item(), rel=1e-4)
    for p, q in zip(program.parameters(), theirs.parameters(), strict=True):
        assert q.grad is not None
        torch.testing.assert_close(p.detach(), q.detach() - 1e-3 * q.grad, rtol=1e-4, atol=1e-4)


def test_errors_come_when_it_is_called() -> None:
    program, x = BinaryTreeLSTM(3, 4), dynamic.lazy(torch.randn(3, 3))
    with pytest.raises(DGLError, match="cycle of 3 nodes"):
        program(graph(([0, 1, 2], [1, 2, 0]), 3), x)
    with pytest.raises(DGLError, match="input 0 is"):
        program(graph(TREE), x)
    with pytest.raises(DGLError, match="has 3 children"):
        program(graph(([0, 1, 2], [3, 3, 3]), 4), dynamic.lazy(torch.randn(4, 3)))
    with pytest.raises(DGLError, match="float64"):
        program(graph(([], []), 3), dynamic.lazy(torch.randn(3, 3).double()))


# -- heads and steps ---------------------------------------------------------------------------------------------------
class Classifier(nn.Module):
    """A Tree-LSTM over looked-up words with a score for each vertex."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.tree, self.out = nn.Embedding(40, 3), BinaryTreeLSTM(3, 4), nn.Linear(4, 5)

    def loss(self, g: DGLGraph, words: Any, labels: Any, **options: Any) -> Any:
        """Return the loss of all vertices."""
        return F.cross_entropy(self.out(self.tree(g, self.words(words))), labels, **options)


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: SGD(p, lr=0.1),
    "decay": lambda p: SGD(p, lr=0.1, weight_decay=0.01),
    "momentum": lambda p: SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_training_takes_torchs_steps(name: str, reduction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where plans are filled in again, with other graphs, words and labels, and another learning rate."""
    planned = count_plans(monkeypatch)
    torch.manual_seed(0)
    model = Classifier().double()
    theirs = copy.deepcopy(model)
    ours, torchs = OPTIMIZERS[name](model.parameters()), OPTIMIZERS[name](theirs.parameters())
    handle = dynamic.persistent(model.parameters(), ours, processors=2)
    for step in range(8):
        g = graph((TREE, TWO, ([4, 3, 2, 5], [0, 0, 1, 1]))[step % 3])
        words, labels = torch.randint(40, (7,)), torch.randint(5, (7,))
        words[0], labels[0] = words[1], -100
        for optimizer in (ours, torchs):
            optimizer.param_groups[0]["lr"] *= 0.9
        handle.step(model.loss(g, dynamic.lazy(words), dynamic.lazy(labels), reduction=reduction))
        torchs.zero_grad()
        loss = theirs.loss(g, words, labels, reduction=reduction)
        loss.backward()
        torchs.step()
        if step % 3:
            assert handle.sync() == pytest.approx(loss.item())
    handle.sync()
    for p, q in zip(model.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p, q)
    assert len(planned) == 8 if name == "adagrad" else len(planned) < 5


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_parameter_that_no_gradient_reaches_is_left_alone(name: str) -> None:
    """On graphs of leaves nothing reaches what combines children, whose state in the optimizer stays as it was."""
    torch.manual_seed(0)
    model = Classifier().double()
    theirs = copy.deepcopy(model)
    ours, torchs = OPTIMIZERS[name](model.parameters()), OPTIMIZERS[name](theirs.parameters())
    handle = dynamic.persistent(model.parameters(), ours, processors=2)
    for count in (3, 1, 9, 1, 3, 9):
        g = dglite.graph(
            ([*range(count - 1)], [node // 2 + count // 2 + 1 for node in range(count - 1)]), num_nodes=count
        )
        words, labels = torch.randint(40, (count,)), torch.randint(5, (count,))
        handle.step(model.loss(g, dynamic.lazy(words), dynamic.lazy(labels)))
        torchs.zero_grad()
        theirs.loss(g, words, labels).backward()
        torchs.step()
    handle.sync()
    for p, q in zip(model.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p, q)


def count_plans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets an entry whenever a step is planned from nothing."""
    planned, make = list[int](), plan.StepPlan.__init__

    def counted(*args: Any) -> None:
        planned.append(1)
        make(*args)

    monkeypatch.setattr(plan.StepPlan, "__init__", counted)
    return planned


def test_a_plan_is_made_anew_where_a_parameter_is_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = count_plans(monkeypatch)
    torch.manual_seed(0)
    model, g = Classifier(), graph(TREE)
    handle = dynamic.persistent(model.parameters(), SGD(model.parameters(), lr=0.1), processors=2)
    words, labels = torch.randint(40, (7,)), torch.randint(5, (7,))

    def step() -> float:
        handle.step(model.loss(g, dynamic.lazy(words), dynamic.lazy(labels)))
        return handle.sync()  # type: ignore[return-value]

    step()
    step()
    assert len(planned) == 1
    with torch.no_grad():
        expected = model.loss(g, words, labels).item()
    for x in model.parameters():
        x.data = x.data.clone()
    assert step() == pytest.approx(expected)
    assert len(planned) == 2
    model.tree.W.bias.requires_grad_(False)
    before = model.tree.W.bias.clone()
    step()
    assert len(planned) == 3
    torch.testing.assert_close(model.tree.W.bias, before, rtol=0, atol=0)


def test_a_label_out_of_range_undoes_a_step_that_was_filled_in() -> None:
    model, g = Classifier(), graph(TREE)
    handle = dynamic.persistent(model.parameters(), SGD(model.parameters(), lr=0.1), processors=2)
    words, labels = torch.randint(40, (7,)), torch.randint(5, (7,))
    handle.step(model.loss(g, dynamic.lazy(words), dynamic.lazy(labels)))
    handle.sync()
    before = [x.detach().clone() for x in model.parameters()]
    handle.step(model.loss(g, dynamic.lazy(words), dynamic.lazy(labels + 5)))
    with pytest.raises(IndexError, match="label"):
        handle.sync()
    for x, y in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(x.detach(), y, rtol=0, atol=0)
    handle.step(model.loss(g, dynamic.lazy(words), dynamic.lazy(labels)))
    assert handle.sync() > 0  # type: ignore[operator]


@pytest.mark.parametrize("numbers", [[0, 40], [-1, 3]])
def test_lookups_outside_of_the_table(numbers: list[int]) -> None:
    with pytest.raises(IndexError, match="embedding of 40 rows"):
        nn.Embedding(40, 3)(dynamic.lazy(torch.tensor(numbers)))


@pytest.mark.filterwarnings("error")
def test_a_row_that_is_padding_has_no_gradient() -> None:
    words, numbers = nn.Embedding(6, 3, padding_idx=2), torch.tensor([2, 1, 1, 5])
    theirs = copy.deepcopy(words)
    handle = dynamic.persistent(words.parameters(), SGD(words.parameters(), lr=0.1), processors=2)
    handle.step((words(dynamic.lazy(numbers)) * 2.0).sum())
    (theirs(numbers) * 2.0).sum().backward()
    handle.sync()
    assert theirs.weight.grad is not None
    torch.testing.assert_close(words.weight.detach(), theirs.weight.detach() - 0.1 * theirs.weight.grad)
    loss = dynamic.backward((words(dynamic.lazy(numbers)) * 2.0).sum())
    assert loss.isfinite() and words.weight.grad is not None and not words.weight.grad[2].any()
