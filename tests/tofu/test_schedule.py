"""Exchanges are made together, after what they send and before what needs them, by all workers alike."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from dglite import tofu
from dglite.tofu.exchange import Exchange
from dglite.tofu.execute import compile_plan
from dglite.tofu.links import Links
from dglite.tofu.program import OperandSlot, Program, WorkerInstruction
from dglite.tofu.rounds import MessageBuffers, Movement, Round
from dglite.tofu.schedule import schedule
from dglite.tofu.slices import TensorSlice

CPU = torch.device("cpu")


def programs(workers: int) -> list[Program]:
    """Return the programs of all workers for a training step with partial sums, halos and weights that are fetched."""
    with torch.device("meta"):
        layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Flatten()]
        module = nn.Sequential(*layers, nn.Linear(8 * 36, 5))
        inputs = torch.empty(4, 3, 8, 8), torch.empty(4, dtype=torch.long)
    optimizer = torch.optim.AdamW(module.parameters())
    plan = tofu.plan(module, functional.cross_entropy, inputs, optimizer, workers)
    return [compile_plan(plan, Links(rank, workers), CPU) for rank in range(workers)]


def rounds(program: Program) -> list[Round]:
    return [step.action for step in program.steps if isinstance(step.action, Round) and step.starts]


@pytest.mark.parametrize("workers", [2, 4])
def test_nothing_is_read_before_it_is_made_or_after_it_is_freed(workers: int) -> None:
    for program in programs(workers):
        alive = {slot for node, slot in program.slots.items() if node.op == "placeholder"}
        under_way: object = None
        for step in program.steps:
            what = step.action
            if isinstance(what, WorkerInstruction):
                assert alive.issuperset(what.reads)
            else:
                movements = what.movements if isinstance(what, Round) else [what]
                assert alive.issuperset(m.source for m in movements)
            if isinstance(what, Round):
                # there is one buffer for all rounds
                assert under_way is (None if step.starts else what)
                under_way = what if step.starts else None
            alive = (alive | set(step.touches)) - set(step.free)
        assert under_way is None


@pytest.mark.parametrize("workers", [2, 4])
def test_all_workers_make_the_same_rounds(workers: int) -> None:
    of_workers = [rounds(program) for program in programs(workers)]
    for together in zip(*of_workers, strict=True):
        for i, one in enumerate(together):
            assert [m.targets for m in one.movements] == [m.targets for m in together[0].movements]
            assert one._send_counts == [other._receive_counts[i] for other in together]
    result = of_workers[0]
    assert len(result) < sum(len(one.movements) for one in result)


def whole(sizes: list[int]) -> tuple[list[WorkerInstruction], list[Movement], dict[int, int]]:
    """Return instructions that each read all of a vector of which both of two workers hold a half."""
    instructions, movements, held = [], [], {}
    for number, size in enumerate(sizes):
        halves: list[TensorSlice | None] = [((0, size // 2),), ((size // 2, size),)]
        exchange = Exchange(0, halves, [((0, size),), ((0, size),)], torch.uint8, CPU)
        source, target = 2 * number, 2 * number + 1
        movements.append(Movement(exchange, source, [target], fetch=True))
        template = {"x": OperandSlot(target)}
        instructions.append(WorkerInstruction(str(number), [target], template, None))
        held |= {source: size // 2, target: size}
    return instructions, movements, held


@pytest.mark.parametrize(("sizes", "together"), [([2, 2, 1000], [3]), ([1000, 2, 1000], [2, 1]), ([2, 1000, 2], [3])])
def test_what_is_fetched_early_fits_into_the_memory_that_is_needed_anyway(
    sizes: list[int], together: list[int]
) -> None:
    instructions, movements, held = whole(sizes)
    given = [m.source for m in movements]
    steps = schedule(instructions, movements, held, given, Links(0, 2), MessageBuffers(CPU))
    results = [step.action for step in steps if step.starts]
    assert [len(one.movements) for one in results if isinstance(one, Round)] == together
