"""Subgraphs: by nodes, by edges, by types, by hops. Features are gathered when they are first read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, overload

import numpy as np

from .backend import active
from .errors import DGLError, warn_deprecated
from .frame import EID, NID, TensorOrDict
from .graph import DGLGraph
from .graph.attached import attach
from .graph.storage import make_graph, require_graph
from .structure import Adjacency
from .structure.adjacency import index_dtype_for
from .structure.arrays import HOST, renumbered
from .structure.distinct import Positions, contains, distinct, renumbered_ends
from .structure.ids import count_of

__all__ = [
    "edge_subgraph",
    "edge_type_subgraph",
    "in_subgraph",
    "khop_in_subgraph",
    "khop_out_subgraph",
    "node_subgraph",
    "node_type_subgraph",
    "out_subgraph",
]


# -- by nodes ----------------------------------------------------------------------------------------------------
def node_subgraph(
    graph: DGLGraph, nodes: Any, *, relabel_nodes: bool = True, store_ids: bool = True, output_device: Any = None
) -> DGLGraph:
    """Return the nodes given and the edges between them.

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

    Raises
    ------
    DGLError
        A node does not exist or is given twice, or the graph is a block.

    Examples
    --------
    >>> from dglite.convert import graph
    >>> part = node_subgraph(graph(([0, 1, 2, 3, 4], [1, 2, 3, 4, 0])), [0, 1, 4])
    >>> [end.tolist() for end in part.edges()], part.edata["_ID"].tolist()
    ([[0, 2], [1, 0]], [0, 4])
    """
    _refuse_block(graph, "node_subgraph")
    node_ids = _nodes_by_set(graph, nodes)
    if graph._arrays is not HOST:
        edges, ends = _joining(graph, node_ids)
        ends = ends if relabel_nodes else _ends(graph, edges)
        return _extracted(graph, edges, ends, node_ids if relabel_nodes else None, store_ids, output_device)
    positions = []
    for node_set, ids in enumerate(node_ids):
        count = graph._num_nodes[node_set]
        places = Positions(ids, count, index_dtype_for(count, count, 0))
        if not np.array_equal(places.find(ids), np.arange(len(ids))):
            ascending = np.sort(ids)
            twice = int(ascending[1:][ascending[1:] == ascending[:-1]][0])
            raise _repeated(graph, node_set, twice)
        positions.append(places)
    edges, ends = [], []
    for adjacency, (src_set, dst_set) in zip(graph.adjacencies, graph._metagraph.ends, strict=True):
        src, dst, edge_ids = adjacency.edges_inside(
            node_ids[src_set], node_ids[dst_set], positions[src_set], positions[dst_set]
        )
        edges.append(edge_ids)
        ends.append((src, dst))
    if not relabel_nodes:
        return _extracted(graph, edges, _ends(graph, edges), None, store_ids, output_device)
    return _extracted(graph, edges, ends, node_ids, store_ids, output_device)


def _joining(graph: DGLGraph, node_ids: list[Any]) -> tuple[list[Any], list[tuple[Any, Any]]]:
    """Return the edges of each type between nodes on a device, and their ends as positions among the nodes."""
    arrays, places = graph._arrays, []
    for node_set, ids in enumerate(node_ids):
        table, numbers = arrays.full(graph._num_nodes[node_set], -1), arrays.arange(len(ids))
        table[ids] = numbers
        is_repeated = table[ids] != numbers
        if len(ids) and arrays.read(is_repeated.any())[0]:
            (twice,) = arrays.read(ids[arrays.first(is_repeated)])
            raise _repeated(graph, node_set, twice)
        places.append(table)
    edges, ends = [], []
    for adjacency, (src_set, dst_set) in zip(graph.adjacencies, graph._metagraph.ends, strict=True):
        src, dst, edge_ids = adjacency.edges_joining(arrays, places[src_set], places[dst_set])
        edges.append(edge_ids)
        ends.append((src, dst))
    return edges, ends


def _repeated(graph: DGLGraph, node_set: int, node: int) -> DGLError:
    return DGLError(f"node_subgraph: node {node} of type {graph.ntypes[node_set]!r} is given more than once")


# -- by edges ----------------------------------------------------------------------------------------------------
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

    Raises
    ------
    DGLError
        An edge does not exist, or the graph is a block.

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
    _refuse_block(graph, "edge_subgraph")
    if isinstance(edges, Mapping):
        by_type = {graph.etype_id(etype): ids for etype, ids in edges.items()}
    else:
        by_type = {graph.etype_id(): edges}
    arrays = graph._arrays
    ids_by_type = {index: _copied(graph._edges_in(arrays, ids, index)) for index, ids in by_type.items()}
    edge_ids = [ids_by_type.get(index, arrays.arange(0)) for index in range(len(graph.adjacencies))]
    return _of_edges(graph, edge_ids, _ends(graph, edge_ids), relabel_nodes, store_ids, output_device)


def in_subgraph(
    graph: DGLGraph, nodes: Any, *, relabel_nodes: bool = False, store_ids: bool = True, output_device: Any = None
) -> DGLGraph:
    """Return the in-edges of the given nodes, node after node. Arguments and errors are those of :func:`edge_subgraph`.

    ``nodes`` are ids or a boolean mask; with several node types, a dictionary by type.
    """
    return _incident(graph, nodes, "in", (relabel_nodes, store_ids, output_device))


def out_subgraph(
    graph: DGLGraph, nodes: Any, *, relabel_nodes: bool = False, store_ids: bool = True, output_device: Any = None
) -> DGLGraph:
    """Return the out-edges of the given nodes, node after node; otherwise as :func:`in_subgraph`."""
    return _incident(graph, nodes, "out", (relabel_nodes, store_ids, output_device))


def _incident(graph: DGLGraph, nodes: Any, side: str, options: tuple[bool, bool, Any]) -> DGLGraph:
    """Return the subgraph of the edges that enter nodes, side ``"in"``, or that leave them, ``"out"``."""
    _refuse_block(graph, f"{side}_subgraph")
    node_ids = _nodes_by_set(graph, nodes)
    edges = [
        adjacency.incident(graph._arrays, *((node_ids[dst_set], 1) if side == "in" else (node_ids[src_set], 0)))
        for adjacency, (src_set, dst_set) in zip(graph.adjacencies, graph._metagraph.ends, strict=True)
    ]
    return _of_edges(graph, [ids for _, _, ids in edges], [(src, dst) for src, dst, _ in edges], *options)


# -- by distance -------------------------------------------------------------------------------------------------
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

    Raises
    ------
    DGLError
        ``k`` is negative, a node does not exist, or the graph is a block.
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
def khop_out_subgraph(
    graph: DGLGraph,
    nodes: Any,
    k: int,
    *,
    relabel_nodes: bool = True,
    store_ids: bool = True,
    output_device: Any = None,
) -> Any:
    """Return the nodes that can be reached from ``nodes`` in at most ``k`` steps; otherwise as khop_in_subgraph."""
    return _khop(graph, nodes, k, True, (relabel_nodes, store_ids, output_device))


def _khop(graph: DGLGraph, nodes: Any, k: int, forward: bool, options: tuple[bool, bool, Any]) -> Any:
    caller = "khop_out_subgraph" if forward else "khop_in_subgraph"
    _refuse_block(graph, caller)
    k = count_of(k, f"{caller}: k")
    relabel_nodes, store_ids, output_device = options
    seeds = _nodes_by_set(graph, nodes, HOST)
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
    new_ids = [part._tensor(np.searchsorted(ids, of_type)) for ids, of_type in zip(reached, seeds, strict=True)]
    if isinstance(nodes, Mapping):
        return part, {ntype: new_ids[graph._metagraph.node_set(ntype)] for ntype in nodes}
    return part, new_ids[0]


def _reached(graph: DGLGraph, seeds: list[np.ndarray], k: int, forward: bool) -> list[np.ndarray]:
    """Return for each node set the nodes that are at most ``k`` steps away, ascending."""
    reached = [distinct(ids) for ids in seeds]
    frontier = list(reached)
    for _ in range(k):
        neighbours: list[list[np.ndarray]] = [[] for _ in reached]
        for adjacency, (src_set, dst_set) in zip(graph.adjacencies, graph._metagraph.ends, strict=True):
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


# -- by types ----------------------------------------------------------------------------------------------------
def node_type_subgraph(graph: DGLGraph, ntypes: Sequence[str], output_device: Any = None) -> DGLGraph:
    """Return all nodes of the given types and all edges between them.

    Features are shared: one that is set on either graph is seen by the other, until nodes or edges are added or
    removed.

    Raises
    ------
    DGLError
        A type does not exist, no edge type joins the given types, or the graph is a block.
    """
    _refuse_block(graph, "node_type_subgraph")
    node_sets = {graph._metagraph.node_set(name) for name in ((ntypes,) if isinstance(ntypes, str) else ntypes)}
    etype_ids = [i for i, (src, dst) in enumerate(graph._metagraph.ends) if src in node_sets and dst in node_sets]
    if not etype_ids:
        raise DGLError(f"node_type_subgraph: no edge type joins node types {list(ntypes)}; add the types of its ends")
    return _of_types(graph, etype_ids, output_device)


def edge_type_subgraph(graph: DGLGraph, etypes: Sequence[Any], output_device: Any = None) -> DGLGraph:
    """Return all edges of the given types, in that order, and all nodes of the types that they join.

    Features are shared: one that is set on either graph is seen by the other, until nodes or edges are added or
    removed.

    Raises
    ------
    DGLError
        A type does not exist, or its bare name is shared by several relations.
    """
    require_graph(graph)
    etype_ids = list(
        dict.fromkeys(graph.etype_id(etype) for etype in ((etypes,) if isinstance(etypes, str) else etypes))
    )
    if not etype_ids:
        raise DGLError("edge_type_subgraph: the list of edge types is empty; give at least one")
    return _of_types(graph, etype_ids, output_device)


def _of_types(graph: DGLGraph, etype_ids: list[int], output_device: Any) -> DGLGraph:
    metagraph, _ = graph._metagraph.slice(etype_ids)
    if not metagraph.is_block:
        # In the order of the graph, so that type numbers ascend as they did.
        names = [name for name in graph.ntypes if name in metagraph.ntypes]
        metagraph = type(metagraph)(names, metagraph.canonical_etypes)
        sets = [graph._metagraph.node_set(name) for name in names]
    else:
        sets = graph._metagraph.slice(etype_ids)[1]
    part = make_graph(
        metagraph, tuple(graph.adjacencies[i] for i in etype_ids), [graph._num_nodes[i] for i in sets], graph._device
    )
    part._idtype = graph._idtype
    part._node_frames = [graph._node_frame(i) for i in sets]
    part._edge_frames = [graph._edge_frame(i) for i in etype_ids]
    return part if output_device is None else part.to(output_device)


# -- parts -------------------------------------------------------------------------------------------------------
_NO_IDS = np.empty(0, np.int64)


def _refuse_block(graph: DGLGraph, caller: str) -> None:
    require_graph(graph)
    if graph.is_block:
        raise DGLError(f"{caller}: a block has no subgraphs; use dglite.block_to_graph(block) first")


def _copied(ids: Any) -> Any:
    """Return ids in new memory: features wait to be gathered with them, and users may write to theirs meanwhile."""
    return active.copy(ids) if active.is_tensor(ids) else ids.copy()


def _nodes_by_set(graph: DGLGraph, nodes: Any, arrays: Any = None) -> list[Any]:
    """Return copies of the ids given for each node set, none where none are given; where the graph is by default."""
    arrays = graph._arrays if arrays is None else arrays
    if not isinstance(nodes, Mapping):
        if len(graph._num_nodes) != 1:
            raise DGLError(
                f"this graph has node types {graph.ntypes}; give a dictionary from type to node ids, "
                f"got {type(nodes).__name__}"
            )
        return [_copied(graph._nodes_in(arrays, nodes, 0))]
    node_ids = [arrays.arange(0)] * len(graph._num_nodes)
    for ntype, ids in nodes.items():
        node_set = graph._metagraph.node_set(ntype)
        node_ids[node_set] = _copied(graph._nodes_in(arrays, ids, node_set))
    return node_ids


def _ends(graph: DGLGraph, edges: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the ends of some edges of each type."""
    pairs = [adjacency.ends(graph._arrays) for adjacency in graph.adjacencies]
    return [(src[ids], dst[ids]) for (src, dst), ids in zip(pairs, edges, strict=True)]


