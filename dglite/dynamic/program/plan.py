"""From the nodes of a program to the stages that run it: when each value is computed, with which others, and where.

A stage runs *eagerly*, before the sweep, for all vertices of a class at once when it needs nothing from other vertices;
*late*, after the sweep, when no other vertex waits for it; in the *sweep*, level by level, otherwise. Element-wise
nodes that can run at the same time are one kernel; what only one kernel reads is never stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from ...expr import Call, Constant, Expr, Operand, Side
from ...kernels.render.rows import RowAccess
from ...opspec import COMPARISONS, OPERATORS
from ..options import Options
from .gradient import ancestors
from .ir import GRADIENT_KINDS, Builder, Domain, Node, NodeKind
from .recipe import Buffer, Cell, Heavy, Place, Reading, Role, Root, StagePhase, VertexPlan, own_buffer, rows_of_all

__all__ = ["make_plan"]


_GIVEN_OUTSIDE = (NodeKind.PULL, NodeKind.GATHER, NodeKind.CHILD, NodeKind.SHARED, NodeKind.GIVEN)
_MADE_ALONE = (
    NodeKind.MATMUL,
    NodeKind.SUM,
    NodeKind.OPAQUE,
    NodeKind.VJP,
    NodeKind.RANDOM,
    NodeKind.COLLECT,
)
_OWN_PLACE = (NodeKind.POINTWISE, NodeKind.COPY, *_MADE_ALONE)
_HEAVY = (*_MADE_ALONE, *GRADIENT_KINDS)


def make_plan(
    builder: Builder, roots: Sequence[Root], given: dict[Node, Place], backward: bool, options: Options
) -> VertexPlan:
    """Plan a program. ``given`` has the places of values that exist before it runs."""
    return _Planner(builder, list(roots), given, backward, options).plan()


class _Planner:
    def __init__(
        self, builder: Builder, roots: list[Root], given: dict[Node, Place], backward: bool, options: Options
    ) -> None:
        self.builder, self.roots, self.options = builder, roots, options
        self.given, self.places, self.buffers = given, dict(given), list[Buffer]()
        self.copies: dict[Node, Node] = {}
        self.cat_parts: dict[Node, list[Node]] = {}
        self.pending: list[Node] = []
        self.executed: list[Node] = []
        self.sources = (NodeKind.COLLECT,) if backward else (NodeKind.GATHER, NodeKind.CHILD)
        self.sinks = (Role.STATE_GRAD,) if backward else (Role.SCATTER,)

    def plan(self) -> VertexPlan:
        """Give every needed value a place, then put the work in order."""
        self.roots = [self._placed(root) for root in self.roots]
        while self.pending:
            self._require_inputs(self.pending.pop())
        phases = self._phases()
        depths = self._depths(phases)
        return VertexPlan(self._stages(phases, depths), self.places, self.roots, self.buffers)

    # -- places -------------------------------------------------------------------------------------------------
    def _placed(self, root: Root) -> Root:
        """Return the root with the node that is put where this result belongs: a copy where its node lies elsewhere."""
        node = root.node
        if root.role is Role.SHARED_GRAD:
            self._execute(node)
        elif root.role in (Role.KEEP, Role.STATE_GRAD):
            self._require_place(node)
        else:
            if node.kind not in _OWN_PLACE or node in self.places:
                node = self.builder.copy(node)
            self.places[node] = rows_of_all(root.role, root.key, node.width, node.dtype).whole
            self._execute(node)
        return Root(root.role, root.key, node)

    def _execute(self, node: Node) -> None:
        if node not in self.executed:
            self.executed.append(node)
            self.pending.append(node)

    def _own(self, node: Node) -> Place:
        self.buffers.append(own_buffer(node))
        return self.buffers[-1].whole

    def _require_place(self, node: Node) -> Place:
        """Return where a value lies, arranging that it is put there."""
        if node in self.places:
            return self.places[node]
        if node.kind in _OWN_PLACE:
            self.places[node] = self._own(node)
            self._execute(node)
        elif node.kind is NodeKind.SLICE and node.inputs[0].kind not in (
            NodeKind.GATHER,
            NodeKind.CHILD,
            NodeKind.SHARED,
        ):
            self.places[node] = self._require_place(node.inputs[0]).part(*node.attr)
        elif node.kind is NodeKind.STOP:
            self.places[node] = self._require_place(node.inputs[0])
        elif node.kind is NodeKind.CAT:
            self._place_parts(node)
        else:
            copy = self.copies.setdefault(node, self.builder.copy(node))
            self.places[node] = self.places[copy] = self._own(copy)
            self._execute(copy)
        return self.places[node]

    def _place_parts(self, node: Node) -> None:
        """Give a concatenation memory, and its parts places in it where they have none yet."""
        place = self.places[node] = self._own(node)
        self.cat_parts[node], at = [], 0
        for part in node.inputs:
            owned = part
            if part.kind not in _OWN_PLACE or part in self.places:
                owned = self.builder.copy(part)
            self.places[owned] = place.part(at, at + part.width)
            self.cat_parts[node].append(owned)
            self._execute(owned)
            at += part.width

    def _require_inputs(self, node: Node) -> None:
        """Arrange that what an executed node reads is there."""
        if node.kind in _HEAVY:
            for x in node.inputs:
                reads_states = node.kind is NodeKind.SUM and x.kind is NodeKind.CHILD
                if x.domain is not Domain.SHARED and not reads_states:
                    self._require_place(x)
            return
        for x in node.inputs:
            self._require_value(x, self.copies.get(x) is not node)

    def _require_value(self, node: Node, stored: bool = True) -> None:
        """Arrange that a value can be computed inside a formula, from its own place if it is ``stored`` there."""
        if (stored and node in self.places) or node.kind in (*_GIVEN_OUTSIDE, NodeKind.FULL):
            return
        inlined = self.options.fuse or node.attr in COMPARISONS
        if node.kind in (NodeKind.POINTWISE, NodeKind.COPY) and inlined:
            for x in node.inputs:
                self._require_value(x)
        elif node.kind is NodeKind.STOP:
            self._require_value(node.inputs[0])
        elif node.kind is NodeKind.EACH:
            self._require_place(node.inputs[0])
        elif node.kind is NodeKind.SLICE and node.inputs[0].kind in (NodeKind.GATHER, NodeKind.CHILD, NodeKind.SHARED):
            return
        elif node.kind is NodeKind.SLICE and node.inputs[0].kind is NodeKind.EACH:
            self._require_place(node.inputs[0].inputs[0])
        else:
            self._require_place(node)

    # -- time ---------------------------------------------------------------------------------------------------
    def _phases(self) -> dict[Node, StagePhase]:
        """Return when each executed node runs."""
        every = ancestors([*self.executed, *(root.node for root in self.roots)], self.given.keys() - set(self.executed))
        depends, needed = set[Node](), {root.node for root in self.roots if root.role in self.sinks}
        for node in every:
            if node.kind in self.sources or any(x in depends for x in node.inputs):
                depends.add(node)
        for node in reversed(every):
            if node in needed:
                needed.update(node.inputs, self.cat_parts.get(node, ()))
                needed.update([self.copies[node]] if node in self.copies else ())
        phases = {}
        for node in self.executed:
            if node not in depends:
                phases[node] = StagePhase.EAGER if self.options.eager else StagePhase.SWEEP
            else:
                phases[node] = StagePhase.SWEEP if node in needed or not self.options.lazy else StagePhase.LATE
        return phases

    def _makers(self, node: Node) -> Iterable[Node]:
        """Yield the executed nodes that put a value where it lies."""
        if node in self.cat_parts:
            yield from self.cat_parts[node]
        elif node in self.copies:
            yield self.copies[node]
        elif node.kind in (NodeKind.SLICE, NodeKind.STOP) and node not in self.given:
            yield from self._makers(node.inputs[0])
        elif node in self.places and node not in self.given:
            yield node

    def _read(self, node: Node) -> list[Node]:
        """Return the nodes whose places an executed node reads."""
        if node.kind in _HEAVY:
            return [x for x in node.inputs if x in self.places]
        found, pending, seen = list[Node](), list(node.inputs), set[Node]()
        while pending:
            x = pending.pop()
            if x in seen:
                continue
            seen.add(x)
            if x in self.places and self.copies.get(x) is not node:
                found.append(x)
            elif x.kind in (NodeKind.POINTWISE, NodeKind.COPY, NodeKind.STOP, NodeKind.EACH, NodeKind.SLICE):
                pending.extend(x.inputs)
        return found

    def _depths(self, phases: dict[Node, StagePhase]) -> dict[Node, int]:
        """Return after how many products each executed node of a phase runs; kernels come before products."""
        depths: dict[Node, int] = {}

        def depth(node: Node) -> int:
            if node in depths:
                return depths[node]
            deepest = 0
            for x in self._read(node):
                for maker in self._makers(x):
                    if maker is node or phases[maker] is not phases[node]:
                        continue
                    step = 0
                    if node.kind not in _HEAVY:
                        direct = maker is x or self.copies.get(x) is maker
                        same = direct and maker.kind not in _HEAVY and self._group(maker) == self._group(node)
                        step = 0 if same and self.options.fuse else 1
                    deepest = max(deepest, depth(maker) + step)
            depths[node] = deepest
            return deepest

        for node in sorted(self.executed, key=lambda node: node.number):
            depth(node)
        return depths

    @staticmethod
    def _group(node: Node) -> tuple[Domain, int, torch.dtype]:
        return node.domain, node.width, node.dtype

    # -- stages -------------------------------------------------------------------------------------------------
    def _stages(self, phases: dict[Node, StagePhase], depths: dict[Node, int]) -> dict[StagePhase, list[Cell | Heavy]]:
        stages: dict[StagePhase, list[Cell | Heavy]] = {phase: [] for phase in StagePhase}
        cells: dict[tuple, list[Node]] = {}
        heavy: dict[tuple[StagePhase, int], list[Node]] = {}
        for node in sorted(self.executed, key=lambda node: node.number):
            if node.kind in _HEAVY:
                heavy.setdefault((phases[node], depths[node]), []).append(node)
            else:
                alone = () if self.options.fuse else (node.number,)
                cells.setdefault((phases[node], depths[node], *self._group(node), *alone), []).append(node)
        for phase, depth in sorted({(phases[node], depths[node]) for node in self.executed}):
            for key, nodes in cells.items():
                if key[:2] == (phase, depth):
                    stages[phase].append(self._cell(phase, nodes))
            for node in heavy.get((phase, depth), ()):
                places = tuple(self.places.get(x) for x in node.inputs)
                stages[phase].append(Heavy(phase, node, places, self.places.get(node)))
        return stages

    def _cell(self, phase: StagePhase, nodes: list[Node]) -> Cell:
        """Return the kernel that computes ``nodes``; what one of them is made from another's value is not read back."""
        readings: dict[Reading, int] = {}
        together, known = set(nodes), dict[Node, Expr]()

        def operand(reading: Reading) -> Expr:
            return Operand(Side.E, readings.setdefault(reading, len(readings)))

        def expr(node: Node, top: bool = False) -> Expr:
            if node not in known:
                known[node] = build(node, top)
            return known[node]

        def build(node: Node, top: bool) -> Expr:
            reading = None if top or node in together else self._reading(node, self.copies.get(node) not in together)
            if reading is not None:
                return operand(reading)
            if node.kind is NodeKind.FULL:
                return Constant(float(node.attr))
            if node.kind in (NodeKind.COPY, NodeKind.STOP):
                return expr(node.inputs[0])
            assert node.kind is NodeKind.POINTWISE, f"{node} has no formula"
            return Call(OPERATORS[node.attr], tuple(expr(x) for x in node.inputs))

        formulas = tuple(expr(node, top=True) for node in nodes)
        places = tuple(self.places[node] for node in nodes)
        first = nodes[0]
        return Cell(phase, first.domain, first.width, first.dtype, formulas, tuple(readings), places)

    def _reading(self, node: Node, stored: bool) -> Reading | None:
        """Return what a kernel reads for a node, None where it computes it.

        ``stored``: the node's own place, where it has one, is filled before the kernel runs.
        """
        column, source = (node.attr[0], node.inputs[0]) if node.kind is NodeKind.SLICE else (0, node)
        stored = stored and node in self.places
        if source.kind in (NodeKind.GATHER, NodeKind.CHILD) and not stored:
            return Reading(RowAccess.INDEXED, source, column)
        if source.kind is NodeKind.SHARED:
            return Reading(RowAccess.SHARED, source, column)
        if stored:
            return Reading(RowAccess.SAME, self.places[node])
        if source.kind is NodeKind.EACH:
            place = self.places[source.inputs[0]]
            return Reading(RowAccess.INDEXED, place.part(column, column + node.width), 0, "parents")
        return None
