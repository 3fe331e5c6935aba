"""Removing parallel edges, and nodes without edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Literal, overload

import numpy as np

from .. import ops
from ..arguments import explained
from ..backend import Tensor, active
from ..column import TensorOrDict
from ..errors import DGLError
from ..frame import EID, NID
from ..graph import DGLGraph
from ..graph.attached import attach
from ..graph.scope import copies
from ..graph.storage import graphs_of, make_graph, require_graph
from ..structure import Adjacency
from ..structure.arrays import HOST, renumbered
from ..structure.compressed import scattered
from ..structure.distinct import Pairs, renumbered_ends
from .parts import node_frames, without_parallel

_AGGREGATORS = ("arbitrary", "sum", "mean")
_FLOATS = ("float32", "float64", "float16", "bfloat16")


@overload
def to_simple(
    g: DGLGraph,
    return_counts: str | None = "count",
    writeback_mapping: Literal[False] = False,
    copy_ndata: bool = True,
    copy_edata: bool = False,
    aggregator: str = "arbitrary",
) -> DGLGraph: ...
@overload
def to_simple(
    g: DGLGraph,
    return_counts: str | None = "count",
    *,
    writeback_mapping: Literal[True],
    copy_ndata: bool = True,
    copy_edata: bool = False,
    aggregator: str = "arbitrary",
) -> tuple[DGLGraph, TensorOrDict]: ...
@explained
def to_simple(
    g: DGLGraph,
    return_counts: str | None = "count",
    writeback_mapping: bool = False,
    copy_ndata: bool = True,
    copy_edata: bool = False,
    aggregator: str = "arbitrary",
) -> Any:
    """Return the graph with parallel edges merged. Edges are ordered by source, then destination.

    Raises DGLError: the aggregator is something else, or the graph is a block.

    Parameters
    ----------
    return_counts
        edge feature that says how many edges each was, int64; None for none.
    writeback_mapping
        also return for each old edge the id of its new one, a tensor, or by edge type for several.
    copy_ndata, copy_edata
        keep node features; join the edge features of parallel edges.
    aggregator
        how they are joined: ``"sum"``, ``"mean"``, or ``"arbitrary"``, that of the edge with the lowest id, which
        ``edata[dglite.EID]`` then has.
    """
    require_graph(g)
    if aggregator not in _AGGREGATORS:
        raise DGLError(f"to_simple: aggregator={aggregator!r} is not understood; expected one of {_AGGREGATORS}")
    if g.is_block:
        raise DGLError("to_simple: a block cannot be made simple; use dglite.block_to_graph(block) first")
    adjacencies, groups = [], []
    for adjacency in g.adjacencies:
        merged, order, counts = without_parallel(adjacency)
        adjacencies.append(merged)
        groups.append((order, counts))
    result = make_graph(g.type_graph, tuple(adjacencies), g.node_counts, like=g)
    result.node_frames = node_frames(g, copy_ndata)
    for index, (order, counts) in enumerate(groups):
        if copy_edata and aggregator == "arbitrary":
            result.edge_frame_at(index)[EID] = result.ids_tensor(order[np.cumsum(counts) - counts])
        if copy_edata and g.edge_frames[index]:
            result.edge_frame_at(index).update(
                {name: _joined(x, order, counts, aggregator) for name, x in g.edge_frame_at(index).items()}
            )
        if return_counts is not None:
            result.edge_frame_at(index)[return_counts] = result.ids_tensor(counts.astype(result.numpy_idtype))
    if not writeback_mapping:
        return result
    mappings = [result.ids_tensor(scattered(np.repeat(np.arange(len(c)), c), order)) for order, c in groups]
    if len(mappings) == 1:
        return result, mappings[0]
    return result, dict(zip(g.canonical_etypes, mappings, strict=True))


def _joined(values: Tensor, order: np.ndarray, counts: np.ndarray, aggregator: str) -> Tensor:
    """Return one row for each run of rows ``order``."""
    if aggregator == "arbitrary":
        return active.take(values, order[np.cumsum(counts) - counts])
    if active.dtype(values) in _FLOATS:
        return ops.segment_reduce(counts, active.take(values, order), aggregator)
    array = active.to_numpy(values)[order]
    if not len(counts):
        return values
    sums = np.add.reduceat(array, np.cumsum(counts) - counts, axis=0, dtype=np.int64)
    if aggregator == "mean":
        sums = sums // counts.reshape(-1, *(1,) * (array.ndim - 1))
    return active.from_numpy(sums.astype(array.dtype), active.device(values))


def to_simple_graph(g: DGLGraph) -> DGLGraph:
    """Return the graph without parallel edges; an older name of :func:`to_simple`."""
    require_graph(g)
    result: DGLGraph = to_simple(g)
    return result


@overload
def compact_graphs(
    graphs: DGLGraph, always_preserve: Any = None, copy_ndata: bool = True, copy_edata: bool = True
) -> DGLGraph: ...
@overload
def compact_graphs(
    graphs: Sequence[DGLGraph], always_preserve: Any = None, copy_ndata: bool = True, copy_edata: bool = True
) -> list[DGLGraph]: ...
@explained
def compact_graphs(
    graphs: DGLGraph | Sequence[DGLGraph], always_preserve: Any = None, copy_ndata: bool = True, copy_edata: bool = True
) -> Any:
    """Drop the nodes that have no edge in any of the graphs, and renumber the others alike in all graphs.

    Raises DGLError: graphs differ in node types, numbers of nodes, id dtype or device; a node does not exist; one is a
    block.

    Parameters
    ----------
    graphs
        one graph, or several over the same nodes; their edge types may differ.
    always_preserve
        nodes to keep all the same, which come first: ids, or a dictionary by node type.
    copy_ndata, copy_edata
        keep features; node features are gathered when they are first read.

    Returns
    -------
    DGLGraph or list of DGLGraph
        ``ndata[dglite.NID]`` has the old ids: those preserved, then nodes in the order in which edges name them.
    """
    batch = [graphs] if isinstance(graphs, DGLGraph) else graphs_of(graphs, "compact_graphs")
    if not batch:
        return []
    first = batch[0]
    for i, g in enumerate(batch):
        alike = g.ntypes == first.ntypes and g.node_counts == first.node_counts
        if g.is_block or not alike or g.numpy_idtype != first.numpy_idtype or g.device != first.device:
            raise DGLError(
                f"compact_graphs: graph {i} must be over the same nodes as graph 0, with the same id dtype and device, "
                f"and no block; got {dict(zip(g.ntypes, g.node_counts, strict=False))} and "
                f"{dict(zip(first.ntypes, first.node_counts, strict=False))}"
            )
    arrays = first.id_arrays
    renumber = None if arrays is HOST else partial(renumbered, arrays)
    sets = [ends for g in batch for ends in g.type_graph.ends]
    preserved, pairs = (
        _preserved(first, always_preserve, arrays),
        [x.ends(arrays) for g in batch for x in g.adjacencies],
    )
    listed, ends = renumbered_ends(pairs, sets, preserved, first.node_counts, renumber)
    node_ids, numbers = [arrays.astype(ids, np.dtype(np.int64)) for ids in listed], iter(ends)
    results = [
        _compacted(g, arrays, node_ids, list(islice(numbers, len(g.adjacencies))), copy_ndata, copy_edata)
        for g in batch
    ]
    return results[0] if isinstance(graphs, DGLGraph) else results


def _preserved(g: DGLGraph, always_preserve: Any, arrays: Any) -> list[Any]:
    by_set = [arrays.arange(0)] * len(g.node_counts)
    if isinstance(always_preserve, Mapping):
        for ntype, ids in always_preserve.items():
            node_set = g.type_graph.node_set(ntype)
            by_set[node_set] = g.nodes_in(arrays, ids, node_set)
    elif always_preserve is not None:
        node_set = g.type_graph.node_set(None)
        by_set[node_set] = g.nodes_in(arrays, always_preserve, node_set)
    return by_set


def _compacted(
    g: DGLGraph, arrays: Any, node_ids: list[Any], ends: Pairs, copy_ndata: bool, copy_edata: bool
) -> DGLGraph:
    adjacencies = []
    for adjacency, pair, (src_set, dst_set) in zip(g.adjacencies, ends, g.type_graph.ends, strict=True):
        counts = len(node_ids[src_set]), len(node_ids[dst_set])
        adjacencies.append(Adjacency.from_ends(*counts, *pair, adjacency.idtype, arrays))
    result = make_graph(g.type_graph, tuple(adjacencies), [len(ids) for ids in node_ids], like=g)
    if copy_ndata:
        result.node_frames = [x.take(ids) if x else None for x, ids in zip(g.node_frames, node_ids, strict=True)]
    if copy_edata:
        result.edge_frames = copies(g.edge_frames)
    for index, ids in enumerate(node_ids):
        result.node_frame_at(index)[NID] = result.ids_copy(ids)
    return result


attach(to_simple=to_simple)
