"""Frontiers of nodes and edges: breadth-first, depth-first and topological order."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arguments import explained
from .backend import Tensor, active
from .errors import DGLError
from .graph import DGLGraph
from .graph.storage import require_graph
from .kernels import compiled
from .structure import Adjacency

__all__ = [
    "bfs_edges_generator",
    "bfs_nodes_generator",
    "dfs_edges_generator",
    "dfs_labeled_edges_generator",
    "topological_nodes_generator",
]


@explained
def bfs_nodes_generator(graph: DGLGraph, source: Any, reverse: bool = False) -> tuple[Tensor, ...]:
    """Return the nodes at distance 0, 1, 2, ... from ``source``, one tensor per distance.

    Raises DGLError: a source does not exist, or edges join nodes of different types.

    Parameters
    ----------
    source
        one node or several; none gives no frontier.
    reverse
        go against the edges.

    Examples
    --------
    >>> from dglite.convert import graph
    >>> g = graph(([0, 1, 1, 2, 2, 3], [1, 2, 3, 3, 4, 5]))
    >>> [frontier.tolist() for frontier in bfs_nodes_generator(g, 0)]
    [[0], [1], [2, 3], [4, 5]]
    """
    nodes, _, ends = _bfs(graph, source, reverse)
    return _frontiers(graph, nodes, ends)


@explained
def bfs_edges_generator(graph: DGLGraph, source: Any, reverse: bool = False) -> tuple[Tensor, ...]:
    """Return the edges along which a breadth-first search finds each node, one tensor of ids per distance from 1 up.

    Arguments and errors are those of :func:`bfs_nodes_generator`.
    """
    _, edges, ends = _bfs(graph, source, reverse)
    num_sources = ends[0] if len(ends) else 0
    return _frontiers(graph, edges[num_sources:], ends[1:] - num_sources)


@explained
def topological_nodes_generator(graph: DGLGraph, reverse: bool = False) -> tuple[Tensor, ...]:
    """Return the nodes level by level: a node is one level after the last of the nodes that point to it.

    With ``reverse``, of the nodes that it points to. The nodes of a level ascend.

    Raises DGLError: the graph has a cycle, or edges join nodes of different types.

    Examples
    --------
    >>> from dglite.convert import graph
    >>> g = graph(([0, 1, 1, 2, 2, 3], [1, 2, 3, 3, 4, 5]))
    >>> [frontier.tolist() for frontier in topological_nodes_generator(g)]
    [[0], [1], [2], [3, 4], [5]]
    """
    adjacency = _square(graph, reverse)
    csr, num_nodes = adjacency.csr(), adjacency.num_src
    nodes, ends = np.empty((2, num_nodes), np.int64)
    waiting = adjacency.in_degrees().copy()
    count, levels = compiled("graph.traverse").topological(csr.indptr, csr.indices, waiting, nodes, ends)
    if count < num_nodes:
        raise DGLError(
            f"the graph has a cycle: node {int(waiting.argmax())} and {num_nodes - count - 1} others have no place "
            "in a topological order"
        )
    return _frontiers(graph, nodes, ends[:levels])


@explained
def dfs_edges_generator(graph: DGLGraph, source: Any, reverse: bool = False) -> tuple[Tensor, ...]:
    """Return the edges along which a depth-first search finds each node, one after the other.

    With several sources, which should lie in different components, frontier i has edge i of each search that is that
    long. Out-edges of a node are tried in the order of their ids.

    Raises DGLError: a source does not exist, or edges join nodes of different types.

    Parameters
    ----------
    source
        one node or several.
    reverse
        go against the edges.

    Examples
    --------
    >>> from dglite.convert import graph
    >>> g = graph(([0, 1, 1, 2, 2, 3], [1, 2, 3, 3, 4, 5]))
    >>> [frontier.tolist() for frontier in dfs_edges_generator(g, 0)]
    [[0], [1], [3], [5], [4]]
    """
    edges: tuple[Tensor, ...] = dfs_labeled_edges_generator(graph, source, reverse, return_labels=False)
    return edges


@explained
def dfs_labeled_edges_generator(
    graph: DGLGraph,
    source: Any,
    reverse: bool = False,
    has_reverse_edge: bool = False,
    has_nontree_edge: bool = False,
    return_labels: bool = True,
) -> Any:
    """Return the edges of a depth-first search with what each is: 0 forward, 1 reverse, 2 outside of the tree.

    A forward edge finds a new node; it is repeated as reverse edge when the search leaves that node for good; an edge
    outside of the tree leads to a node found before.

    Parameters
    ----------
    has_reverse_edge, has_nontree_edge
        return edges of these labels too.
    return_labels
        return (frontiers of edges, frontiers of labels); else the edges alone.

    Sources, frontiers and errors are those of :func:`dfs_edges_generator`.
    """
    adjacency = _square(graph, reverse)
    sources = graph.node_ids(source, _ntype(graph))
    csr = adjacency.csr()
    entries = np.empty(2 * adjacency.num_edges, np.int64)
    labels, ends = np.empty_like(entries), np.empty(len(sources), np.int64)
    walk = compiled("graph.traverse").dfs
    count = walk(csr.indptr, csr.indices, sources, has_reverse_edge, has_nontree_edge, entries, labels, ends)
    # Frontier i is the i-th edge of every search: sort by place in the search, stably.
    lengths = np.diff(ends, prepend=0)
    places = np.arange(count) - np.repeat(ends - lengths, lengths)
    order = np.argsort(places, kind="stable")
    frontier_ends = np.cumsum(np.bincount(places)) if count else np.empty(0, np.int64)
    edges = _frontiers(graph, csr.edge_ids_of(entries[:count][order]), frontier_ends)
    if not return_labels:
        return edges
    sizes = np.diff(frontier_ends, prepend=0).tolist()
    edge_labels = tuple(active.split(graph.as_tensor(labels[:count][order]), sizes)) if sizes else ()
    return edges, edge_labels


def _ntype(graph: DGLGraph) -> str:
    return graph.canonical_etypes[0][0]


def _square(graph: DGLGraph, reverse: bool) -> Adjacency:
    """Return the only relation, reversed where asked for."""
    require_graph(graph)
    adjacency = graph.adjacency()
    src, dst = graph.type_graph.ends[0]
    if src != dst:
        raise DGLError(
            f"edges {graph.canonical_etypes[0]} join different node types, so a path has one step; "
            "traverse dglite.to_homogeneous(g) instead"
        )
    return adjacency.reverse() if reverse else adjacency


def _bfs(graph: DGLGraph, source: Any, reverse: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return nodes, the edge that found each (sources: -1), and where each level ends."""
    adjacency = _square(graph, reverse)
    sources = graph.node_ids(source, _ntype(graph))
    csr = adjacency.csr()
    room = min(adjacency.num_src, len(sources) + adjacency.num_edges)  # each node is a source or found by an edge
    nodes, entries, ends = np.empty((3, room), np.int64)
    count, levels = compiled("graph.traverse").bfs(csr.indptr, csr.indices, sources, nodes, entries, ends)
    num_sources = ends[0] if levels else 0
    tree_edges = entries[:count]
    tree_edges[num_sources:] = csr.edge_ids_of(tree_edges[num_sources:])
    return nodes[:count], tree_edges, ends[:levels]


def _frontiers(graph: DGLGraph, ids: np.ndarray, ends: np.ndarray) -> tuple[Tensor, ...]:
    sizes = np.diff(ends, prepend=0).tolist()
    return tuple(active.split(graph.ids_tensor(ids.copy()), sizes)) if sizes else ()
