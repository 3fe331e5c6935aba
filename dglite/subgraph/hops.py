"""Subgraphs of the nodes within some steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, overload

import numpy as np

from ..arguments import explained
from ..column import TensorOrDict
from ..graph import DGLGraph
from ..structure.arrays import HOST
from ..structure.distinct import contains, distinct
from ..structure.ids import count_of
from .parts import nodes_by_set, refuse_block
from .select import node_subgraph

_NO_IDS = np.empty(0, np.int64)


@overload
def khop_in_subgraph(
    graph: DGLGraph,
    nodes: Any,
    k: int,
    *,
    relabel_nodes: Literal[True] = True,
    store_ids: bool = True,
    output_device: Any = None,
) -> tuple[DGLGraph, TensorOrDict]: ...
@overload
def khop_in_subgraph(
    graph: DGLGraph,
    nodes: Any,
    k: int,
    *,
    relabel_nodes: Literal[False],
    store_ids: bool = True,
    output_device: Any = None,
) -> DGLGraph: ...
@explained
def khop_in_subgraph(
    graph: DGLGraph,
    nodes: Any,
    k: int,
    *,
    relabel_nodes: bool = True,
    store_ids: bool = True,
    output_device: Any = None,
) -> Any:
    """Return the nodes from which ``nodes`` can be reached in at most ``k`` steps, and all edges between them.

    Raises DGLError: ``k`` is negative, a node does not exist, or the graph is a block.

    Parameters
    ----------
    nodes
        one id, several ids, or a boolean mask; with several node types, a dictionary by type.
    relabel_nodes
        drop the other nodes, and number the rest in ascending order of their old ids.
    store_ids, output_device
        as in :func:`node_subgraph`.

    Returns
    -------
    DGLGraph or (DGLGraph, Tensor or dict)
        With ``relabel_nodes``, also the new ids of ``nodes``, int64 as torch indexes by, by type if they were given so.
    """
    return _khop(graph, nodes, k, False, (relabel_nodes, store_ids, output_device))


@overload
def khop_out_subgraph(
    graph: DGLGraph,
    nodes: Any,
    k: int,
    *,
    relabel_nodes: Literal[True] = True,
    store_ids: bool = True,
    output_device: Any = None,
) -> tuple[DGLGraph, TensorOrDict]: ...
@overload
def khop_out_subgraph(
    graph: DGLGraph,
    nodes: Any,
    k: int,
    *,
    relabel_nodes: Literal[False],
    store_ids: bool = True,
    output_device: Any = None,
) -> DGLGraph: ...
@explained
def khop_out_subgraph(
    graph: DGLGraph,
    nodes: Any,
    k: int,
    *,
    relabel_nodes: bool = True,
    store_ids: bool = True,
    output_device: Any = None,
) -> Any:
    """Return the subgraph of the nodes that can be reached from ``nodes`` in at most ``k`` steps.

    ``k`` of 0 keeps the given nodes alone. Arguments, result and errors are those of :func:`khop_in_subgraph`.
    """
    return _khop(graph, nodes, k, True, (relabel_nodes, store_ids, output_device))


def _khop(graph: DGLGraph, nodes: Any, k: int, forward: bool, options: tuple[bool, bool, Any]) -> Any:
    caller = "khop_out_subgraph" if forward else "khop_in_subgraph"
    refuse_block(graph, caller)
    k = count_of(k, f"{caller}: k")
    relabel_nodes, store_ids, output_device = options
    seeds = nodes_by_set(graph, nodes, HOST)
    reached = _reached(graph, seeds, k, forward)
    part = node_subgraph(
        graph,
        dict(zip(graph.ntypes, reached, strict=True)),
        relabel_nodes=relabel_nodes,
        store_ids=store_ids,
        output_device=output_device,
    )
    if not relabel_nodes:
        return part
    new_ids = [part.as_tensor(np.searchsorted(ids, of_type)) for ids, of_type in zip(reached, seeds, strict=True)]
    if isinstance(nodes, Mapping):
        return part, {ntype: new_ids[graph.type_graph.node_set(ntype)] for ntype in nodes}
    return part, new_ids[0]


def _reached(graph: DGLGraph, seeds: list[np.ndarray], k: int, forward: bool) -> list[np.ndarray]:
    """Return for each node set the nodes that are at most ``k`` steps away, ascending."""
    reached = [distinct(ids) for ids in seeds]
    frontier = list(reached)
    for _ in range(k):
        neighbours: list[list[np.ndarray]] = [[] for _ in reached]
        for adjacency, (src_set, dst_set) in zip(graph.adjacencies, graph.type_graph.ends, strict=True):
            if forward:
                neighbours[dst_set].append(adjacency.out_edges(frontier[src_set])[1])
            else:
                neighbours[src_set].append(adjacency.in_edges(frontier[dst_set])[0])
        for index, parts in enumerate(neighbours):
            ids = distinct(np.concatenate([_NO_IDS, *parts]))
            frontier[index] = ids[~contains(reached[index], ids)]
            reached[index] = distinct(np.concatenate([reached[index], frontier[index]]))
        if not any(len(ids) for ids in frontier):
            break
    return reached
