"""A vertex program as instructions for processors: all stages of both directions as lines, up to addresses.

What is here is that of :mod:`.schedule` and :mod:`.sweep`, for a call whose inputs and results lie where somebody else
has put them, and whose update somebody else does: gradients of parameters are only listed, as products of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from ..expr import Operand, Side
from ..kernels import compiled
from ..kernels.render_cell import Rows
from .ir import Domain, Kind, Node
from .layout import NOTHING, WORDS, Layout, SharedSource, StateSource, TableSource
from .memory import Lease, Pool
from .order import Order
from .program import ClassPlan
from .recipe import Buffer, Heavy, Phase, Place, Plan, Role

__all__ = ["Addresses", "Filled", "Part", "Script", "Unsupported"]

_DTYPES = {torch.float32: "float32", torch.float64: "float64"}
_NO_KERNEL = (Kind.OPAQUE, Kind.VJP, Kind.RANDOM)
_LEFT_OUT = (Kind.WEIGHT_GRAD, Kind.COLUMN_SUM)


class Unsupported(Exception):
    """An operation that processors have no instruction for; the message names it."""


@dataclass(frozen=True)
class _Given:
    """Something of the call: ``what`` is "value", "value gradient", "result" or "result gradient"."""

    what: str
    number: int


@dataclass(frozen=True)
class _Rows:
    """Rows of all vertices, by class and level, beside the states: of what is pushed, of its gradient, of inputs'."""

    what: str
    number: int


@dataclass
class _Move:
    """Copies rows that an index picks, or adds them to rows that are there."""

    width: int
    dtype: torch.dtype
    source: Any
    index: Any
    into: Any
    adds: bool = False
    domain: Domain = Domain.VERTEX


class _Layout(Layout):
    """Stages of a plan and moves of rows; products for any number of rows, gradients of parameters left out."""

    def __init__(self, plan: Plan, slots: int, strides: Sequence[tuple[int, ...]]) -> None:
        self.left_out: list[Heavy] = []
        super().__init__(plan, slots, strides)

    def _heavy(self, stage: Heavy) -> list[int] | None:
        node = stage.node
        if node.kind in _LEFT_OUT:
            self.left_out.append(stage)
            return None
        if node.kind in _NO_KERNEL:
            name = getattr(getattr(node.attr, "function", None), "__name__", node.kind.value)
            raise Unsupported(f"{name} in a vertex program")
        found = self._product(stage)
        if found is None:
            raise Unsupported("a product in a vertex program with a weight that does not lie by rows")
        start, _, work, fixed = found
        return [start, node.domain is Domain.EDGE, 1 << 62, -1, work, fixed, -1]

    def _product(self, stage: Heavy) -> tuple[int, int, int, int] | None:
        weight, dtype = stage.node.inputs[1], stage.node.dtype
        known = self._matrix(weight.attr, weight.shape)
        if known is None:
            return None
        by_columns, stride = known
        height, width = reversed(weight.shape) if by_columns else weight.shape
        form = "dots" if stage.node.attr is not by_columns else "sums"
        start = self._single(compiled("matrix").run_kernel(form, _DTYPES[dtype]), 0, (height, width))
        self._place(stage.places[0])
        self._word(0, SharedSource(weight.attr))
        self._word(stride * dtype.itemsize)
        self._place(stage.place)
        return start, 0, height * width // 4, height * width

    def _kernel(self, stage: Any) -> tuple[int, int]:
        if not isinstance(stage, _Move):
            return super()._kernel(stage)
        if stage.dtype not in _DTYPES:
            raise Unsupported(f"{stage.dtype} inputs of a vertex program")
        row = stage.width * stage.dtype.itemsize
        self._word(stage.width)
        for word in ((0, stage.source), (row, NOTHING), (0, stage.index), (1, NOTHING)):
            self._word(*word)
        if stage.adds:
            for word in ((0, stage.into), (row, NOTHING), (0, NOTHING), (0, NOTHING)):
                self._word(*word)
        self._word(0, stage.into)
        self._word(row)
        first, second = Operand(Side.E, 0), Operand(Side.E, 1)
        formula, rows = (second + first, (Rows.INDEXED, Rows.SAME)) if stage.adds else (first, (Rows.INDEXED,))
        make = compiled("cell").formula_kernel
        return make((formula,), rows, _DTYPES[stage.dtype], stage.width), 8 * stage.width


