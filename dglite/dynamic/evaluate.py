"""From a call of a vertex program to the engine: what is traced and planned once, and what each graph needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..batch import batch
from ..errors import DGLError
from ..graph import DGLGraph
from ..kernels import compiled
from .batching.recording.recorded import record_program
from .batching.recording.tensor import LazyTensor
from .execution.order import (
    Order,
    order_of,
)
from .execution.sweep import (
    Engine,
    Input,
    Sweep,
)
from .options import Options, current_options
from .program.gradient import ancestors
from .program.ir import (
    Builder,
    Domain,
    Node,
    NodeKind,
)
from .program.trace import (
    Recorder,
    TracedFunction,
    trace_function,
)
from .program.traced import (
    ClassPlan,
    Needs,
    plan_class,
)

__all__ = ["ProgramEvaluator"]

_FLOATS = (torch.float32, torch.float64)
_MOST_TRACES = 16


@dataclass
class _Pulled:
    """One input: its values, and where each vertex's lies, -1 where it has none (None: as the vertices do)."""

    values: torch.Tensor | LazyTensor
    rows: torch.Tensor | None


@dataclass(frozen=True)
class _Key:
    """What a trace is good for."""

    inputs: tuple[tuple[tuple[int, ...], torch.dtype], ...]
    training: tuple[bool, ...]
    dtype: torch.dtype


class _TracedProgram:
    """The programs of all kinds of vertices, their shared tensors, and the engines made of them."""

    def __init__(self, functions: Sequence[Any], key: _Key) -> None:
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

    def _trace(self, function: Any, key: _Key) -> None:
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


class ProgramEvaluator:
    """Evaluates vertex functions on graphs; keeps what it has traced and planned."""

    def __init__(self, check: Callable[[Sequence[Node], Mapping[int, Any]], None] | None = None) -> None:
        """``check``, given the nodes of a new trace and its shared tensors by number, raises where it will not do."""
        self._check = check
        self._traces: dict[_Key, _TracedProgram] = {}

    def __deepcopy__(self, memo: object) -> ProgramEvaluator:
        return ProgramEvaluator()

    def __reduce__(self) -> tuple[type[ProgramEvaluator], tuple[()]]:
        return ProgramEvaluator, ()

    def __call__(
        self,
        graph: Any,
        inputs: Sequence[Any],
        functions: Sequence[Any],
        kinds: Any = None,
        again: Callable[..., Any] | None = None,
    ) -> Any:
        """Return what the vertices push; see ``VertexFunction.__call__``. ``again``: see ``Sweep``.

        Where an input is lazy, the call is recorded in its session and the result is lazy.
        """
        call = self._prepared(graph, inputs, functions, kinds)
        values: list[Any] = [p.values for p in call.pulled]
        lazies = [x for x in values if type(x) is LazyTensor]
        return record_program(call, lazies[0]) if lazies else call.run(values, again)

    def _prepared(self, graph: Any, inputs: Sequence[Any], functions: Sequence[Any], kinds: Any) -> VertexCall:
        g = _one_graph(graph)
        pulled = [_pulled(i, x, g.num_nodes()) for i, x in enumerate(inputs)]
        key = _key(functions, pulled)
        traced = self._traces.get(key)
        if traced is None or not traced.is_current():
            if len(self._traces) >= _MOST_TRACES:
                self._traces.clear()
            traced = _TracedProgram(functions, key)
            if self._check is not None:
                self._check(traced.nodes, dict(enumerate(traced.shared)))
            self._traces[key] = traced
        order = order_of(g.adjacency(), *_kinds(g.num_nodes(), kinds, len(functions), pulled))
        if traced.slots and not traced.gathers_all:
            _check_children(order, traced.slots)
        _check_scatters(order, traced.programs, len(inputs))
        return VertexCall(traced, order, pulled, type(functions[0]).__name__)


@dataclass
class VertexCall:
    """A call of a program: what is traced, the order of its graph, its inputs. ``name`` is that of its function."""

    traced: _TracedProgram
    order: Order
    pulled: Sequence[_Pulled]
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
        inputs = [Input(p.rows, width(x)) for p, x in zip(self.pulled, values, strict=True)]
        outs = Sweep.apply(engine, order, inputs, again, *values, *[_NOTHING if x is None else x for x in shared])
        pairs = zip(outs, self.traced.pushed, strict=True)
        shaped = [out.view(order.num_nodes, *shape) for out, (shape, _) in pairs]
        return shaped[0] if len(shaped) == 1 else tuple(shaped)


_NOTHING = torch.empty(0)


def width(values: Any) -> int:
    """Return how many numbers a row has."""
    return math.prod(values.shape[1:])


def _one_graph(graph: Any) -> DGLGraph:
    g = graph if isinstance(graph, DGLGraph) else batch(list(graph), None, None)
    if len(g.ntypes) != 1 or len(g.canonical_etypes) != 1 or g.is_block:
        raise DGLError(
            f"a vertex program runs on a graph of one node and one edge type; this one has {g.ntypes} and "
            f"{g.canonical_etypes}. Convert it with dglite.to_homogeneous and use dynamic.ByKind"
        )
    return g


