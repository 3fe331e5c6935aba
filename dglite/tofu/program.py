"""The compiled program of one worker: operators on its parts, and rounds of communication."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.fx import Node

from ..errors import DGLError
from .operator import flat_outputs
from .rounds import Movement, Round

Values = list[Any]


@dataclass(frozen=True)
class OperandSlot:
    """Where an operand is."""

    number: int


class WritingOperator(NamedTuple):
    """An operator that writes its output into a tensor, that argument's name, and the output's dtype."""

    target: Any
    name: str
    dtype: torch.dtype


@dataclass
class WorkerInstruction:
    """One operator of a worker.

    Attributes
    ----------
    name : str
        The operator, for messages.
    reads : list of int
        The slots of its operands.
    template : dict
        The arguments; `OperandSlot` stands for an operand.
    run : callable or None
        From arguments to outputs; None if the worker has no part.
    writes : list of (output, slots)
    shapes : dict of int to shape
        That the outputs of the part have to have.
    seed : int
        Of a random operator, which gives equal parts equal numbers; -1 for others.
    new : bool
        Whether what it makes is never memory of an operand.
    into : WritingOperator, optional
        Writes the output of an element-wise operator into a tensor.
    dying : list of int
        Slots of operands that nothing reads afterwards, nor any that shares their memory.
    """

    name: str
    reads: list[int]
    template: dict[str, Any]
    run: Callable[[dict[str, Any]], Any] | None
    writes: list[tuple[int, list[int]]] = field(default_factory=list)
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    seed: int = -1
    new: bool = False
    into: WritingOperator | None = None
    dying: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._single = [(name, value.number) for name, value in self.template.items() if type(value) is OperandSlot]
        self._lists = [(name, value) for name, value in self.template.items() if isinstance(value, list | tuple)]

    def __call__(self, values: Values, count: int) -> None:
        """Compute; ``count`` is mixed into random seeds."""
        if self.run is None:
            return
        arguments = self.template.copy()
        for name, slot in self._single:
            arguments[name] = values[slot]
        for name, value in self._lists:
            arguments[name] = _filled(value, values)
        try:
            if self.dying and (place := self._place(values)) is not None:
                assert self.into is not None
                outputs = [self.into.target(**arguments, **{self.into.name: place})]
            else:
                outputs = flat_outputs(self.run(arguments)) if self.seed < 0 else self._seeded(arguments, count)
        except RuntimeError as error:
            raise DGLError(f"{self.name} failed on this worker's part: {str(error).splitlines()[0]}") from error
        for number, shape in self.shapes.items():
            if outputs[number].shape != shape:
                raise DGLError(f"{self.name} made {tuple(outputs[number].shape)}, not {shape}, as its part")
        for number, slots in self.writes:
            for slot in slots:
                values[slot] = outputs[number]

    def _place(self, values: Values) -> torch.Tensor | None:
        """Return the memory of an operand to write the output into."""
        assert self.into is not None
        for slot in self.dying:
            x = values[slot]
            same = x.shape == self.shapes.get(0) and x.dtype == self.into.dtype and x.is_contiguous()
            if same and x.nbytes == x.untyped_storage().nbytes():
                return x  # type: ignore[no-any-return]
        return None

    def _seeded(self, arguments: dict[str, Any], count: int) -> list[Any]:
        assert self.run is not None
        with torch.random.fork_rng():
            torch.manual_seed((self.seed + 0x9E3779B9 * count) % 2**62)
            return flat_outputs(self.run(arguments))


@dataclass
class ProgramStep:
    """What is done at a time: an operator, a movement without messages, or the start or the end of a round.

    ``free`` are the slots of values that nothing reads after it.
    """

    action: WorkerInstruction | Movement | Round
    starts: bool = False
    free: list[int] = field(default_factory=list)

    @property
    def touches(self) -> list[int]:
        """The slots that are read or written."""
        action = self.action
        if isinstance(action, WorkerInstruction):
            return [*action.reads, *(slot for _, slots in action.writes for slot in slots)]
        movements = action.movements if isinstance(action, Round) else [action]
        return [slot for m in movements for slot in (m.source, *(() if self.starts else m.targets))]


@dataclass(frozen=True)
class Program:
    """What a worker does in a training step.

    Attributes
    ----------
    slots : dict of Node to int
        Where values are.
    size : int
        How many slots there are.
    steps : list of ProgramStep
    bytes : int
        That all workers together receive in a step.
    """

    slots: dict[Node, int]
    size: int
    steps: list[ProgramStep]
    bytes: int

    def run(self, values: Values, count: int = 0) -> None:
        """Run all; ``values`` has those of the placeholders. ``count`` is mixed into the random seeds."""
        for step in self.steps:
            action = step.action
            if isinstance(action, WorkerInstruction):
                action(values, count)
            elif isinstance(action, Movement):
                action.run(values)
            elif step.starts:
                action.start(values)
            else:
                action.finish(values)
            for slot in step.free:
                values[slot] = None


def freeing(steps: Sequence[ProgramStep], retained: Collection[int]) -> None:
    """Let each step free what is used last in it, but what is kept."""
    last = {slot: step for step in steps for slot in step.touches}
    for slot, step in last.items():
        if slot not in retained:
            step.free.append(slot)


def _filled(value: Any, values: Values) -> Any:
    if isinstance(value, OperandSlot):
        return values[value.number]
    if isinstance(value, list | tuple):
        return [_filled(item, values) for item in value]
    return value
