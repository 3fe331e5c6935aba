"""Subgraphs of given nodes or edges, and of the edges at given nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arguments import explained
from ..errors import DGLError, warn_deprecated
from ..graph import DGLGraph
from ..structure.arrays import HOST
from ..structure.distinct import Positions
from ..structure.formats import index_dtype_for
from .parts import copied, ends_of, extracted, nodes_by_set, refuse_block, subgraph_of_edges


@explained
def node_subgraph(
    graph: DGLGraph, nodes: Any, *, relabel_nodes: bool = True, store_ids: bool = True, output_device: Any = None
) -> DGLGraph:
    """Return the nodes given and the edges between them.

    Raises DGLError: a node does not exist or is given twice, or the graph is a block.

    Parameters
    ----------
    nodes
        distinct ids, or a boolean mask; with several node types a dictionary by type, where a type left out has no
        nodes in the result.
    relabel_nodes
        number the nodes as they are listed; else keep all nodes of the graph and only drop edges.
    store_ids
        write the old ids to ``edata[dglite.EID]`` and, with ``relabel_nodes``, to ``ndata[dglite.NID]``.
    output_device
        device of the result; the graph's by default.

    Returns
    -------
    DGLGraph
        Edges are ordered by the place of their source node in ``nodes``, then by id. Batch numbers are not kept.

    Examples
    --------
    >>> from dglite.convert import graph
    >>> part = node_subgraph(graph(([0, 1, 2, 3, 4], [1, 2, 3, 4, 0])), [0, 1, 4])
    >>> [end.tolist() for end in part.edges()], part.edata["_ID"].tolist()
    ([[0, 2], [1, 0]], [0, 4])
    """
    refuse_block(graph, "node_subgraph")
    node_ids = nodes_by_set(graph, nodes)
    if graph.id_arrays is not HOST:
        edges, ends = _joining(graph, node_ids)
        ends = ends if relabel_nodes else ends_of(graph, edges)
        return extracted(graph, edges, ends, node_ids if relabel_nodes else None, store_ids, output_device)
    positions = []
    for node_set, ids in enumerate(node_ids):
        count = graph.node_counts[node_set]
        places = Positions(ids, count, index_dtype_for(count, count, 0))
        if not np.array_equal(places.find(ids), np.arange(len(ids))):
            ascending = np.sort(ids)
            twice = int(ascending[1:][ascending[1:] == ascending[:-1]][0])
            raise _repeated(graph, node_set, twice)
        positions.append(places)
    edges, ends = [], []
    for adjacency, (src_set, dst_set) in zip(graph.adjacencies, graph.type_graph.ends, strict=True):
        src, dst, edge_ids = adjacency.edges_inside(
            node_ids[src_set], node_ids[dst_set], positions[src_set], positions[dst_set]
        )
        edges.append(edge_ids)
        ends.append((src, dst))
    if not relabel_nodes:
        return extracted(graph, edges, ends_of(graph, edges), None, store_ids, output_device)
    return extracted(graph, edges, ends, node_ids, store_ids, output_device)


def _joining(graph: DGLGraph, node_ids: list[Any]) -> tuple[list[Any], list[tuple[Any, Any]]]:
    """Return the edges of each type between nodes on a device, and their ends as positions among the nodes."""
    arrays, places = graph.id_arrays, []
    for node_set, ids in enumerate(node_ids):
        table, numbers = arrays.full(graph.node_counts[node_set], -1), arrays.arange(len(ids))
        table[ids] = numbers
        is_repeated = table[ids] != numbers
        if len(ids) and arrays.read(is_repeated.any())[0]:
            (twice,) = arrays.read(ids[arrays.first(is_repeated)])
            raise _repeated(graph, node_set, twice)
        places.append(table)
    edges, ends = [], []
    for adjacency, (src_set, dst_set) in zip(graph.adjacencies, graph.type_graph.ends, strict=True):
        src, dst, edge_ids = adjacency.edges_joining(arrays, places[src_set], places[dst_set])
        edges.append(edge_ids)
        ends.append((src, dst))
    return edges, ends


def _repeated(graph: DGLGraph, node_set: int, node: int) -> DGLError:
    return DGLError(f"node_subgraph: node {node} of type {graph.ntypes[node_set]!r} is given more than once")


@explained
def edge_subgraph(
    graph: DGLGraph,
    edges: Any,
    *,
    relabel_nodes: bool = True,
    store_ids: bool = True,
    output_device: Any = None,
    preserve_nodes: bool | None = None,
) -> DGLGraph:
    """Return the edges given and their ends.

    Raises DGLError: an edge does not exist, or the graph is a block.

    Parameters
    ----------
    edges
        ids, or a boolean mask; with several edge types a dictionary by type, where a type left out has no edges in the
        result. An edge given twice becomes two edges.
    relabel_nodes
        drop the other nodes, and number the ends in the order in which they come up, sources before destinations; else
        keep all nodes of the graph.
    store_ids, output_device
        as in :func:`node_subgraph`.
    preserve_nodes
        classic: the opposite of ``relabel_nodes``.

    Examples
    --------
    >>> from dglite.convert import graph
    >>> part = edge_subgraph(graph(([0, 1, 2, 3, 4], [1, 2, 3, 4, 0])), [0, 4])
    >>> [end.tolist() for end in part.edges()], part.ndata["_ID"].tolist()
    ([[0, 1], [2, 0]], [0, 4, 1])
    """
    if preserve_nodes is not None:
        warn_deprecated("edge_subgraph(preserve_nodes=)", "use relabel_nodes=, its opposite")
        relabel_nodes = not preserve_nodes
    refuse_block(graph, "edge_subgraph")
    if isinstance(edges, Mapping):
        by_type = {graph.etype_id(etype): ids for etype, ids in edges.items()}
    else:
        by_type = {graph.etype_id(): edges}
    arrays = graph.id_arrays
    ids_by_type = {index: copied(graph.edges_in(arrays, ids, index)) for index, ids in by_type.items()}
    edge_ids = [ids_by_type.get(index, arrays.arange(0)) for index in range(len(graph.adjacencies))]
    return subgraph_of_edges(graph, edge_ids, ends_of(graph, edge_ids), relabel_nodes, store_ids, output_device)


@explained
def in_subgraph(
    graph: DGLGraph, nodes: Any, *, relabel_nodes: bool = False, store_ids: bool = True, output_device: Any = None
) -> DGLGraph:
    """Return the in-edges of the given nodes, node after node. Arguments and errors are those of :func:`edge_subgraph`.

    ``nodes`` are ids or a boolean mask; with several node types, a dictionary by type.
    """
    return _incident(graph, nodes, "in", (relabel_nodes, store_ids, output_device))


@explained
def out_subgraph(
    graph: DGLGraph, nodes: Any, *, relabel_nodes: bool = False, store_ids: bool = True, output_device: Any = None
) -> DGLGraph:
    """Return the out-edges of the given nodes, node after node; otherwise as :func:`in_subgraph`."""
    return _incident(graph, nodes, "out", (relabel_nodes, store_ids, output_device))


def _incident(graph: DGLGraph, nodes: Any, side: str, options: tuple[bool, bool, Any]) -> DGLGraph:
    """Return the subgraph of the edges that enter nodes, side ``"in"``, or that leave them, ``"out"``."""
    refuse_block(graph, f"{side}_subgraph")
    node_ids = nodes_by_set(graph, nodes)
    edges = [
        adjacency.incident(graph.id_arrays, *((node_ids[dst_set], 1) if side == "in" else (node_ids[src_set], 0)))
        for adjacency, (src_set, dst_set) in zip(graph.adjacencies, graph.type_graph.ends, strict=True)
    ]
    return subgraph_of_edges(graph, [ids for _, _, ids in edges], [(src, dst) for src, dst, _ in edges], *options)
