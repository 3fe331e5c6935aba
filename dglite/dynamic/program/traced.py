"""Traced functions of vertices, planned for every class of them: with and without children, and each input.

What a vertex does not have is 0. Where zeros meet products and sums, work disappears: leaves, half of the vertices of a
binary tree, need no product with their children's state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch

from ...errors import DGLError
from ...opspec import OPERATORS
from ..autocast import without_autocast
from ..options import Options
from .contraction import RowContractions
from .gradient import ancestors, differentiate
from .ir import Builder, Node, NodeKind, RowDomain
from .plan import make_plan
from .recipe import Buffer, BufferRole, Place, ProgramResult, VertexPlan, own_buffer, rows_of_all
from .replay import TracedFunction
from .surroundings import states_of_generators
from .trace import FunctionRecorder

_recording: ContextVar[FunctionRecorder | None] = ContextVar("dglite.dynamic.recording", default=None)


@dataclass(frozen=True)
class GradientNeeds:
    """Which gradients are wanted: of inputs, of shared tensors. Both are empty where none is."""

    pulls: tuple[bool, ...] = ()
    shared: tuple[bool, ...] = ()

    @property
    def any(self) -> bool:
        """Whether any is."""
        return any(self.pulls) or any(self.shared)

    def includes(self, root: ProgramResult) -> bool:
        """Whether a gradient is wanted; those of states always are."""
        return (
            root.role is BufferRole.STATE_GRAD
            or (self.pulls if root.role is BufferRole.PULL_GRAD else self.shared)[root.key]
        )


@dataclass
class ClassPlan:
    """The two programs of one class of vertices; ``backward`` is None where no gradient is wanted."""

    forward: VertexPlan
    backward: VertexPlan | None
    pulls: dict[int, Buffer]
    push_grads: Sequence[int]


@dataclass(frozen=True)
class TraceKey:
    """What a trace is good for."""

    inputs: tuple[tuple[tuple[int, ...], torch.dtype], ...]
    training: tuple[bool, ...]
    dtype: torch.dtype
    device: torch.device

    def stored(self, dtype: torch.dtype) -> torch.dtype:
        """Return the dtype in which an input of this dtype is pulled: booleans as 0 and 1."""
        return self.dtype if dtype is torch.bool else dtype


class TracedProgram:
    """The programs of all kinds of vertices, their shared tensors, and what was made of them.

    ``inputs`` are the width and dtype of what is pulled. ``scripts`` are kept here by who makes them.
    """

    def __init__(self, functions: Sequence[Any], key: TraceKey) -> None:
        self.builder, self.programs = Builder(), list[TracedFunction]()
        for function in functions:
            self._trace(function, key)
        first = self.programs[0]
        self.slots = max(program.slots for program in self.programs)
        self.gathers_all = any(program.gathers_all for program in self.programs)
        self.pushed = [(node.shape, node.dtype) for node in first.pushes]
        _check_programs(functions, self.programs)
        roots = [node for p in self.programs for node in (*p.states, *p.pushes)]
        self.nodes = ancestors(roots)
        self._read = {node.attr: (node.shape, node.dtype) for node in self.nodes if node.kind is NodeKind.SHARED}
        self.inputs = [(math.prod(shape), key.stored(dtype)) for shape, dtype in key.inputs]
        self.state_widths = [node.width for node in first.states]
        self.push_widths, self.dtype, self.device = [node.width for node in first.pushes], key.dtype, key.device
        self.scripts: dict[Any, Any] = {}
        self.warned = False
        self._plans: dict[Any, ClassPlan] = {}

    def _trace(self, function: Any, key: TraceKey) -> None:
        sizes = {n for x in function.parameters() for n in x.shape}
        sizes |= {n for shape, _ in key.inputs for n in shape} | set(function.state_sizes)
        recorder = FunctionRecorder(self.builder, sizes, key.dtype, key.device)
        if self.programs:
            recorder.program.shared = self.programs[0].shared
        make = self.builder.make
        for i, (shape, dtype) in enumerate(key.inputs):
            node = make(NodeKind.PULL, (), i, RowDomain.VERTEX, shape, key.stored(dtype))
            recorder.pulls.append((node, dtype is torch.bool))
        trace_function(function.forward, recorder)
        self.programs.append(recorder.program)

    @property
    def shared(self) -> list[Any]:
        """All shared tensors, in the order of their numbers."""
        return self.programs[0].shared

    def shared_values(self) -> list[torch.Tensor | None]:
        """Return the shared tensors that the programs read, by number; what is made of others is made now."""
        values: dict[int, Any] = {}

        def resolve(index: int) -> torch.Tensor:
            if index not in values:
                x = self.shared[index]
                value = x.tensor if x.tensor is not None else x.function([resolve(i) for i in x.inputs])
                if value.device != self.device and (x.tensor is None or not value.dim()):  # a number of F's own
                    value = value.to(self.device, non_blocking=True)
                # Kernels read the only row of a matrix as a vector.
                values[index] = value.contiguous() if value.dim() > 1 and len(value) == 1 else value
            return values[index]

        values_read = [resolve(i) if i in self._read else None for i in range(len(self.shared))]
        for i, (shape, dtype) in self._read.items():
            x = values_read[i]
            assert x is not None
            if x.shape != shape or x.dtype is not dtype or x.device != self.device:
                raise DGLError(
                    f"a parameter or tensor that F reads is {tuple(x.shape)} of {x.dtype} on {x.device}; F was traced "
                    f"with {shape} of {dtype} on {self.device}. Move the whole module, or assign a new nn.Parameter"
                )
        return values_read

    def plan(self, c: int, needs: GradientNeeds, options: Options) -> ClassPlan:
        """Return the plan of a class of vertices: of the kind ``c // (2 << inputs)``, with children if ``c`` is odd."""
        key = c, needs, options
        if key not in self._plans:
            num_inputs, num_states = len(self.inputs), len(self.state_widths)
            kind, mask = divmod(c // 2, 1 << num_inputs)
            absent = [i for i in range(num_inputs) if mask >> i & 1]
            ways = [by_slot for by_slot, used in ((True, self.slots), (False, self.gathers_all)) if used]
            collected = [(j, by_slot) for j in range(num_states) for by_slot in ways]
            program = self.programs[kind]
            self._plans[key] = plan_class(self.builder, program, bool(c & 1), absent, collected, needs, options)
        return self._plans[key]


def trace_function(forward: Callable[[], Any], recorder: FunctionRecorder) -> None:
    """Run F once under the recorder."""
    token, generators = _recording.set(recorder), states_of_generators()
    try:
        with torch.no_grad(), without_autocast(recorder.device.type), RowContractions(recorder.has_rows), recorder:
            forward()
    finally:
        _recording.reset(token)
    if states_of_generators() != generators:
        raise DGLError(
            "F draws random numbers by Python's random or by NumPy; a trace would keep the first ones. Pull them as "
            "an input, or use torch's dropout or bernoulli"
        )


def active_recorder(verb: str) -> FunctionRecorder:
    """Return the recorder under which F runs now; ``verb`` is what F calls."""
    recorder = _recording.get()
    if recorder is None:
        raise DGLError(f"{verb} belongs inside of a vertex function's forward(self); call the module with a graph")
    return recorder


def _check_programs(functions: Sequence[Any], programs: Sequence[TracedFunction]) -> None:
    for function, program in zip(functions, programs, strict=True):
        name = type(function).__name__
        if not program.pushes:
            raise DGLError(f"{name} pushes nothing, so there is nothing to return; call self.push(...) in forward")
        if [p.shape for p in program.pushes] != [p.shape for p in programs[0].pushes]:
            raise DGLError(
                f"{name} pushes shapes {[p.shape for p in program.pushes]}, the first function "
                f"{[p.shape for p in programs[0].pushes]}; vertices of all kinds must push the same"
            )
        gathers = any(p.slots or p.gathers_all for p in programs)
        if gathers and not program.states and len(programs) == 1:
            raise DGLError(f"{name} gathers its children's states but never scatters one; call self.scatter(...)")


# -- one class ---------------------------------------------------------------------------------------------------------
_SAVED = (
    NodeKind.PULL,
    NodeKind.GATHER,
    NodeKind.CHILD,
    NodeKind.SHARED,
    NodeKind.MATMUL,
    NodeKind.REDUCE,
    NodeKind.OPAQUE,
    NodeKind.RANDOM,
)


def plan_class(
    builder: Builder,
    program: TracedFunction,
    has_children: bool,
    absent: Sequence[int],
    collected: Sequence[tuple[int, bool]],
    needs: GradientNeeds,
    options: Options,
) -> ClassPlan:
    """Plan ``program`` for vertices of one class.

    ``absent`` lists the inputs that they do not have, ``collected`` the (state, by slot) in which parents hand on
    gradients.
    """
    results = _specialised(builder, [*program.states, *program.pushes], has_children, set(absent))
    states, pushes = results[: len(program.states)], results[len(program.states) :]
    roots = [ProgramResult(BufferRole.SCATTER, j, node) for j, node in enumerate(states)]
    roots += [ProgramResult(BufferRole.PUSH, k, node) for k, node in enumerate(pushes)]
    forward_nodes = set(ancestors(results))
    pulls = {node.attr: own_buffer(node) for node in forward_nodes if node.kind is NodeKind.PULL}
    inputs = {node: pulls[node.attr].whole for node in forward_nodes if node.kind is NodeKind.PULL}
    forward = make_plan(builder, roots, inputs, False, options)
    backward, push_places = None, dict[Node, Place]()
    if needs.any:
        gradient_roots, push_places = _gradient(builder, states, pushes, collected, needs)
        saved_nodes = _saved_nodes(gradient_roots, forward_nodes, forward)
        forward = make_plan(
            builder,
            [*roots, *(ProgramResult(BufferRole.KEEP, None, node) for node in saved_nodes)],
            inputs,
            False,
            options,
        )
        saved = {node: place for node, place in forward.places.items() if node in forward_nodes}
        backward = make_plan(builder, gradient_roots, {**saved, **push_places}, True, options)
    return ClassPlan(forward, backward, pulls, [node.attr for node in push_places])


def _gradient(
    builder: Builder,
    states: Sequence[Node],
    pushes: Sequence[Node],
    collected: Sequence[tuple[int, bool]],
    needs: GradientNeeds,
) -> tuple[list[ProgramResult], dict[Node, Place]]:
    """Return the results of the gradient's program, and the places of what it is given."""
    seeds, places = [], {}
    for k, node in enumerate(pushes):
        if node.dtype.is_floating_point:
            seed = builder.make(NodeKind.GIVEN, (), k, RowDomain.VERTEX, (node.width,), node.dtype)
            places[seed] = rows_of_all(BufferRole.PUSH_GRAD, k, node.width, node.dtype).whole
            seeds.append((node, seed))
    for j, by_slot in collected:
        if j < len(states):
            node = states[j]
            seed = builder.make(NodeKind.COLLECT, (), (j, by_slot), RowDomain.VERTEX, (node.width,), node.dtype)
            seeds.append((node, seed))
    return [root for root in differentiate(builder, seeds) if needs.includes(root)], places


def _saved_nodes(roots: Sequence[ProgramResult], forward_nodes: set[Node], forward: VertexPlan) -> list[Node]:
    """Return what of the forward program its gradient reads and what would be dear to compute again."""

    def is_kept(node: Node) -> bool:
        costly = node.kind is NodeKind.POINTWISE and OPERATORS[node.attr].costly
        return node in forward_nodes and (node in forward.places or node.kind in _SAVED or costly)

    everything = ancestors(root.node for root in roots)
    stops = {node for node in everything if is_kept(node)}
    reached = [node for node in ancestors((root.node for root in roots), stops) if node in stops]
    return [node for node in reached if node.kind not in (NodeKind.GATHER, NodeKind.CHILD, NodeKind.SHARED)]


# -- what is left when something is 0 --------------------------------------------------------------------------------
def _specialised(builder: Builder, roots: Sequence[Node], has_children: bool, absent: set[int]) -> list[Node]:
    """Return the results for vertices without children, or without some inputs."""
    specialised: dict[Node, Node] = {}
    for node in ancestors(roots):
        specialised[node] = _rebuilt(builder, node, [specialised[x] for x in node.inputs], has_children, absent)
    return [specialised[root] for root in roots]


def _rebuilt(builder: Builder, node: Node, inputs: list[Node], has_children: bool, absent: set[int]) -> Node:
    if (node.kind is NodeKind.PULL and node.attr in absent) or (node.kind is NodeKind.GATHER and not has_children):
        return builder.full(0.0, node)
    if node.domain is RowDomain.EDGE and not has_children:
        return builder.full(0.0, node)  # of no rows
    if all(x is y for x, y in zip(inputs, node.inputs, strict=True)):
        return node
    if node.kind is NodeKind.POINTWISE:
        return builder.pointwise(node.attr, *inputs, like=node)
    if node.kind is NodeKind.MATMUL:
        return builder.matmul(inputs[0], inputs[1], node.attr)
    if node.kind is NodeKind.REDUCE:
        return builder.reduce(inputs[0], node.attr)
    if node.kind is NodeKind.EACH:
        return builder.each(inputs[0])
    if node.kind is NodeKind.CAT:
        return builder.cat(inputs)
    if node.kind is NodeKind.SLICE:
        return builder.reshaped(builder.slice(inputs[0], *node.attr), node.shape)
    return builder.make(node.kind, inputs, node.attr, node.domain, node.shape, node.dtype)
