"""Lower bounds of what any plan communicates."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dglite import tofu
from dglite.tofu.certificate import least_bytes
from dglite.tofu.elimination import Scope, lower_bound, minimize
from dglite.tofu.joint import search_jointly
from dglite.tofu.search import recursions, search


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_of_a_sum_of_tables_is_below_it_and_exact_without_a_limit(seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 4, 6).tolist()
    tables: dict[Scope, np.ndarray] = {}
    for _ in range(9):
        scope = tuple(sorted(random.choice(6, random.integers(1, 4), replace=False).tolist()))
        tables[scope] = random.integers(0, 9, [sizes[v] for v in scope]).astype(float)

    def total(values: tuple[int, ...]) -> float:
        return sum(float(table[tuple(values[v] for v in scope)]) for scope, table in tables.items())

    least = min(map(total, itertools.product(*map(range, sizes))))
    assert total(tuple(minimize(tables, sizes))) == pytest.approx(least)
    bound, values = lower_bound(tables, sizes)
    assert bound == pytest.approx(least)
    assert total(tuple(values)) == pytest.approx(least)
    bound, values = lower_bound(tables, sizes, limit=4)
    assert bound <= least + 1e-9
    assert total(tuple(values)) >= least - 1e-9


def plan(workers: int, **options: float) -> tofu.PartitionPlan:
    with torch.device("meta"):
        layers = [nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(1024, 16)]
        module = nn.Sequential(*layers)
        inputs = torch.empty(16, 8, 8, 8), torch.empty(16, dtype=torch.long)
    optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
    return tofu.plan(module, F.cross_entropy, inputs, optimizer, workers, **options)


def searched(partition: tofu.PartitionPlan) -> float:
    return sum(step.bytes for step in partition._search_steps)


def test_one_step_is_optimal() -> None:
    partition = plan(2)
    assert partition.lower_bound == pytest.approx(searched(partition))
    assert partition.certificate().startswith("within 0.00% of optimal")


@pytest.mark.parametrize("workers", [3, 4, 6, 8])
def test_no_plan_is_below_the_bound(workers: int) -> None:
    partition = plan(workers)
    assert 0 < partition.lower_bound <= searched(partition) * (1 + 1e-9)
    for name in ("AllRow-Greedy", "Spartan", "EqualChop"):
        assert partition.lower_bound <= searched(partition.baseline(tofu.BASELINES[name])) * (1 + 1e-9)
    assert partition.lower_bound > 0.5 * searched(partition)


@pytest.mark.parametrize("workers", [2, 4, 6, 8, 12, 16])
def test_no_plan_is_below_the_relaxed_bound(workers: int) -> None:
    partition = plan(workers)
    coarse = partition._coarse
    least = least_bytes(coarse, workers)
    assert 0 < least <= searched(partition) * (1 + 1e-9)
    for ks in recursions(workers):
        assert least <= sum(step.bytes for step in search(coarse, ks)) * (1 + 1e-9)
    if workers == 16:
        assert partition.lower_bound == pytest.approx(least)


@pytest.mark.parametrize("workers", [4, 6, 8])
def test_all_steps_at_once_are_bounded_by_what_they_send(workers: int) -> None:
    coarse = plan(workers)._coarse
    for ks in recursions(workers):
        least, steps = search_jointly(coarse, ks)
        sent = sum(step.bytes for step in steps)
        assert least <= sent * (1 + 1e-9)
        assert sent <= sum(step.bytes for step in search(coarse, ks)) * (1 + 1e-9)


@pytest.mark.parametrize("share", [1.0, 1.1, 1.5, 3.0])
def test_no_plan_that_fits_a_memory_is_below_its_bound(share: float) -> None:
    memory = share * plan(4).memory
    partition = plan(4, memory=memory)
    assert partition.memory <= memory
    assert partition.lower_bound <= searched(partition) * (1 + 1e-9)
    assert partition.lower_bound <= plan(4).lower_bound * (1 + 1e-9)
    if share < 1.5:
        assert partition.lower_bound > 0
    for make in (tofu.BASELINES["data parallel"], tofu.BASELINES["FSDP"]):
        known = partition.baseline(make)
        assert known.memory > memory or partition.lower_bound <= searched(known) * (1 + 1e-9)
