"""``dglite.profile``: which message-passing methods, kernels, functions and compilations took the time.

Nothing is measured outside of the context: while it lasts, timed functions replace those that start kernels,
of the graph's methods, and of what runs users' functions; then the old ones are put back.
"""

from __future__ import annotations

import functools
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType, TracebackType
from typing import Any

from ..backend import active
from ..graph import DGLGraph
from ..kernels import compiled
from ..kernels.spec import REDUCED
from ..ops import devices
from ..ops.call_cache import run_cached
from ..ops.run import run_sddmm, run_softmax, run_spmm
from ..scheduler.execute import HANDLERS
from ..scheduler.learned import why_as_written, why_not_fused
from ..scheduler.plan import Apply, ApplyAfter, BucketReduce, ReduceOnce, RunEdgeUDF, UserFunction
from ..tables import Bar, bytes_text, html_card, html_table, seconds_text, text_table
from ..udf import function_name

_VERBS = (
    "update_all multi_update_all apply_edges apply_nodes group_apply_edges send recv send_and_recv pull push "
    "prop_nodes prop_edges"
).split()
_BYTES = {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}
_HEAD = ("what", "name", "calls", "time", "share", "read and written")
_KERNELS = {
    "graph.attention": {"run_attention": "attention"},
    "graph.argmax": {"gather": "gradient of max or min", "scatter": "gradient of max or min"},
    "rows.products": {"product": "matrix product", "gradients": "matrix product, gradients"},
    "rows.bias": {"over_rows": "bias and activation", "sums_over_rows": "bias and activation, gradient"},
    "rows.dropout": {"drop": "dropout"},
    "rows.losses": {"cross_entropy": "cross-entropy"},
}
"""By module of kernels: the functions that run one, and what it is called."""


@dataclass(slots=True)
class Event:
    """A timed kind of work, by name. ``bytes`` are read and written, None if not known."""

    kind: str
    name: str
    calls: int = 0
    seconds: float = 0.0
    bytes: int | None = None
    note: str = ""