def _of_edges(
    graph: DGLGraph,
    edges: list[np.ndarray],
    ends: list[tuple[np.ndarray, np.ndarray]],
    relabel_nodes: bool,
    store_ids: bool,
    output_device: Any,
) -> DGLGraph:
    if not relabel_nodes:
        return _extracted(graph, edges, ends, None, store_ids, output_device)
    counts, arrays = graph._num_nodes, graph._arrays
    renumber = None if arrays is HOST else partial(renumbered, arrays)
    first = [arrays.arange(0)] * len(counts)
    nodes, ends = renumbered_ends(ends, graph._metagraph.ends, first, counts, renumber)
    return _extracted(graph, edges, ends, nodes, store_ids, output_device)


def _extracted(
    graph: DGLGraph,
    edges: list[np.ndarray],
    ends: list[tuple[np.ndarray, np.ndarray]],
    nodes: list[np.ndarray] | None,
    store_ids: bool,
    output_device: Any,
) -> DGLGraph:
    """Return the graph of the given edges, whose ends are in new numbers: places in ``nodes``; None keeps all nodes."""
    counts = list(graph._num_nodes) if nodes is None else [len(ids) for ids in nodes]
    adjacencies = []
    for old, pair, (src_set, dst_set) in zip(graph.adjacencies, ends, graph._metagraph.ends, strict=True):
        sizes = counts[src_set], counts[dst_set]
        adjacency = Adjacency.from_ends(*sizes, *pair, graph._idtype, graph._arrays)
        adjacency.allowed = old.allowed
        adjacencies.append(adjacency)
    part = make_graph(graph._metagraph, tuple(adjacencies), counts, graph._device)
    part._idtype = graph._idtype
    part._node_frames = [
        None if frame is None else frame.copy() if nodes is None else frame.take(nodes[i])
        for i, frame in enumerate(graph._node_frames)
    ]
    part._edge_frames = [
        frame if frame is None else frame.take(ids) for frame, ids in zip(graph._edge_frames, edges, strict=True)
    ]
    if store_ids:
        for i, ids in enumerate(nodes or ()):
            part._node_frame(i)[NID] = part._ids_tensor(ids)
        for i, ids in enumerate(edges):
            part._edge_frame(i)[EID] = part._ids_tensor(ids)
    return part if output_device is None else part.to(output_device)


attach(
    subgraph=node_subgraph,
    edge_subgraph=edge_subgraph,
    in_subgraph=in_subgraph,
    out_subgraph=out_subgraph,
    khop_in_subgraph=khop_in_subgraph,
    khop_out_subgraph=khop_out_subgraph,
    node_type_subgraph=node_type_subgraph,
    edge_type_subgraph=edge_type_subgraph,
)
