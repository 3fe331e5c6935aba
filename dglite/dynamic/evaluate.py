"""Check the arguments of a vertex program, and trace it on first use."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from itertools import islice
from typing import Any

import numpy as np
import torch

from ..backend import active
from ..batch import batch
from ..errors import DGLError, DGLWarning
from ..graph import DGLGraph
from ..kernels import compiled
from .autocast import as_float32, without_autocast
from .batching.recording.recorded import record_program
from .batching.recording.tensor import LazyTensor
from .execution.order import VertexOrder, order_of
from .execution.sweep import PulledInput, VertexCall
from .program.ir import Node
from .program.replay import TracedFunction
from .program.surroundings import FunctionSurroundings
from .program.traced import TracedProgram, TraceKey

_FLOATS = (torch.float32, torch.float64)
_MOST_TRACES = 16
_MANY_CHANGES = 8

prepared_calls: ContextVar[list[VertexCall] | None] = ContextVar("dglite.dynamic.prepared_calls", default=None)
"""Takes the calls that are prepared while it has a list, which are then explained."""


class ProgramEvaluator:
    """Evaluates vertex functions on graphs; keeps what it has traced and planned."""

    def __init__(self, check: Callable[[Sequence[Node], Mapping[int, Any]], None] | None = None) -> None:
        """``check``, given the nodes of a new trace and its shared tensors by number, raises where it will not do."""
        self._check = check
        self._traces: dict[TraceKey, TracedProgram] = {}
        self._surroundings: FunctionSurroundings | None = None
        self._num_changes = 0

    def __reduce__(self) -> tuple[type[ProgramEvaluator], tuple[()]]:
        return ProgramEvaluator, ()

    def __call__(
        self,
        graph: Any,
        inputs: Sequence[Any],
        functions: Sequence[Any],
        kinds: Any = None,
    ) -> Any:
        """Return what the vertices push; see ``VertexFunction.__call__``.

        Where an input is lazy, the call is recorded in its session and the result is lazy.
        """
        call = self.prepared(graph, inputs, functions, kinds)
        values = [p.values for p in call.pulled]
        lazy = next((x for x in values if type(x) is LazyTensor), None)
        if lazy is not None:
            return record_program(call, lazy)
        with without_autocast(call.traced.device.type):
            return call.run(values)

    def prepared(self, graph: Any, inputs: Sequence[Any], functions: Sequence[Any], kinds: Any = None) -> VertexCall:
        """Return a checked call: what is traced, the order of the graph, and the inputs."""
        g = _one_graph(graph)
        pulled = [_pulled(i, x, g.num_nodes()) for i, x in enumerate(inputs)]
        traced = self._traced(functions, _key(functions, pulled, g.device))
        order = order_of(g.adjacency(), *_kinds(g.num_nodes(), kinds, len(functions), pulled))
        if traced.slots and not traced.gathers_all:
            _check_children(order, traced.slots)
        _check_scatters(order, traced.programs, len(inputs))
        for p in pulled:
            if p.values.dtype is torch.bool:
                p.values = p.values.to(traced.dtype)
        call = VertexCall(traced, order, pulled, type(functions[0]).__name__)
        calls = prepared_calls.get()
        if calls is not None:
            calls.append(call)
        return call

    def _traced(self, functions: Sequence[Any], key: TraceKey) -> TracedProgram:
        """Return what was traced for a key, traced again after a change of something that the functions read."""
        change = None if self._surroundings is None else self._surroundings.change()
        if change is not None or len(self._traces) >= _MOST_TRACES:
            self._traces.clear()
        traced = self._traces.get(key)
        if traced is None:
            traced = TracedProgram(functions, key)
            if self._check is not None:
                self._check(traced.nodes, dict(enumerate(traced.shared)))
            self._traces[key], self._surroundings = traced, FunctionSurroundings(functions)
            self._count_change(change, type(functions[0]).__name__)
        return traced

    def _count_change(self, change: str | None, name: str) -> None:
        self._num_changes += change is not None
        if change is not None and self._num_changes == _MANY_CHANGES:
            warnings.warn(
                f"{name} was traced again {_MANY_CHANGES} times, since {change} changed between calls, which costs "
                "more than a step. Make a number that changes a buffer of the module and write to it in place",
                DGLWarning,
                stacklevel=6,
            )


def _one_graph(graph: Any) -> DGLGraph:
    g = graph if isinstance(graph, DGLGraph) else batch(list(graph), None, None)
    if len(g.ntypes) != 1 or len(g.canonical_etypes) != 1 or g.is_block:
        raise DGLError(
            f"a vertex program runs on a graph of one node and one edge type; this one has {g.ntypes} and "
            f"{g.canonical_etypes}. Convert it with dglite.to_homogeneous and use dynamic.ByKind"
        )
    return g


def _pulled(i: int, x: Any, num_nodes: int) -> PulledInput:
    """Check one input."""
    if isinstance(x, torch.Tensor):
        x = as_float32(x)
    if isinstance(x, tuple) and len(x) == 2:
        nodes, values = x
        rows = np.ascontiguousarray(_on_host(nodes).long().flatten().numpy())
        places, distinct = compiled("dynamic.levels").places_of(rows, num_nodes)
        if len(rows) != len(values) or not distinct:
            raise DGLError(
                f"input {i} has {len(values)} values for {len(rows)} of {num_nodes} nodes; expected a value for each "
                "of some distinct nodes"
            )
        return PulledInput(as_float32(values) if isinstance(values, torch.Tensor) else values, torch.from_numpy(places))
    if not isinstance(x, torch.Tensor | LazyTensor) or x.dim() < 1 or len(x) != num_nodes:
        received = tuple(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
        raise DGLError(
            f"input {i} is {received}; expected a tensor with a row for each of the {num_nodes} nodes, or "
            "dynamic.Partial(nodes, values)"
        )
    return PulledInput(x, None)


def _key(functions: Sequence[Any], pulled: Sequence[PulledInput], device: torch.device) -> TraceKey:
    """Return what tells traces apart; check dtypes, and that all is on the graph's ``device``."""
    for i, p in enumerate(pulled):
        if p.values.device != device:
            raise DGLError(
                f"input {i} is on {p.values.device}, but the graph is on {device}: move one of them, e.g. "
                f"g.to({str(p.values.device)!r}), or dglite.batch(trees).to({str(p.values.device)!r}) for a list"
            )
    modules = _modules(functions)
    parameters = (x for m in modules for x in m._parameters.values() if x is not None and x.dtype.is_floating_point)
    floats = [*islice(parameters, 1), *(p.values for p in pulled if p.values.dtype.is_floating_point)]
    floats += [p.values for p in pulled if p.values.dtype.is_complex]
    dtype = floats[0].dtype if floats else torch.get_default_dtype()
    for x in floats:
        if x.dtype != dtype or dtype not in _FLOATS:
            raise DGLError(
                f"a vertex program got {x.dtype}, beside {dtype}; inputs and parameters must be all float32 or all "
                "float64"
            )
        if x.device != device:
            raise DGLError(
                f"{type(functions[0]).__name__} has parameters on {x.device}, but the graph is on {device}: move the "
                f"module, program.to({str(device)!r}), before its optimizer is made, or the graph and its inputs"
            )
    modes = tuple([m.training for m in modules])
    return TraceKey(tuple((tuple(p.values.shape[1:]), p.values.dtype) for p in pulled), modes, dtype, device)


