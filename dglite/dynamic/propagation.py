"""``prop_nodes_topo`` as a vertex program: message, reduce and apply function are one function of a vertex.

A vertex gathers its children's features, which its message function reads as those of the sources; it scatters those
that its parents will read. A reduce function sees as many messages as the vertex has, so vertices of different degrees
are of different kinds. Whatever does not fit is left to message passing, which gives the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from torch import nn
from torch.autograd import forward_ad

from ..backend import active
from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.registry import state
from ..locks import new_lock
from ..ops import devices
from ..recorder import code_of, refusal
from ..traversal import topological_nodes_generator
from ..udf import Columns, EdgeBatch, NodeBatch, checked, function_name
from .evaluate import ProgramEvaluator
from .identity import FunctionIdentity
from .program.ir import Node, NodeKind, RowDomain
from .program.surroundings import generator_states
from .program.trace import FunctionRecorder
from .program.traced import active_recorder
from .vertex import VertexFunction

_MOST_DEGREES, _HIGHEST_DEGREE, _MOST_PROGRAMS = 8, 16, 8
_ROWS = 3

Functions = tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any] | None]


def propagate_as_program(graph: DGLGraph, message: Any, reduce: Any, apply: Any) -> str | None:
    """Do what ``prop_nodes_topo`` does if that can be a vertex program: return None, or why it was not done."""
    functions = message, reduce, apply
    present = [f for f in functions if f is not None]
    if not all(callable(f) and code_of(f) is not None for f in (message, reduce)):
        return "message and reduce function are not both functions written in Python; built-ins run for themselves"
    reason = _why_not_plain(graph)
    if reason is not None:
        return reason
    frame = graph.node_frame()
    degrees = np.bincount(graph.adjacency().in_degrees())
    kinds = np.flatnonzero(degrees)
    if len(kinds) > _MOST_DEGREES or not 1 <= kinds[-1] <= _HIGHEST_DEGREE or kinds[0]:
        return (
            f"nodes have in-degrees {', '.join(map(str, kinds[:8]))}{', ...' * (len(kinds) > 8)}; a program takes 0 "
            f"and up to {_MOST_DEGREES - 1} others of at most {_HIGHEST_DEGREE}"
        )
    for f in present:
        reason = refusal(f, once=True)
        if reason is not None:
            return f"{function_name(f)}: {reason}"
    identity = FunctionIdentity(present)
    if identity.key is None:
        return f"of one of the functions, {identity.unknown}"
    columns = tuple((name, scheme.shape, scheme.dtype) for name, scheme in frame.schemes.items())
    key = identity.key, apply is None, columns, tuple(kinds.tolist()), graph.canonical_etypes[0], graph.device
    kind_of = np.searchsorted(kinds, np.arange(len(degrees)))
    return _run(key, identity, functions, graph, kind_of[graph.adjacency().in_degrees()])


def _why_not_plain(graph: DGLGraph) -> str | None:
    """Return why a graph, or what torch does now, is not of the kind that vertex programs know; None if it is."""
    if len(graph.ntypes) != 1 or len(graph.canonical_etypes) != 1 or graph.is_block:
        return "the graph has several types of nodes or edges, or is a block"
    if not graph.num_edges():
        return "the graph has no edges"
    if devices.why_no_kernels(graph.device):
        return f"the graph is on {graph.device}: {devices.why_no_kernels(graph.device)}"
    if graph.node_frame().has_initializers:
        return "the nodes have initializers"
    if state(graph, "_registered"):  # a function that is left out is the registered one
        return "the graph has registered functions"
    autocast = torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled(graph.device.type)
    special = autocast or torch._C._functorch.peek_interpreter_stack() is not None
    if special or forward_ad._current_level >= 0 or torch.is_inference_mode_enabled():
        return "autocast, a functional transform, forward-mode differentiation or inference mode is on"
    return None


class _RefusedFunctions(NamedTuple):
    """Why functions are no program. What they captured is kept, as its ids are the key."""

    reason: str
    identity: FunctionIdentity


_programs: OrderedDict[Any, _PropagationProgram | _RefusedFunctions] = OrderedDict()
"""The last programs, or why there is none; what they captured lives as long."""
_keeping = new_lock()


def _run(key: Any, identity: FunctionIdentity, functions: Functions, graph: DGLGraph, kinds: np.ndarray) -> str | None:
    """Run the program of a key, which is made at its first use; return why there cannot be a program."""
    with _keeping:
        program_or_refusal = _programs.get(key)
        if program_or_refusal is None:  # until there is one, other threads pass messages
            _programs[key] = _RefusedFunctions("another thread is making the program", identity)
        _programs.move_to_end(key)
        if len(_programs) > _MOST_PROGRAMS:
            _programs.popitem(last=False)
    if program_or_refusal is not None:
        return (
            program_or_refusal.reason
            if isinstance(program_or_refusal, _RefusedFunctions)
            else program_or_refusal.run(graph, kinds)
        )
    generators = generator_states(graph.device)
    outcome: _PropagationProgram | _RefusedFunctions | None = None
    try:
        program = _PropagationProgram(identity, functions, graph)
        reason = program.run(graph, kinds)
        outcome = program
    # Whatever it is, message passing runs the functions as written and says it as users know.
    except Exception as error:
        reason = str(error) or type(error).__name__
        outcome = None if _has_cycle(graph) else _RefusedFunctions(reason, identity)
    finally:
        for set_state, generator in generators:
            set_state(generator)
        if outcome is None:  # interrupted, or another graph has no cycle: the next call tries again
            _programs.pop(key, None)
        else:
            _programs[key] = outcome
    return reason


def _has_cycle(graph: DGLGraph) -> bool:
    try:
        topological_nodes_generator(graph)
    except DGLError:
        return True
    return False


class _UnfitError(Exception):
    """The functions cannot be a vertex program."""


class _PropagationProgram:
    """Functions of the vertices of each degree, from the columns that they read to those that are written."""

    def __init__(self, identity: FunctionIdentity, functions: Functions, graph: DGLGraph) -> None:
        self._identity, self._spec = identity, _ColumnSpec(functions, graph)
        self._evaluator = ProgramEvaluator(self._check)
        degrees = np.flatnonzero(np.bincount(graph.adjacency().in_degrees()))
        self._vertices = [_DegreeFunction(self._spec, identity, int(degree)) for degree in degrees]

    def run(self, graph: DGLGraph, kinds: np.ndarray) -> str | None:
        """Write what the functions compute; return why it could not be done."""
        frame = graph.node_frame()
        inputs = [frame[name] for name in self._spec.read]
        if any(type(x) not in (torch.Tensor, nn.Parameter) or x.layout is not torch.strided for x in inputs):
            return "a feature is sparse or of a subclass of torch.Tensor"
        results = self._evaluator(graph, inputs, self._vertices, torch.from_numpy(kinds))
        frame.update(dict(zip(self._spec.written, results if isinstance(results, tuple) else (results,), strict=True)))
        return None

    def _check(self, nodes: Iterable[Node], shared: Mapping[int, Any]) -> None:
        """Raise unless a trace does what the functions do each time that they are called.

        Random numbers would be drawn in another order. A tensor that was made on the way, unseen, is of this trace.
        """
        random = "a function draws random numbers"
        pending, visited = [node.attr for node in nodes if node.kind is NodeKind.SHARED], set[int]()
        while pending:
            index = pending.pop()
            if index in visited:
                continue
            visited.add(index)
            pending += shared[index].inputs
            x, function = shared[index].tensor, getattr(shared[index].function, "function", None)
            if torch.Tag.nondeterministic_seeded in getattr(function, "tags", ()):
                raise _UnfitError(random)
            if x is not None and not shared[index].is_constant and id(x) not in self._identity.tensors:
                raise _UnfitError("a function makes a tensor of its own")
        if any(node.kind is NodeKind.RANDOM for node in nodes):
            raise _UnfitError(random)


_stack = partial(torch.stack, dim=1)


class _ColumnSpec:
    """What the functions read and write, found out by calling them on a few made-up rows.

    ``states`` are the columns of sources that messages read, with their widths; ``created`` those of the written ones
    that the graph does not have yet, which are zeros until then.
    """

    def __init__(self, functions: Functions, graph: DGLGraph) -> None:
        self.functions, self.names, self._device = functions, set(graph.node_frame().schemes), graph.device
        self.etype, self.created = graph.canonical_etypes[0], dict[str, int]()
        self._fit = {
            name: scheme
            for name, scheme in graph.node_frame().schemes.items()
            if len(scheme.shape) == 1 and scheme.dtype in (torch.float32, torch.float64)
        }
        with torch.no_grad():
            rows = {name: torch.rand(_ROWS, *scheme.shape, dtype=scheme.dtype) for name, scheme in self._fit.items()}
            self._find({name: active.to_device(x, self._device, True) for name, x in rows.items()})

    def _find(self, rows: dict[str, torch.Tensor]) -> None:
        read, sent = set[str](), set[str]()
        first = self.compute(_NotedColumns(rows, read), [], _ROWS)
        after = {**rows, **first}
        self.created = {name: x.shape[1] for name, x in first.items() if name not in self.names and x.dim() == 2}
        result = self.compute(_NotedColumns(rows, read), [_NotedColumns(after, sent)] * 2, _ROWS)
        applies = self.functions[2] is not None
        if applies and set(first) != set(result):
            raise _UnfitError("nodes without messages get other columns from the apply function than the others")
        self.written, self.states = list(result), [(name, after[name].shape[1]) for name in sorted(sent)]
        unwritten = sent - set(result) if applies else sent | set(result)
        self.read = sorted((read | unwritten) & self.names)
        # Message passing calls the message function for vertices without children, too, with no edges.
        if not sent or not sent <= self.names:
            raise _UnfitError("messages read no column of their sources, or one that the graph does not have before")
        if not self.read or set(self.read) - set(self._fit):
            raise _UnfitError("the functions read columns that are no matrices of float32 or float64")
        dtypes = {x.dtype for x in result.values()} | {rows[name].dtype for name in self.read}
        clash = [name for name, x in result.items() if name in self.names and not self._is_like(name, x)]
        if len(dtypes) > 1 or clash:
            raise _UnfitError("columns are of several dtypes, or one is written in another shape than it has")
        self.widths = {name: tuple(x.shape[1:]) for name, x in result.items()}

    def _is_like(self, name: str, x: torch.Tensor) -> bool:
        return name in self._fit and self._fit[name].shape == x.shape[1:] and self._fit[name].dtype == x.dtype

    def compute(
        self, columns_of_vertex: Mapping[str, torch.Tensor], sources: list[Any], rows: int, stack: Any = _stack
    ) -> Mapping[str, torch.Tensor]:
        """Return what the functions make of some vertices, whose children have the columns ``sources``."""
        message, reduce, apply = self.functions
        table: Mapping[str, torch.Tensor] = {}
        names = self.names | (set(self.created) if sources and apply is not None else set())
        data = Columns("nodes", names, lambda name: self._column(columns_of_vertex, name, rows))
        if sources:
            sent = [self._sent(message, source, data, rows) for source in sources]
            mailbox = {name: stack([messages[name] for messages in sent]) for name in sent[0]}
            shown = Columns("messages", mailbox, mailbox.__getitem__)
            table = checked(
                reduce(NodeBatch(data, shown, rows, _refuse, self.etype[2], _refuse)),
                (rows,),
                "nodes",
                self._device,
                reduce,
            )
        if apply is None:
            return table
        reduced = table
        over = Columns("nodes", names | set(reduced), lambda name: reduced[name] if name in reduced else data[name])
        batch = NodeBatch(over, Columns("messages", (), _refuse), rows, _refuse, self.etype[2], _refuse)
        return checked(apply(batch), (rows,), "nodes", self._device, apply)

    def _sent(self, message: Callable[..., Any], source: Any, data: Columns, rows: int) -> Mapping[str, torch.Tensor]:
        """Return the messages from one child of each vertex."""
        columns = Columns("source nodes", self.names, source.__getitem__), Columns("edges", (), _refuse), data
        batch = EdgeBatch(*columns, rows, _refuse, self.etype, _refuse)
        return checked(message(batch), (rows,), "edges", self._device, message)

    def _column(self, columns_of_vertex: Mapping[str, torch.Tensor], name: str, rows: int) -> torch.Tensor:
        """Return a column of the vertices themselves; one that was made for their children is 0 for them."""
        if name in columns_of_vertex:
            return columns_of_vertex[name]
        if name not in self.created:
            raise _UnfitError(_absent(name))
        return next(iter(columns_of_vertex.values())).new_zeros(rows, self.created[name])


def _side_by_side(recorder: FunctionRecorder, messages: list[torch.Tensor]) -> torch.Tensor:
    """Return the messages of each vertex, all of one shape, as (vertices, how many, *feat)."""
    builder, nodes = recorder.builder, [recorder.node(x) for x in messages]
    if any(node.shape != nodes[0].shape or node.domain is not RowDomain.VERTEX for node in nodes):
        raise _UnfitError("messages differ in shape, or are no values of the nodes")
    flat = [builder.reshaped(node, (node.width,)) for node in nodes]
    return recorder.value(builder.reshaped(builder.cat(flat), (len(nodes), *nodes[0].shape)))


class _NotedColumns(dict[str, torch.Tensor]):
    """Columns that note which of them are read."""

    def __init__(self, columns: Mapping[str, torch.Tensor], read: set[str]) -> None:
        super().__init__(columns)
        self._read = read

    def __getitem__(self, name: str) -> torch.Tensor:
        if name not in self:
            raise _UnfitError(_absent(name))
        self._read.add(name)
        return super().__getitem__(name)


def _refuse(*_: Any) -> NoReturn:
    """Give nothing that a function would read beyond columns and messages, ids for example."""
    raise _UnfitError("a function reads the graph, ids, features of edges, or messages that are not sent")


def _absent(name: str) -> str:
    return f"the nodes have no matrix {name!r} of float32 or float64"


class _DegreeFunction(VertexFunction):
    """The function of vertices with ``degree`` children."""

    def __init__(self, spec: _ColumnSpec, identity: FunctionIdentity, degree: int) -> None:
        super().__init__([width for _, width in spec.states])
        self._spec, self._degree = spec, degree
        self.layers = nn.ModuleList(identity.layers)
        for i, x in enumerate(identity.tensors.values()):
            self.register_buffer(f"captured{i}", x, persistent=False)

    def forward(self) -> None:
        """Let the functions see one vertex of each batch that they are called with."""
        spec, recorder = self._spec, active_recorder("pull")
        pulled = self.pull()
        columns_of_vertex = dict(zip(spec.read, pulled if isinstance(pulled, tuple) else (pulled,), strict=True))
        rows = recorder.rows[RowDomain.VERTEX]
        names = [name for name, _ in spec.states]
        sources = [dict(zip(names, self.gather(k), strict=True)) for k in range(self._degree)]
        table = spec.compute(columns_of_vertex, sources, rows, partial(_side_by_side, recorder))
        result = {
            name: table[name] if name in table else self._before(columns_of_vertex, name, rows) for name in spec.written
        }
        if not table.keys() <= result.keys():
            raise _UnfitError("the functions write other columns for some in-degrees than for others")
        self.scatter(*[result[name] if name in result else columns_of_vertex[name] for name in names])
        self.push(*result.values())

    def _before(self, columns_of_vertex: Mapping[str, torch.Tensor], name: str, rows: int) -> torch.Tensor:
        """Return what a vertex without messages has in a column that only messages write."""
        if self._degree or self._spec.functions[2] is not None:
            raise _UnfitError("the functions write other columns for some in-degrees than for others")
        if name in columns_of_vertex:
            return columns_of_vertex[name]
        return next(iter(columns_of_vertex.values())).new_zeros(rows, *self._spec.widths[name])
