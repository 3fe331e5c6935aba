"""Batching graphs into one, unbatching, and merging graphs over the same nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from .arguments import explained
from .errors import DGLError, warn_deprecated
from .frame import EID, NID, Frame
from .graph import DGLGraph
from .graph.scope import set_state
from .graph.storage import graphs_of, make_graph, require_graph
from .structure import ALL, Adjacency, is_all
from .structure.arrays import HOST
from .structure.formats import FORMATS, index_dtype_for
from .structure.ids import LARGEST_COUNT, count_of

__all__ = ["batch", "merge", "slice_batch", "unbatch"]

_ADJACENCIES, _COUNTS = attrgetter("adjacencies"), attrgetter("node_counts")
_NODE_FRAMES, _EDGE_FRAMES = attrgetter("node_frames"), attrgetter("edge_frames")


# -- together ----------------------------------------------------------------------------------------------------
@explained
def batch(
    graphs: Sequence[DGLGraph], ndata: Any = ALL, edata: Any = ALL, *, node_attrs: Any = ALL, edge_attrs: Any = ALL
) -> DGLGraph:
    """Batch graphs into one, of which they are the components; nodes and edges are numbered graph after graph.

    Raises DGLError: there is no graph, one is a block, types, id dtypes or devices differ, or a feature is missing from
    a graph or has another shape or dtype there.

    Parameters
    ----------
    graphs
        one graph or more, of the same types, id dtype and device. Batches are flattened: the batch size of the result
        is the sum of theirs. Graphs without nodes or edges count too.
    ndata, edata
        names of the features to join, None for none; all of them by default. Graphs that have no nodes (edges) of a
        type need not have its features.
    node_attrs, edge_attrs
        classic names of ``ndata`` and ``edata``, which may be one name.

    Examples
    --------
    >>> from dglite.convert import graph
    >>> joined = batch([graph(([0, 1], [1, 2])), graph(([0], [1]))])
    >>> joined.batch_num_nodes().tolist(), [end.tolist() for end in joined.edges()]
    ([3, 2], [[0, 1, 3], [1, 2, 4]])
    """
    if not is_all(node_attrs) or not is_all(edge_attrs):
        warn_deprecated("batch(node_attrs=, edge_attrs=)", "use ndata= and edata=")
        ndata, edata = (
            [names] if isinstance(names, str) and not is_all(names) else names for names in (node_attrs, edge_attrs)
        )
    graphs = graphs_of(graphs, "batch")
    _check_alike(graphs, "batch")
    first = graphs[0]
    if first.type_graph.is_block:
        raise DGLError("batch: blocks cannot be batched: their destination nodes must come first; batch their graphs")
    if len(graphs) == 1 and (first.batch_node_counts is None) == (first.batch_edge_counts is None):
        return _alone(first, ndata, edata)
    ntypes = first.type_graph.ntypes
    counts = np.array(list(map(_COUNTS, graphs)), np.int64).reshape(len(graphs), len(ntypes))
    offsets = np.concatenate([np.zeros((1, len(ntypes)), np.int64), np.cumsum(counts, axis=0)])
    total = offsets[-1].tolist()
    relations = list(zip(*map(_ADJACENCIES, graphs), strict=True))
    adjacencies = tuple(
        _joined(first.id_arrays, relation, offsets[:-1, src], offsets[:-1, dst], total[src], total[dst])
        for relation, (src, dst) in zip(relations, first.type_graph.ends, strict=True)
    )
    batched = make_graph(first.type_graph, adjacencies, total, like=first)
    _set_batch_numbers(batched, graphs, counts, relations)
    num_edges = [[adjacency.num_edges for adjacency in relation] for relation in relations]
    node_frames, edge_frames = (
        zip(*map(_NODE_FRAMES, graphs), strict=True),
        zip(*map(_EDGE_FRAMES, graphs), strict=True),
    )
    _join_frames(batched.node_frame_at, list(node_frames), counts.T.tolist(), ndata, "ndata")
    _join_frames(batched.edge_frame_at, list(edge_frames), num_edges, edata, "edata")
    return batched


def _alone(g: DGLGraph, ndata: Any, edata: Any) -> DGLGraph:
    """Return the batch of one graph, which may be a batch itself: structures are shared, features copied.

    So what is made of a structure once, its CSC or the order of its levels, is there in the next epoch, too.
    """
    adjacencies = [x if x.allowed == FORMATS else _unrestricted(x) for x in g.adjacencies]
    batched = make_graph(g.type_graph, tuple(adjacencies), g.node_counts, like=g)
    num_edges = [x.num_edges for x in adjacencies]
    if g.batch_node_counts is None or g.batch_edge_counts is None:
        batched.batch_node_counts = tuple([np.array([count]) for count in g.node_counts])
        batched.batch_edge_counts = tuple([np.array([count]) for count in num_edges])
    else:
        batched.batch_node_counts = tuple([count.copy() for count in g.batch_node_counts])
        batched.batch_edge_counts = tuple([count.copy() for count in g.batch_edge_counts])
    _join_frames(
        batched.node_frame_at, [(frame,) for frame in g.node_frames], [[n] for n in g.node_counts], ndata, "ndata"
    )
    _join_frames(batched.edge_frame_at, [(frame,) for frame in g.edge_frames], [[n] for n in num_edges], edata, "edata")
    return batched


def _unrestricted(restricted: Adjacency) -> Adjacency:
    """Return a structure of the same edges that may have any format, as that of a batch may."""
    ends, idtype = restricted.endpoints(), restricted.idtype
    return Adjacency.from_coo(restricted.num_src, restricted.num_dst, *ends, idtype, validate=False, copy=False)


def _check_alike(graphs: list[DGLGraph], caller: str) -> None:
    if not graphs:
        raise DGLError(f"{caller}: the list of graphs is empty; give at least one graph")
    first = graphs[0]
    types, idtype, device = first.type_graph, first.numpy_idtype, first.device
    for i, g in enumerate(graphs):
        if g.type_graph is not types and (
            g.canonical_etypes != first.canonical_etypes or g.ntypes != first.ntypes or g.is_block != first.is_block
        ):
            raise DGLError(
                f"{caller}: graph {i} has node types {g.ntypes} and edge types {g.canonical_etypes}, graph 0 has "
                f"{first.ntypes} and {first.canonical_etypes}; they must be the same"
            )
        if g.numpy_idtype is not idtype and g.numpy_idtype != idtype:
            raise DGLError(f"{caller}: graph {i} has ids of {g.numpy_idtype}, graph 0 of {idtype}; use g.int()")
        if (other := g.device) is not device and other != device:
            raise DGLError(f"{caller}: graph {i} is on {other}, graph 0 on {device}; use g.to(device)")


def _joined(
    arrays: Any,
    relation: Sequence[Adjacency],
    src_offsets: np.ndarray,
    dst_offsets: np.ndarray,
    num_src: int,
    num_dst: int,
) -> Adjacency:
    """Return the relations side by side; on a device where one of them was made there, else on the host."""
    if arrays is not HOST and any(adjacency.arrays_made() is not HOST for adjacency in relation):
        pairs = [adjacency.ends(arrays) for adjacency in relation]
        sizes = np.array([adjacency.num_edges for adjacency in relation])
        counts, num_edges = arrays.asarray(sizes), int(sizes.sum())
        src, dst = (
            arrays.astype(arrays.concatenate([pair[side] for pair in pairs]), "int64")
            + arrays.repeat(arrays.asarray(offsets), counts, num_edges)
            for side, offsets in enumerate((src_offsets, dst_offsets))
        )
        return Adjacency.from_ends(num_src, num_dst, src, dst, relation[0].idtype, arrays)
    ends = [adjacency.endpoints() for adjacency in relation]
    sizes = np.array([len(src) for src, _ in ends])
    dtype = index_dtype_for(num_src, num_dst, int(sizes.sum()))
    src = np.concatenate([src for src, _ in ends], dtype=dtype, casting="unsafe")
    dst = np.concatenate([dst for _, dst in ends], dtype=dtype, casting="unsafe")
    src += np.repeat(src_offsets.astype(dtype), sizes)
    dst += np.repeat(dst_offsets.astype(dtype), sizes)
    return Adjacency.from_coo(num_src, num_dst, src, dst, relation[0].idtype, validate=False, copy=False)


def _set_batch_numbers(
    batched: DGLGraph, graphs: list[DGLGraph], counts: np.ndarray, relations: list[tuple[Adjacency, ...]]
) -> None:
    edges = [np.array([adjacency.num_edges for adjacency in relation], np.int64) for relation in relations]
    nested_nodes = [i for i, g in enumerate(graphs) if g.batch_node_counts is not None]
    nested_edges = [i for i, g in enumerate(graphs) if g.batch_edge_counts is not None]
    if not nested_nodes and not nested_edges:
        rows = tuple(np.ascontiguousarray(counts.T))
        set_state(batched, batch_node_counts=rows, batch_edge_counts=tuple(edges))
        return
    for i, g in enumerate(graphs):
        nodes_given, edges_given = g.batch_node_counts, g.batch_edge_counts
        if (nodes_given is None) != (edges_given is None) and _size(nodes_given, edges_given) != 1:
            raise DGLError(
                f"batch: graph {i} knows its numbers of nodes or of edges per graph, but not both; "
                "call set_batch_num_nodes and set_batch_num_edges"
            )
    batched.batch_node_counts = _flattened([g.batch_node_counts for g in graphs], list(counts.T))
    batched.batch_edge_counts = _flattened([g.batch_edge_counts for g in graphs], edges)


def _flattened(inner: list[tuple[np.ndarray, ...] | None], counts: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Return the batch numbers by type: those of the graphs that are batches, ``counts[type][i]`` for the others."""
    return tuple(
        np.concatenate([single[i : i + 1] if nested is None else nested[t] for i, nested in enumerate(inner)])
        for t, single in enumerate(counts)
    )


