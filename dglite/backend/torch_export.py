"""Programs that ``torch.export`` records of a model, and their portable form."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.fx._pytree import register_pytree_flatten_spec
from torch.fx.experimental import _config
from torch.torch_version import TorchVersion
from torch.utils import _pytree as pytree

from ..errors import DGLError
from .torch_library import decompositions
from .torch_simplify import simplify

_Flatten = Callable[[Any], tuple[list[Any], Any]]
CONTAINERS: dict[type, _Flatten] = {}
"""What takes objects that hold tensors apart, by class."""


def register_container(
    kind: type,
    flatten: _Flatten,
    unflatten: Callable[[Any, Any], Any],
    from_json: Callable[[Any], Any],
) -> None:
    """Make the objects of a class nodes of pytrees: see :meth:`.base.Backend.register_container`."""

    def with_keys(x: Any) -> tuple[list[tuple[Any, Any]], Any]:
        values, description = flatten(x)
        return [
            (pytree.MappingKey(name), value) for name, value in zip(description[-1], values, strict=True)
        ], description

    pytree.register_pytree_node(
        kind,
        lambda x: (list((flattened := flatten(x))[0]), flattened[1]),
        unflatten,
        serialized_type_name=f"dglite.{kind.__name__}",
        to_dumpable_context=lambda description: description,
        from_dumpable_context=from_json,
        flatten_with_keys_fn=with_keys,
    )
    register_pytree_flatten_spec(kind, lambda x, spec: _values_for(spec, *flatten(x)))
    CONTAINERS[kind] = flatten


def _values_for(spec: pytree.TreeSpec, values: list[Any], description: Any) -> list[Any]:
    """Return the values that an object gives to a program which takes such as ``spec`` describes.

    Torch itself flattens an object, describes it, and compares the descriptions: three times as long.
    """
    require_description(spec, description)
    for name, value, child in zip(description[-1], values, spec.children(), strict=True):
        _require_names(name, value, child)
    return values


def require_description(spec: pytree.TreeSpec, description: Any) -> None:
    """Raise :class:`DGLError` unless a graph has the types, id dtype and kinds of tensors that a program takes."""
    if description != spec.context:
        raise DGLError(f"the program takes a graph described by {spec.context}, got one described by {description}")


def _require_names(place: str, value: Any, spec: pytree.TreeSpec) -> None:
    if spec.type is not dict:
        return
    if sorted(value) != sorted(spec.context):
        raise DGLError(f"the program takes a graph with {place} {sorted(spec.context)}, got {sorted(value)}")
    for name, child in zip(spec.context, spec.children(), strict=True):
        _require_names(f"{place}[{name!r}]", value[name], child)


def dynamic_shapes(args: Any) -> Any:
    """Return which dimensions of the tensors in ``args`` are dynamic, as ``torch.export.export`` takes it.

    The first dimension of each is, of whatever size. It must be where an input has as many rows as a graph has nodes,
    edges or members, so that a model that is made for one number of them is refused.
    """
    return _shapes_of(args, _counts(args))


def _counts(args: Any) -> set[int]:
    """Return the numbers of nodes, edges and members of the graphs in ``args``."""
    return {x.shape[0] for holder in _containers(args) for x in pytree.tree_leaves(holder)}


def _shapes_of(args: Any, counts: set[int]) -> Any:
    """Return the dynamic dimensions of inputs: those of a graph must be, a feature's if its rows are a graph's."""

    def shape_of(x: Any) -> Any:
        if _is_container(x):
            return [
                pytree.tree_map(lambda _: {0: torch.export.Dim.DYNAMIC}, value)
                for value in pytree.SUPPORTED_NODES[type(x)].flatten_fn(x)[0]
            ]
        if not isinstance(x, torch.Tensor) or not x.dim():
            return None
        required = x.shape[0] in counts and x.shape[0] > 1
        return {0: torch.export.Dim.DYNAMIC if required else torch.export.Dim.AUTO}

    return pytree.tree_map(shape_of, args, is_leaf=_is_container)


def export(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any, strict: bool, portable: bool
) -> torch.export.ExportedProgram:
    """Record ``model`` of inputs: see :meth:`.base.Backend.export`."""
    if TorchVersion(torch.__version__) < "2.7":
        raise DGLError(f"dglite.export needs torch 2.7 or newer, this is {torch.__version__}: pip install -U torch")
    if torch._C._is_any_autocast_enabled():
        raise DGLError(
            "torch.export does not record the casts of a torch.autocast around it: enter autocast inside of the "
            "model's forward, and export the model outside of it"
        )
    if not isinstance(model, torch.nn.Module):
        model = _ExportedFunction(model)
    _refuse_held(model)
    args, kwargs = _distinct((args, kwargs))
    if shapes is None:
        try:
            named = inspect.signature(model.forward).bind(*args, **kwargs).arguments
        except TypeError as error:
            raise DGLError(
                f"{type(model).__name__}.forward does not take these arguments ({error}); give those of a call, as in "
                "dglite.export(model, g, x). A vertex program of dglite.dynamic cannot be exported: its steps depend "
                "on the graph"
            ) from error
        counts = _counts((args, kwargs))
        shapes = {name: _shapes_of(value, counts) for name, value in named.items()}
    with torch.no_grad(), _config.patch(backed_size_oblivious=True):  # type: ignore[attr-defined]
        if strict:
            _run_before(model, args, kwargs)
        try:
            program = torch.export.export(model, args, kwargs or None, dynamic_shapes=shapes, strict=strict)
        except torch._dynamo.exc.Unsupported as error:
            ours = re.search(r"raised exception DGLError\((['\"])(.*)\1\)", str(error))
            if ours is not None:  # Dynamo has read how dglite refuses something
                raise DGLError(ours[2]) from error
            messages = "reduce functions of your own, nor messages that are no expressions of features"
            part = messages if "update_all" in str(error) else "the model"
            reason = " ".join(str(error).split("Developer debug context")[0].split())
            raise DGLError(
                f"with strict=True Dynamo reads the model in place of running it, and it cannot read {part}; leave out "
                f"strict=True. It says: {reason}"
            ) from error
        except torch._dynamo.exc.UserError as error:
            raise DGLError(f"the program would not be for every graph: {error}") from error
        except (_unknown_when_traced(), DataDependentOutputException) as error:
            raise DGLError(
                "the model asks for the value of a tensor, as `if x.sum() > 0` or x.item() do, and a program has none "
                f"before it runs: choose values by torch.where instead ({str(error).splitlines()[0]})"
            ) from error
        simplify(program.graph_module)
        if portable:
            return _portable(program, args, kwargs)
    program.example_inputs = None  # a file would hold the example's graph and features
    return program


def _run_before(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Run a model once: Dynamo reads message functions that were recorded before, and cannot record them.

    Random numbers and buffers are as if it had not run.
    """
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    with torch.random.fork_rng():
        model(*args, **kwargs)
    for buffer, before in buffers:
        buffer.copy_(before)


