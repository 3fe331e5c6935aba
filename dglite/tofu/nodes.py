"""Nodes of a captured graph: their operands, and what the rewrites of a graph have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Graph, Node

aten = torch.ops.aten

VIEWS = (aten.view.default, aten._unsafe_view.default)

Replaced = dict[Node, Node | None]
"""For each node that was removed, the node with the same values, or None."""


def is_view(node: Node) -> bool:
    """Return whether a worker's part of a node is memory of its operand."""
    return getattr(node.target, "is_view", False)


def operands_of(node: Node) -> list[Node]:
    """Return the operands of an operator, in the order of its arguments, those that it reads twice twice."""
    operands: list[Node] = []
    torch.fx.node.map_arg((node.args, node.kwargs), operands.append)
    return operands


def argument_key(arg: Any, operands: list[Node]) -> Any:
    """Return something hashable that equal arguments of an operator have alike, and collect the nodes among them.

    Of tensors it has shape, strides and dtype, of nodes shape and dtype.
    """
    if isinstance(arg, Node):
        operands.append(arg)
        return tuple(arg.meta["val"].shape), arg.meta["val"].dtype
    if isinstance(arg, torch.Tensor):
        return tuple(arg.shape), arg.stride(), arg.dtype
    if isinstance(arg, list | tuple):
        return type(arg), *(argument_key(item, operands) for item in arg)
    if isinstance(arg, Mapping):
        return tuple((name, argument_key(item, operands)) for name, item in arg.items())
    return type(arg), arg


def node_like(graph: Graph, like: Node, target: Any, args: Any, shape: Any, kwargs: Mapping[str, Any] = {}) -> Node:
    """Append an operator in the place of another one, whose value is of the same kind but of another shape."""
    node = graph.call_function(target, tuple(args), dict(kwargs))
    node.meta = dict(like.meta) | {"val": like.meta["val"].new_empty(tuple(shape))}
    return node


def pass_on(graph: Graph, replaced: Replaced) -> Replaced:
    """Let backward nodes name what stands for their forward nodes now, and return ``replaced``."""
    for node in graph.nodes:
        if node.meta.get("forward") in replaced:
            node.meta["forward"] = replaced[node.meta["forward"]]
    return replaced


def finish(graph: Graph, outputs: list[Node]) -> Graph:
    """Return a recorded graph with these outputs and nothing that they do not need."""
    graph.output(tuple(outputs))
    needed: set[Node] = set()
    for node in reversed(graph.nodes):
        if node.op in ("output", "placeholder") or node in needed:
            needed.update(node.all_input_nodes)
        else:
            graph.erase_node(node)
    for node in graph.nodes:
        for name in ("forward", "drawn_as"):
            if node.meta.get(name) is not None and node.meta[name] not in needed:
                node.meta[name] = None
    return graph