def _size(nodes: tuple[np.ndarray, ...] | None, edges: tuple[np.ndarray, ...] | None) -> int:
    numbers = nodes if nodes is not None else edges
    return len(numbers[0]) if numbers else 1


def _join_frames(
    frame_of: Callable[[int], Frame],
    frames: list[tuple[Frame | None, ...]],
    counts: list[list[int]],
    names: Any,
    role: str,
) -> None:
    """Fill the frames of a batch; ``frames`` and their numbers of rows are listed by type, then by graph."""
    if names is None:
        return
    if not is_all(names) and (isinstance(names, str) or not isinstance(names, Sequence)):
        raise DGLError(f"batch: {role} must be a list of feature names, None or ALL; got {names!r}")
    for index, parts in enumerate(frames):
        if not is_all(names):
            frame_of(index).join(parts, counts[index], list(names))
        elif any(parts):
            frame_of(index).join(parts, counts[index])


# -- apart -------------------------------------------------------------------------------------------------------
@explained
def unbatch(g: DGLGraph, node_split: Any = None, edge_split: Any = None) -> list[DGLGraph]:
    """Split a batch into its graphs: the reverse of :func:`batch`. Features are views of the batch's.

    Raises DGLError: the graph is a block, the numbers of a type do not sum to its number of nodes or edges, or an edge
    joins nodes of different graphs.

    Parameters
    ----------
    node_split, edge_split
        numbers of nodes and of edges of each graph, a tensor, or a dictionary by type for several types; by default
        those of the batch.
    """
    require_graph(g)
    if g.type_graph.is_block:
        raise DGLError("unbatch: a block is not a batch of graphs")
    batched = g
    if node_split is not None or edge_split is not None:
        batched = g.clone()
        batched.batch_node_counts = batched.batch_node_counts if node_split is None else None
        batched.batch_edge_counts = batched.batch_edge_counts if edge_split is None else None
        if node_split is not None:
            batched.set_batch_num_nodes(node_split)
        if edge_split is not None:
            batched.set_batch_num_edges(edge_split)
    nodes, edges = _numbers(batched)
    sizes = {len(numbers) for numbers in (*nodes, *edges)}
    if len(sizes) > 1:
        raise DGLError(
            f"unbatch: numbers of nodes for {len(nodes[0])} graphs but numbers of edges for {len(edges[0])}; "
            "give node_split and edge_split of the same length"
        )
    parts = [
        _component_adjacencies(g.id_arrays, g.adjacencies[i], nodes[src], nodes[dst], edges[i])
        for i, (src, dst) in enumerate(g.type_graph.ends)
    ]
    graphs = _component_graphs(g, parts, np.stack(nodes, axis=1).tolist() if nodes else [])
    for index, numbers in enumerate(nodes):
        _deal(g.node_frames[index], [x.node_frames for x in graphs], index, numbers)
    for index, numbers in enumerate(edges):
        _deal(g.edge_frames[index], [x.edge_frames for x in graphs], index, numbers)
    return graphs


