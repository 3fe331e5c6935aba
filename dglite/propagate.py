"""Message passing frontier after frontier, in an order that the graph gives.

A function that is ``"default"`` or None is the one that the graph has registered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .errors import DGLError
from .graph import DGLGraph
from .traversal import bfs_nodes_generator, dfs_labeled_edges_generator, topological_nodes_generator

__all__ = ["engines", "prop_edges", "prop_edges_dfs", "prop_nodes", "prop_nodes_bfs", "prop_nodes_topo"]

engines: list[Callable[[DGLGraph, Any, Any, Any], bool]] = []
"""What may do a topological propagation as a whole. Each is given graph, message, reduce and apply function and returns
whether it has done it; ``dglite`` adds vertex programs where the backend is torch."""


def prop_nodes(
    graph: DGLGraph,
    nodes_generator: Iterable[Any],
    message_func: Any = "default",
    reduce_func: Any = "default",
    apply_node_func: Any = "default",
) -> None:
    """Let each frontier of nodes in turn ``pull``. ``"default"`` means the registered function."""
    graph.prop_nodes(nodes_generator, *map(_given, (message_func, reduce_func, apply_node_func)))


def prop_edges(
    graph: DGLGraph,
    edges_generator: Iterable[Any],
    message_func: Any = "default",
    reduce_func: Any = "default",
    apply_node_func: Any = "default",
) -> None:
    """``send_and_recv`` along each frontier of edges in turn. ``"default"`` means the registered function."""
    graph.prop_edges(edges_generator, *map(_given, (message_func, reduce_func, apply_node_func)))


def prop_nodes_bfs(
    graph: DGLGraph,
    source: Any,
    message_func: Any = "default",
    reduce_func: Any = "default",
    reverse: bool = False,
    apply_node_func: Any = None,
) -> None:
    """Let nodes ``pull`` in the order of :func:`dglite.bfs_nodes_generator`, the sources first.

    With ``reverse`` frontiers follow in-edges; messages go along edges all the same.
    """
    prop_nodes(graph, bfs_nodes_generator(graph, source, _checked(reverse)), message_func, reduce_func, apply_node_func)


def prop_nodes_topo(
    graph: DGLGraph,
    message_func: Any = "default",
    reduce_func: Any = "default",
    reverse: bool = False,
    apply_node_func: Any = None,
) -> None:
    """Let nodes ``pull`` in the order of :func:`dglite.topological_nodes_generator`.

    With ``reverse`` frontiers follow in-edges; messages go along edges all the same. Functions that can be a vertex
    program (see ``docs/dynamic.md``) run as one, to the same effect.
    """
    if not _checked(reverse) and any(engine(graph, message_func, reduce_func, apply_node_func) for engine in engines):
        return
    prop_nodes(graph, topological_nodes_generator(graph, _checked(reverse)), message_func, reduce_func, apply_node_func)


def prop_edges_dfs(
    graph: DGLGraph,
    source: Any,
    message_func: Any = "default",
    reduce_func: Any = "default",
    reverse: bool = False,
    has_reverse_edge: bool = False,
    has_nontree_edge: bool = False,
    apply_node_func: Any = None,
) -> None:
    """``send_and_recv`` along edges in the order of :func:`dglite.dfs_labeled_edges_generator`."""
    reverse = _checked(reverse)
    frontiers = dfs_labeled_edges_generator(graph, source, reverse, has_reverse_edge, has_nontree_edge, False)
    prop_edges(graph, frontiers, message_func, reduce_func, apply_node_func)


def _checked(reverse: Any) -> bool:
    """Return ``reverse``; a function in its place would be taken for True."""
    if callable(reverse):
        raise DGLError(f"reverse={reverse!r} is a function; expected True or False. Pass it as apply_node_func=")
    return bool(reverse)


def _given(function: Any) -> Any:
    return None if isinstance(function, str) and function == "default" else function
