"""The schedule of exchanges: in the fewest rounds that memory allows, each begun as early as possible.

A round is made when an operator needs a result, and takes along all exchanges whose tensors are there: what operators
have made for others, and what later operators will fetch, as long as no more memory is held than elsewhere in the step.
It begins right after the last of its tensors has been made, and ends just before the operator that needs it. All that
is decided here is the same for all workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .links import Links
from .program import ProgramStep, WorkerInstruction
from .rounds import MessageBuffers, Movement, Round

SLACK = 1.02
"""How much more may be held, for fewer rounds, than is held at most anyway."""

MESSAGE = 1 << 18
"""Bytes that a worker receives in a round, beyond which there is nothing to gain by more; buffers have to hold them."""


def schedule(
    instructions: Sequence[WorkerInstruction],
    movements: Sequence[Movement],
    sizes: Mapping[int, int],
    inputs: Sequence[int],
    links: Links,
    buffers: MessageBuffers,
) -> list[ProgramStep]:
    """Return the steps of a program.

    Parameters
    ----------
    instructions : sequence of WorkerInstruction
        In their order.
    movements : sequence of Movement
        In an order in which they could be made; ``due`` is set here.
    sizes : mapping of int to int
        Bytes of the values in slots, the same in all workers; 0 of those that are memory of others.
    given : sequence of int
        Slots whose values are there at the start.
    """
    _set_due(instructions, movements)
    return _Schedule(instructions, movements, sizes, inputs, lambda m, n: Round(links, m, buffers, n)).steps()


def _set_due(instructions: Sequence[WorkerInstruction], movements: Sequence[Movement]) -> None:
    due: dict[int, int] = {}
    for number in reversed(range(len(instructions))):
        due.update(dict.fromkeys(instructions[number].reads, number))
    for m in reversed(movements):
        m.due = min(due.get(slot, len(instructions)) for slot in m.targets)
        due[m.source] = min(due.get(m.source, m.due), m.due)


class _Schedule:
    def __init__(
        self,
        instructions: Sequence[WorkerInstruction],
        movements: Sequence[Movement],
        sizes: Mapping[int, int],
        inputs: Sequence[int],
        make: Callable[[list[Movement], str], Round],
    ) -> None:
        self.instructions, self.sizes, self.make = instructions, sizes, make
        self.pending = list(movements)
        self.program: list[ProgramStep] = []
        self.ready_from = dict.fromkeys(inputs, 0)
        self.free_from = 0
        self.profile = _memory_profile(instructions, movements, sizes, inputs)
        self.limit = SLACK * float(self.profile.max())
        self.message = max(MESSAGE, int(self.profile.max()) // 64)

    def steps(self) -> list[ProgramStep]:
        for number, instruction in enumerate(self.instructions):
            self._make_due(number, instruction.name)
            self._add(ProgramStep(instruction), [slot for _, slots in instruction.writes for slot in slots])
            self._make_local(number)
            if self._deferred() + self.profile[number] > self.limit:
                self._round(number, instruction.name)
        self._make_due(len(self.instructions), "the end of the step")
        return self.program

    def _add(self, step: ProgramStep, slots: Sequence[int]) -> None:
        self.program.append(step)
        self.ready_from.update(dict.fromkeys(slots, len(self.program)))

    def _make_due(self, number: int, name: str) -> None:
        while any(m.due <= number and m.exchange.pairs for m in self.pending):
            self._round(number, name)
            self._make_local(number)
        self._make_local(number, due=True)

    def _make_local(self, number: int, due: bool = False) -> None:
        """Make what takes no messages: what an operator has made at once, what it fetches when it needs it."""
        for m in list(self.pending):
            if not m.exchange.pairs and m.source in self.ready_from and (not m.fetch or (due and m.due <= number)):
                self.pending.remove(m)
                self._add(ProgramStep(m), m.targets)

    def _round(self, number: int, name: str) -> None:
        ready = [m for m in self.pending if m.exchange.pairs and m.source in self.ready_from]
        if not ready:
            return
        batch = [m for m in ready if m.due <= number]
        size = sum(m.size for m in batch)
        for m in sorted(ready, key=lambda m: (m.fetch, m.due)):
            if m.due > number and size + m.size <= self.message and self._fits(m, number):
                batch.append(m)
                size += m.size
        batch = batch or ready[:1]
        round_ = self.make([m for m in ready if m in batch], name)
        first = max(self.free_from, *(self.ready_from[m.source] for m in batch))
        self.program.insert(first, ProgramStep(round_, starts=True))
        self.pending = [m for m in self.pending if m not in batch]
        self._add(ProgramStep(round_), [slot for m in batch for slot in m.targets])
        self.free_from = len(self.program)

    def _fits(self, m: Movement, number: int) -> bool:
        """Return whether a result may be held until it is due, and if so count it."""
        if m.fetch:
            span = slice(number, m.due)
            if float(self.profile[span].max()) + m.exchange.largest > self.limit:
                return False
            self.profile[span] += m.exchange.largest
        return True

    def _deferred(self) -> int:
        """Return the bytes more that are held because outputs wait for a round."""
        waiting = [m for m in self.pending if not m.fetch and m.source in self.ready_from]
        return sum(max(0, self.sizes.get(m.source, 0) - m.exchange.largest) for m in waiting)


def _memory_profile(
    instructions: Sequence[WorkerInstruction],
    movements: Sequence[Movement],
    sizes: Mapping[int, int],
    inputs: Sequence[int],
) -> np.ndarray:
    """Return the bytes held while each instruction runs, if every exchange is made just before or after one."""
    first, last = dict.fromkeys(inputs, 0), dict.fromkeys(inputs, 0)
    for number, instruction in enumerate(instructions):
        for _, slots in instruction.writes:
            for slot in slots:
                first[slot] = last[slot] = number
        for slot in instruction.reads:
            first.setdefault(slot, number)
            last[slot] = number
    for m in movements:
        if m.fetch:
            last[m.source] = max(last.get(m.source, 0), m.due)
        else:
            for slot in m.targets:
                first[slot] = min(first.get(slot, m.due), first.get(m.source, m.due))
                last[slot] = max(last.get(slot, 0), m.due)
    change = np.zeros(len(instructions) + 2)
    for slot, number in first.items():
        change[number] += sizes.get(slot, 0)
        change[last.get(slot, number) + 1] -= sizes.get(slot, 0)
    return np.cumsum(change)[:-1]
