"""Element-wise operators reuse the memory of operands that nobody reads any more, and no other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from dglite.tofu.aten import operator_of
from dglite.tofu.layout import SliceAxis, slice_of_regions
from dglite.tofu.operator import bind, flat_outputs
from dglite.tofu.parts import part_runner
from dglite.tofu.program import OperandSlot, ProgramStep, WorkerInstruction, freeing
from dglite.tofu.reuse import makes_new_memory, reuse_memory, writing_into
from tests.tofu.samples import samples

aten = torch.ops.aten


def instruction(target: Any, reads: list[int], write: int) -> ProgramStep:
    template = bind(target, [OperandSlot(slot) for slot in reads], {})
    instruction = WorkerInstruction(str(target), reads, template, lambda a: target(**a), [(0, [write])], {0: (4,)})
    instruction.new, instruction.into = makes_new_memory(target), writing_into(target, torch.float32)
    return ProgramStep(instruction)


def run(steps: list[ProgramStep], kept: set[int], values: list[Any]) -> list[Any]:
    freeing(steps, kept)
    reuse_memory(steps, kept)
    for step in steps:
        assert isinstance(step.action, WorkerInstruction)
        step.action(values, 0)
        for slot in step.free:
            values[slot] = None
    return values


def test_a_dying_operand_is_written_into() -> None:
    x, y = torch.arange(4.0), torch.ones(4)
    steps = [instruction(aten.exp.default, [0], 2), instruction(aten.mul.Tensor, [2, 1], 3)]
    place: list[int] = []
    values: list[Any] = [x, y, None, None]
    freeing(steps, {0, 1, 3})
    reuse_memory(steps, {0, 1, 3})
    for step in steps:
        assert isinstance(step.action, WorkerInstruction)
        step.action(values, 0)
        place.append(values[step.action.writes[0][1][0]].data_ptr())
    assert place[0] == place[1]
    torch.testing.assert_close(values[3], torch.arange(4.0).exp())
    assert torch.equal(x, torch.arange(4.0)), "what is given is not written into"


def test_memory_that_a_view_has_is_left() -> None:
    # 1 = exp(0), 2 = a view of 1, 3 = exp(1), 4 = 3 * 2
    view = WorkerInstruction("view", [1], {"x": OperandSlot(1)}, lambda a: a["x"].view(2, 2), [(0, [2])], {0: (2, 2)})
    flat = WorkerInstruction("view", [2], {"x": OperandSlot(2)}, lambda a: a["x"].view(4), [(0, [5])], {0: (4,)})
    steps = [
        instruction(aten.exp.default, [0], 1),
        ProgramStep(view),
        instruction(aten.exp.default, [1], 3),
        ProgramStep(flat),
        instruction(aten.mul.Tensor, [3, 5], 4),
    ]
    x = torch.linspace(0, 1, 4)
    values = run(steps, {0, 4}, [x, *[None] * 5])
    torch.testing.assert_close(values[4], x.exp().exp() * x.exp())


def storages(value: Any) -> set[int]:
    return {x.untyped_storage().data_ptr() for x in tree_leaves(value) if isinstance(x, torch.Tensor) and x.numel()}


def test_what_is_said_to_be_new_memory_is() -> None:
    checked = 0
    for target, args, kwargs in samples():
        if not makes_new_memory(target):
            continue
        op = operator_of(target, args, kwargs)
        bound = bind(target, args, kwargs)
        cuts = [SliceAxis(s, 0, s.extent // 2) for s in op.strategies if s.extent > 1] if op else []
        for cut in [None, *cuts]:
            number = itertools.count()

            def one(x: torch.Tensor, cut: SliceAxis | None = cut, number: Iterator[int] = number) -> torch.Tensor:
                i = next(number)
                if cut is not None:
                    for d, rows in enumerate(slice_of_regions([(cut.strategy.inputs[i], 0, cut.hi)], x.shape, "")):
                        x = x.narrow(d, int(rows[0]), int(rows[1] - rows[0]))
                return x.clone()

            given = tree_map_only(torch.Tensor, one, bound)
            result = flat_outputs(part_runner(op, (cut,))(given) if op and cut else target(**given))
            assert not storages(result) & storages(given), target
            checked += 1
    assert checked > 300