def _on_host(numbers: Any) -> torch.Tensor:
    """Return numbers of nodes or kinds on the host, which waits for them if they are on a GPU."""
    x = torch.as_tensor(numbers)
    return x if x.is_cpu else active.to_device(x, "cpu", False)


def _modules(functions: Sequence[Any]) -> list[Any]:
    """Return the functions and all modules in them; ``Module.modules()`` takes four times as long to name them."""
    modules, pending = dict[int, Any](), list(functions)
    while pending:
        module = pending.pop()
        if id(module) not in modules:
            modules[id(module)] = module
            pending += [x for x in module._modules.values() if x is not None]
    return list(modules.values())


def _kinds(
    num_nodes: int, kinds: Any, num_functions: int, pulled: Sequence[PulledInput]
) -> tuple[np.ndarray | None, int]:
    """Return the kind of each vertex and how many there are: its function, and which inputs it does not have."""
    partial = [(i, p.rows) for i, p in enumerate(pulled) if p.rows is not None]
    numbers = None
    if kinds is not None:
        kind_of = _on_host(kinds).flatten()
        if len(kind_of) != num_nodes or (
            num_nodes and not 0 <= int(kind_of.min()) <= int(kind_of.max()) < num_functions
        ):
            raise DGLError(
                f"kinds has {len(kind_of)} values for {num_nodes} nodes, or values outside of 0 to "
                f"{num_functions - 1}; expected the number of each vertex's function"
            )
        numbers = kind_of.numpy().astype(np.int64) << len(pulled)
    if partial and numbers is None:
        numbers = np.zeros(num_nodes, np.int64)
    for i, rows in partial:
        assert numbers is not None
        numbers += (rows.numpy() < 0) * (1 << i)
    return numbers, (1 if numbers is None else num_functions << len(pulled))


def _check_children(order: VertexOrder, slots: int) -> None:
    degrees = order.bounds[1:] - order.bounds[:-1]
    if degrees.max(initial=0) > slots:
        node, most = order.nodes[degrees.argmax()], degrees.max()
        raise DGLError(
            f"node {node} has {most} children, but F gathers children 0 to {slots - 1} only; gather more of them, "
            "or any number with gather_all()"
        )


def _check_scatters(order: VertexOrder, programs: Sequence[TracedFunction], num_inputs: int) -> None:
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
