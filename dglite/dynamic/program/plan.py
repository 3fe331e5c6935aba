"""From the nodes of a program to the stages that run it: when each value is computed, with which others, and where.

A stage runs *eagerly*, before the sweep, for all vertices of a class at once when it needs nothing from other vertices;
*late*, after the sweep, when no other vertex waits for it; in the *sweep*, level by level, otherwise. Element-wise
nodes that can run at the same time are one kernel; what only one kernel reads is never stored.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch

from ...expr import Call, Constant, Expr, Operand, Side
from ...kernels.render.rows import RowAccess
from ...opspec import COMPARISONS, OPERATORS
from ..options import Options
from .gradient import ancestors
from .ir import GRADIENT_KINDS, Builder, Node, NodeKind, RowDomain
from .recipe import (
    Buffer,
    BufferRole,
    DenseOp,
    KernelInput,
    Place,
    PointwiseKernel,
    ProgramResult,
    StagePhase,
    VertexPlan,
    own_buffer,
    rows_of_all,
)

_STATES = (NodeKind.GATHER, NodeKind.CHILD)
_MADE_ALONE = (
    NodeKind.MATMUL,
    NodeKind.REDUCE,
    NodeKind.OPAQUE,
    NodeKind.VJP,
    NodeKind.RANDOM,
    NodeKind.COLLECT,
)
_OWN_PLACE = (NodeKind.POINTWISE, NodeKind.COPY, *_MADE_ALONE)
_HEAVY = (*_MADE_ALONE, *GRADIENT_KINDS)


def make_plan(
    builder: Builder, roots: Sequence[ProgramResult], inputs: dict[Node, Place], backward: bool, options: Options
) -> VertexPlan:
    """Plan a program. ``inputs`` has the places of values that exist before it runs."""
    return _StagePlanner(builder, roots, inputs, backward, options).plan()


class _StagePlanner:
    """``executed`` are the nodes that stages compute; ``makers`` those of them that fill a value's place."""

    def __init__(
        self,
        builder: Builder,
        roots: Sequence[ProgramResult],
        inputs: dict[Node, Place],
        backward: bool,
        options: Options,
    ) -> None:
        self.builder, self.options, self.inputs = builder, options, inputs
        self.places, self.buffers, self.makers = dict(inputs), list[Buffer](), dict[Node, list[Node]]()
        self.executed, self.pending = dict[Node, None](), list[Node]()
        self.sources = (NodeKind.COLLECT,) if backward else _STATES
        self.sinks = (BufferRole.STATE_GRAD,) if backward else (BufferRole.SCATTER,)
        self.roots = [self._placed(root) for root in roots]

    def plan(self) -> VertexPlan:
        """Give every needed value a place, then put the work in order."""
        while self.pending:
            self._read_by(self.pending.pop())
        phases = self._phases()
        return VertexPlan(self._stages(phases, self._depths(phases)), self.places, self.roots, self.buffers)

    # -- places -------------------------------------------------------------------------------------------------
    def _placed(self, root: ProgramResult) -> ProgramResult:
        """Return the root with the node that is put where this result belongs: a copy where its node lies elsewhere."""
        node = root.node
        if root.role is BufferRole.SHARED_GRAD:
            self._execute(node)
        elif root.role in (BufferRole.KEEP, BufferRole.STATE_GRAD):
            self._place(node)
        else:
            node = self._computed(node, rows_of_all(root.role, root.key, node.width, node.dtype).whole)
        return ProgramResult(root.role, root.key, node)

    def _execute(self, node: Node) -> None:
        if node not in self.executed:
            self.executed[node] = None
            self.pending.append(node)

    def _computed(self, node: Node, place: Place) -> Node:
        """Let a node be computed into a place, or a copy of it where it is not computed or lies elsewhere."""
        if node.kind not in _OWN_PLACE or node in self.places:
            node = self.builder.copy(node)
        self.places[node], self.makers[node] = place, [node]
        self._execute(node)
        return node

    def _memory(self, node: Node) -> Place:
        self.buffers.append(own_buffer(node))
        return self.buffers[-1].whole

    def _place(self, node: Node) -> Place:
        """Return where a value lies, arranging that it is put there."""
        if node in self.places:
            return self.places[node]
        source = node.inputs[0] if node.inputs else node
        if node.kind is NodeKind.SLICE and not _is_outside(source):
            self.places[node] = self._place(source).part(*node.attr)
            self.makers[node] = self.makers.get(source, [])
        elif node.kind is NodeKind.CAT:
            place, at, parts = self._memory(node), 0, list[Node]()
            self.places[node], self.makers[node] = place, parts
            for part in node.inputs:
                parts.append(self._computed(part, place.part(at, at + part.width)))
                at += part.width
        else:
            place = self._memory(node)
            self.makers[node] = [self._computed(node, place)]
            self.places[node] = place
        return self.places[node]

    def _read_by(self, node: Node) -> list[Node]:
        """Return the values whose places an executed node reads, arranging that they are put there."""
        if node.kind in _HEAVY:
            summed = node.kind is NodeKind.REDUCE and node.inputs[0].kind is NodeKind.CHILD
            placed = [x for x in node.inputs if x.domain is not RowDomain.SHARED and not summed]
            for x in placed:
                self._place(x)
            return placed
        read, pending, visited = list[Node](), list(node.inputs), set[Node]()
        while pending:
            x = pending.pop()
            if x in visited:
                continue
            visited.add(x)
            reading = self._reading(x, (node,))
            if reading is None:
                pending.extend(x.inputs)
            elif isinstance(reading.source, Place):
                read.append(x if reading.index is None else x.inputs[0])
        return read

    def _reading(self, x: Node, together: Collection[Node]) -> KernelInput | None:
        """Return what the kernel of the nodes ``together`` reads for a value, None where it computes it."""
        if x in self.places and not any(maker in together for maker in self.makers.get(x, ())):
            return KernelInput(RowAccess.SAME, self.places[x])
        column, source = (x.attr[0], x.inputs[0]) if x.kind is NodeKind.SLICE else (0, x)
        if _is_outside(source):
            shared = source.kind is NodeKind.SHARED
            return KernelInput(RowAccess.SHARED if shared else RowAccess.INDEXED, source, column)
        if x.kind is NodeKind.EACH:
            return KernelInput(RowAccess.INDEXED, self._place(source.inputs[0]), 0, "parents")
        inlined = self.options.fuse or x.attr in COMPARISONS or x.domain is RowDomain.SHARED
        if x.kind is NodeKind.FULL or (x.kind in (NodeKind.POINTWISE, NodeKind.COPY) and inlined):
            return None
        return KernelInput(RowAccess.SAME, self._place(x))

    # -- order --------------------------------------------------------------------------------------------------
    def _phases(self) -> dict[Node, StagePhase]:
        """Return when each executed node runs."""
        every = ancestors([*self.executed, *(root.node for root in self.roots)], self.inputs.keys() - self.executed)
        depends, needed = set[Node](), {root.node for root in self.roots if root.role in self.sinks}
        for node in every:
            if node.kind in self.sources or any(x in depends for x in node.inputs):
                depends.add(node)
        for node in reversed(every):
            if node in needed:
                needed.update(node.inputs, self.makers.get(node, ()))
        phases = {}
        for node in self.executed:
            if node not in depends:
                phases[node] = StagePhase.EAGER if self.options.eager else StagePhase.SWEEP
            else:
                phases[node] = StagePhase.SWEEP if node in needed or not self.options.lazy else StagePhase.LATE
        return phases

    def _depths(self, phases: dict[Node, StagePhase]) -> dict[Node, int]:
        """Return after how many products each executed node of a phase runs; kernels come before products."""
        depths: dict[Node, int] = {}

        def depth(node: Node) -> int:
            if node not in depths:
                before = [(x, maker) for x in self._read_by(node) for maker in self.makers.get(x, ())]
                depths[node] = max(
                    [
                        depth(maker) + (node.kind not in _HEAVY and not self._is_one_kernel(maker, x, node))
                        for x, maker in before
                        if phases[maker] is phases[node]
                    ],
                    default=0,
                )
            return depths[node]

        for node in sorted(self.executed, key=lambda node: node.number):
            depth(node)
        return depths

    def _is_one_kernel(self, maker: Node, x: Node, node: Node) -> bool:
        """Return whether one kernel can compute both what fills the place of ``x`` and ``node``, which reads it."""
        direct = (maker is x or maker.inputs == (x,)) and maker.kind not in _HEAVY
        return self.options.fuse and direct and _form(maker) == _form(node)

    # -- stages -------------------------------------------------------------------------------------------------
    def _stages(
        self, phases: dict[Node, StagePhase], depths: dict[Node, int]
    ) -> dict[StagePhase, list[PointwiseKernel | DenseOp]]:
        groups: dict[tuple[StagePhase, int, bool, Any], list[Node]] = {}
        for node in sorted(self.executed, key=lambda node: node.number):
            heavy = node.kind in _HEAVY
            key = node.number if heavy or not self.options.fuse else _form(node)
            groups.setdefault((phases[node], depths[node], heavy, key), []).append(node)
        stages: dict[StagePhase, list[PointwiseKernel | DenseOp]] = {phase: [] for phase in StagePhase}
        for (phase, _, heavy, _), nodes in sorted(groups.items(), key=lambda group: group[0][:3]):
            stages[phase].append(self._heavy(nodes[0]) if heavy else self._cell(nodes))
        return stages

    def _heavy(self, node: Node) -> DenseOp:
        return DenseOp(node, tuple(self.places.get(x) for x in node.inputs), self.places.get(node))

    def _cell(self, nodes: list[Node]) -> PointwiseKernel:
        """Return the kernel that computes ``nodes``; what one of them is made from another's value is not read back."""
        readings: dict[KernelInput, int] = {}
        together, expressions = set(nodes), dict[Node, Expr]()

        def expr(node: Node) -> Expr:
            if node not in expressions:
                expressions[node] = build(node)
            return expressions[node]

        def build(node: Node) -> Expr:
            reading = None if node in together else self._reading(node, together)
            if reading is not None:
                return Operand(Side.E, readings.setdefault(reading, len(readings)))
            if node.kind is NodeKind.FULL:
                return Constant(float(node.attr))
            if node.kind is NodeKind.COPY:
                return expr(node.inputs[0])
            assert node.kind is NodeKind.POINTWISE, f"{node} has no formula"
            return Call(OPERATORS[node.attr], tuple(expr(x) for x in node.inputs))

        formulas, places = tuple(expr(node) for node in nodes), tuple(self.places[node] for node in nodes)
        return PointwiseKernel(*_form(nodes[0]), formulas, tuple(readings), places)


def _is_outside(node: Node) -> bool:
    """Return whether a value is another vertex's state, or what all share: nothing puts it into a place."""
    return node.kind in (*_STATES, NodeKind.SHARED)


def _form(node: Node) -> tuple[RowDomain, int, torch.dtype]:
    """Return what nodes have in common that one kernel computes."""
    return node.domain, node.width, node.dtype
