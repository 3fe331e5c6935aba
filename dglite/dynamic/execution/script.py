"""A vertex program as one script: all stages of both directions as lines, up to addresses.

It is for a call whose inputs and results lie where somebody else has put them. Gradients of parameters are only listed,
as products of rows, for whoever adds them up or updates parameters by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ...expr import Operand, Side
from ...kernels import compiled
from ...kernels.render.rows import RowAccess
from ..program.ir import NodeKind, RowDomain
from ..program.layout import MOST_ROWS, NOTHING, WORDS, StageTable
from ..program.recipe import (
    Buffer,
    BufferRole,
    DenseOp,
    KernelInput,
    Place,
    PointwiseKernel,
    StagePhase,
    Stages,
    VertexPlan,
    rows_of_all,
)
from ..program.traced import ClassPlan, TracedProgram
from .memory import Arena
from .order import VertexOrder

_GIVEN = (BufferRole.VALUE, BufferRole.VALUE_GRAD, BufferRole.RESULT, BufferRole.RESULT_GRAD)
"""Memory that a call is given, in the order of :class:`CallAddresses`."""


class GradientPart(NamedTuple):
    """Rows whose product is part of a gradient: of which shared tensor; ``outer`` or ``totals``."""

    shared: int
    form: str


class CallAddresses(NamedTuple):
    """Where values, results and their gradients lie; 0 for gradients of inputs that nobody wants."""

    values: Sequence[int]
    value_grads: Sequence[int]
    results: Sequence[int]
    result_grads: Sequence[int]


class FilledScript(NamedTuple):
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
    python_lines: tuple[np.ndarray, np.ndarray]


class ProgramScript:
    """All stages of the classes that a graph has, in both directions.

    Where it ``returns`` to its caller, that runs the ``python_stages`` of each direction, which have no kernels, and
    products of many rows; else such stages raise :class:`UnsupportedOperation`, and gradients of inputs are added to
    what is there. ``input_grads`` are the inputs that have gradients. Kernels multiply at most ``most_rows`` rows.
    """

    most_rows = MOST_ROWS

    def __init__(
        self,
        traced: TracedProgram,
        plans: Mapping[int, ClassPlan],
        num_classes: int,
        strides: Sequence[tuple[int, ...]],
        returns: bool,
        kernels: Any = None,
    ) -> None:
        """``kernels`` are those of a device, see :class:`..program.layout.StageTable`."""
        self.plans, self._num_classes, self._traced, self._returns = plans, num_classes, traced, returns
        self.push_widths, self.dtype, self.device = traced.push_widths, traced.dtype, traced.device
        self._table = table = StageTable(traced.slots, strides, returns, kernels)
        self.python_stages: tuple[list[PointwiseKernel | DenseOp], list[PointwiseKernel | DenseOp]] = [], []
        self.input_grads: list[int] = []
        self.has_backward = any(plan.backward is not None for plan in plans.values())
        bounds, classes, directions = list[int](), list[int](), [(0, 0, 0)]
        for backward in (False, True) if self.has_backward else (False,):
            first = len(table.rows)
            bounds.append(0)
            for c, stages in self._backward() if backward else self._forward():
                bounds += [at - first for at in table.add(c, stages, self.python_stages[backward])]
                classes.append(c)
            directions.append((len(classes), len(table.rows), len(bounds)))
        rows = np.array(table.rows, np.int64).reshape(-1, compiled("dynamic.schedule").STAGE_COLUMNS)
        lists: dict[str, Any] = {"stages": rows, "bounds": bounds, "classes": classes, "directions": directions}
        lists |= self._lists() | {"constants": table.constants}
        kind = compiled("dynamic.fill").ScriptTables
        self._tables = kind(*[np.array(lists[name], np.int64).reshape(-1) for name in kind._fields])

    def reason(self, stage: PointwiseKernel | DenseOp) -> str:
        """Return why there is no kernel for a stage, "" if there is one."""
        return self._table.lacks(stage)

    # -- once ---------------------------------------------------------------------------------------------------
    def _forward(self) -> list[tuple[int, Stages]]:
        """Return the stages of each class, which begin with what it pulls; then what returns results."""
        stages, traced = list[tuple[int, Stages]](), self._traced
        for c, plan in self.plans.items():
            pulls = [
                _move(rows_of_all(BufferRole.VALUE, i, *traced.inputs[i]), ("picked", i), b)
                for i, b in plan.pulls.items()
            ]
            stages.append((c, _with_first(pulls, plan.forward)))
        results = [
            _move(self._rows(BufferRole.PUSH, k, width), "places", self._rows(BufferRole.RESULT, k, width))
            for k, width in enumerate(self.push_widths)
        ]
        return [*stages, (self._num_classes + 1, {StagePhase.LATE: results})]

    def _backward(self) -> list[tuple[int, Stages]]:
        """Return what takes gradients of results, then the stages of each class, then what hands on inputs'."""
        every = self._num_classes + 1
        pushed = sorted({k for plan in self.plans.values() for k in plan.push_grads})
        rows = [
            _move(self._rows(BufferRole.RESULT_GRAD, k, width), "nodes", self._rows(BufferRole.PUSH_GRAD, k, width))
            for k, width in ((k, self.push_widths[k]) for k in pushed)
        ]
        stages: list[tuple[int, Stages]] = [(every, {StagePhase.EAGER: rows})]
        stages += [(c, plan.backward.stages) for c, plan in self.plans.items() if plan.backward is not None]
        for i, (width, dtype) in enumerate(self._traced.inputs):
            if any(_has_gradient(plan.backward, i) for plan in self.plans.values()):
                self.input_grads.append(i)
                into = rows_of_all(BufferRole.VALUE_GRAD, i, width, dtype)
                move = _move(
                    rows_of_all(BufferRole.PULL_GRAD, i, width, dtype), ("inverse", i), into, not self._returns
                )
                stages.append((every + 2 + 2 * i, {StagePhase.LATE: [move]}))
        return stages

    def _rows(self, role: BufferRole, k: int, width: int) -> Buffer:
        return rows_of_all(role, k, width, self.dtype)

    def _memory(self) -> dict[Buffer, list[int]]:
        """Return (number of what tells how many rows there are, bytes of a row, what is done to it first) of memory."""
        num, kernels, sources = self._num_classes, compiled("dynamic.fill"), self._table.sources
        owner = {b: c for c, plan in self.plans.items() for b in _own_buffers(plan)}
        states = [self._rows(BufferRole.SCATTER, j, width) for j, width in enumerate(self._traced.state_widths)]
        memory = dict[Buffer, list[int]]()
        for b in (*states, *owner, *(s for s in sources if isinstance(s, Buffer) and s.role not in _GIVEN)):
            c = owner.get(b, 0)
            count = 2 * num if b not in owner else c if b.domain is RowDomain.VERTEX else num + c
            first = kernels.AS_IT_IS
            if b.role is BufferRole.SCATTER:
                count, first = 2 * num + 1, kernels.LAST_ROW_ZERO
            elif b.role is BufferRole.PULL_GRAD and not self._all_have_gradient(b.key):
                first = kernels.ZERO
            memory[b] = [count, b.width * b.dtype.itemsize, first]
        return memory

    def _all_have_gradient(self, i: Any) -> bool:
        """Return whether every vertex that has input ``i`` has a gradient by it."""
        return all(_has_gradient(plan.backward, i) for c, plan in self.plans.items() if not c // 2 >> i & 1)

    def _lists(self) -> dict[str, Any]:
        """Number the bases; return the lists that refer to them by these numbers."""
        num, slots, kernels = self._num_classes, max(self._traced.slots, 1), compiled("dynamic.fill")
        sources, memory = self._table.sources, self._memory()
        tables = [s for s in sources if isinstance(s, tuple) and s[0] == "left"]
        self._outside = [s for s in sources if isinstance(s, Buffer) and s.role in _GIVEN]
        self._shared = [s for s in sources if isinstance(s, tuple) and s[0] == "shared"]
        order = (*kernels.TABLES_OF_ORDER, "child_table")
        picks = [(table, i) for i in range(len(self._traced.inputs)) for table in ("picked", "inverse")]
        bases = (NOTHING, WORDS, *order, *picks, *self._outside, *self._shared, *tables, *memory)
        self._bases: dict[Any, int] = {base: number for number, base in enumerate(bases)}
        left = np.zeros((len(tables), 4, num, slots), np.int64)
        for entries, (_, state, by_slot) in zip(left, tables, strict=True):
            self._fill_table(entries, state, by_slot)
        parts, self.parts = list[list[int]](), list[GradientPart]()
        for c, stage in self._table.parts:
            sides = [self.side(place) for place in stage.places if place is not None]
            parts.append([num + c if stage.domain is RowDomain.EDGE else c, *sides[0], *sides[-1]])
            form = "outer" if stage.node.kind is NodeKind.WEIGHT_GRAD else "totals"
            self.parts.append(GradientPart(int(stage.node.attr), form))
        indices = np.array([self._bases[source] for source in sources])[self._table.indices]
        return {"memory": list(memory.values()), "tables": left, "parts": parts, "indices": indices, "slots": [slots]}

    def side(self, place: Place) -> tuple[int, int, int]:
        """Return base, constant and row stride of a place."""
        item = place.buffer.dtype.itemsize
        return self._bases[place.buffer], place.column * item, place.buffer.width * item

    def _fill_table(self, entries: np.ndarray, state: int, by_slot: bool) -> None:
        """Note base, constant and stride of what the parents of each class leave for a state, by slot."""
        entries[3] = by_slot
        for c, plan in self.plans.items():
            for root in plan.backward.roots if plan.backward is not None else ():
                if root.role is BufferRole.STATE_GRAD and plan.backward is not None:
                    key: Any = root.key
                    slot, root_state = key
                    if root_state == state and (slot is not None) == by_slot:
                        entries[:3, c, 0 if slot is None else slot] = self.side(plan.backward.places[root.node])

    # -- for each graph -----------------------------------------------------------------------------------------
    def needed_bytes(self, order: VertexOrder) -> int:
        """Return how much memory a graph takes."""
        return int(compiled("dynamic.fill").needed_bytes(order.tables, self._tables))

    def fill(
        self,
        order: VertexOrder,
        shared: Sequence[Any],
        rows_of: np.ndarray,
        lengths: np.ndarray,
        addresses: CallAddresses,
        processors: int,
        teams: np.ndarray | None = None,
        lease: Arena | None = None,
        shared_from: int = 0,
    ) -> FilledScript:
        """Return the script for a graph.

        ``shared`` are the tensors that all vertices share; ``rows_of`` (inputs, nodes) is the row of each input that a
        node pulls, or -1, ``lengths`` how many rows inputs have. ``teams`` is where the kernels' words are to be,
        ``lease`` memory in which the values of an earlier call lie. For ``shared_from`` see
        :func:`dglite.kernels.cpu.dynamic.fill.fill`.
        """
        kernels = compiled("dynamic.fill")
        if lease is None:
            lease = Arena(self.needed_bytes(order))
        outside = [addresses[_GIVEN.index(s.role)][s.key] for s in self._outside]
        outside += [shared[i].data_ptr() for _, i in self._shared]
        if teams is None:
            teams = np.empty((2, kernels.TEAM_WORDS), np.int64)
        functions = compiled("dynamic.schedule").script_functions()
        parts, bases, lines, by_python, picked, arrays = kernels.fill(
            order.tables, self._tables, rows_of, lengths, np.array(outside, np.int64), lease.address,
            processors, shared_from, functions, teams,
        )  # fmt: skip
        return FilledScript(
            teams, self.has_backward, parts, lease, (order, shared, arrays), bases, picked, lines, by_python
        )


def _move(source: Buffer, index: Any, into: Buffer, adds: bool = False) -> PointwiseKernel:
    """Return the kernel that copies rows that an index picks, or adds them to rows that are there."""
    moved = KernelInput(RowAccess.INDEXED, source.whole, 0, index)
    first, second = Operand(Side.E, 0), Operand(Side.E, 1)
    readings = (moved, KernelInput(RowAccess.SAME, into.whole)) if adds else (moved,)
    formula = second + first if adds else first
    return PointwiseKernel(RowDomain.VERTEX, into.width, into.dtype, (formula,), readings, (into.whole,))


def _with_first(moves: list[PointwiseKernel], plan: VertexPlan) -> Stages:
    return {**plan.stages, StagePhase.EAGER: [*moves, *plan.stages[StagePhase.EAGER]]}


def _own_buffers(plan: ClassPlan) -> list[Buffer]:
    """Return the memory that one class of vertices has for itself."""
    back = plan.backward.buffers if plan.backward is not None else []
    return [*plan.forward.buffers, *back, *plan.pulls.values()]


def stacked_rows(rows: Sequence[torch.Tensor | None], num_nodes: int) -> np.ndarray:
    """Return which row of each input a node pulls, (inputs, nodes), given that of inputs of some nodes."""
    stacked = [np.arange(num_nodes) if x is None else x.numpy() for x in rows]
    return (
        stacked[0].reshape(1, -1) if len(stacked) == 1 else np.array(stacked, np.int64).reshape(len(stacked), num_nodes)
    )


def _has_gradient(plan: VertexPlan | None, i: int) -> bool:
    return plan is not None and any(r.role is BufferRole.PULL_GRAD and r.key == i for r in plan.roots)