@dataclass
class TimeProfile:
    """The result of :func:`profile`; ``str()`` of it is a table, and a notebook shows it as HTML.

    Attributes
    ----------
    events
        A list of :class:`Event`, those that took longest first. Kinds are ``"method"`` (a message-passing method of a
        graph, with all that it runs), ``"kernel"``, ``"function"`` (a user's function that was not fused; ``note`` says
        why), ``"compilation"`` and ``"synchronisation"`` (a copy from a GPU, which waits for it).
    seconds
        From the begin of the context to its end.
    """

    seconds: float = 0.0
    _events: dict[tuple[str, str], Event] = field(default_factory=dict, repr=False)
    listener: Callable[[Event, float, int | None], None] | None = field(default=None, repr=False)
    """Called with each kernel as it has run."""

    @property
    def events(self) -> list[Event]:
        """The measured events, the longest first."""
        return sorted(self._events.values(), key=lambda event: -event.seconds)

    def add(self, kind: str, name: str, seconds: float, count: int | None = None, note: str = "") -> None:
        """Count one more call."""
        event = self._events.get((kind, name))
        if event is None:
            event = self._events.setdefault((kind, name), Event(kind, name))
        event.calls, event.note = event.calls + 1, note or event.note
        event.seconds += seconds
        if count is not None:
            event.bytes = (event.bytes or 0) + count
        if kind == "kernel" and self.listener is not None:
            self.listener(event, seconds, count)

    def _rows(self) -> list[tuple[Any, ...]]:
        whole = self.seconds or 1.0
        return [
            (
                event.kind,
                event.name,
                event.calls,
                seconds_text(event.seconds),
                Bar(event.seconds / whole),
                None if event.bytes is None else bytes_text(event.bytes),
            )
            for event in self.events
        ]

    def _facts(self) -> list[str]:
        kernels = sum(event.seconds for event in self.events if event.kind == "kernel")
        share = f"{kernels / self.seconds:.0%} of it in kernels" if self.seconds else "nothing was run"
        return [f"{seconds_text(self.seconds)} in all", share]

    def __str__(self) -> str:
        head, *rows = text_table(_HEAD, self._rows(), numbers=[2, 3, 4, 5])
        lines = [", ".join(self._facts()), "", head]
        for row, event in zip(rows, self.events, strict=True):
            lines.append(row)
            if event.note:
                lines.append(f"    {event.note}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        notes = [event.note for event in self.events]
        return html_card("Profile", self._facts(), html_table(_HEAD, self._rows(), numbers=[2, 3, 5], notes=notes))


class profile:  # a context manager that is used like a function
    """Measure what takes the time of the statements inside, and print it as a table.

    Times of methods contain those of the kernels and functions that they run, so shares do not sum to 1. What torch
    does by itself, its products and its optimizer for instance, is in no row: ``torch.profiler`` has that. A kernel on
    a GPU is waited for, so that its own time is counted. Other threads are measured, too. Outside of the context
    nothing is measured and nothing costs time.

    Returns
    -------
    A :class:`~dglite.show.profiling.TimeProfile`, complete when the context ends.

    Examples
    --------
    >>> import dglite, dglite.function as fn, torch
    >>> g = dglite.rand_graph(100, 1000)
    >>> g.ndata["h"] = torch.ones(100, 16)
    >>> with dglite.profile() as measured:
    ...     for _ in range(3):
    ...         g.update_all(fn.copy_u("h", "m"), fn.sum("m", "out"))
    >>> [(event.kind, event.name, event.calls) for event in measured.events if event.kind == "method"]
    [('method', "update_all(copy_u('h', 'm'), sum('m', 'out'))", 3)]
    >>> print(measured)  # doctest: +SKIP
    """

    def __init__(self, *arguments: Any) -> None:
        if arguments:
            raise TypeError("profile measures the statements inside of it: with dglite.profile(): model(g, x)")
        self._result = TimeProfile()
        self._restore: list[Callable[[], None]] = []
        self._start = 0.0
        self._depth, self._kernels, self._compiling = 0, 0, 0.0

    def __enter__(self) -> TimeProfile:
        try:
            self._replace_methods()
            self._replace_kernels()
            self._replace_functions()
        except BaseException:
            self._put_back()
            raise
        self._start = time.perf_counter()
        return self._result

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._result.seconds = time.perf_counter() - self._start
        self._put_back()

    def _put_back(self) -> None:
        while self._restore:
            self._restore.pop()()

    # -- replaced functions -----------------------------------------------------------------------------------------
    def _set(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute until the context ends."""
        attributes = vars(owner)
        before = attributes.get(name)
        self._restore.append(
            functools.partial(setattr, owner, name, before)
            if name in attributes
            else functools.partial(delattr, owner, name)
        )
        setattr(owner, name, value)

    def _replace_methods(self) -> None:
        for name in _VERBS:
            method = getattr(DGLGraph, name)
            self._set(DGLGraph, name, self._timed_method(name, method))

    def _timed_method(self, verb: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def run(*args: Any, **kwargs: Any) -> Any:
            if self._depth:  # one that another calls is a part of it
                return method(*args, **kwargs)
            self._depth += 1
            start = time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                self._depth -= 1
                functions = ", ".join(filter(None, map(_text_of, (*args[1:], *kwargs.values()))))
                self._result.add("method", f"{verb}({functions})", time.perf_counter() - start)

        return run

    def _replace_kernels(self) -> None:
        labels: dict[Any, Any] = {
            run_spmm: _spmm_label,
            run_sddmm: _sddmm_label,
            run_softmax: _cached_label,
            run_cached: _cached_label,
        }
        for function, label in labels.items():
            timed = self._timed_kernel(function, label)
            for module in [m for name, m in sys.modules.items() if name.startswith("dglite.ops.") and m is not None]:
                is_internal = module.__name__ in ("dglite.ops.run", "dglite.ops.call_cache")
                for name, value in list(vars(module).items()):
                    if value is function and not is_internal:
                        self._set(module, name, timed)
        for kind in (devices.Cpu, devices.Gpu):
            self._set(kind, "kernels", self._timed_modules(kind))
        jit = compiled("compile.jit")
        self._set(jit, "compiled_addresses", self._timed_compilation(jit.compiled_addresses))
        self._set(active, "to_numpy", self._timed_copy(active.to_numpy))

    def _timed_kernel(self, function: Callable[..., Any], label: Callable[..., tuple[str, Sequence[Any]]]) -> Any:
        @functools.wraps(function)
        def run(*args: Any) -> Any:
            start, compiling, noted = time.perf_counter(), self._compiling, self._kernels
            result = function(*args)
            if result is not None and self._kernels == noted:  # one that another calls is it
                self._kernels += 1
                _wait_for(result)
                name, tensors = label(*args)
                seconds = time.perf_counter() - start - (self._compiling - compiling)
                self._result.add("kernel", name, seconds, sum(map(_num_bytes, (*tensors, result))))
            return result

        return run

    def _timed_modules(self, kind: Any) -> Any:
        modules = kind.__dict__["kernels"]

        def kernels(*args: Any) -> Any:
            module = modules.__get__(args[0] if len(args) > 1 else None, kind)(args[-1])
            return _TimedModule(module, args[-1], self) if args[-1] in _KERNELS else module

        return staticmethod(kernels) if isinstance(modules, staticmethod) else kernels

    def _timed_compilation(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(name: str, *args: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(name, *args)
            finally:
                seconds = time.perf_counter() - start
                self._compiling += seconds
                self._result.add("compilation", f"{name.rpartition('_')[0]}, or read from the cache", seconds)

        return run

    def _timed_copy(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(x: Any) -> Any:
            if active.on_cpu(x):
                return function(x)
            start = time.perf_counter()
            try:
                return function(x)
            finally:
                self._result.add("synchronisation", "copy to the host", time.perf_counter() - start, _num_bytes(x))

        return run

    def _replace_functions(self) -> None:
        for kind in (RunEdgeUDF, BucketReduce, ReduceOnce, Apply, ApplyAfter):
            handler = HANDLERS[kind]
            HANDLERS[kind] = self._timed_handler(handler)
            self._restore.append(functools.partial(HANDLERS.__setitem__, kind, handler))

    def _timed_handler(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        def run(step: Any, relation: Any, running: Any) -> Any:
            if not isinstance(step.function, UserFunction):
                return handler(step, relation, running)
            function = running.functions[step.function.slot]
            start = time.perf_counter()
            try:
                return handler(step, relation, running)
            finally:
                seconds = time.perf_counter() - start
                note = _why(step, function)
                self._result.add("function", function_name(function), seconds, note=note)

        return run


class _TimedModule:
    """A module of kernels whose functions that run one are timed."""

    def __init__(self, module: ModuleType, name: str, context: profile) -> None:
        self._module, self._names, self._context = module, _KERNELS[name], context

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._module, name)
        if name not in self._names:
            return function

        def run(*args: Any, **kwargs: Any) -> Any:
            context = self._context
            start, compiling = time.perf_counter(), context._compiling
            try:
                return function(*args, **kwargs)
            finally:
                seconds = time.perf_counter() - start - (context._compiling - compiling)
                context._result.add("kernel", self._names[name], seconds)

        return run


# -- names and sizes --------------------------------------------------------------------------------------------------
def _text_of(value: Any) -> str:
    """Return the text of a function argument, "" for other arguments."""
    if value is None or isinstance(value, str | int):
        return ""
    if isinstance(value, list | tuple):
        return f"[{', '.join(filter(None, map(_text_of, value)))}]" if all(map(_text_of, value)) and value else ""
    if type(value).__module__ == "dglite.function":
        return str(value)
    return function_name(value) if callable(value) and not active.is_tensor(value) else ""


def _why(step: Any, function: Any) -> str:
    if isinstance(step, Apply | ApplyAfter):
        return ""
    if isinstance(step, ReduceOnce):
        return "called once, on fused reductions"
    reduces = isinstance(step, BucketReduce)
    return f"not fused: {why_not_fused(function, True) if reduces else why_as_written(step.function, function)}"


def _spmm_label(
    bind: str, adj: Any, reducers: tuple[Any, ...], edges: bool, lead: Any, operands: Any, cached: Any
) -> Any:
    return _cached_label(adj, reducers, operands)


def _cached_label(
    adj: Any, reducers: tuple[Any, ...], operands: Sequence[Any], aux: int = 0
) -> tuple[str, Sequence[Any]]:
    if isinstance(reducers[0], str):
        return reducers[0], operands
    if len(reducers) == 2 and isinstance(reducers[1], bool):
        return _sddmm_label(adj, reducers[0], operands, reducers[1])
    parts = reducers[0] if len(reducers) == 1 else (reducers[:2],)
    text = ", ".join(f"{reducer.value}({expr})" for expr, reducer in parts)
    then = f" then {reducers[2]}".replace(repr(REDUCED), parts[0][1].value) if len(reducers) > 2 else ""
    return f"g-SpMM {text}{then}, {_shape_of(operands)}", operands


def _sddmm_label(adj: Any, expr: Any, operands: Sequence[Any], dot: bool) -> tuple[str, Sequence[Any]]:
    return f"g-SDDMM {'dot ' if dot else ''}{expr}, {_shape_of(operands)}", operands


def _shape_of(operands: Sequence[Any]) -> str:
    widest = max(operands, key=lambda x: math.prod(active.shape(x)[1:]))
    return f"{active.dtype(widest)} {list(active.shape(widest)[1:])}"


def _num_bytes(x: Any) -> int:
    return math.prod(active.shape(x)) * _BYTES.get(active.dtype(x), 4)


def _wait_for(x: Any) -> None:
    if not active.on_cpu(x):
        active.to_numpy(x.reshape(-1)[:1])  # kernels run in order, so this one has ended when an element is here
