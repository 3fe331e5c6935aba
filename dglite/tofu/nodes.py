"""Nodes of a captured graph: their operands, and what the rewrites of a graph have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Graph, Node

__all__ = ["VIEWS", "Gone", "is_view", "node_like", "operands_of", "pass_on"]

aten = torch.ops.aten

VIEWS = (aten.view.default, aten._unsafe_view.default)

Gone = dict[Node, Node | None]
"""For each node that is gone, the one with the same values; None where there is none."""


def is_view(node: Node) -> bool:
    """Return whether a worker's part of a node is memory of its operand."""
    return getattr(node.target, "is_view", False)


def operands_of(node: Node) -> list[Node]:
    """Return the operands of an operator, in the order of its arguments, those that it reads twice twice."""
    found: list[Node] = []
    torch.fx.node.map_arg((node.args, node.kwargs), found.append)
    return found


def node_like(graph: Graph, like: Node, target: Any, args: Any, shape: Any, kwargs: Mapping[str, Any] = {}) -> Node:
    """Append an operator in the place of another one, whose value is of the same kind but of another shape."""
    made = graph.call_function(target, tuple(args), dict(kwargs))
    made.meta = dict(like.meta) | {"val": like.meta["val"].new_empty(tuple(shape))}
    return made


def pass_on(graph: Graph, gone: Gone) -> Gone:
    """Let backward nodes name what stands for their forward nodes now, and return ``gone``."""
    for node in graph.nodes:
        if node.meta.get("forward") in gone:
            node.meta["forward"] = gone[node.meta["forward"]]
    return gone