def _pulled(i: int, x: Any, num_nodes: int) -> _Pulled:
    """Check one input."""
    if isinstance(x, tuple) and len(x) == 2:
        nodes, values = x
        rows = _vector(nodes)
        places, distinct = compiled("dynamic.levels").places_of(rows, num_nodes)
        if len(rows) != len(values) or not distinct:
            raise DGLError(
                f"input {i} has {len(values)} values for {len(rows)} of {num_nodes} nodes; expected a value for each "
                "of some distinct nodes"
            )
        return _Pulled(values, torch.from_numpy(places))
    if not isinstance(x, torch.Tensor | LazyTensor) or x.dim() < 1 or len(x) != num_nodes:
        what = tuple(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
        raise DGLError(
            f"input {i} is {what}; expected a tensor with a row for each of the {num_nodes} nodes, or "
            "dynamic.Partial(nodes, values)"
        )
    return _Pulled(x, None)


def _vector(nodes: Any) -> np.ndarray:
    """Return numbers of nodes as int64."""
    if not isinstance(nodes, torch.Tensor) or nodes.dtype is not torch.int64 or nodes.dim() != 1:
        nodes = torch.as_tensor(nodes).long().flatten()
    return np.ascontiguousarray(nodes.numpy())


def _key(functions: Sequence[Any], pulled: Sequence[_Pulled]) -> _Key:
    """Return what tells traces apart; check dtypes and devices."""
    modules = _modules(functions)
    parameters = (x for m in modules for x in m._parameters.values() if x is not None)
    parameter = next((x for x in parameters if x.dtype.is_floating_point), None)
    floats = [p.values for p in pulled if p.values.dtype.is_floating_point]
    dtype = parameter.dtype if parameter is not None else floats[0].dtype if floats else torch.get_default_dtype()
    for x in (*floats, *([] if parameter is None else [parameter])):
        if x.dtype != dtype or dtype not in _FLOATS or x.device.type != "cpu":
            raise DGLError(
                f"a vertex program got {x.dtype} on {x.device}, beside {dtype}; inputs and parameters must be all "
                "float32 or all float64, on the CPU"
            )
    modes = tuple([m.training for m in modules])
    return _Key(tuple((tuple(p.values.shape[1:]), p.values.dtype) for p in pulled), modes, dtype)


def _modules(functions: Sequence[Any]) -> list[Any]:
    """Return the functions and all modules in them; ``Module.modules()`` takes four times as long to name them."""
    found, pending = dict[int, Any](), list(functions)
    while pending:
        module = pending.pop()
        if id(module) not in found:
            found[id(module)] = module
            pending += [x for x in module._modules.values() if x is not None]
    return list(found.values())


def _kinds(num_nodes: int, kinds: Any, num_functions: int, pulled: Sequence[_Pulled]) -> tuple[np.ndarray | None, int]:
    """Return the kind of each vertex and how many there are: its function, and which inputs it does not have."""
    partial = [(i, p.rows) for i, p in enumerate(pulled) if p.rows is not None]
    numbers = None
    if kinds is not None:
        given = torch.as_tensor(kinds).flatten()
        if len(given) != num_nodes or (num_nodes and not 0 <= int(given.min()) <= int(given.max()) < num_functions):
            raise DGLError(
                f"kinds has {len(given)} values for {num_nodes} nodes, or values outside of 0 to {num_functions - 1}; "
                "expected the number of each vertex's function"
            )
        numbers = given.numpy().astype(np.int64) << len(pulled)
    if partial and numbers is None:
        numbers = np.zeros(num_nodes, np.int64)
    for i, rows in partial:
        assert numbers is not None
        numbers += (rows.numpy() < 0) * (1 << i)
    return numbers, (1 if numbers is None else num_functions << len(pulled))


def _check_children(order: Order, slots: int) -> None:
    if order.num_nodes:
        node, most = order.most_children()
        if most > slots:
            raise DGLError(
                f"node {node} has {most} children, but F gathers children 0 to {slots - 1} only; gather more of them, "
                "or any number with gather_all()"
            )


def _check_scatters(order: Order, programs: Sequence[TracedFunction], num_inputs: int) -> None:
    """Raise when a vertex is gathered whose function scatters nothing."""
    if all(program.states for program in programs):
        return
    degrees, rows = np.diff(order.parent_bounds), order.class_rows
    for c in range(len(rows) - 1):
        kind = c // 2 >> num_inputs
        gathered = degrees[rows[c] : rows[c + 1]]
        if not programs[kind].states and gathered.any():
            node = int(order.nodes[rows[c] + int(gathered.argmax())])
            raise DGLError(
                f"node {node} is gathered by another vertex, but its function (kind {kind}) scatters no state; call "
                "self.scatter(...) in it"
            )
