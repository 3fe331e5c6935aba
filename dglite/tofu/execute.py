"""Compile the program of one worker: a plan's operators on the worker's parts, and the transfers between them.

Each value of the graph lives as the slice that its placements leave to the worker. An operator gets the slices that its
strategies need, makes its part, and what it made goes to those who hold it. Operators keep the graph's order, and a
value is freed after its last use. All of this is found once, by `compile_plan`; a program then only runs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from ..errors import DGLError
from .aten import operator_of
from .exchange import Exchange, reducing
from .keeping import Use
from .layout import Layout, SliceAxis, slice_of_regions
from .links import Links
from .nodes import VIEWS, is_view, operands_of
from .operator import DescribedOperator, bind
from .parts import part_runner
from .plan import PartitionPlan
from .program import OperandSlot, Program, WorkerInstruction, freeing
from .reuse import makes_new_memory, reuse_memory, writing_into
from .rounds import MessageBuffers, Movement
from .schedule import schedule
from .slices import TensorSlice, slice_shape
from .strategy import Combine, Strategy, plain_dim

aten = torch.ops.aten


def compile_plan(plan: PartitionPlan, links: Links, device: torch.device, seed: int = 0) -> Program:
    """Return the program of the worker ``links.rank``.

    Raises ``DGLError``: if an operator cannot be run in the parts that the plan gives it; it is named.
    """
    return _Compiler(plan, links, device, seed).program()


class _Compiler:
    def __init__(self, plan: PartitionPlan, links: Links, device: torch.device, seed: int) -> None:
        self.plan, self.links, self.device, self.seed = plan, links, device, seed
        self.movements: list[Movement] = []
        self.sizes: dict[int, int] = {}
        self.steps = plan.steps
        self.layout = Layout([step.k for step in self.steps])
        self.workers = range(self.layout.workers)
        self.slots: dict[Node, int] = {}
        self._tiles: dict[Any, list[TensorSlice | None]] = {}
        self.turned: list[WorkerInstruction] = []
        self._fetched: dict[Use, int] = {}
        self._draws: dict[Node, tuple[int, Sequence[tuple[SliceAxis, ...]]]] = {}

    def program(self) -> Program:
        captured = self.plan.captured
        graph = captured.graph
        for node in graph.nodes:
            if isinstance(node.meta.get("val"), torch.Tensor):
                self.slots[node] = len(self.slots)
                self.sizes[self.slots[node]] = 0 if _is_view(node) else self._bytes(self.tiles(node), node)
        self.count = len(self.slots)
        instructions: list[WorkerInstruction] = []
        for node in graph.nodes:
            if node.op == "call_function" and node.target is not operator.getitem:
                instruction = self.instruction(node, len(instructions))
                instructions += [*self.turned, instruction]
                self.turned.clear()
        inputs = [self.slots[n] for n in graph.nodes if n.op == "placeholder"]
        steps = schedule(instructions, self.movements, self.sizes, inputs, self.links, MessageBuffers(self.device))
        retained = {self.slots[n] for n in (*captured.outputs, *captured.updates.values())}
        retained |= {self.slots[n] for n in graph.nodes if n.op == "placeholder" and n not in captured.updates}
        freeing(steps, retained)
        reuse_memory(steps, retained | set(inputs))
        return Program(self.slots, self.count, steps, sum(m.exchange.total for m in self.movements))

    def _slot(self, size: int) -> int:
        self.sizes[self.count] = size
        self.count += 1
        return self.count - 1

    def _bytes(self, slices: Sequence[TensorSlice | None], node: Node) -> int:
        largest = max(math.prod(slice_shape(slice_)) for slice_ in slices if slice_ is not None)
        return int(largest * node.meta["val"].dtype.itemsize)

    def tiles(self, node: Node) -> list[TensorSlice | None]:
        """Return the slice of a value that each worker holds."""
        shape, placement = tuple(node.meta["val"].shape), tuple(step.placements[node] for step in self.steps)
        if (shape, placement) not in self._tiles:
            self._tiles[shape, placement] = [self.layout.tile(shape, placement, w) for w in self.workers]
        return self._tiles[shape, placement]

    def instruction(self, node: Node, number: int) -> WorkerInstruction:
        operands = operands_of(node)
        op = operator_of(node.target, *map_arg((node.args, node.kwargs), lambda n: n.meta["val"]))
        strategies = self._strategies(node, op, operands)
        cuts = [self.layout.cuts(strategies, w) for w in self.workers]
        reads = [
            self._fetch((node, i), x, [_region(cut, "inputs", i, x.meta["val"].shape, node) for cut in cuts])
            for i, x in enumerate(operands)
        ]
        mine = cuts[self.links.rank]
        slots: Iterator[Any] = map(OperandSlot, reads)
        template = bind(node.target, *map_arg((node.args, node.kwargs), lambda _: next(slots)))
        if template.get("device", self) is None:
            template["device"] = self.device
        instruction = WorkerInstruction(
            str(node.target),
            [*reads, *(slot for turn in self.turned for slot in turn.reads)],
            template,
            None if _is_empty(mine) else _runner(node, op, mine),
        )
        if op.rule.random if op else torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            instruction.seed = hash((self.seed, self._draw(node, number, cuts), *((c.lo, c.hi) for c in mine))) % 2**62
        elif isinstance(node.meta["val"], torch.Tensor) and not (op and op.rule.local):
            instruction.into = writing_into(node.target, node.meta["val"].dtype)
        instruction.new = makes_new_memory(node.target)
        for output, readers in _readers(node).items():
            instruction.writes.append((output, self._put(node, readers, output, cuts)))
            slice_ = _region(mine, "outputs", output, readers[0].meta["val"].shape, node)
            if slice_ is not None:
                instruction.shapes[output] = slice_shape(slice_)
        return instruction

    def _draw(self, node: Node, number: int, cuts: Sequence[tuple[SliceAxis, ...]]) -> int:
        """Return the number of the random operator that draws the numbers first; see `capture`."""
        first = node.meta.get("drawn_as")
        self._draws[node] = (number, cuts) if first is None else (self._draws[first][0], cuts)
        if first is not None and cuts != self._draws[first][1]:
            raise DGLError(
                f"{node.target}, which torch.utils.checkpoint runs again, is split otherwise than at first, so it would"
                " draw other numbers: leave it out of the checkpointed block"
            )
        return self._draws[node][0]

    def _strategies(self, node: Node, op: DescribedOperator | None, operands: Sequence[Node]) -> list[Strategy | None]:
        if operands:
            strategies = [step.strategies.get(node) for step in self.steps]
            if op is None and any(strategies):
                raise DGLError(f"{node.target} has no description to be run by, though the plan splits it")
            return strategies
        # the plan says nothing of what is made from no tensor: each worker makes what it holds
        if op is None or node not in self.slots:
            return [None] * len(self.steps)
        by_dim: dict[int | None, Strategy] = {plain_dim(s.outputs[0]): s for s in op.strategies}
        by_dim.pop(None, None)
        return [by_dim.get(step.placements[node]) for step in self.steps]

    def _fetch(self, use: Use, operand: Node, needed: list[TensorSlice | None]) -> int:
        """Return the slot of what the workers need of an operand."""
        first, order = self.plan.kept_fetches.first.get(use, (use, ()))
        slot = self._fetched[use] = self._fetched[first] if first != use else self._moved(operand, needed)
        if order == tuple(range(len(order))):
            return slot
        turned = self._slot(0)
        there = needed[self.links.rank] is not None
        template = {"x": OperandSlot(slot), "dims": order}
        permute = WorkerInstruction("what was kept", [slot], template, _turned if there else None, [(0, [turned])])
        self.turned.append(permute)
        return turned

    def _moved(self, operand: Node, needed: list[TensorSlice | None]) -> int:
        tiles = self.tiles(operand)
        if all(slice_ is None or _equal(slice_, tile) for slice_, tile in zip(needed, tiles, strict=True)):
            return self.slots[operand]
        dtype = operand.meta["val"].dtype
        move = Exchange(self.links.rank, tiles, needed, dtype, self.device, distance=self.layout.distance)
        target = self._slot(move.largest)
        self.movements.append(Movement(move, self.slots[operand], [target], fetch=True))
        return target

    def _put(self, node: Node, values: list[Node], output: int, cuts: Sequence[tuple[SliceAxis, ...]]) -> list[int]:
        """Return the slots of what an operator makes, from where it comes to those who hold it."""
        value, targets = values[0], [self.slots[v] for v in values]
        shape, dtype, tiles = value.meta["val"].shape, value.meta["val"].dtype, self.tiles(value)
        kinds: set[Combine] = {c.strategy.combine[output] for cut in cuts for c in cut} - {"concat"}
        if len(kinds) > 1:
            raise DGLError(f"{node.target} is reduced by {' and '.join(sorted(kinds))} at once, which cannot be run")
        regions = [_region(cut, "outputs", output, shape, node) for cut in cuts]
        rank, distance = self.links.rank, self.layout.distance
        if kinds:
            keys = [tuple(c.lo for c in cut if c.strategy.combine[output] != "concat") for cut in cuts]
            number = {key: i for i, key in enumerate(dict.fromkeys(keys))}
            parts = [number[key] for key in keys]
            moves = reducing(rank, regions, tiles, dtype, self.device, parts, kinds.pop(), distance)
        elif all(slice_ is not None and _equal(slice_, tile) for slice_, tile in zip(regions, tiles, strict=True)):
            return targets
        else:
            moves = [Exchange(rank, regions, tiles, dtype, self.device, distance=distance, owns=True)]
        first = source = self._slot(self._bytes(regions, value))
        for move in moves:
            to = targets if move is moves[-1] else [self._slot(move.largest)]
            self.movements.append(Movement(move, source, to, fetch=False))
            source = to[0]
        return [first]


def _runner(node: Node, op: DescribedOperator | None, cuts: Sequence[SliceAxis]) -> Callable[[dict[str, Any]], Any]:
    if op and cuts:
        return part_runner(op, cuts)
    if node.target in VIEWS:  # what has been fetched may lie in memory in another way than the whole would
        return lambda arguments: arguments["self"].reshape(arguments["size"])
    target: Any = node.target
    return lambda arguments: target(**arguments)


def _turned(arguments: dict[str, Any]) -> Any:
    return arguments["x"].permute(arguments["dims"])


def _region(cuts: Sequence[SliceAxis], side: str, number: int, shape: Sequence[int], node: Node) -> TensorSlice | None:
    """Return the slice of an operand or output that a part has to do with; None if there is no part."""
    if _is_empty(cuts):
        return None
    return slice_of_regions([(getattr(c.strategy, side)[number], c.lo, c.hi) for c in cuts], shape, str(node.target))


def _is_empty(cuts: Sequence[SliceAxis]) -> bool:
    return any(c.lo >= c.hi for c in cuts)


def _equal(slice_: TensorSlice, tile: TensorSlice | None) -> bool:
    return tile is not None and all(isinstance(rows, tuple) and rows == t for rows, t in zip(slice_, tile, strict=True))


def _readers(node: Node) -> dict[int, list[Node]]:
    """Return the values that are the outputs of an operator, by the outputs' numbers."""
    if isinstance(node.meta["val"], torch.Tensor):
        return {0: [node]}
    readers: dict[int, list[Node]] = {}
    for user in node.users:
        readers.setdefault(int(user.args[1]), []).append(user)  # type: ignore[arg-type]
    return readers


def _is_view(node: Node) -> bool:
    return node.target is operator.getitem or is_view(node)