class Part(NamedTuple):
    """Rows whose product is part of a gradient: of which shared tensor; ``outer`` or ``totals``; how many rows; address
    and row stride of the left and the right ones."""

    index: int
    form: str
    rows: int
    x: tuple[int, int]
    y: tuple[int, int]


class Addresses(NamedTuple):
    """Where values, results and their gradients lie; 0 for gradients of inputs that nobody wants."""

    values: Sequence[int]
    value_grads: Sequence[int]
    results: Sequence[int]
    result_grads: Sequence[int]


class Filled(NamedTuple):
    """A script for one graph: words of the kernel that runs it forward and backward (0: not), parts of gradients, the
    work, the words of both kernels, and what must be kept while they run."""

    forward: int
    backward: int
    parts: list[Part]
    work: int
    teams: list[np.ndarray]
    keep: Any


class Script:
    """All stages of the classes that a graph has, in both directions."""

    def __init__(
        self,
        plans: Mapping[int, ClassPlan],
        num_classes: int,
        slots: int,
        strides: Sequence[tuple[int, ...]],
        state_widths: Sequence[int],
        push_widths: Sequence[int],
        pushed_states: Mapping[int, int],
        collected: Sequence[tuple[int, bool]],
        dtype: torch.dtype,
        input_widths: Sequence[tuple[int, torch.dtype]],
    ) -> None:
        self.plans, self._num_classes, self._slots = plans, num_classes, slots
        self._item, self._collected = dtype.itemsize, collected
        self._state_widths, self._pushed_states = state_widths, pushed_states
        self._memory: dict[Any, tuple[int, int]] = {}
        """By source: (number of what tells how many rows there are, bytes of a row); see :meth:`_counts`."""
        self._alias: dict[Buffer, Any] = {}
        self._sources: dict[Any, int] = {NOTHING: 0, WORDS: 1}
        self._parts: list[tuple[int, Heavy]] = []
        for j, width in enumerate(state_widths):
            self._memory[StateSource(j)] = 2 * num_classes + 1, width * self._item
        self.zeroed: set[Any] = set()
        self._has_backward = any(plan.backward is not None for plan in plans.values())
        self._lay_buffers(push_widths)
        indices, constants, self._stages = list[np.ndarray](), list[np.ndarray](), []
        words = 0
        for backward in (False, True) if self._has_backward else (False,):
            moves = self._moves(backward, push_widths, input_widths, dtype)
            stages, bounds, classes = [], [0], []
            for c, plan in self._ordered(backward, moves):
                layout = _Layout(plan, slots, strides)
                self._parts += [(c, stage) for stage in layout.left_out]
                numbers = np.array([self._number(source) for source in layout.sources], np.int64)
                indices.append(numbers[layout.indices])
                constants.append(layout.constants + 8 * words * (layout.indices == 1))
                rows = layout.stages.copy()
                rows[:, compiled("schedule").START] += words
                stages.append(rows)
                bounds += [bounds[-1] + at for at in layout.bounds[1:]]
                classes.append(c)
                words += len(layout.constants)
            self._stages.append((np.concatenate(stages), np.array(bounds, np.int64), np.array(classes, np.int64)))
        self._indices, self._constants = np.concatenate(indices), np.concatenate(constants)
        self._prepare()

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
                self._alias[buffer] = _Rows("push gradient", k)
                self._memory[_Rows("push gradient", k)] = 2 * num, push_widths[k] * item

    def _share(self, plan: Plan, root: Any) -> None:
        """Let a result lie in rows that all classes share."""
        what = {Role.SCATTER: "state", Role.PUSH: "push", Role.PULL_GRAD: "input gradient"}.get(root.role)
        if what is None:
            return
        buffer, number = plan.places[root.node].buffer, int(str(root.key))
        rows: Any = StateSource(number) if what == "state" else _Rows(what, number)
        self._alias[buffer] = rows
        if what != "state":
            self._memory[rows] = 2 * self._num_classes, buffer.width * buffer.dtype.itemsize

    def _moves(
        self,
        backward: bool,
        push_widths: Sequence[int],
        input_widths: Sequence[tuple[int, torch.dtype]],
        dtype: torch.dtype,
    ) -> dict[int, tuple[Phase, list[_Move]]]:
        """Return moves by class: of what is pulled, or, for all vertices or an input's rows, at the end of a list."""
        found: dict[int, tuple[Phase, list[_Move]]] = {}
        every = self._num_classes + 1
        if not backward:
            for c, plan in self.plans.items():
                moves = [
                    _Move(*input_widths[i], _Given("value", i), ("picked", i), buffer)
                    for i, buffer in plan.pulls.items()
                ]
                found[c] = Phase.EAGER, moves
            into = []
            for k, width in enumerate(push_widths):
                known = self._pushed_states.get(k)
                source = _Rows("push", k) if known is None else StateSource(known)
                into.append(_Move(width, dtype, source, "places", _Given("result", k)))
            return {**found, every: (Phase.LATE, into)}
        pushed = sorted({k for plan in self.plans.values() for k in plan.push_grads})
        rows = [
            _Move(push_widths[k], dtype, _Given("result gradient", k), "nodes", _Rows("push gradient", k))
            for k in pushed
        ]
        found[every] = Phase.EAGER, rows
        for i, (width, kind) in enumerate(input_widths):
            rows_of = _Rows("input gradient", i)
            if rows_of in self._memory:
                move = _Move(width, kind, rows_of, ("inverse", i), _Given("value gradient", i), True)
                found[every + 2 + 2 * i] = Phase.LATE, [move]
                with_input = [plan.backward for c, plan in self.plans.items() if not c // 2 >> i & 1]
                if not all(_has_gradient(plan, i) for plan in with_input):
                    self.zeroed.add(rows_of)
        return found

    def _ordered(self, backward: bool, moves: dict[int, tuple[Phase, list[_Move]]]) -> list[tuple[int, Plan]]:
        """Return classes and their plans: gradients of what is pushed come first, other moves last."""
        found = []
        for c, plan in self.plans.items():
            own = plan.backward if backward else plan.forward
            if own is not None:
                phase, moved = moves.pop(c, (Phase.EAGER, []))
                stages = {p: [*(moved if p is phase else ()), *own.stages[p]] for p in Phase}
                found.append((c, replace(own, stages=stages)))  # type: ignore[arg-type]
        for c, (phase, moved) in moves.items():
            plan = Plan({p: list(moved) if p is phase else [] for p in Phase}, {}, [])  # type: ignore[arg-type]
            found.insert(0 if phase is Phase.EAGER else len(found), (c, plan))
        return found

    def _prepare(self) -> None:
        """Sort the sources by who knows their addresses, and list where parents leave gradients."""
        for source in self._memory:
            self._sources.setdefault(source, len(self._sources))
        for _, stage in self._parts:
            for place in stage.places:
                assert place is not None
                self._number(place.buffer)
        own = [source for source in self._sources if source in self._memory]
        self._own_at = np.array([self._sources[source] for source in own], np.int64)
        self._own = np.array([self._memory[source] for source in own], np.int64).reshape(-1, 2)
        self._place_of = {source: i for i, source in enumerate(own)}
        others = [s for s in self._sources if s not in self._memory and s not in (NOTHING, WORDS)]
        self._tables = [s for s in others if isinstance(s, TableSource)]
        self._others = [(self._sources[s], s) for s in others if not isinstance(s, TableSource)]
        self._left = [self._table(s) for s in self._tables]

    def _table(self, table: TableSource) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return source, constant and stride of what the parents of each class leave for a state, by slot."""
        found = np.zeros((3, self._num_classes, self._slots if table.by_slot else 1), np.int64)
        for c, plan in self.plans.items():
            for root in plan.backward.roots if plan.backward is not None else ():
                if root.role is Role.STATE_GRAD:
                    slot, state = root.key  # type: ignore[misc]
                    if state == table.state and (slot is not None) == table.by_slot:
                        assert plan.backward is not None
                        place = plan.backward.places[root.node]
                        item = place.buffer.dtype.itemsize
                        row = self._number(place.buffer), place.column * item, place.buffer.width * item
                        found[:, c, 0 if slot is None else slot] = row
        return found[0], found[1], found[2]

    # -- for each graph -----------------------------------------------------------------------------------------
    def fill(
        self, order: Order, shared: Sequence[Any], indices: Mapping[Any, np.ndarray], lengths: Sequence[int],
        addresses: Addresses, pool: Pool, processors: int,
    ) -> Filled:  # fmt: skip
        """Return the script for a graph.

        ``shared`` are the tensors that all vertices share; ``indices`` has, by ("picked", i), the row of input i that
        each row of the order pulls, and by ("inverse", i) the row that pulls each of the input's; ``lengths`` are how
        many rows inputs have.
        """
        num_nodes, num = order.num_nodes, self._num_classes
        rows = np.concatenate([order.classes, [0, num_nodes], *([0, n] for n in lengths)])
        bases, lease = self._laid(order, pool)
        given = dict(zip(Addresses._fields, addresses, strict=True))
        for at, source in self._others:
            if isinstance(source, _Given):
                bases[at] = given[source.what.replace(" gradient", "_grad") + "s"][source.number]
            elif isinstance(source, SharedSource):
                bases[at] = shared[source.index].data_ptr()
            elif isinstance(source, str):
                bases[at] = order.address(source, self._slots)
            else:
                bases[at] = indices[source].ctypes.data
        tables = self._filled_tables(order, bases)
        made = np.empty((processors, len(self._constants)), np.int64)
        for p in range(processors):
            bases[1] = made.ctypes.data + p * made.strides[0]
            np.add(bases[self._indices], self._constants, out=made[p])
        keep: list[Any] = [made, lease, tables, order, indices, shared]
        teams, work = list[np.ndarray](), 0
        schedule = compiled("schedule")
        edges = np.concatenate([order.class_bounds, np.zeros(len(rows) - num - 1, np.int64)])
        for i, (stages, bounds, classes) in enumerate(self._stages):
            lines, _, _, each = schedule.arrange(
                stages, bounds, classes, rows, edges, order.segments, order.segment_edges, bool(i), 0
            )
            team, marks = schedule.script_team(made, lines)
            keep += [marks, lines]
            teams.append(team)
            work += each * len(lines)
        at = [team.ctypes.data for team in teams] + [0]
        return Filled(at[0], at[1], self._found_parts(order, bases), work, teams, keep)

    def _laid(self, order: Order, pool: Pool) -> tuple[np.ndarray, Lease]:
        """Take memory, and return the addresses of row 0 of everything that lies in it."""
        num_nodes, starts = order.num_nodes, np.concatenate([order.classes[:-1], order.class_bounds[:-1], [0, 0]])
        counts = np.concatenate([np.diff(order.classes), np.diff(order.class_bounds), [num_nodes, num_nodes + 1]])
        kinds, sizes = self._own[:, 0], self._own[:, 1]
        nbytes = (counts[kinds] * sizes + 63) // 64 * 64
        ends = np.cumsum(nbytes)
        lease = pool.take(int(ends[-1]))
        bases = np.zeros(len(self._sources), np.int64)
        begins = ends - nbytes
        bases[self._own_at] = lease.block.data_ptr() + begins - starts[kinds] * sizes
        block = lease.block
        for j, width in enumerate(self._state_widths):
            at = int(begins[self._place_of[StateSource(j)]]) + num_nodes * width * self._item
            block[at : at + width * self._item] = 0  # what a vertex without that child gathers
        for source in self.zeroed:
            at = self._place_of[source]
            block[int(begins[at]) : int(ends[at])] = 0
        return bases, lease

    def _filled_tables(self, order: Order, bases: np.ndarray) -> list[np.ndarray]:
        """Work out, for each state, where every parent of a vertex leaves that vertex's share of the gradient."""
        made = []
        for table, (source, constant, stride) in zip(self._tables, self._left, strict=True):
            found = compiled("levels").addresses(
                order.parent_entries, order.parents, order.bounds, order.classes,
                np.where(source != 0, bases[source] + constant, 0), stride, table.by_slot,
            )  # fmt: skip
            bases[self._sources[table]] = found.ctypes.data
            made.append(found)
        return made

    def _found_parts(self, order: Order, bases: np.ndarray) -> list[Part]:
        """Return what the rows of each class give to gradients of shared tensors."""
        found = []
        for c, stage in self._parts:
            node = stage.node
            edges = _rows_domain(node) is Domain.EDGE
            bounds = order.class_edges if edges else order.class_rows
            sides = []
            for place in stage.places:
                assert place is not None
                item = place.buffer.dtype.itemsize
                row = place.buffer.width * item
                sides.append((int(bases[self._number(place.buffer)]) + place.column * item + bounds[c] * row, row))
            form = "outer" if node.kind is Kind.WEIGHT_GRAD else "totals"
            found.append(Part(int(node.attr), form, bounds[c + 1] - bounds[c], sides[0], sides[-1]))
        return found


def _has_gradient(plan: Plan | None, i: int) -> bool:
    return plan is not None and any(r.role is Role.PULL_GRAD and r.key == i for r in plan.roots)


def _rows_domain(node: Node) -> Domain:
    return next(x.domain for x in node.inputs if x.domain is not Domain.SHARED)
