"""The program of one worker, as it runs: fetch, run a part, put."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from ..errors import DGLError
from .exchange import Exchange, ReduceExchange
from .operator import flat_outputs

__all__ = ["Broken", "Move", "OperandSlot", "Program", "WorkerInstruction"]

Move = Exchange | ReduceExchange
Values = list[Any]


@dataclass
class WorkerInstruction:
    """One operator of a worker: fetch, run, and put.

    Attributes
    ----------
    name : str
        The operator, for messages.
    fetches : list of (slot, Exchange or None)
        For each tensor operand, in order.
    template : dict
        The arguments; `OperandSlot` stands for an operand by its number.
    run : callable or None
        From arguments to outputs; None if the worker has no part.
    puts : list of (output, slots, Exchange or Reduction or None)
    shapes : dict of int to shape
        That the outputs of the part have to have.
    free : list of int
        Slots of values that nobody reads after this.
    seed : int
        Of a random operator, which gives equal parts equal numbers; -1 for others.
    """

    name: str
    fetches: list[tuple[int, Exchange | None]]
    template: dict[str, Any]
    run: Callable[[dict[str, Any]], Any] | None
    puts: list[tuple[int, list[int], Move | None]] = field(default_factory=list)
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)
    seed: int = -1


@dataclass(frozen=True)
class OperandSlot:
    number: int


@dataclass(frozen=True)
class Program:
    """What a worker does in a training step.

    Attributes
    ----------
    slots : dict of Node to int
        Where values are.
    instructions : list of Instruction
    bytes : int
        That all workers together receive in a step.
    """

    slots: dict[Node, int]
    instructions: list[WorkerInstruction]
    bytes: int

    def run(self, values: Values, count: int = 0) -> None:
        """Run the operators; ``values`` has those of the placeholders. ``count`` is mixed into the random seeds."""
        for one in self.instructions:
            try:
                fetched = [values[s] if move is None else move.run(values[s]) for s, move in one.fetches]
            except RuntimeError as error:
                raise Broken(one.name) from error
            outputs = None
            if one.run is not None:
                operands = [x[0] if isinstance(x, list) else x for x in fetched]
                arguments = {name: _filled(value, operands) for name, value in one.template.items()}
                try:
                    outputs = _run(one, arguments, count)
                except RuntimeError as error:
                    raise DGLError(f"{one.name} failed on this worker's part: {error}") from error
                for number, shape in one.shapes.items():
                    if outputs[number].shape != shape:
                        raise DGLError(f"{one.name} made {tuple(outputs[number].shape)}, not {shape}, as its part")
                del operands, arguments
            del fetched
            for number, slots, move in one.puts:
                made = None if outputs is None else outputs[number]
                if move is not None:
                    try:
                        made = move.run(made)[0]
                    except RuntimeError as error:
                        raise Broken(one.name) from error
                for slot in slots:
                    values[slot] = made
            del outputs
            for slot in one.free:
                values[slot] = None


class Broken(Exception):
    """An exchange did not end, for want of another worker."""


def _run(one: WorkerInstruction, arguments: dict[str, Any], count: int) -> list[Any]:
    assert one.run is not None
    if one.seed < 0:
        return flat_outputs(one.run(arguments))
    with torch.random.fork_rng():
        torch.manual_seed((one.seed + 0x9E3779B9 * count) % 2**62)
        return flat_outputs(one.run(arguments))


def _filled(value: Any, operands: Sequence[Any]) -> Any:
    if isinstance(value, OperandSlot):
        return operands[value.number]
    if isinstance(value, list):
        return [_filled(one, operands) for one in value]
    return value