def _distinct(inputs: Any) -> Any:
    """Return inputs of which no two are one tensor, whose program would read the first and never the second."""
    tensors, spec = pytree.tree_flatten(inputs)
    first = {id(x): place for place, x in reversed(list(enumerate(tensors)))}
    if all(first[id(x)] == place for place, x in enumerate(tensors) if isinstance(x, torch.Tensor)):
        return inputs
    with torch.no_grad():
        copied = [
            x.clone() if isinstance(x, torch.Tensor) and first[id(x)] != place else x for place, x in enumerate(tensors)
        ]
    return pytree.tree_unflatten(copied, spec)


def _unknown_when_traced() -> type[Exception]:
    """Return the error of a branch on a traced value; its module imports SymPy, which `import dglite` must not pay."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    return GuardOnDataDependentSymNode


class _ExportedFunction(torch.nn.Module):
    """A function as the module that torch exports."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def _is_container(x: Any) -> bool:
    return type(x) in CONTAINERS


def _containers(args: Any) -> Iterator[Any]:
    return filter(_is_container, pytree.tree_leaves(args, is_leaf=_is_container))


def _refuse_held(model: torch.nn.Module) -> None:
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if next(_containers(value), None) is not None:
                place = f"{path}.{name}" if path else name
                raise DGLError(
                    f"the model holds a graph in {place!r}, so the program would be for that graph only: pass it "
                    "as an input, as in dglite.export(model, g, x) with forward(self, g, x)"
                )


def _portable(
    program: torch.export.ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> torch.export.ExportedProgram:
    """Return the program of torch's own operations, with dictionaries of tensors in the place of graphs."""
    if "check_guards" in inspect.signature(program.module).parameters:
        # Or the question whether a block has fewer destinations than sources is answered once, for the example.
        program.module = partial(program.module, check_guards=False)  # type: ignore[method-assign]
    program = program.run_decompositions(decompositions())
    call = program.module_call_graph[0]
    assert call.signature is not None
    call.signature = replace(call.signature, in_spec=_of_dictionaries(call.signature.in_spec))
    flat = pytree.tree_leaves((args, kwargs))
    program._example_inputs = pytree.tree_unflatten(flat, call.signature.in_spec)
    return program


def _of_dictionaries(spec: pytree.TreeSpec) -> pytree.TreeSpec:
    children = [_of_dictionaries(child) for child in spec.children()]
    if spec.type in CONTAINERS:
        return pytree.TreeSpec(dict, list(spec.context[-1]), children)
    return spec if spec.is_leaf() else pytree.TreeSpec(spec.type, spec.context, children)
