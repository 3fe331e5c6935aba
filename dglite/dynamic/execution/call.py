"""A call of a vertex program: what was traced of its functions once, its inputs, and the engine that runs it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...errors import DGLError
from ..options import Options, current_options
from ..program.gradient import ancestors
from ..program.ir import Builder, Domain, NodeKind
from ..program.trace import Recorder, TracedFunction, trace_function
from ..program.traced import ClassPlan, Needs, plan_class
from .order import Order
from .sweep import Engine, Input, Sweep

__all__ = ["PulledInput", "TraceKey", "TracedProgram", "VertexCall"]

_NOTHING = torch.empty(0)


@dataclass
class PulledInput:
    """One input: its values, and where each vertex's lies, -1 where it has none (None: as the vertices do)."""

    values: Any
    rows: torch.Tensor | None


@dataclass(frozen=True)
class TraceKey:
    """What a trace is good for."""

    inputs: tuple[tuple[tuple[int, ...], torch.dtype], ...]
    training: tuple[bool, ...]
    dtype: torch.dtype


class TracedProgram:
    """The programs of all kinds of vertices, their shared tensors, and the engines made of them."""

    def __init__(self, functions: Sequence[Any], key: TraceKey) -> None:
        self.builder, self.programs = Builder(), list[TracedFunction]()
        self.tensors: list[Any] = []
        self.offsets: list[int] = []
        for function in functions:
            self._trace(function, key)
        first = self.programs[0]
        self.slots = max(program.slots for program in self.programs)
        self.gathers_all = any(program.gathers_all for program in self.programs)
        self.pushed = [(node.shape, node.dtype) for node in first.pushes]
        _check_programs(functions, self.programs)
        roots = [node for p in self.programs for node in (*p.states, *p.pushes)]
        self.nodes = ancestors(roots)
        self._read = {node.attr for node in self.nodes if node.kind is NodeKind.SHARED}
        self._engines: dict[Any, Engine] = {}
        self._leaves = [(x, *_owner(functions, x)) for shared in self.shared if (x := shared.tensor) is not None]

    def _trace(self, function: Any, key: TraceKey) -> None:
        sizes = {n for x in function.parameters() for n in x.shape}
        sizes |= {n for shape, _ in key.inputs for n in shape} | set(function.state_sizes)
        recorder = Recorder(self.builder, sizes, key.dtype)
        if self.programs:
            recorder.program.shared = self.programs[0].shared
        make = self.builder.make
        pulls = [make(NodeKind.PULL, (), i, Domain.VERTEX, shape, dtype) for i, (shape, dtype) in enumerate(key.inputs)]
        trace_function(function.forward, recorder, pulls)
        self.programs.append(recorder.program)

    @property
    def shared(self) -> list[Any]:
        """All shared tensors, in the order of their numbers."""
        return self.programs[0].shared

    def is_current(self) -> bool:
        """Whether the modules still hold the parameters that were seen."""
        return all(module is None or getattr(module, name) is x for x, module, name in self._leaves)

    def shared_values(self) -> list[torch.Tensor | None]:
        """Return the shared tensors that the programs read, by number; what is made of others is made now."""
        values: dict[int, Any] = {}

        def resolve(index: int) -> torch.Tensor:
            if index not in values:
                x = self.shared[index]
                values[index] = x.tensor if x.tensor is not None else x.function([resolve(i) for i in x.inputs])
            return values[index]

        return [resolve(i) if i in self._read else None for i in range(len(self.shared))]

    def engine(self, num_inputs: int, strides: tuple[tuple[int, ...], ...], needs: Needs, options: Options) -> Engine:
        """Return the engine for the gradients that are wanted and the options in force."""
        key = needs, options, num_inputs, strides
        if key not in self._engines:
            first = self.programs[0]
            collected = [
                (j, by_slot)
                for j in range(len(first.states))
                for by_slot in (True, False)
                if (self.slots if by_slot else self.gathers_all)
            ]
            plans: dict[int, ClassPlan] = {}

            def plan_of(c: int) -> ClassPlan:
                if c not in plans:
                    kind, mask = divmod(c // 2, 1 << num_inputs)
                    absent = [i for i in range(num_inputs) if mask >> i & 1]
                    program = self.programs[kind]
                    plans[c] = plan_class(
                        self.builder,
                        program,
                        bool(c & 1),
                        absent,
                        collected,
                        needs,
                        options,
                    )
                return plans[c]

            self._engines[key] = Engine(
                plan_of,
                self.slots,
                [node.width for node in first.states],
                [node.width for node in first.pushes],
                (first.states or first.pushes)[0].dtype,
                strides=strides,
            )
        return self._engines[key]


def _owner(functions: Sequence[Any], tensor: torch.Tensor) -> tuple[Any, str]:
    """Return the module that holds a tensor as a parameter or buffer, and its name there; None where none does."""
    for function in functions:
        for module in function.modules():
            for name, x in (*module._parameters.items(), *module._buffers.items()):
                if x is tensor:
                    return module, name
    return None, ""


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


@dataclass
class VertexCall:
    """A call of a program: what is traced, the order of its graph, its inputs. ``name`` is that of its function."""

    traced: TracedProgram
    order: Order
    pulled: Sequence[PulledInput]
    name: str

    def engine(self, shared: Sequence[Any], pulls: Sequence[bool], wanted: Sequence[bool]) -> Engine:
        """Return the engine for the gradients of inputs and of shared tensors that are wanted."""
        strides = tuple([x.stride() if x is not None else () for x in shared])
        needs = Needs(tuple(pulls), tuple(wanted))
        return self.traced.engine(len(self.pulled), strides, needs, current_options())

    def run(self, values: Sequence[torch.Tensor], again: Callable[..., Any] | None = None) -> Any:
        """Return what the vertices push."""
        grad, shared, order = torch.is_grad_enabled(), self.traced.shared_values(), self.order
        wanted = [grad and x is not None and x.requires_grad for x in shared]
        engine = self.engine(shared, [grad and x.requires_grad for x in values], wanted)
        inputs = [Input(p.rows, math.prod(x.shape[1:])) for p, x in zip(self.pulled, values, strict=True)]
        outs = Sweep.apply(engine, order, inputs, again, *values, *[_NOTHING if x is None else x for x in shared])
        pairs = zip(outs, self.traced.pushed, strict=True)
        shaped = [out.view(order.num_nodes, *shape) for out, (shape, _) in pairs]
        return shaped[0] if len(shaped) == 1 else tuple(shaped)
