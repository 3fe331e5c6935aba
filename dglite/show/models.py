"""``dglite.summary``: the layers of a model with their shapes, parameters, kernels and times."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..arguments import explained
from ..backend import active, framework
from ..errors import DGLError
from ..graph import DGLGraph
from ..tables import bytes_text, html_card, html_table, seconds_text, text_table
from .profiling import Event, profile

_CONTAINERS = ("ModuleList", "ModuleDict", "ParameterList", "ParameterDict")
_HEAD = ("layer", "output", "parameters", "kernels", "read and written", "time")


@dataclass(slots=True)
class LayerRow:
    """One module: where it is in the model, what it returned, and what it ran itself, without the modules inside.

    ``seconds`` contain the modules inside. ``calls`` is 0 where the module was not called: a layer around it reads its
    parameters, or nothing does.
    """

    name: str
    kind: str
    depth: int
    parameters: int
    output: str = ""
    calls: int = 0
    seconds: float = 0.0
    bytes: int = 0
    kernels: list[str] = field(default_factory=list)


@dataclass
class ModelSummary:
    """The result of :func:`summary`; ``str()`` of it is a table, and a notebook shows it as HTML.

    Attributes
    ----------
    layers
        A list of rows, :class:`~dglite.show.models.LayerRow`, the model itself first.
    parameters, trainable
        Numbers in all parameters, each counted once, and in those that require a gradient.
    seconds
        That the forward pass took, compiled before.
    """

    layers: list[LayerRow]
    parameters: int
    trainable: int
    parameter_bytes: int
    seconds: float
    inputs: list[str]

    def _rows(self) -> list[tuple[Any, ...]]:
        return [
            (
                f"{'  ' * row.depth}{row.name + ': ' if row.name else ''}{row.kind}",
                row.output if row.calls else "" if row.kind in _CONTAINERS else "not called",
                row.parameters or None,
                ", ".join(_counted(row.kernels)) or None,
                bytes_text(row.bytes) if row.bytes else None,
                seconds_text(row.seconds) + (f" in {row.calls} calls" if row.calls > 1 else "") if row.calls else None,
            )
            for row in self.layers
        ]

    def _facts(self) -> list[str]:
        fixed = self.parameters - self.trainable
        more = f", {fixed:,} of them not trained" if fixed else ""
        return [
            f"{self.parameters:,} parameters, {bytes_text(self.parameter_bytes)}{more}",
            f"forward pass {seconds_text(self.seconds)}",
            f"inputs {', '.join(self.inputs)}",
        ]

    def __str__(self) -> str:
        rows = self._rows()
        lines = text_table(_HEAD, rows, numbers=[2, 4, 5])
        rule = "-" * max(map(len, lines))
        return "\n".join([lines[0], rule, *lines[1:], rule, *self._facts()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(row[0].replace("  ", "\u2003"), *row[1:]) for row in self._rows()]
        return html_card("Model", self._facts(), html_table(_HEAD, rows, numbers=[2, 4, 5]))


@explained
def summary(model: Any, g: DGLGraph, *inputs: Any, depth: int | None = 3, **kwargs: Any) -> ModelSummary:
    """Run a model once, and return a table of its layers: output shapes, parameters, kernels, bytes and times.

    The model runs as ``model(g, *inputs, **kwargs)`` in evaluation mode and without gradients; a run before, which is
    not measured, compiles its kernels. The modes of its modules are restored, and the state of the random numbers
    of the tensor library. Kernels are dglite's, by the modules that run them; torch's own operators are not listed,
    but are in the times.

    Raises DGLError: ``model`` is no module. Errors of the model itself pass through.

    Parameters
    ----------
    model
        A module that takes the graph as its first argument.
    g
        A graph, a batch, or a list of blocks.
    inputs, kwargs
        What the model takes beside the graph.
    depth
        How many levels of modules inside of modules are shown; None shows all.

    Returns
    -------
    A :class:`~dglite.show.models.ModelSummary`.

    Examples
    --------
    >>> import dglite, torch
    >>> from dglite.nn import GraphConv
    >>> g = dglite.add_self_loop(dglite.rand_graph(10, 20))
    >>> table = dglite.summary(GraphConv(4, 2), g, torch.ones(10, 4))
    >>> table.parameters, table.layers[0].output
    (10, '[10, 2]')
    >>> print(table)  # doctest: +SKIP
    """
    if not hasattr(model, "named_modules") or not callable(model) or isinstance(model, type):
        raise DGLError(
            "summary takes a model, its graph and its features, summary(model, g, x); got "
            f"{f'the class {model.__name__}' if isinstance(model, type) else type(model).__name__} as the model"
        )
    modules = list(_distinct_modules(model))
    layers = [_row(name, module) for name, module in modules]
    state = active.random_state()
    modes = [module.training for _, module in modules]
    try:
        model.eval()
        with framework.no_grad():
            model(g, *inputs, **kwargs)
            with ExitStack() as stack:
                open_layers: list[LayerRow] = []
                measured = stack.enter_context(profile())
                measured.listener = functools.partial(_count_kernel, open_layers)
                for row, (_, module) in zip(layers, modules, strict=True):
                    stack.enter_context(_watched(module, row, open_layers))
                start = time.perf_counter()
                model(g, *inputs, **kwargs)
                seconds = time.perf_counter() - start
    finally:
        for mode, (_, module) in zip(modes, modules, strict=True):
            module.training = mode
        active.restore_random_state(state)
    parameters = list({id(p): p for p in model.parameters()}.values())
    sizes = [math.prod(active.shape(p)) for p in parameters]
    return ModelSummary(
        [row for row in layers if depth is None or row.depth <= depth],
        sum(sizes),
        sum(size for size, p in zip(sizes, parameters, strict=True) if getattr(p, "requires_grad", True)),
        sum(size * _ITEM.get(active.dtype(p), 4) for size, p in zip(sizes, parameters, strict=True)),
        seconds,
        [_shape_text(x) for x in (g, *inputs, *kwargs.values())],
    )


_ITEM = {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int8": 1, "bool": 1}


def _distinct_modules(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield each module once, with its path."""
    ids: set[int] = set()
    for name, module in model.named_modules():
        if id(module) not in ids:
            ids.add(id(module))
            yield name, module