def _numbers(g: DGLGraph) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the numbers of nodes by node set and of edges by edge type; one graph where nothing is known."""
    nodes, edges = g.batch_node_counts, g.batch_edge_counts
    return (
        [np.array([count]) for count in g.node_counts] if nodes is None else list(nodes),
        [np.array([x.num_edges]) for x in g.adjacencies] if edges is None else list(edges),
    )


def _component_adjacencies(
    arrays: Any, adjacency: Adjacency, num_src: np.ndarray, num_dst: np.ndarray, num_edges: np.ndarray
) -> list[Adjacency]:
    """Return the relations of the components."""
    src, dst = adjacency.ends(arrays)
    local, repeats, is_outside = [], arrays.asarray(num_edges), arrays.full(len(src), False, "bool")
    for ids, counts in ((src, num_src), (dst, num_dst)):
        first, size = (
            arrays.repeat(arrays.asarray(x, adjacency.index_dtype), repeats, adjacency.num_edges)
            for x in (np.cumsum(counts) - counts, counts)
        )
        local.append(ids - first)
        is_outside |= (local[-1] < 0) | (local[-1] >= size)
    if len(src) and arrays.read(is_outside.any())[0]:
        (edge,) = arrays.read(arrays.first(is_outside))
        raise DGLError(
            f"unbatch: edge {edge}, {int(src[edge])} -> {int(dst[edge])}, joins nodes of different graphs or is "
            "counted to another graph; node_split and edge_split must cut between components"
        )
    ends = np.cumsum(num_edges).tolist()
    starts = [0, *ends[:-1]]
    pieces, idtype = [], adjacency.idtype
    for count_src, count_dst, start, end in zip(num_src.tolist(), num_dst.tolist(), starts, ends, strict=True):
        src, dst = local[0][start:end], local[1][start:end]
        if arrays is HOST:
            piece = Adjacency.from_coo(count_src, count_dst, src, dst, idtype, validate=False, copy=False)
        else:
            piece = Adjacency.from_ends(count_src, count_dst, src, dst, idtype, arrays)
        pieces.append(piece)
    return pieces


def _component_graphs(g: DGLGraph, parts: list[list[Adjacency]], counts: list[list[int]]) -> list[DGLGraph]:
    relations = zip(*parts, strict=True) if parts else [()] * len(counts)
    return [make_graph(g.type_graph, x, sizes, like=g) for x, sizes in zip(relations, counts, strict=True)]


def _deal(frame: Frame | None, targets: list[list[Frame | None]], index: int, numbers: np.ndarray) -> None:
    if frame:
        for target, part in zip(targets, frame.split(numbers.tolist()), strict=True):
            target[index] = part


@explained
def slice_batch(g: DGLGraph, gid: int, store_ids: bool = False) -> DGLGraph:
    """Return one graph of a batch, without splitting off the others.

    With ``store_ids``, ``ndata[dglite.NID]`` and ``edata[dglite.EID]`` have the ids in the batch.

    Raises DGLError: the batch has no graph ``gid``, or the graph is a block.
    """
    require_graph(g)
    if g.type_graph.is_block:
        raise DGLError("slice_batch: a block is not a batch of graphs")
    nodes, edges = _numbers(g)
    size, gid = g.batch_size, count_of(gid, "slice_batch: the number of the graph", -LARGEST_COUNT)
    if not -size <= gid < size:
        raise DGLError(f"slice_batch: graph {gid} does not exist; the batch has {size} graphs")
    gid %= size
    node_ranges = [_range(numbers, gid) for numbers in nodes]
    edge_ranges = [_range(numbers, gid) for numbers in edges]
    adjacencies = []
    for adjacency, (src_set, dst_set), (start, end) in zip(g.adjacencies, g.type_graph.ends, edge_ranges, strict=True):
        src, dst = adjacency.ends(g.id_arrays)
        (src_start, src_end), (dst_start, dst_end) = node_ranges[src_set], node_ranges[dst_set]
        ends = src[start:end] - src_start, dst[start:end] - dst_start
        sizes = src_end - src_start, dst_end - dst_start
        adjacencies.append(Adjacency.from_ends(*sizes, *ends, adjacency.idtype, g.id_arrays, validate=True))
    counts = [end - start for start, end in node_ranges]
    part = make_graph(g.type_graph, tuple(adjacencies), counts, like=g)
    node_frames = [_rows(x, *ends) for x, ends in zip(g.node_frames, node_ranges, strict=True)]
    edge_frames = [_rows(x, *ends) for x, ends in zip(g.edge_frames, edge_ranges, strict=True)]
    set_state(part, node_frames=node_frames, edge_frames=edge_frames)
    if store_ids:
        for index, (start, end) in enumerate(node_ranges):
            part.node_frame_at(index)[NID] = g.ids_tensor(np.arange(start, end))
        for index, (start, end) in enumerate(edge_ranges):
            part.edge_frame_at(index)[EID] = g.ids_tensor(np.arange(start, end))
    return part


def _rows(frame: Frame | None, start: int, end: int) -> Frame | None:
    """Return rows of a frame; None without features, so that no row numbers are made."""
    return frame.take(np.arange(start, end)) if frame else None


def _range(numbers: np.ndarray, index: int) -> tuple[int, int]:
    start = int(numbers[:index].sum())
    return start, start + int(numbers[index])


# -- over the same nodes -----------------------------------------------------------------------------------------
@explained
def merge(graphs: Sequence[DGLGraph]) -> DGLGraph:
    """Return the union of graphs over the same nodes: node i of each is node i of the result.

    There are as many nodes of a type as in the graph with the most. Edges follow each other graph after graph, and
    stay parallel where several graphs have them. A later graph's node features replace those of an earlier one, row by
    row; rows that no graph gives are filled by the initializer.

    Raises DGLError: there is no graph, types, id dtypes or devices differ, or a feature has different shapes or dtypes.
    """
    graphs = graphs_of(graphs, "merge")
    _check_alike(graphs, "merge")
    first = graphs[0]
    counts = [max(numbers) for numbers in zip(*map(_COUNTS, graphs), strict=True)]
    adjacencies = []
    for index, (src_set, dst_set) in enumerate(first.type_graph.ends):
        none = np.zeros(len(graphs), np.int64)
        relation = [g.adjacencies[index] for g in graphs]
        adjacencies.append(_joined(first.id_arrays, relation, none, none, counts[src_set], counts[dst_set]))
    merged = make_graph(first.type_graph, tuple(adjacencies), counts, like=first)
    for index in range(len(counts)):
        for g in graphs:
            frame = g.node_frames[index]
            if frame:
                merged.node_frame_at(index).set_rows(np.arange(frame.num_rows), frame)
    for index in range(len(adjacencies)):
        if any(g.edge_frames[index] for g in graphs):
            joined = first.edge_frame_at(index).copy()
            for g in graphs[1:]:
                joined.append(g.adjacencies[index].num_edges, g.edge_frame_at(index))
            merged.edge_frames[index] = joined
    return merged
