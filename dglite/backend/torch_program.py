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
from .torch_export import CONTAINERS, require_description
from .torch_library import kernel_of
from .torch_plain import is_recorded, is_watched

_aten = torch.ops.aten
_CONSTANTS = InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR
_NAMES = (
    "abs add addmm all any bmm cat clamp cos div eq exp ge gt index_select le log lstm lt matmul mean mm mul narrow ne "
    "neg reciprocal relu repeat_interleave reshape rsqrt sigmoid sin softmax sqrt squeeze sub sum tanh unsqueeze where"
)
_FUNCTIONS = {**{name: getattr(torch, name) for name in _NAMES.split()}, "linear": torch.nn.functional.linear}
"""Functions of torch's with the arguments of the operators of these names: they take a microsecond less."""
_PLAIN = torch.Tensor, torch.nn.Parameter
_is_autocast = torch._C._is_any_autocast_enabled
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
        self._in_spec, self._out_spec = signature.in_spec, signature.out_spec
        self._constants: Any = _constants_of(exported) if _are_known(signature.in_spec) else None
        self._has_one_result = self._out_spec.is_leaf()
        self._run: Any = None
        if self._constants is not None:
            self._run, self._leaves_of = _written(exported, len(self._constants), signature.in_spec)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the model returns for these inputs, without gradients.

        Raises ``DGLError`` or torch's own error: the inputs are not such as the program takes.
        """
        if self._run is None or is_recorded() or is_watched() or _is_autocast():
            return self._module(*args, **kwargs)
        if torch.is_grad_enabled():
            with torch.no_grad():
                return self(*args, **kwargs)
        leaves = self._leaves_of(args, kwargs)
        if leaves is None:
            _require_graphs(self._in_spec, (args, kwargs))
            return self._module(*args, **kwargs)  # which says what is wrong
        results = self._run(*self._constants, *leaves)
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


def _require_graphs(spec: pytree.TreeSpec, x: Any) -> None:
    """Raise :class:`DGLError` for a graph among inputs whose types are not the program's: torch prints trees."""
    if spec.type in CONTAINERS:
        if type(x) is spec.type:
            require_description(spec, CONTAINERS[spec.type](x)[1])
    elif not spec.is_leaf() and type(x) is spec.type and len(x) == spec.num_children:
        inner = [x.get(key) for key in spec.context] if spec.type is dict else x
        for child, value in zip(spec.children(), inner, strict=True):
            _require_graphs(child, value)


def _are_known(spec: pytree.TreeSpec) -> bool:
    """Whether inputs are tensors and graphs in tuples, lists and dictionaries, and no trees of other classes."""
    if not (spec.is_leaf() or spec.type in CONTAINERS or spec.type in (tuple, list, dict)):
        return False
    return all(map(_are_known, spec.children()))


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


def _written(exported: torch.export.ExportedProgram, num_constants: int, spec: pytree.TreeSpec) -> tuple[Any, Any]:
    """Return the program as a function of flat inputs, and a function of inputs that returns these, None if they do not
    fit it.
    """
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(exported.graph_module.graph, {}))
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    leaves_of = _InputsWriter(spec, placeholders[num_constants:]).function()
    for node in list(graph.nodes):
        _shorten(graph, node)
    graph.eliminate_dead_code()
    return GraphModule(exported.graph_module, graph).forward, leaves_of


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
        node.target = _FUNCTIONS.get(name) or kernel_of(node.target)


class _InputsWriter:
    """Writes a function of inputs, ``(args, kwargs)``, that returns their leaves.

    It returns None where they are another tree, or have other dtypes, devices and shapes than the program was recorded
    for: sizes that were equal for every graph have to be. A graph's own tensors need no check of these.
    """

    def __init__(self, spec: pytree.TreeSpec, placeholders: Sequence[Node]) -> None:
        self.placeholders = placeholders
        self.of_structure = list[bool]()
        self.lines, self.values = list[str](), dict[str, Any]({"plain": _PLAIN})
        for name, child in zip(("args", "kwargs"), spec.children(), strict=True):
            self._take(name, child, False)

    def _name(self, value: Any) -> str:
        """Return a name under which the function finds a value."""
        name = f"value{len(self.values)}"
        self.values[name] = value
        return name

    def _require(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): return None")

    def _take(self, tree: str, spec: pytree.TreeSpec, of_structure: bool) -> None:
        """Write how the leaves ``x0``, ``x1``, ... are taken from the variable ``tree``."""
        children = spec.children()
        variables = [f"{tree}_{i}" for i in range(len(children))]
        if spec.is_leaf():
            self.lines.append(f"x{len(self.of_structure)} = {tree}")
            self.of_structure.append(of_structure)
            return
        self._require(f"type({tree}) is {self._name(spec.type)}")
        inside = [of_structure] * len(children)
        if spec.type is dict:
            keys = [self._name(key) for key in spec.context]
            self._require(" and ".join([f"len({tree}) == {len(keys)}", *[f"{key} in {tree}" for key in keys]]))
            self.lines += [f"{x} = {tree}[{key}]" for x, key in zip(variables, keys, strict=True)]
        else:
            values = tree
            if spec.type in CONTAINERS:
                values, inside = f"{tree}_values", [name not in _FEATURES for name in spec.context[-1]]
                self.lines.append(f"{values}, description = {self._name(CONTAINERS[spec.type])}({tree})")
                self._require(f"description == {self._name(spec.context)}")
            self._require(f"len({values}) == {len(children)}")
            if variables:
                self.lines.append(f"{', '.join(variables)}, = {values}")
        for variable, child, flag in zip(variables, children, inside, strict=True):
            self._take(variable, child, flag)

    def function(self) -> Callable[[Any, Any], tuple[Any, ...] | None]:
        """Return the function."""
        sizes: dict[str, str] = {}
        for i in sorted(range(len(self.placeholders)), key=lambda i: not self.of_structure[i]):
            value = self.placeholders[i].meta.get("val")
            if not isinstance(value, torch.Tensor):
                name = self._name(value)
                self._require(f"type(x{i}) is type({name}) and x{i} == {name}")
                continue
            shape = [_size(x, f"x{i}.shape[{axis}]", sizes) for axis, x in enumerate(value.shape)]
            if self.of_structure[i]:
                continue
            dtype, device = self._name(value.dtype), self._name(value.device)
            self._require(
                f"type(x{i}) in plain and x{i}.dtype is {dtype} and x{i}.device == {device} and x{i}.dim() == "
                f"{len(shape)} and x{i}.shape == ({''.join(f'{x}, ' for x in shape)})"
            )
        leaves = "".join(f"x{i}, " for i in range(len(self.of_structure)))
        text = "\n    ".join(["def leaves_of(args, kwargs):", *self.lines, f"return ({leaves})", ""])
        exec(compile(text, "<inputs of a program>", "exec"), self.values)
        return self.values["leaves_of"]  # type: ignore[no-any-return]


def _size(size: Any, here: str, sizes: dict[str, str]) -> str:
    """Return a dimension of an input as code: a number, or where the same symbol came before."""
    if isinstance(size, int):
        return str(size)
    return sizes.setdefault(str(size.node.expr), here)
