"""Exported programs as functions: called without torch's module, its tree of inputs and its dispatcher.

Of a program's call torch's own module takes longer than many a readout: it takes the inputs apart, compares them with
constraints, and passes each step to the dispatcher. A :class:`LoadedProgram` does the same by code that it writes when
the program is loaded, for plain tensors while torch looks on by no mode; every other call goes to torch's module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from ..errors import DGLError
from .torch_export import CONTAINERS
from .torch_library import kernel_of
from .torch_plain import is_recorded, is_watched

_aten = torch.ops.aten
_CONSTANTS = InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR
_FUNCTIONS = frozenset(
    "abs add addmm all any bmm cat clamp cos div eq exp ge gt index_select le log lt matmul mean mm mul ne neg "
    "reciprocal relu rsqrt sigmoid sin softmax sqrt squeeze sub sum tanh unsqueeze where".split()
)
"""Functions of torch's with the arguments of the operators of these names: they take a microsecond less."""
_PLAIN = torch.Tensor, torch.nn.Parameter
_FEATURES = "ndata", "srcdata", "dstdata", "edata"
"""Names of a graph's tensors whose shapes and dtypes are not the graph's."""


class LoadedProgram:
    """A program that ``dglite.export`` or ``torch.export`` has recorded, as a function of graphs and tensors.

    Attributes
    ----------
    exported
        the ``torch.export.ExportedProgram``.
    """

    def __init__(self, exported: torch.export.ExportedProgram) -> None:
        self.exported = exported
        self._module = exported.module()
        signature = exported.module_call_graph[0].signature
        assert signature is not None
        self._out_spec = signature.out_spec
        self._take, self._take_named = map(_taker, signature.in_spec.children())
        self._constants: Any = _constants_of(exported)
        self._has_one_result = self._out_spec.is_leaf()
        self._run: Any = None
        if self._constants is not None:
            self._run, self._fits = _written(exported, len(self._constants), _of_structure(signature.in_spec))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the model returns for these inputs, without gradients.

        Raises ``DGLError`` or torch's own error: the inputs are not such as the program takes.
        """
        if self._run is None or is_recorded() or is_watched():
            return self._module(*args, **kwargs)
        flat = list[Any]()
        recorded = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)
        try:
            if not (self._take(args, flat) and self._take_named(kwargs, flat) and self._fits(*flat)):
                return self._module(*args, **kwargs)  # which says what is wrong
            results = self._run(*self._constants, *flat)
        finally:
            torch._C._set_grad_enabled(recorded)
        return results[0] if self._has_one_result else pytree.tree_unflatten(results, self._out_spec)

    def __repr__(self) -> str:
        return f"LoadedProgram of {', '.join(map(str, self.exported.graph_signature.user_inputs))}"


def load_program(source: Any) -> LoadedProgram:
    """Return a program that is called: see :func:`dglite.load_program`."""
    if isinstance(source, torch.export.ExportedProgram):
        return LoadedProgram(source)
    if isinstance(source, torch.nn.Module):
        raise DGLError(f"expected a file of torch.export.save or an exported program, got {type(source).__name__}")
    return LoadedProgram(torch.export.load(source))


def _taker(spec: pytree.TreeSpec) -> Any:
    """Return a function that appends the leaves of an input to a list and says whether it is such a tree.

    None for a leaf.
    """
    if spec.is_leaf():
        return None
    kind, context, takers = spec.type, spec.context, [_taker(child) for child in spec.children()]

    def take(x: Any, flat: list[Any]) -> bool:
        if type(x) is not kind:
            return False
        if kind is dict:
            if len(x) != len(takers) or any(name not in x for name in context):
                return False
            values = [x[name] for name in context]
        elif kind is list or kind is tuple:
            values = x
        else:
            pairs, description = CONTAINERS[kind](x)
            if description != context:
                return False
            values = [value for _, value in pairs]
        if len(values) != len(takers):
            return False
        for value, taker in zip(values, takers, strict=True):
            if taker is None:
                flat.append(value)
            elif not taker(value, flat):
                return False
        return True

    return take


def _constants_of(exported: torch.export.ExportedProgram) -> list[torch.Tensor] | None:
    """Return the parameters, buffers and constants that the program takes before its inputs.

    None where steps write to one of them or to an input, or where the program holds anything else.
    """
    specs, signature = exported.graph_signature.input_specs, exported.graph_signature
    kinds = [spec.kind for spec in specs]
    first = next((i for i, kind in enumerate(kinds) if kind is InputKind.USER_INPUT), len(kinds))
    if any(kind not in _CONSTANTS for kind in kinds[:first]) or set(kinds[first:]) - {InputKind.USER_INPUT}:
        return None
    if not all(spec.kind is OutputKind.USER_OUTPUT for spec in signature.output_specs):
        return None
    values = {**exported.constants, **exported.state_dict}
    constants = [values.get(spec.target) for spec in specs[:first]]
    return constants if all(type(x) in _PLAIN for x in constants) else None  # type: ignore[return-value]


def _written(exported: torch.export.ExportedProgram, num_constants: int, of_structure: list[bool]) -> tuple[Any, Any]:
    """Return the program as a function of flat inputs, and a function that says whether inputs fit it."""
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(exported.graph_module.graph, {}))
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    fits = _check_of(placeholders[num_constants:], of_structure)
    for node in list(graph.nodes):
        _shorten(graph, node)
    graph.eliminate_dead_code()
    return GraphModule(exported.graph_module, graph).forward, fits


def _shorten(graph: torch.fx.Graph, node: Node) -> None:
    """Make a step a call that passes by torch's dispatcher, or leave it as it is."""
    if node.target is _aten.sym_size.int:
        with graph.inserting_before(node):
            node.replace_all_uses_with(graph.call_method("size", node.args))
        graph.erase_node(node)
    elif node.target is _aten._assert_tensor_metadata.default:  # true of all inputs of these dtypes and devices
        graph.erase_node(node)
    elif isinstance(node.target, torch._ops.OpOverload):
        name = node.target._schema.name.removeprefix("aten::")
        node.target = getattr(torch, name) if name in _FUNCTIONS else kernel_of(node.target)


