"""Element-wise operators write into the memory of an operand that is not read afterwards.

Values may share memory: views do, and what an exchange makes of one that moves nothing. So slots are put into classes
that may share some, whatever an operator or an exchange could do, and memory is reused where the whole class is dead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import torch

from .program import ProgramStep, WorkerInstruction, WritingOperator
from .rounds import Round

_RETURNED = {torch.ops.aten._unsafe_view.default, torch.ops.aten.lift_fresh.default}
"""Operators that return memory of their operand though their schema does not say so."""


def makes_new_memory(target: Any) -> bool:
    """Return whether what an operator returns is never memory of an operand."""
    return (
        isinstance(target, torch._ops.OpOverload)
        and target not in _RETURNED
        and not target._schema.is_mutable
        and all(result.alias_info is None for result in target._schema.returns)
        and getattr(torch.Tag, "maybe_aliasing_or_mutating", None) not in target.tags  # torch 2.4 has no such tag
    )


@lru_cache(maxsize=1000)
def writing_into(target: Any, dtype: torch.dtype) -> WritingOperator | None:
    """Return the overload of an element-wise operator that writes into a tensor of ``dtype``, if there is one."""
    if torch.Tag.pointwise not in getattr(target, "tags", ()):
        return None
    mine = _arguments(target, False)
    for name in target.overloadpacket.overloads():
        other = getattr(target.overloadpacket, name)
        into = _arguments(other, True)
        if len(into) == 1 and _arguments(other, False) == mine:
            return WritingOperator(other, into[0][0], dtype)
    return None


def _arguments(target: Any, written: bool) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in target._schema.arguments if argument.is_out is written]


def reuse_memory(steps: Sequence[ProgramStep], retained: Collection[int]) -> None:
    """Let the element-wise operators of a program write into operands that die in them.

    Parameters
    ----------
    steps : sequence of ProgramStep
        Which know what they free.
    lent : collection of int
        Slots whose memory belongs to others, or is read after the program has run.
    """
    parent: dict[int, int] = {}

    def find(slot: int) -> int:
        while (above := parent.setdefault(slot, slot)) != slot:
            slot = parent[slot] = parent.setdefault(above, above)
        return slot

    def join(slots: Sequence[int]) -> None:
        for slot in slots[1:]:
            parent[find(slot)] = find(slots[0])

    for step in steps:
        action = step.action
        if isinstance(action, WorkerInstruction):
            for _, slots in action.writes:
                join(slots if action.new else [*slots, *action.reads])
        else:
            for m in action.movements if isinstance(action, Round) else [action]:
                join([m.source, *m.targets])
    last: dict[int, ProgramStep] = {find(slot): step for step in steps for slot in step.touches}
    in_use = {find(slot) for slot in retained}
    for step in steps:
        action = step.action
        if isinstance(action, WorkerInstruction) and action.into:
            roots = [find(slot) for slot in action.reads]
            alone = {slot for slot, root in zip(action.reads, roots, strict=True) if roots.count(root) == 1}
            action.dying = [s for s in action.reads if s in alone and last[find(s)] is step and find(s) not in in_use]
