"""Training steps over processes give what one process gives, send what the plan says, and fail clearly everywhere."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._pytree import tree_map_only

import dglite
from dglite import DGLError, tofu
from dglite.nn import GraphConv
from dglite.tofu.aten import operator_of, strategies_of
from dglite.tofu.coarsen import coarsen
from dglite.tofu.execute import compile_plan
from dglite.tofu.layout import SliceAxis, slice_of_regions
from dglite.tofu.links import Links
from dglite.tofu.operator import DescribedOperator, bind, flat_outputs
from dglite.tofu.parts import part_runner
from dglite.tofu.plan import PartitionPlan
from dglite.tofu.search import Policy, recursions, search
from dglite.tofu.strategy import Region, Strategy
from tests.patience import PATIENCE
from tests.tofu.samples import samples
from tests.tofu.workers import Workers


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    workers = Workers(2, tmp_path_factory.mktemp("two"))
    yield workers
    workers.stop()


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    workers = Workers(4, tmp_path_factory.mktemp("four"))
    yield workers
    workers.stop()


class Convolutions(nn.Module):
    """Convolutions with normalizations, a shortcut and pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8)
        self.second, self.pool, self.out = nn.Conv2d(8, 8, 3, padding=1), nn.MaxPool2d(3, 2, 1), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(torch.relu(self.norm(self.first(x))))
        return self.out((x + self.second(x)).mean((2, 3)))


class Block(nn.Module):
    """A causal language model of one block."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(16, 12), nn.LayerNorm(12)
        self.qkv, self.out, self.head = nn.Linear(12, 36), nn.Linear(12, 12), nn.Linear(12, 16)
        self.mlp = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 12))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        n, length, _ = x.shape
        q, k, v = (y.view(n, length, 3, 4).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(n, length, 12))
        return self.head(x + self.mlp(x)).flatten(0, 1)


class Words(nn.Module):
    """A language model of an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm, self.out = nn.Embedding(10, 8), nn.LSTM(8, 8, 2, batch_first=True), nn.Linear(8, 10)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(self.words(ids))[0]).flatten(0, 1)


class Gated(nn.Module):
    """Layers that read the same input, with more rows than weights."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.down(torch.tanh(self.gate(x)) * self.up(x)))
        return self.down(torch.tanh(self.gate(x)) * self.up(x))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4))


def work(name: str) -> tuple[nn.Module, Any, tuple[torch.Tensor, ...]]:
    """Return a module, a loss and inputs, equal in each process, in float64."""
    module, loss, inputs = _work(name)
    return module.double(), loss, tuple(x.double() if x.is_floating_point() else x for x in inputs)


def _work(name: str) -> tuple[nn.Module, Any, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    data = torch.Generator().manual_seed(1)

    def ids(*shape: int) -> torch.Tensor:
        return torch.randint(10, shape, generator=data)

    entropy = functional.cross_entropy
    if name == "mlp":
        return mlp(), functional.mse_loss, (torch.randn(8, 6, generator=data), torch.randn(8, 4, generator=data))
    if name == "convolutions":
        return Convolutions(), entropy, (torch.randn(4, 3, 16, 12, generator=data), torch.tensor([0, 4, 2, 1]))
    if name == "gated":
        return Gated(), functional.mse_loss, (torch.randn(96, 6, generator=data), torch.randn(96, 6, generator=data))
    if name == "gcn":
        return GCN(), entropy, (torch.randn(12, 6, generator=data), torch.arange(12) % 4)
    if name == "attention":
        return Block(), entropy, (ids(4, 6), ids(24))
    return Words(), entropy, (ids(4, 3), ids(12))


class GCN(nn.Module):
    """Two graph convolutions on a fixed graph."""

    def __init__(self) -> None:
        super().__init__()
        source, target = torch.arange(24) % 12, (torch.arange(24) * 5 + 1) % 12
        self.graph = dglite.add_self_loop(dglite.graph((source, target), num_nodes=12))
        self.first, self.second = GraphConv(6, 8), GraphConv(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.graph, torch.relu(self.first(self.graph, x)))


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "adam": lambda p: torch.optim.AdamW(p, 0.01),
}


def alone(name: str, optimizer: str, steps: int = 4) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Train in one process."""
    module, loss, inputs = work(name)
    optim = OPTIMIZERS[optimizer](module.parameters())
    losses = []
    for _ in range(steps):
        optim.zero_grad()
        value = loss(module(*inputs[:-1]), inputs[-1])
        value.backward()
        optim.step()
        losses.append(value.item())
    return losses, {k: v.detach() for k, v in module.state_dict().items()}


def train(rank: int, name: str, optimizer: str, steps: int = 4) -> Any:
    module, loss, inputs = work(name)
    step = tofu.parallelize(module, loss, OPTIMIZERS[optimizer](module.parameters()))
    losses = [step(*inputs).item() for _ in range(steps)]
    assert step.plan is not None
    return losses, step.gather(), step.bytes, step.plan.bytes, {n: tuple(p.shape) for n, p in step.parts().items()}


