"""Plans are optimal where that can be checked, cost what is computed by hand, and are no worse than what is known."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
import tofu_models
import torch
from torch import nn

from dglite import DGLError
from dglite.tofu import BASELINES, Captured, capture, plan, plan_captured
from dglite.tofu import baselines as known
from dglite.tofu.aten import strategies_of
from dglite.tofu.coarsen import Coarse, coarsen
from dglite.tofu.cost import LocalOperator
from dglite.tofu.elimination import minimize
from dglite.tofu.search import Policy, StepSearch, factors, recursions, search

MSE = nn.functional.mse_loss


def mlp(sizes: tuple[int, ...] = (16, 32, 8), batch: int = 64, optimizer: Any = torch.optim.SGD) -> Captured:
    with torch.device("meta"):
        layers = [m for a, b in itertools.pairwise(sizes) for m in (nn.Linear(a, b, bias=False), nn.ReLU())]
        module = nn.Sequential(*layers)
        inputs = torch.empty(batch, sizes[0]), torch.empty(batch, sizes[-1])
    return capture(module, MSE, inputs, optimizer(module.parameters(), 0.1))


def small(name: str) -> Captured:
    work = {
        "lstm": lambda: tofu_models.rnn(2, 1, batch=16, steps=4),
        "resnet": lambda: tofu_models.wresnet(50, 1),
        "transformer": lambda: tofu_models.transformer(2, 64, 8, 8, 128, 256, batch=8, length=32),
        "gcn": lambda: tofu_models.gcn(64, 4, (32, 64, 8)),
    }[name]()
    return capture(work.module, work.loss, work.inputs, work.optimizer)


MODELS = ["lstm", "resnet", "transformer", "gcn"]


# -- elimination -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "scopes",
    [
        [(0, 1), (1, 2), (2, 3)],
        [(0, 1), (0, 2), (1, 3), (2, 3)],
        [(0, 1, 2), (2, 3), (3,), (0, 3), (1, 2)],
        [(0,), (2, 3)],
    ],
    ids=["chain", "fork and join", "dense", "apart"],
)
def test_elimination_finds_the_minimum(scopes: list[tuple[int, ...]]) -> None:
    rng, sizes = np.random.default_rng(0), [3, 1, 4, 2]
    for _ in range(20):
        tables = {scope: rng.integers(0, 100, [sizes[v] for v in scope]).astype(float) for scope in scopes}

        def total(values: Any, tables: Any = tables) -> float:
            return sum(table[tuple(values[v] for v in scope)] for scope, table in tables.items())

        best = min(itertools.product(*map(range, sizes)), key=total)
        assert total(minimize(tables, sizes)) == total(best)


@pytest.mark.parametrize("limit", [0, 27, 81])
def test_tables_beyond_the_limit_are_an_integer_program(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr("dglite.tofu.elimination.LIMIT", limit)
    rng = np.random.default_rng(0)
    for _ in range(5):
        tables = {scope: rng.random((3,) * len(scope)) * 1e9 for scope in itertools.combinations(range(6), 2)}
        tables[1, 3, 4] = rng.random((3, 3, 3)) * 1e9

        def total(values: Any, tables: Any = tables) -> float:
            return sum(table[tuple(values[v] for v in scope)] for scope, table in tables.items())

        best = min(itertools.product(range(3), repeat=6), key=total)
        assert minimize(tables, [3] * 6) == list(best)


# -- costs -------------------------------------------------------------------------------------------------------------
def ways_of(target: Any, *args: Any) -> tuple[Any, dict[str, Any]]:
    graph = torch.fx.Graph()
    nodes = []
    for arg in args:
        if isinstance(arg, torch.Tensor):
            nodes.append(graph.placeholder(f"x{len(nodes)}"))
            nodes[-1].meta.update(val=arg.to("meta"), phase="input")
        else:
            nodes.append(arg)
    node = graph.call_function(target, tuple(nodes))
    node.meta.update(val=target(*[a.to("meta") if isinstance(a, torch.Tensor) else a for a in args]), phase="forward")
    captured = Captured(graph, {}, {}, {}, (), {}, {}, {}, node, {}, {})
    call = coarsen(captured, strategies_of).operators[0].call
    return call, {w.strategy.index: w for w in LocalOperator(call).ways(2) if w.strategy}


def test_the_cost_of_a_product() -> None:
    _, ways = ways_of(torch.ops.aten.mm.default, torch.empty(4, 8), torch.empty(8, 6))
    rows, columns, inner = ways["i"], ways["j"], ways["k"]
    a, b, c = 4 * 8 * 4, 8 * 6 * 4, 4 * 6 * 4
    assert [*rows.inputs[0]] == [0, a / 2, 0] and [*rows.inputs[1]] == [b, b, 0]
    assert [*columns.inputs[0]] == [a, a, 0] and [*columns.inputs[1]] == [b / 2, 0, 0]
    assert [*inner.inputs[0]] == [a / 2, 0, 0] and [*inner.inputs[1]] == [0, b / 2, 0]
    assert [*rows.outputs[0]] == [0, c / 2, c]
    assert [*inner.outputs[0]] == [c, c, 2 * c], "reduce-scatter, and all-reduce where it is replicated"


def test_the_cost_of_a_halo() -> None:
    x, w = torch.empty(1, 2, 12), torch.empty(3, 2, 3)
    _, ways = ways_of(torch.ops.aten.convolution.default, x, w, None, [1], [1], [1], False, [0], 1)
    spatial = next(way for way in ways.values() if way.strategy.outputs[0][2] is not None)
    assert spatial.inputs[0][2] == 2 * 2 * 4, "a column of two channels for each of the two parts"


def test_a_second_step_sees_what_is_left() -> None:
    call, ways = ways_of(torch.ops.aten.mm.default, torch.empty(4, 8), torch.empty(8, 6))
    left = LocalOperator(call).after(ways["i"], 2, (0, 0, 0))
    assert left.inputs == ((2, 8), (8, 6)) and left.outputs == ((2, 6),)
    left = LocalOperator(call).after(ways["k"], 2, (0, 0, 0))
    assert left.inputs == ((4, 4), (4, 6)) and left.outputs == ((4, 6),)


# -- the search --------------------------------------------------------------------------------------------------------
def exhaustive(coarse: Coarse, k: int) -> float:
    """Return the least cost of one step by trying all placements."""
    step = StepSearch(
        coarse,
        [t.shape for t in coarse.tensors],
        [LocalOperator(o.call) for o in coarse.operators],
        k,
        1,
        Policy(),
    )
    tables = [(*step.table(n), len(group.nodes)) for n, group in enumerate(coarse.operators)]
    free = [v for v, domain in enumerate(step.domains) if len(domain) > 1]
    best = float("inf")
    for values in itertools.product(*(range(len(step.domains[v])) for v in free)):
        at = Counter(dict(zip(free, values, strict=True)))
        best = min(best, sum(table[tuple(at[v] for v in scope)] * count for scope, table, count in tables))
    return best


@pytest.mark.parametrize("batch", [2, 64, 1024])
@pytest.mark.parametrize("sizes", [(16, 32, 8), (8, 8, 8, 8)])
def test_one_step_is_optimal(sizes: tuple[int, ...], batch: int) -> None:
    coarse = coarsen(mlp(sizes, batch), strategies_of)
    assert search(coarse, [2])[0].bytes == exhaustive(coarse, 2)


@pytest.mark.parametrize("batch", [2, 64, 1024])
def test_coarsening_loses_nothing_on_a_chain(batch: int) -> None:
    captured = mlp((16, 32), batch)
    fine = coarsen(captured, strategies_of, merge=False)
    assert search(coarsen(captured, strategies_of), [2])[0].bytes == search(fine, [2])[0].bytes


@pytest.mark.parametrize("name", MODELS)
def test_coarsening_loses_little_on_models(name: str) -> None:
    captured = small(name)
    coarse, fine = (coarsen(captured, strategies_of, merge) for merge in (True, False))
    assert len(coarse.tensors) < len(fine.tensors) / 2
    best = search(fine, [8])[0].bytes
    assert best <= search(coarse, [8])[0].bytes <= 1.01 * best


@pytest.mark.parametrize("name", MODELS)
def test_strategies_as_variables_give_the_same_plan(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    coarse = coarsen(small(name), strategies_of)
    expected = search(coarse, [2, 2])
    monkeypatch.setattr("dglite.tofu.search._LARGEST", 1)
    assert [step.bytes for step in search(coarse, [2, 2])] == [step.bytes for step in expected]


def test_a_cat_of_many_operands_has_small_tables() -> None:
    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8 + 4 * n, 4) for n in range(16))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            results = [x]
            for layer in self.layers:
                results.append(torch.relu(layer(torch.cat(results, 1))))
            return torch.cat(results, 1)

    with torch.device("meta"):
        captured = capture(Dense(), MSE, (torch.empty(16, 8), torch.empty(16, 72)))
    coarse = coarsen(captured, strategies_of)
    step = StepSearch(
        coarse, [t.shape for t in coarse.tensors], [LocalOperator(o.call) for o in coarse.operators], 2, 1, Policy()
    )
    assert max(table.size for table in step.tables().values()) <= 1024
    assert search(coarse, [2])[0].bytes > 0


@pytest.mark.parametrize("workers", [4, 8, 12])
@pytest.mark.parametrize("name", MODELS)
def test_steps_never_communicate_less_than_those_before(name: str, workers: int) -> None:
    captured = small(name)
    coarse = coarsen(captured, strategies_of)
    for ks in recursions(workers):
        steps = [step.bytes / (step.k - 1) for step in search(coarse, ks)]
        assert steps == sorted(steps)


@pytest.mark.parametrize("name", MODELS)
def test_no_baseline_that_splits_all_tensors_has_fewer_bytes(name: str) -> None:
    result = plan_captured(small(name), 8)
    plans = result.compare()
    assert set(plans) == {"Tofu", *BASELINES}
    replicating = [plans.pop("data parallel"), plans.pop("Megatron")]
    assert min(plans, key=lambda n: plans[n].bytes) == "Tofu"
    for other in replicating:
        fitted = plan_captured(result.captured, 8, memory=max(result.memory, other.memory))
        assert fitted.bytes <= other.bytes, "in the memory that it takes"


def test_one_worker_communicates_nothing() -> None:
    result = plan_captured(mlp(), 1)
    assert result.bytes == 0 and result.steps == () and result.placement("0.weight") == ()


def test_factors() -> None:
    assert factors(12) == [3, 2, 2] and factors(1) == [] and factors(7) == [7]
    assert recursions(8) == [[2, 2, 2], [4, 2], [8]] and recursions(1) == [[]]
    assert recursions(16) == [[2, 2, 2, 2], [4, 2, 2], [8, 2], [16], [4, 4]]


# -- coarsening --------------------------------------------------------------------------------------------------------
def test_time_steps_are_merged() -> None:
    def groups(steps: int) -> tuple[int, int]:
        work = tofu_models.rnn(2, 1, batch=16, steps=steps)
        coarse = coarsen(capture(work.module, work.loss, work.inputs, work.optimizer), strategies_of)
        products = [group for group in coarse.operators if group.call.heavy]
        return len([t for t in coarse.tensors if len(t.shape) == 2]), len(products)

    assert groups(4) == groups(8)


def test_repeated_layers_are_described_once() -> None:
    def calls(layers: int) -> int:
        work = tofu_models.transformer(layers, 32, 4, 4, 64, 64, batch=2, length=4)
        coarse = coarsen(capture(work.module, work.loss, work.inputs, work.optimizer), strategies_of)
        return len({id(group.call) for group in coarse.operators})

    assert calls(2) == calls(4)


def test_a_parameter_is_split_as_its_gradient_and_state() -> None:
    captured = mlp(optimizer=torch.optim.Adam)
    coarse = coarsen(captured, strategies_of)
    for name, p in captured.parameters.items():
        alike = [captured.gradients[p], captured.updates[p], captured.state[f"{name}.exp_avg"]]
        assert {coarse.group_of[n] for n in alike} == {coarse.group_of[p]}


def test_operators_without_a_description_are_named() -> None:
    class Odd(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.inv(super().forward(x)) + torch.cummax(x, 0)[0]

    module, x = Odd(4, 4), torch.empty(4, 4)
    captured = capture(module, MSE, (x, x))

    def describe(target: Any, args: Any, kwargs: Any) -> Any:
        if "inv_ex" in str(target) or "cummax" in str(target):
            raise DGLError(f"{target} is unknown")
        return strategies_of(target, args, kwargs)

    with pytest.raises(DGLError, match=r"aten\.cummax\.default, aten\.linalg_inv_ex.*describe each"):
        plan_captured(captured, 2, describe=describe)


# -- plans -------------------------------------------------------------------------------------------------------------
def test_a_plan_says_how_each_tensor_and_operator_is_split() -> None:
    captured = mlp()
    result = plan_captured(captured, 4)
    operators = [n for n in captured.graph.nodes if n.op == "call_function" and n.all_input_nodes]
    for step in result.steps:
        assert {*operators} == {*step.strategies}
        assert {n for n in captured.graph.nodes if n.op != "output"} == {*step.placements}
    shape = list(captured.parameters["0.weight"].meta["val"].shape)
    for dim, step in zip(result.placement("0.weight"), result.steps, strict=True):
        shape[dim] //= step.k
    assert result.local_shape("0.weight") == tuple(shape)
    with pytest.raises(KeyError, match=r"0\.weight"):
        result.placement("weight")


def test_memory_is_a_share_of_what_one_worker_needs() -> None:
    captured = mlp((256, 256, 256, 256), 256)
    one, four = plan_captured(captured, 1).memory, plan_captured(captured, 4).memory
    total = sum(t.meta["val"].numel() * 4 for t in captured.parameters.values())
    assert one > 2 * total
    assert four < one / 2


def test_memory_is_a_constraint() -> None:
    captured = mlp((256, 64, 256), 1024)
    least = plan_captured(captured, 4)
    free = plan_captured(captured, 4, memory=float("inf"))
    assert free.bytes < least.bytes and free.memory > least.memory
    between = plan_captured(captured, 4, memory=(least.memory + free.memory) / 2)
    assert between.memory <= (least.memory + free.memory) / 2 and free.bytes <= between.bytes <= least.bytes
    with pytest.raises(DGLError, match="more than memory="):
        plan_captured(captured, 4, memory=least.memory - 1)


def test_links_are_used_from_the_slowest_on() -> None:
    captured = mlp()
    result = plan_captured(captured, 8, links=[(4, 100e9), (2, 10e9)])
    assert result.steps[0].bandwidth == 10e9 and result.steps[0].k == 2
    assert all(step.bandwidth == 100e9 for step in result.steps[1:])
    assert result.transfer_seconds == sum(s.bytes / 8 / s.bandwidth for s in result.steps)
    assert plan_captured(captured, 8).transfer_seconds is None
    with pytest.raises(DGLError, match="join 8 workers, but workers=4"):
        plan_captured(captured, 4, links=[(4, 1e9), (2, 1e9)])
    with pytest.raises(DGLError, match="at least one"):
        plan_captured(captured, 0)


def test_data_parallel_all_reduces_and_fsdp_gathers_twice_and_scatters() -> None:
    captured = mlp((64, 64, 64, 64), 4096)
    weights = sum(p.meta["val"].numel() * 4 for p in captured.parameters.values())
    result = plan_captured(captured, 4)
    assert result.baseline(known.data_parallel).bytes == pytest.approx(2 * 3 * weights, rel=0.01)
    once = 2 * 64 * 64 * 4  # the first weight, as the input needs no gradient; the last, whose gradient is next
    assert result.baseline(known.fsdp).bytes == pytest.approx(3 * (3 * weights - once), rel=0.01)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.first, self.second = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)
        self.out = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = x + self.second(torch.relu(self.first(self.norm(x))))
        return self.out(x)


def test_megatron_knows_layers_by_what_they_read() -> None:
    with torch.device("meta"):
        module, inputs = Residual(), (torch.empty(64, 16), torch.empty(64, 8))
    megatron = plan_captured(capture(module, MSE, inputs), 4).baseline(known.megatron)
    places = {name: megatron.placement(name)[0] for name in megatron.captured.parameters}
    assert places == {
        "norm.weight": None,
        "norm.bias": None,
        "first.weight": 0,
        "first.bias": 0,
        "second.weight": 1,
        "second.bias": None,
        "out.weight": 0,
        "out.bias": 0,
    }


def test_megatron_cuts_columns_then_rows() -> None:
    captured = small("transformer")
    result = plan_captured(captured, 8)
    megatron = result.baseline(known.megatron)
    assert megatron.placement("blocks.0.q_proj.weight") == (0,)
    assert megatron.placement("blocks.0.down_proj.weight") == (1,)
    assert megatron.placement("blocks.0.norm1.weight") == (None,)
    assert plan_captured(captured, 8, memory=float("inf")).bytes <= megatron.bytes


def test_a_plan_is_made_from_a_module() -> None:
    module = nn.Linear(8, 8)
    result = plan(
        module, MSE, (torch.randn(4, 8), torch.randn(4, 8)), torch.optim.Adagrad(module.parameters()), workers=2
    )
    text = result.summary()
    assert "2 workers in steps of 2" in text and "received per training step" in text
    assert "mm.default" in text or "addmm.default" in text
    assert "PartitionPlan(workers=2" in repr(result)


def test_plans_are_drawn() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    result = plan_captured(mlp(), 4)
    figure = result.draw()
    tiles = [len(axis.patches) for axis in figure.axes]
    assert tiles[:2] == [4, 4]
    plt.figure()
    assert len(result.compare(draw=True)) == len(plt.gca().patches)
    plt.close("all")


# -- the models of the dissertation ------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", [tofu_models.wresnet, tofu_models.rnn], ids=lambda f: f.__name__)
def test_models_have_the_weights_of_the_table(make: Any) -> None:
    work = make()
    weights = 3 * 4 * sum(p.numel() for p in work.module.parameters()) / 2**30
    assert weights == pytest.approx(tofu_models.WEIGHTS_GIB[work.name], rel=0.003)
