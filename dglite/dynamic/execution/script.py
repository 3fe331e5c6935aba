"""A vertex program as one script: all stages of both directions as lines, up to addresses.

It is for a call whose inputs and results lie where somebody else has put them. Gradients of parameters are only listed,
as products of rows, for whoever adds them up or updates parameters by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from ...kernels import compiled
from ..program.ir import Domain, NodeKind
from ..program.layout import (
    NOTHING,
    WORDS,
    Move,
    SharedSource,
    StageTable,
    StateSource,
    TableSource,
    Unsupported,
    domain_of,
)
from ..program.recipe import Buffer, Heavy, Place, Role, StagePhase, VertexPlan
from ..program.traced import ClassPlan
from .memory import take
from .order import Order

__all__ = ["Addresses", "Filled", "GradientPart", "Script", "Unsupported", "stacked_rows"]


@dataclass(frozen=True)
class _Given:
    """Something of the call: ``what`` is "value", "value gradient", "result" or "result gradient"."""

    what: str
    number: int


@dataclass(frozen=True)
class _VertexRows:
    """Rows of all vertices, by class and level, beside the states: of what is pushed, of its gradient, of inputs'."""

    what: str
    number: int


class GradientPart(NamedTuple):
    """Rows whose product is part of a gradient: of which shared tensor; ``outer`` or ``totals``."""

    shared: int
    form: str


class Addresses(NamedTuple):
    """Where values, results and their gradients lie; 0 for gradients of inputs that nobody wants."""

    values: Sequence[int]
    value_grads: Sequence[int]
    results: Sequence[int]
    result_grads: Sequence[int]


class Filled(NamedTuple):
    """A script for one graph: words of the kernels that run it, forward and backward; whether there is a gradient; for
    each part of gradients (number of rows, address and row stride of left and right ones); its memory; what else must
    be kept; addresses in its memory; the row of each input that each row of the order pulls; lines of both directions,
    and which of those run without kernels."""

    teams: np.ndarray
    has_backward: bool
    parts: np.ndarray
    lease: Any
    keep: Any
    bases: np.ndarray
    picked: np.ndarray
    lines: tuple[np.ndarray, np.ndarray]
    own: tuple[np.ndarray, np.ndarray]


