"""Programs without needless steps: equal calls are made once, what changes nothing is left out, ReLU is fused.

Each step of a program costs torch a few microseconds, and a result of its own that is large the page faults of its
memory.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from .torch_library import with_relu

_aten = torch.ops.aten
_WHOLE = (0, torch.iinfo(torch.int64).max)
"""First and last row of a slice that is everything."""


def simplify(module: torch.fx.GraphModule) -> None:
    """Simplify a program that records no gradients; its inputs, outputs and what it computes stay as they are."""
    if not _writes_to_its_own(module.graph):  # results that are written to are no one else's
        return
    returned = _returned(module.graph)
    for node in list(module.graph.nodes):
        same = _unchanged(node)
        if same is not None and node not in returned:
            node.replace_all_uses_with(same)
            module.graph.erase_node(node)
    _merge_equal_calls(module.graph, returned)
    for node in list(module.graph.nodes):
        _fuse_relu(module.graph, node)
    module.recompile()


def _writes_to_its_own(graph: torch.fx.Graph) -> bool:
    """Whether steps that write to a tensor write to the result of one other step, which nothing else reads."""
    for node in graph.nodes:
        if _is_call(node) and node.target._schema.is_mutable:
            written = node.args[0]
            if not (isinstance(written, Node) and _is_call(written) and len(written.users) == 1):
                return False
            if _is_view(written):
                return False
    return True


def _is_call(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload)


def _is_view(node: Any) -> bool:
    """Whether an operator's result shares memory with an argument."""
    return _is_call(node) and any(x.alias_info is not None for x in node.target._schema.returns)


def _returned(graph: torch.fx.Graph) -> set[Node]:
    """Return the steps whose results share memory with the program's: who calls it may write there."""
    (output,) = (node for node in graph.nodes if node.op == "output")
    returned, waiting = set[Node](), list(output.all_input_nodes)
    while waiting:
        node = waiting.pop()
        if node in returned:
            continue
        returned.add(node)
        if _is_view(node) or node.target in (operator.getitem, _aten.dropout.default):
            waiting += node.all_input_nodes
    return returned


def _unchanged(node: Node) -> Node | None:
    """Return the argument that a step returns as it is, or None."""
    arguments, target = node.args, node.target
    if target is _aten.slice.Tensor:
        return arguments[0] if tuple(arguments[2:4]) == _WHOLE and arguments[4:] in ((), (1,)) else None  # type: ignore[return-value]
    if target is _aten.dropout.default:
        return arguments[0] if arguments[2] is False else None  # type: ignore[return-value]
    if target in (_aten.reshape.default, _aten.view.default):
        return arguments[0] if _has_shape_of(node, arguments[0]) else None  # type: ignore[return-value]
    if target is _aten.to.dtype:
        plain = not any(arguments[2:]) and not node.kwargs and _has_dtype_of(node, arguments[0])
        return arguments[0] if plain else None  # type: ignore[return-value]
    if target is _aten.mul.Tensor:
        return arguments[0] if arguments[1] == 1 and _has_dtype_of(node, arguments[0]) else None  # type: ignore[return-value]
    return None


def _has_shape_of(node: Node, other: Any) -> bool:
    """Whether two results are of one shape in every call."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true  # imports SymPy

    shape, same = node.meta["val"].shape, other.meta["val"].shape
    return len(shape) == len(same) and all(statically_known_true(x == y) for x, y in zip(shape, same, strict=True))


def _has_dtype_of(node: Node, other: Any) -> bool:
    return isinstance(other, Node) and node.meta["val"].dtype == other.meta["val"].dtype


def _merge_equal_calls(graph: torch.fx.Graph, returned: set[Node]) -> None:
    """Call operators once with the same arguments: layers ask for degrees again in every step."""
    merged = dict[Any, Node]()
    for node in list(graph.nodes):
        if _is_call(node):
            if node.target._schema.is_mutable or torch.Tag.nondeterministic_seeded in node.target.tags:
                continue
            if any(_is_call(user) and user.target._schema.is_mutable for user in node.users):
                continue
        elif node.target is not operator.getitem:
            continue
        key = node.target, _hashable(node.args), _hashable(tuple(sorted(node.kwargs.items())))
        first = merged.setdefault(key, node)
        if first is not node and node not in returned:
            node.replace_all_uses_with(first)
            graph.erase_node(node)


def _hashable(x: Any) -> Any:
    """Return arguments of a step as what compares equal where they are; 1, 1.0 and True do not."""
    return tuple(map(_hashable, x)) if isinstance(x, list | tuple) else (type(x), x)


def _fuse_relu(graph: torch.fx.Graph, node: Node) -> None:
    """Make a ReLU part of the operator whose result it takes, if nothing else reads that."""
    if node.target not in (_aten.relu.default, _aten.relu_.default):
        return
    result: Any = node.args[0]
    if result.target is not operator.getitem or result.args[1] != 0 or len(result.users) > 1:
        return
    call = result.args[0]
    recipe = with_relu(call.target, *map_arg(call.args, lambda x: x.meta["val"])) if _is_call(call) else None
    if recipe is not None:
        call.args = (*call.args[:-1], recipe)
        node.replace_all_uses_with(result)
        graph.erase_node(node)