def check(workers: Workers, name: str, optimizer: str) -> None:
    losses, state = alone(name, optimizer)
    result = workers.run(train, name, optimizer)
    for actual, whole, *_ in result:
        assert actual == pytest.approx(losses, rel=1e-9)
        for key, value in whole.items():
            torch.testing.assert_close(value, state[key], rtol=1e-6, atol=1e-6)
    assert sum(sent for _, _, sent, *_ in result) == result[0][3], "bytes received are those of the plan"


@pytest.mark.parametrize("name", ["mlp", "gated", "convolutions", "attention", "lstm", "gcn"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_two_processes_train_as_one(two: Workers, name: str, optimizer: str) -> None:
    check(two, name, optimizer)


@pytest.mark.parametrize("name", ["mlp", "convolutions", "attention", "lstm", "gcn"])
def test_four_processes_train_as_one(four: Workers, name: str) -> None:
    check(four, name, "sgd")


# -- parts of parts ----------------------------------------------------------------------------------------------------
def narrowed(x: torch.Tensor, regions: Sequence[tuple[Region, int, int]]) -> torch.Tensor:
    for d, rows in enumerate(slice_of_regions(regions, x.shape, "sample")):
        x = x.narrow(d, int(rows[0]), int(rows[1] - rows[0]))
    return x


def in_quarters(
    op: DescribedOperator, bound: dict[str, Any], pair: tuple[Strategy, Strategy], whole: list[Any]
) -> list[Any]:
    """Return what an operator makes, run in halves of halves."""
    result = [None if w is None else torch.zeros_like(w) for w in whole]
    halves = [[(0, s.extent // 2), (s.extent // 2, s.extent)] for s in pair]
    for bounds in itertools.product(*halves):
        cuts = [SliceAxis(s, lo, hi) for s, (lo, hi) in zip(pair, bounds, strict=True)]
        number = itertools.count()

        def one(value: Any, cuts: list[SliceAxis] = cuts, number: Iterator[int] = number) -> Any:
            if isinstance(value, torch.Tensor):
                i = next(number)
                return narrowed(value, [(c.strategy.inputs[i], c.lo, c.hi) for c in cuts]).contiguous()
            return [one(v) for v in value] if isinstance(value, list | tuple) else value

        built = flat_outputs(part_runner(op, cuts)({name: one(value) for name, value in bound.items()}))
        for i, (total, part) in enumerate(zip(result, built, strict=True)):
            if total is not None:
                place = narrowed(total, [(c.strategy.outputs[i], c.lo, c.hi) for c in cuts])
                assert place.shape == part.shape
                if any(c.lo and c.strategy.combine[i] == "concat" and not any(c.strategy.outputs[i]) for c in cuts):
                    continue  # another part has made the same whole
                summed = "sum" in {c.strategy.combine[i] for c in cuts}
                place.copy_(place + part if summed else part)
    return result


def test_a_part_of_a_part_is_right_or_refused() -> None:
    run = refused = 0
    for target, args, kwargs in samples():
        op = operator_of(target, args, kwargs)
        if op is None or op.rule.random:
            continue
        copies = tree_map_only(torch.Tensor, torch.clone, (tuple(args), dict(kwargs)))
        whole = flat_outputs(target(*copies[0], **copies[1]))
        ways = [s for s in op.strategies if s.extent > 1 and {*s.combine} <= {"concat", "sum"}]
        for pair in itertools.permutations(ways, 2):
            try:
                result = in_quarters(op, bind(target, args, kwargs), pair, whole)
            except DGLError:
                refused += 1
                continue
            run += 1
            for actual, expected in zip(result, whole, strict=True):
                torch.testing.assert_close(actual, expected, equal_nan=True)
    assert run > 800 > refused


# -- bytes, checkpoints and errors -------------------------------------------------------------------------------------
@pytest.mark.parametrize("workers", [3, 4, 6, 8])
@pytest.mark.parametrize("name", ["mlp", "convolutions", "attention", "lstm", "gcn"])
def test_every_recursion_is_run_with_the_bytes_of_its_plan(name: str, workers: int) -> None:
    module, loss, inputs = work(name)
    optimizer = OPTIMIZERS["adam"](module.parameters())
    coarse = coarsen(tofu.capture(module, loss, inputs, optimizer), strategies_of)
    for steps, replicate in itertools.product(recursions(workers), (False, True)):
        plan = PartitionPlan(coarse, search(coarse, steps, Policy(replicate=replicate, weight=1e-3)), memory=1e9)
        program = compile_plan(plan, Links(0, workers), torch.device("meta"))
        assert program.bytes == plan.bytes, (steps, replicate)


def test_each_process_holds_its_part(two: Workers) -> None:
    for *_, shapes in two.run(train, "mlp", "adam", 1):
        assert shapes["0.weight"] in ((8, 6), (16, 3))
        assert shapes["0.weight.exp_avg"] == shapes["0.weight"]


def resume(rank: int) -> list[float]:
    """Train on from a checkpoint of another step, the module and the optimizer being new."""
    module, loss, inputs = work("mlp")
    step = tofu.parallelize(module, loss, OPTIMIZERS["adam"](module.parameters()))
    losses = [step(*inputs).item() for _ in range(4)]
    module, _, _ = work("mlp")
    first = tofu.parallelize(module, loss, OPTIMIZERS["adam"](module.parameters()))
    first(*inputs), first(*inputs)
    saved = first.state_dict()
    with pytest.raises(DGLError, match=r"0\.bias"):
        first.load_state_dict({k: v for k, v in saved.items() if k != "0.bias"})
    module, _, _ = work("mlp")
    second = tofu.parallelize(module, loss, OPTIMIZERS["adam"](module.parameters()))
    second(*inputs)
    second.load_state_dict(saved)
    assert [second(*inputs).item(), second(*inputs).item()] == pytest.approx(losses[2:], rel=1e-12)
    module.load_state_dict(second.gather(), assign=True)
    return [loss(module(inputs[0]), inputs[1]).item()]


def test_training_goes_on_from_a_checkpoint(two: Workers) -> None:
    first, second = two.run(resume)
    assert first == second


def misuse(rank: int) -> list[str]:
    """Return the messages of mistakes."""
    module, loss, inputs = work("mlp")
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    results = []

    def tried(run: Callable[[], Any]) -> None:
        with pytest.raises(DGLError) as caught:
            run()
        results.append(str(caught.value))

    tried(lambda: tofu.parallelize(module, loss, optimizer, 3))
    tried(lambda: tofu.parallelize(module, loss, optimizer)(inputs[0] + rank, inputs[1]))
    faster = torch.optim.SGD(module.parameters(), 0.1 + rank)
    tried(lambda: tofu.parallelize(module, loss, faster)(*inputs))
    torch.manual_seed(rank)
    other = mlp().double()
    tried(lambda: tofu.parallelize(other, loss, torch.optim.SGD(other.parameters(), 0.1))(*inputs))
    step = tofu.parallelize(module, loss, optimizer)
    tried(step.gather)
    step(*inputs)
    tried(lambda: step(inputs[0][: 6 + rank], inputs[1][: 6 + rank]))
    step(*inputs)
    return results


class Other(nn.Module):
    """A module of the same parameters, but another graph or other operations."""

    def __init__(self, shift: int = 0, tanh: bool = False, fails: bool = False) -> None:
        super().__init__()
        self.graph = dglite.add_self_loop(dglite.graph((torch.arange(12), (torch.arange(12) + 1 + shift) % 12)))
        self.layer, self.tanh, self.fails = GraphConv(6, 4), tanh, fails

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.fails:
            x = x * len(x.tolist())
        return torch.tanh(self.layer(self.graph, x)) if self.tanh else torch.relu(self.layer(self.graph, x))


def differ(rank: int) -> list[str]:
    """Return the messages where one process has another structure, or cannot plan."""
    _, loss, inputs = work("gcn")
    results = []
    for change in ({"shift": rank}, {"tanh": rank == 1}, {"fails": rank == 1}):
        torch.manual_seed(0)
        module = Other(**change).double()
        step = tofu.parallelize(module, loss, torch.optim.SGD(module.parameters(), 0.1), timeout=PATIENCE)
        with pytest.raises(DGLError) as caught:
            step(*inputs)
        results.append(str(caught.value))
    return results


def test_other_structures_are_told_in_every_process(two: Workers) -> None:
    for rank, (graph, module, failed) in enumerate(two.run(differ)):
        assert "[1] have other operations in their modules, or graphs" in graph
        assert "[1] have other operations in their modules, or graphs" in module
        assert ("reads the values" if rank else "[1] could not plan") in failed


def test_mistakes_are_told_in_every_process(two: Workers) -> None:
    words = [
        "has 2 processes",
        "values of inputs",
        "other optimizers",
        "other modules",
        "no plan before",
        "other inputs",
    ]
    for messages in two.run(misuse):
        assert [word in message for word, message in zip(words, messages, strict=True)] == [True] * len(words)


def die(rank: int) -> None:
    """Train until one process ends."""
    module, loss, inputs = work("mlp")
    step = tofu.parallelize(module, loss, torch.optim.SGD(module.parameters(), 0.1), timeout=PATIENCE)
    step(*inputs)
    if rank == 1:
        os._exit(1)
    with pytest.raises(DGLError, match="another worker has failed"):
        step(*inputs)
    with pytest.raises(DGLError, match="start again from a checkpoint"):
        step(*inputs)


def test_a_dead_process_ends_the_others_with_an_error(two: Workers) -> None:
    # the last test that uses these processes
    two.start(die)
    assert two.outcomes() == [(None, None), (None, "died")]
