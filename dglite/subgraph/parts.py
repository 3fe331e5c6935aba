"""What all subgraphs share: checks, ids by type, and the graph of given edges."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ..backend import active
from ..errors import DGLError
from ..frame import EID, NID
from ..graph import DGLGraph
from ..graph.storage import make_graph, require_graph
from ..structure import Adjacency
from ..structure.arrays import HOST, renumbered
from ..structure.distinct import renumbered_ends


def refuse_block(graph: DGLGraph, caller: str) -> None:
    require_graph(graph)
    if graph.is_block:
        raise DGLError(f"{caller}: a block has no subgraphs; use dglite.block_to_graph(block) first")


def copied(ids: Any) -> Any:
    """Return ids in new memory: features wait to be gathered with them, and users may write to theirs meanwhile."""
    return active.copy(ids) if active.is_tensor(ids) else ids.copy()


def nodes_by_set(graph: DGLGraph, nodes: Any, arrays: Any = None) -> list[Any]:
    """Return copies of the ids given for each node set, none where none are given; where the graph is by default."""
    arrays = graph.id_arrays if arrays is None else arrays
    if not isinstance(nodes, Mapping):
        if len(graph.node_counts) != 1:
            raise DGLError(
                f"this graph has node types {graph.ntypes}; give a dictionary from type to node ids, "
                f"got {type(nodes).__name__}"
            )
        return [copied(graph.nodes_in(arrays, nodes, 0))]
    node_ids = [arrays.arange(0)] * len(graph.node_counts)
    for ntype, ids in nodes.items():
        node_set = graph.type_graph.node_set(ntype)
        node_ids[node_set] = copied(graph.nodes_in(arrays, ids, node_set))
    return node_ids


def ends_of(graph: DGLGraph, edges: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the ends of some edges of each type."""
    pairs = [adjacency.ends(graph.id_arrays) for adjacency in graph.adjacencies]
    return [(src[ids], dst[ids]) for (src, dst), ids in zip(pairs, edges, strict=True)]


def subgraph_of_edges(
    graph: DGLGraph,
    edges: list[np.ndarray],
    ends: list[tuple[np.ndarray, np.ndarray]],
    relabel_nodes: bool,
    store_ids: bool,
    output_device: Any,
) -> DGLGraph:
    if not relabel_nodes:
        return extracted(graph, edges, ends, None, store_ids, output_device)
    counts, arrays = graph.node_counts, graph.id_arrays
    renumber = None if arrays is HOST else partial(renumbered, arrays)
    first = [arrays.arange(0)] * len(counts)
    nodes, ends = renumbered_ends(ends, graph.type_graph.ends, first, counts, renumber)
    return extracted(graph, edges, ends, nodes, store_ids, output_device)


def extracted(
    graph: DGLGraph,
    edges: list[np.ndarray],
    ends: list[tuple[np.ndarray, np.ndarray]],
    nodes: list[np.ndarray] | None,
    store_ids: bool,
    output_device: Any,
) -> DGLGraph:
    """Return the graph of the given edges, whose ends are in new numbers: places in ``nodes``; None keeps all nodes."""
    counts = list(graph.node_counts) if nodes is None else [len(ids) for ids in nodes]
    adjacencies = []
    for old, pair, (src_set, dst_set) in zip(graph.adjacencies, ends, graph.type_graph.ends, strict=True):
        sizes = counts[src_set], counts[dst_set]
        adjacency = Adjacency.from_ends(*sizes, *pair, graph.numpy_idtype, graph.id_arrays)
        adjacency.allowed = old.allowed
        adjacencies.append(adjacency)
    part = make_graph(graph.type_graph, tuple(adjacencies), counts, like=graph)
    part.node_frames = [
        None if frame is None else frame.copy() if nodes is None else frame.take(nodes[i])
        for i, frame in enumerate(graph.node_frames)
    ]
    part.edge_frames = [
        frame if frame is None else frame.take(ids) for frame, ids in zip(graph.edge_frames, edges, strict=True)
    ]
    if store_ids:
        for i, ids in enumerate(nodes or ()):
            part.node_frame_at(i)[NID] = part.ids_tensor(ids)
        for i, ids in enumerate(edges):
            part.edge_frame_at(i)[EID] = part.ids_tensor(ids)
    return part if output_device is None else part.to(output_device)