def _check_of(placeholders: Sequence[Node], of_structure: Sequence[bool]) -> Callable[..., bool]:
    """Return a function of flat inputs: have they the dtypes, devices and shapes that the program was recorded for?

    Sizes that were equal for every graph have to be.
    """
    names = [f"x{i}" for i in range(len(placeholders))]
    values: dict[str, Any] = {"plain": _PLAIN}
    sizes: dict[str, str] = {}
    conditions = list[str]()
    for i in sorted(range(len(placeholders)), key=lambda i: not of_structure[i]):
        value = placeholders[i].meta.get("val")
        if not isinstance(value, torch.Tensor):
            values[f"value{i}"] = value
            conditions.append(f"type(x{i}) is type(value{i}) and x{i} == value{i}")
            continue
        shape = [_size(x, f"x{i}.shape[{axis}]", sizes) for axis, x in enumerate(value.shape)]
        if of_structure[i]:
            continue
        values[f"dtype{i}"], values[f"device{i}"] = value.dtype, value.device
        conditions.append(f"type(x{i}) in plain and x{i}.dtype is dtype{i} and x{i}.device == device{i}")
        conditions.append(f"x{i}.dim() == {len(shape)} and x{i}.shape == ({''.join(f'{x}, ' for x in shape)})")
    text = f"def fits({', '.join(names)}):\n    return {' and '.join(conditions) or True}\n"
    exec(compile(text, "<inputs of a program>", "exec"), values)
    return values["fits"]  # type: ignore[no-any-return]


def _size(size: Any, here: str, sizes: dict[str, str]) -> str:
    """Return a dimension of an input as code: a number, or where the same symbol came before."""
    if isinstance(size, int):
        return str(size)
    return sizes.setdefault(str(size.node.expr), here)


def _of_structure(spec: pytree.TreeSpec, inside: bool = False) -> list[bool]:
    """Return for each leaf of the inputs whether it is a graph's own tensor and no feature, which needs no check."""
    if spec.is_leaf():
        return [inside]
    children = spec.children()
    of_graph = spec.type not in (tuple, list, dict)
    within = [name not in _FEATURES for name in spec.context[-1]] if of_graph else [inside] * len(children)
    return [leaf for child, x in zip(children, within, strict=True) for leaf in _of_structure(child, x)]