class Script:
    """All stages of the classes that a graph has, in both directions.

    Where it ``returns`` to who runs it, that runs the ``own`` stages, of each direction, which have no kernels, and
    products of many rows; else such stages raise :class:`Unsupported`, and gradients of inputs are added to what is
    there. ``input_grads`` are the inputs that have gradients.
    """

    def __init__(
        self,
        plans: Mapping[int, ClassPlan],
        num_classes: int,
        slots: int,
        strides: Sequence[tuple[int, ...]],
        state_widths: Sequence[int],
        push_widths: Sequence[int],
        dtype: torch.dtype,
        input_widths: Sequence[tuple[int, torch.dtype]],
        returns: bool,
    ) -> None:
        self.plans, self._num_classes, self._slots = plans, num_classes, slots
        self._item = dtype.itemsize
        self._memory: dict[Any, tuple[int, int]] = {}
        """By source: (number of what tells how many rows there are, bytes of a row); see :meth:`_counts`."""
        self._alias: dict[Buffer, Any] = {}
        self._sources: dict[Any, int] = {NOTHING: 0, WORDS: 1}
        self._parts: list[tuple[int, Heavy]] = []
        self.own: tuple[list[Heavy | Move], list[Heavy | Move]] = [], []
        self.input_grads: list[int] = []
        self._returns = returns
        for j, width in enumerate(state_widths):
            self._memory[StateSource(j)] = 2 * num_classes + 1, width * self._item
        self._zeroed: set[Any] = set()
        self._num_states = len(state_widths)
        self.parts: list[GradientPart] = []
        self.has_backward = any(plan.backward is not None for plan in plans.values())
        self._lay_buffers(push_widths)
        indices, constants, stages, bounds, classes = [], [], [], [], []
        words, directions, kernels = 0, [(0, 0, 0)], compiled("dynamic.schedule")
        for backward in (False, True) if self.has_backward else (False,):
            moves = self._moves(backward, push_widths, input_widths, dtype)
            bounds.append(0)
            for c, plan in self._ordered(backward, moves):
                layout = StageTable(plan, slots, strides, returns)
                self._parts += [(c, stage) for stage in layout.parts]
                numbers = np.array([self._number(source) for source in layout.sources], np.int64)
                indices.append(numbers[layout.indices])
                constants.append(layout.constants + 8 * words * (layout.indices == 1))
                rows = layout.stages.copy()
                rows[:, kernels.START] += words * (rows[:, kernels.START] >= 0)
                rows[:, kernels.OWN] += len(self.own[backward]) * (rows[:, kernels.OWN] >= 0)
                self.own[backward].extend(layout.own)
                stages.append(rows)
                bounds += [bounds[-1] + at for at in layout.bounds[1:]]
                classes.append(c)
                words += len(layout.constants)
            directions.append((len(classes), sum(map(len, stages)), len(bounds)))
        table = np.concatenate(stages)
        self.work = int(table[:, [kernels.WORK, kernels.FIXED_WORK]].sum() // max(len(table), 1))
        arrays = {"indices": np.concatenate(indices), "constants": np.concatenate(constants), "stages": table}
        arrays |= {"bounds": np.array(bounds), "classes": np.array(classes), "directions": np.array(directions)}
        self._arrays = arrays | self._prepared(len(input_widths))
        self._record = compiled("dynamic.fill").record(
            *[self._arrays[name] for name in compiled("dynamic.fill").SCRIPT]
        )

    # -- once ---------------------------------------------------------------------------------------------------
    def _number(self, source: Any) -> int:
        source = self._alias.get(source, source) if isinstance(source, Buffer) else source
        return self._sources.setdefault(source, len(self._sources))

    def _lay_buffers(self, push_widths: Sequence[int]) -> None:
        """Note how large each buffer is, and which are seen by all classes."""
        num, item = self._num_classes, self._item
        for c, plan in self.plans.items():
            both = [plan.forward] + ([plan.backward] if plan.backward is not None else [])
            for buffer in (*(b for p in both for b in p.buffers), *plan.pulls.values()):
                count = c if buffer.domain is Domain.VERTEX else num + c
                self._memory[buffer] = count, buffer.width * buffer.dtype.itemsize
            for p in both:
                for root in p.roots:
                    self._share(p, root)
            for k, buffer in plan.push_grads.items():
                self._alias[buffer] = _VertexRows("push gradient", k)
                self._memory[_VertexRows("push gradient", k)] = 2 * num, push_widths[k] * item

    def _share(self, plan: VertexPlan, root: Any) -> None:
        """Let a result lie in rows that all classes share."""
        what = {Role.SCATTER: "state", Role.PUSH: "push", Role.PULL_GRAD: "input gradient"}.get(root.role)
        if what is None:
            return
        buffer, number = plan.places[root.node].buffer, int(str(root.key))
        rows: Any = StateSource(number) if what == "state" else _VertexRows(what, number)
        self._alias[buffer] = rows
        if what != "state":
            self._memory[rows] = 2 * self._num_classes, buffer.width * buffer.dtype.itemsize

    def _moves(
        self,
        backward: bool,
        push_widths: Sequence[int],
        input_widths: Sequence[tuple[int, torch.dtype]],
        dtype: torch.dtype,
    ) -> dict[int, tuple[StagePhase, list[Move]]]:
        """Return moves by class: of what is pulled, or, for all vertices or an input's rows, at the end of a list."""
        found: dict[int, tuple[StagePhase, list[Move]]] = {}
        every = self._num_classes + 1
        if not backward:
            for c, plan in self.plans.items():
                moves = [
                    Move(*input_widths[i], _Given("value", i), ("picked", i), buffer)
                    for i, buffer in plan.pulls.items()
                ]
                found[c] = StagePhase.EAGER, moves
            into = [
                Move(width, dtype, _VertexRows("push", k), "places", _Given("result", k))
                for k, width in enumerate(push_widths)
            ]
            return {**found, every: (StagePhase.LATE, into)}
        pushed = sorted({k for plan in self.plans.values() for k in plan.push_grads})
        rows = [
            Move(push_widths[k], dtype, _Given("result gradient", k), "nodes", _VertexRows("push gradient", k))
            for k in pushed
        ]
        found[every] = StagePhase.EAGER, rows
        for i, (width, kind) in enumerate(input_widths):
            rows_of = _VertexRows("input gradient", i)
            if rows_of in self._memory:
                self.input_grads.append(i)
                move = Move(width, kind, rows_of, ("inverse", i), _Given("value gradient", i), not self._returns)
                found[every + 2 + 2 * i] = StagePhase.LATE, [move]
                with_input = [plan.backward for c, plan in self.plans.items() if not c // 2 >> i & 1]
                if not all(_has_gradient(plan, i) for plan in with_input):
                    self._zeroed.add(rows_of)
        return found

    def _ordered(self, backward: bool, moves: dict[int, tuple[StagePhase, list[Move]]]) -> list[tuple[int, VertexPlan]]:
        """Return classes and their plans: gradients of what is pushed come first, other moves last."""
        found = []
        for c, plan in self.plans.items():
            own = plan.backward if backward else plan.forward
            if own is not None:
                phase, moved = moves.pop(c, (StagePhase.EAGER, []))
                stages = {p: [*(moved if p is phase else ()), *own.stages[p]] for p in StagePhase}
                found.append((c, replace(own, stages=stages)))  # type: ignore[arg-type]
        for c, (phase, moved) in moves.items():
            alone = VertexPlan({p: list(moved) if p is phase else [] for p in StagePhase}, {}, [])  # type: ignore[arg-type]
            found.insert(0 if phase is StagePhase.EAGER else len(found), (c, alone))
        return found

    def _prepared(self, num_inputs: int) -> dict[str, np.ndarray]:
        """Sort the sources by who knows their addresses, and list where parents leave gradients."""
        for source in self._memory:
            self._number(source)
        num, sources, kernels = self._num_classes, self._sources, compiled("dynamic.fill")
        first = dict.fromkeys(self._zeroed, kernels.ZERO)
        first |= {StateSource(j): kernels.LAST_ROW_ZERO for j in range(self._num_states)}
        own = [[*self._memory[source], first.get(source, kernels.AS_IT_IS)] for source in self._memory]
        parts = []
        for c, stage in self._parts:
            sides = [self.side(place) for place in stage.places if place is not None]
            parts.append([num + c if domain_of(stage.node) is Domain.EDGE else c, *sides[0], *sides[-1]])
            form = "outer" if stage.node.kind is NodeKind.WEIGHT_GRAD else "totals"
            self.parts.append(GradientPart(int(stage.node.attr), form))
        tables, slots = [s for s in sources if isinstance(s, TableSource)], max(self._slots, 1)
        left = np.zeros((len(tables), 4, num, slots), np.int64)
        for found, table in zip(left, tables, strict=True):
            self._fill_table(found, table)
        nowhere = len(sources)
        self._given = [s for s in sources if isinstance(s, _Given)]
        self._shared = [s for s in sources if isinstance(s, SharedSource)]
        order = (*kernels.ORDER[: kernels.TABLES_OF_ORDER], "child_table")
        lists: dict[str, Any] = {
            "own": own,
            "own_at": [sources[source] for source in self._memory],
            "order_at": [sources.get(name, nowhere) for name in order],
            "picked_at": [sources.get((what, i), nowhere) for i in range(num_inputs) for what in ("picked", "inverse")],
            "given_at": [sources[s] for s in (*self._given, *self._shared)],
            "table_at": [sources[table] for table in tables],
            "tables": left,
            "parts": parts,
            "sizes": [nowhere + 1, slots],
        }
        return {name: np.array(values, np.int64) for name, values in lists.items()}

    def side(self, place: Place) -> tuple[int, int, int]:
        """Return source, constant and row stride of a place."""
        item = place.buffer.dtype.itemsize
        return self._number(place.buffer), place.column * item, place.buffer.width * item

    def _fill_table(self, found: np.ndarray, table: TableSource) -> None:
        """Note source, constant and stride of what the parents of each class leave for a state, by slot."""
        found[3] = table.by_slot
        for c, plan in self.plans.items():
            for root in plan.backward.roots if plan.backward is not None else ():
                if root.role is Role.STATE_GRAD and plan.backward is not None:
                    key: Any = root.key
                    slot, state = key
                    if state == table.state and (slot is not None) == table.by_slot:
                        found[:3, c, 0 if slot is None else slot] = self.side(plan.backward.places[root.node])

    # -- for each graph -----------------------------------------------------------------------------------------
    def fill(
        self,
        order: Order,
        shared: Sequence[Any],
        rows_of: np.ndarray,
        lengths: np.ndarray,
        addresses: Addresses,
        processors: int,
        teams: np.ndarray | None = None,
        lease: torch.Tensor | None = None,
        shared_from: int = 0,
    ) -> Filled:
        """Return the script for a graph.

        ``shared`` are the tensors that all vertices share; ``rows_of`` (inputs, nodes) is the row of each input that a
        node pulls, or -1, ``lengths`` how many rows inputs have. ``teams`` is where the kernels' words are to be,
        ``lease`` memory in which the values of an earlier call lie. For ``shared_from`` see
        :func:`dglite.kernels.cpu.dynamic.fill.fill`.
        """
        kernels = compiled("dynamic.fill")
        if lease is None:
            lease = take(kernels.needed_bytes(order.record, self._record))
        given = [addresses[_WHERE[s.what]][s.number] for s in self._given]
        given += [shared[s.index].data_ptr() for s in self._shared]
        if teams is None:
            teams = np.empty((2, kernels.TEAM_WORDS), np.int64)
        functions = compiled("dynamic.schedule").script_functions()
        parts, bases, lines, own, lines_back, own_back, *kept, picked, inverse = kernels.fill(
            order.record, self._record, rows_of, lengths, np.array(given, np.int64), lease.data_ptr(),
            processors, shared_from, functions, teams,
        )  # fmt: skip
        keep = order, shared, kept, inverse
        both = (lines, lines_back), (own, own_back)
        return Filled(teams, self.has_backward, parts, lease, keep, bases, picked, *both)


_WHERE = {"value": 0, "value gradient": 1, "result": 2, "result gradient": 3}


def stacked_rows(rows: Sequence[torch.Tensor | None], num_nodes: int) -> np.ndarray:
    """Return which row of each input a node pulls, (inputs, nodes), given that of inputs of some nodes."""
    found = [np.arange(num_nodes) if x is None else x.numpy() for x in rows]
    return found[0].reshape(1, -1) if len(found) == 1 else np.array(found, np.int64).reshape(len(found), num_nodes)


def _has_gradient(plan: VertexPlan | None, i: int) -> bool:
    return plan is not None and any(r.role is Role.PULL_GRAD and r.key == i for r in plan.roots)