def _row(path: str, module: Any) -> LayerRow:
    inside = {id(p) for child in _children(module) for p in child.parameters()}
    sizes = {id(p): math.prod(active.shape(p)) for p in module.parameters() if id(p) not in inside}
    name = path.rpartition(".")[2]
    return LayerRow(name, type(module).__name__, path.count(".") + 1 if path else 0, sum(sizes.values()))


def _children(module: Any) -> Iterator[Any]:
    return (child for name, child in module.named_modules() if name and "." not in name)


@contextmanager
def _watched(module: Any, row: LayerRow, open_layers: list[LayerRow]) -> Iterator[None]:
    """Note what a module's ``forward`` does: in its place, as hooks would change which kernels a layer takes."""
    replaced = vars(module).get("forward")
    forward: Callable[..., Any] = module.forward

    @functools.wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        open_layers.append(row)
        start = time.perf_counter()
        try:
            result = forward(*args, **kwargs)
        finally:
            row.seconds += time.perf_counter() - start
            open_layers.pop()
        row.calls += 1
        row.output = _shape_text(result)
        return result

    object.__setattr__(module, "forward", run)
    try:
        yield
    finally:
        if replaced is None:
            object.__delattr__(module, "forward")
        else:
            object.__setattr__(module, "forward", replaced)


def _count_kernel(open_layers: list[LayerRow], event: Event, seconds: float, count: int | None) -> None:
    if open_layers:
        open_layers[-1].kernels.append(event.name)
        open_layers[-1].bytes += count or 0


def _counted(kernels: list[str]) -> list[str]:
    """Return the names of kernels, each once, with how often it ran."""
    counts = {name: kernels.count(name) for name in dict.fromkeys(kernels)}
    return [name if count == 1 else f"{count} x {name}" for name, count in counts.items()]


def _shape_text(value: Any) -> str:
    """Return the shapes of a module's inputs or outputs."""
    if isinstance(value, DGLGraph):
        return f"{'block' if value.is_block else 'graph'} of {value.num_edges():,} edges"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_shape_text(x)}" for key, x in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "(" + ", ".join(map(_shape_text, value)) + ")"
    return str(list(active.shape(value))) if active.is_tensor(value) else type(value).__name__
