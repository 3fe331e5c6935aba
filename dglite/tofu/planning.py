"""From a captured training step to the partition plan that communicates least, or the least that fits a memory."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ..errors import DGLError
from ..tables import bytes_text
from . import baselines
from .aten import strategies_of
from .capture import Captured, capture
from .coarsen import StrategiesOf, coarsen
from .joint import search_jointly
from .plan import LinkLevels, PartitionPlan
from .search import Policy, recursions, search


def plan(
    module: nn.Module,
    loss: Callable[..., torch.Tensor] | None,
    example_inputs: Sequence[Any],
    optimizer: torch.optim.Optimizer | None = None,
    workers: int = 2,
    *,
    named_inputs: Mapping[str, Any] | None = None,
    links: LinkLevels | None = None,
    memory: float | None = None,
) -> PartitionPlan:
    """Partition a training step over workers so that they communicate least. No process is started.

    Raises DGLError if the module cannot be captured, an operator has no description, ``workers`` and ``links`` do not
    match, or no plan fits the memory.

    Parameters
    ----------
    module, loss, example_inputs, optimizer, named_inputs
        See `capture`. All may be on the meta device.
    workers : int
        How many workers, at least 1.
    links : sequence of (int, float), optional
        Levels of a hierarchy of links: number of groups, and bytes per second and worker of the links that join them.
        ``[(8, 100e9), (4, 10e9)]`` are 4 machines of 8 workers; the product has to be ``workers``. The work is split
        over the slowest links first, whose steps communicate least.
    memory : float, optional
        Bytes that a worker may hold. Tensors are then replicated where that saves communication and memory allows.
        Left out, every tensor that can be is split, so that memory is least.
    """
    start = time.perf_counter()
    captured = capture(module, loss, example_inputs, optimizer, named_inputs)
    return plan_captured(captured, workers, links=links, memory=memory, capture_seconds=time.perf_counter() - start)


def plan_captured(
    captured: Captured,
    workers: int,
    *,
    links: LinkLevels | None = None,
    memory: float | None = None,
    capture_seconds: float = 0.0,
    describe: StrategiesOf | None = None,
) -> PartitionPlan:
    """Partition a captured training step; see `plan`.

    ``describe`` gives operators' strategies instead of the library of `dglite.tofu.aten`.
    """
    start = time.perf_counter()
    ways = _recursions(workers, links)
    coarse = coarsen(captured, describe or strategies_of)
    steps_of_ways = [(search(coarse, ks), speeds) for ks, speeds in ways]
    if workers <= MOST_WORKERS:
        pairs = [(ks, speeds) for ks, speeds in ways if len(ks) == 2]
        steps_of_ways += [(search_jointly(coarse, ks, 1 << 16, VISITS)[1], speeds) for ks, speeds in pairs]
    plans = [PartitionPlan(coarse, steps, speeds, memory=memory) for steps, speeds in steps_of_ways]
    cost = [p.bytes if p.transfer_seconds is None else p.transfer_seconds for p in plans]
    best = min(zip(cost, plans, strict=True), key=lambda pair: (pair[0], len(pair[1].steps)))[1]
    if memory is not None:
        best = _within(best, memory)
    best.seconds, best.capture_seconds = time.perf_counter() - start, capture_seconds
    return best


def plan_like(captured: Captured, before: PartitionPlan, memory: float | None = None) -> PartitionPlan:
    """Partition another step of the same module, its parameters and buffers split as they are in a plan."""
    start = time.perf_counter()
    coarse = coarsen(captured, strategies_of)
    named = captured.parameters | captured.buffers | captured.state
    earlier = before.captured.parameters | before.captured.buffers | before.captured.state
    dims = {coarse.group_of[node]: before.placement(name) for name, node in named.items() if name in earlier}
    policies = [Policy(fixed={v: each[number] for v, each in dims.items()}) for number in range(len(before.steps))]
    steps = search(coarse, [step.k for step in before.steps], policies)
    return PartitionPlan(coarse, steps, seconds=time.perf_counter() - start, memory=memory)


MOST_WORKERS = 16
"""For how many workers two steps are decided at once: for more, two steps are too few."""
VISITS = 50_000
"""How often tables are changed while two steps are decided at once: about a second."""


def _recursions(workers: int, links: LinkLevels | None) -> list[tuple[list[int], list[float | None]]]:
    if workers < 1:
        raise DGLError(f"workers={workers}: at least one worker is needed")
    if links is None:
        return [(ks, [None] * len(ks)) for ks in recursions(workers)]
    count = math.prod(size for size, _ in links)
    if count != workers or any(size < 1 or speed <= 0 for size, speed in links):
        raise DGLError(f"links={list(links)} join {count} workers, but workers={workers}: let their product be equal")
    slowest = sorted((link for link in links if link[0] > 1), key=lambda link: link[1])
    levels: list[tuple[list[int], list[float | None]]] = []
    for ways in itertools.product(*(recursions(size) for size, _ in slowest)):
        pairs = [(k, speed) for ks, (_, speed) in zip(ways, slowest, strict=True) for k in ks]
        levels.append(([k for k, _ in pairs], [speed for _, speed in pairs]))
    return levels


WEIGHTS = [4.0**power for power in range(-10, 3)]
"""Prices of a byte held that are tried to fit a plan into memory, in bytes sent."""


def _within(strict: PartitionPlan, memory: float) -> PartitionPlan:
    """Return the plan with the fewest bytes that fits: replication is made dearer until it does.

    The known ways that replicate parameters are asked, too, so that a plan never sends more than they do.
    """
    if strict.memory > memory:
        raise DGLError(
            f"a worker would hold {bytes_text(strict.memory)}, which is more than memory={bytes_text(memory)}: use "
            "more workers, a smaller batch or a smaller model"
        )
    best, low, high = strict, 0, len(WEIGHTS)
    middle = 0
    while low < high:
        candidate = strict.researched(Policy(replicate=True, weight=WEIGHTS[middle]), memory)
        if candidate.memory <= memory:
            best, high = min(best, candidate, key=lambda p: p.bytes), middle
        else:
            low = middle + 1
        middle = (low + high) // 2
    if strict.transfer_seconds is not None:
        return best
    rivals = [strict.baseline(make) for make in (baselines.data_parallel, baselines.fsdp)]
    return min([best, *(p for p in rivals if p.memory <= memory)], key=lambda p: p.bytes)
