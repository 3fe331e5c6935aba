"""Reversing, adding and removing edges and nodes. Each returns a new graph and leaves its input unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np

from .. import ops
from ..arguments import explained
from ..backend import Tensor, active, framework
from ..errors import DGLError
from ..frame import EID
from ..graph import DGLGraph
from ..graph.attached import attach
from ..graph.storage import make_graph, require_graph
from ..ops.core import note_in_edges
from ..structure import Adjacency
from ..structure.sizes import require_room
from ..structure.traced import in_program
from .parts import node_frames, without_parallel


@explained
def reverse(
    g: DGLGraph,
    copy_ndata: bool = True,
    copy_edata: bool = False,
    *,
    share_ndata: bool | None = None,
    share_edata: bool | None = None,
) -> DGLGraph:
    """Return the graph with every edge reversed; edge i stays edge i. Costs O(1): structure is shared.

    ``share_ndata`` and ``share_edata`` are older names of ``copy_ndata`` and ``copy_edata``.

    Raises DGLError: the graph is a block.
    """
    require_graph(g)
    return DGLGraph.reverse(g, copy_ndata, copy_edata, share_ndata=share_ndata, share_edata=share_edata)


@explained
def to_bidirected(g: DGLGraph, copy_ndata: bool = False, readonly: Any = None) -> DGLGraph:
    """Return the graph that has one edge ``u -> v`` and one ``v -> u`` for each pair that an edge joins either way.

    Edges are ordered by source, then destination. ``readonly`` is accepted for DGL's sake.

    Raises DGLError: an edge type joins different node types.
    """
    require_graph(g)
    adjacencies = []
    for index, adjacency in enumerate(g.adjacencies):
        _require_square(g, index, "to_bidirected", "use dglite.add_reverse_edges or the AddReverse transform")
        src, dst = adjacency.endpoints()
        both = np.concatenate([src, dst]), np.concatenate([dst, src])
        sizes = adjacency.num_src, adjacency.num_dst
        doubled = Adjacency.from_coo(*sizes, *both, adjacency.idtype, validate=False, copy=False)
        adjacencies.append(without_parallel(doubled)[0])
    result = make_graph(g.type_graph, tuple(adjacencies), g.node_counts, like=g)
    result.node_frames = node_frames(g, copy_ndata)
    return result


@explained
def add_reverse_edges(
    g: DGLGraph,
    readonly: Any = None,
    copy_ndata: bool = True,
    copy_edata: bool = False,
    ignore_bipartite: bool = False,
    exclude_self: bool = True,
) -> DGLGraph:
    """Return the graph with the reverse of each edge added after the edges that there are.

    Raises DGLError: an edge type joins different node types, without ``ignore_bipartite``.

    Parameters
    ----------
    readonly
        accepted for DGL's sake.
    copy_ndata, copy_edata
        keep node features; keep edge features, a reverse edge having those of its edge, and their old ids as
        ``edata[dglite.EID]``. Else there are none.
    ignore_bipartite
        leave edge types between different node types as they are, instead of refusing them.
    exclude_self
        do not add the reverse of self-loops.
    """
    require_graph(g)
    adjacencies, rows = [], []
    arrays = g.id_arrays
    for index, adjacency in enumerate(g.adjacencies):
        src, dst = adjacency.ends(arrays)
        edges = arrays.arange(adjacency.num_edges)
        src_set, dst_set = g.type_graph.ends[index]
        if src_set != dst_set:
            if not ignore_bipartite:
                _require_square(g, index, "add_reverse_edges", "pass ignore_bipartite=True to leave it as it is")
            added = edges[:0]
        else:
            added = arrays.nonzero(src != dst) if exclude_self else edges
        ends = arrays.concatenate([src, dst[added]]), arrays.concatenate([dst, src[added]])
        adjacencies.append(Adjacency.from_ends(adjacency.num_src, adjacency.num_dst, *ends, adjacency.idtype, arrays))
        rows.append(arrays.concatenate([edges, added]))
    result = make_graph(g.type_graph, tuple(adjacencies), g.node_counts, like=g)
    result.node_frames = node_frames(g, copy_ndata)
    if copy_edata:
        result.edge_frames = [
            x.take(edge_rows) if x else None for x, edge_rows in zip(g.edge_frames, rows, strict=True)
        ]
        for index, ids in enumerate(rows):
            result.edge_frame_at(index)[EID] = result.ids_tensor(ids)
    return result


# -- self-loops ----------------------------------------------------------------------------------------------------
@explained
def add_self_loop(
    g: DGLGraph, edge_feat_names: Sequence[str] | None = None, fill_data: Any = 1.0, etype: Any = None
) -> DGLGraph:
    """Return the graph with a self-loop at every node, added after the other edges, whether it has one or not.

    Raises DGLError: the edge type joins different node types, a feature does not exist, or ``fill_data`` is something
    else.

    Parameters
    ----------
    edge_feat_names
        edge features that ``fill_data`` gives the new edges; all by default, others get the initializer's value.
    fill_data
        a number; or ``"sum"``, ``"mean"``, ``"max"`` or ``"min"`` over the node's in-edges, 0 without any.
    etype
        the edge type; not needed when there is one.

    Examples
    --------
    >>> from dglite.convert import graph
    >>> [end.tolist() for end in add_self_loop(graph(([0, 0], [2, 1]))).edges()]
    [[0, 0, 0, 1, 2], [2, 1, 0, 1, 2]]
    """
    require_graph(g)
    index = g.etype_id(etype)
    _require_square(g, index, "add_self_loop", "only an edge type between nodes of one type has self-loops")
    frame, adjacency = g.edge_frame_at(index), g.adjacencies[index]
    names = list(frame) if edge_feat_names is None else list(edge_feat_names)
    unknown = [name for name in names if name not in frame]
    if unknown:
        raise DGLError(f"add_self_loop: there is no edge feature {unknown[0]!r}; there are {sorted(frame) or 'none'}")
    data = {name: _filled(adjacency, frame[name], fill_data) for name in names}
    result = g.clone()
    require_room(adjacency.num_src, 8, adjacency.num_edges)
    count = adjacency.num_src
    nodes = framework.arange(count) if in_program(adjacency) else np.arange(count)
    result.add_edges(nodes, nodes, data, index)
    note_in_edges(result.adjacencies[index])
    return result


def _filled(adjacency: Adjacency, values: Tensor, fill_data: Any) -> Tensor:
    """Return a row for the self-loop of each node."""
    if isinstance(fill_data, str):
        is_valid = fill_data in ("sum", "mean", "max", "min")
    else:
        is_valid = isinstance(fill_data, Number) or (active.is_tensor(fill_data) and active.shape(fill_data) == ())
    if not is_valid:
        raise DGLError(f"add_self_loop: fill_data={fill_data!r}; expected a number, 'sum', 'mean', 'max' or 'min'")
    if isinstance(fill_data, str):
        return ops.gspmm(adjacency, "copy_rhs", fill_data, None, values)
    shape = adjacency.num_src, *active.shape(values)[1:]
    return active.full(shape, fill_data, active.dtype(values), active.device(values))


@explained
def remove_self_loop(g: DGLGraph, etype: Any = None) -> DGLGraph:
    """Return the graph without the self-loops of an edge type; other edges keep their order and features.

    Raises DGLError: the edge type joins different node types.
    """
    require_graph(g)
    index = g.etype_id(etype)
    _require_square(g, index, "remove_self_loop", "only an edge type between nodes of one type has self-loops")
    src, dst = g.adjacencies[index].ends(g.id_arrays)
    return remove_edges(g, g.id_arrays.nonzero(src == dst), index)


# -- mutation methods of a graph, on a copy ----------------------------------------------------------------------------
@explained
def add_nodes(g: DGLGraph, num: int, data: Mapping[str, Tensor] | None = None, ntype: str | None = None) -> DGLGraph:
    """Return a graph with ``num`` nodes more, which have no edges; ``g`` stays as it was.

    They come last, with rows of ``data``, (num, *feat) by name, and zeros in other features. Raises what
    :meth:`DGLGraph.add_nodes` does.
    """
    require_graph(g)
    result = g.clone()
    result.add_nodes(num, data, ntype)
    return result


@explained
def add_edges(g: DGLGraph, u: Any, v: Any, data: Mapping[str, Tensor] | None = None, etype: Any = None) -> DGLGraph:
    """Return a graph with edges ``u[i] -> v[i]`` more; ``g`` stays as it was.

    They come last, with rows of ``data``, (num_new, *feat) by name, and zeros in other features. Ids beyond the last
    node make nodes. Raises what :meth:`DGLGraph.add_edges` does.
    """
    require_graph(g)
    result = g.clone()
    result.add_edges(u, v, data, etype)
    return result


@explained
def remove_edges(g: DGLGraph, eids: Any, etype: Any = None, store_ids: bool = False) -> DGLGraph:
    """Return the graph without the given edges. See :meth:`DGLGraph.remove_edges`."""
    require_graph(g)
    result = g.clone()
    result.remove_edges(eids, etype, store_ids)
    return result


@explained
def remove_nodes(g: DGLGraph, nids: Any, ntype: str | None = None, store_ids: bool = False) -> DGLGraph:
    """Return the graph without the given nodes and the edges at them. See :meth:`DGLGraph.remove_nodes`."""
    require_graph(g)
    result = g.clone()
    result.remove_nodes(nids, ntype, store_ids)
    return result


def _require_square(g: DGLGraph, index: int, caller: str, advice: str) -> None:
    src, dst = g.type_graph.ends[index]
    if src != dst:
        raise DGLError(f"{caller}: edge type {g.canonical_etypes[index]} joins different node sets; {advice}")


attach(add_self_loop=add_self_loop, remove_self_loop=remove_self_loop)
