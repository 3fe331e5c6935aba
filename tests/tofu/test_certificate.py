"""Lower bounds of what any plan communicates."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dglite import DGLError, tofu
from dglite.tofu.elimination import Scope, lower_bound, minimize


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
    assert lower_bound(tables, sizes) == pytest.approx(least)
    assert lower_bound(tables, sizes, limit=4) <= least + 1e-9


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


def test_what_a_bound_is_not_known_for_is_refused() -> None:
    with pytest.raises(DGLError, match="memory="):
        plan(2, memory=1e9).lower_bound  # noqa: B018
    with pytest.raises(DGLError, match="at most 3"):
        plan(16).lower_bound  # noqa: B018
