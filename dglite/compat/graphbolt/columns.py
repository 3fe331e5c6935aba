"""A graph of all types in one numbering, by destination, and as a DGLGraph: one is made of the other when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ...convert import graph, heterograph
from ...frame import EID, ETYPE, NID, NTYPE
from ...graph import DGLGraph
from .base import etype_str_to_tuple, etype_tuple_to_str, expand_indptr
from .errors import InputError

_INTERNAL = frozenset({NID, EID, NTYPE, ETYPE})


class FusedColumns(NamedTuple):
    """Edges of all types by destination, nodes of all types numbered together.

    Attributes
    ----------
    indptr, indices
        integers (num_nodes + 1,) and (num_edges,).
    edge_ids
        int64 (num_edges,): the id of each edge among those of its type in the DGLGraph; None for the place itself.
    node_type_offset, type_per_edge
        where each type's nodes begin, (num_types + 1,), and the number of each edge's type; None for one type.
    node_type_to_id, edge_type_to_id
        numbers of types by name; None for one type.
    """

    indptr: torch.Tensor
    indices: torch.Tensor
    edge_ids: torch.Tensor | None = None
    node_type_offset: torch.Tensor | None = None
    type_per_edge: torch.Tensor | None = None
    node_type_to_id: dict[str, int] | None = None
    edge_type_to_id: dict[str, int] | None = None

    def first_nodes(self) -> dict[str, tuple[int, int]]:
        """Return where the nodes of each type begin and end."""
        assert self.node_type_offset is not None and self.node_type_to_id is not None
        first = self.node_type_offset.tolist()
        return {ntype: (first[i], first[i + 1]) for ntype, i in self.node_type_to_id.items()}

    def by_id(self, values: torch.Tensor) -> torch.Tensor:
        """Return values of the edges of the only type in the order of their ids in the DGLGraph."""
        if self.edge_ids is None:
            return values
        ordered = torch.empty_like(values)
        ordered[self.edge_ids] = values
        return ordered

    def places(self, etype: str) -> torch.Tensor:
        """Return the places of a type's edges, in the order of their ids in the DGLGraph."""
        assert self.type_per_edge is not None and self.edge_type_to_id is not None
        places = (self.type_per_edge == self.edge_type_to_id[etype]).nonzero().flatten()
        if self.edge_ids is None:
            return places
        ordered = torch.empty_like(places)
        ordered[self.edge_ids[places]] = places
        return ordered


def check_columns(columns: FusedColumns) -> FusedColumns:
    """Return columns that users gave, types in the order of their numbers.

    Raises DGLError: lengths or numbers do not fit each other, or only some of the four fields about types are given.
    """
    indptr, indices = columns.indptr, columns.indices
    for name, x in (("csc_indptr", indptr), ("indices", indices)):
        if not torch.is_tensor(x) or x.ndim != 1 or x.is_floating_point():
            raise InputError(f"{name} must be a tensor of integers of one dimension, got {_kind(x)}")
    if len(indptr) == 0 or int(indptr[-1]) != len(indices):
        raise InputError(f"csc_indptr ends with {indptr[-1:].tolist()}; expected {len(indices)}, the number of indices")
    typed = [x is not None for x in columns[3:]]
    if not any(typed):
        return columns
    if not all(typed):
        names = [name for name, is_there in zip(FusedColumns._fields[3:], typed, strict=True) if not is_there]
        raise InputError(f"a graph of several types needs all of {list(FusedColumns._fields[3:])}; {names} are missing")
    offset, kinds, ntypes, etypes = columns[3:]
    assert offset is not None and kinds is not None and ntypes is not None and etypes is not None
    if len(offset) != len(ntypes) + 1 or int(offset[-1]) != len(indptr) - 1:
        raise InputError(
            f"node_type_offset is {offset.tolist()}; expected {len(ntypes) + 1} numbers from 0 to {len(indptr) - 1}"
        )
    if len(kinds) != len(indices):
        raise InputError(f"type_per_edge has {len(kinds)} numbers; expected {len(indices)}, one for each edge")
    for name in etypes:
        source, _, destination = etype_str_to_tuple(name)
        if missing := {source, destination} - set(ntypes):
            raise InputError(
                f"edge type {name!r} names node types {sorted(missing)}; node_type_to_id has {list(ntypes)}"
            )
    return columns


def _kind(x: Any) -> str:
    return f"{x.dtype} of shape {tuple(x.shape)}" if torch.is_tensor(x) else type(x).__name__


def graph_of(columns: FusedColumns, nodes: Mapping[str, Any], edges: Mapping[str, Any]) -> DGLGraph:
    """Return the DGLGraph of fused columns, with features of all nodes and edges by name."""
    indptr, indices = columns.indptr, columns.indices
    if columns.node_type_to_id is None:
        ids = indices[:0] if columns.edge_ids is None else columns.edge_ids.to(indices.dtype)
        g = graph(("csc", (indptr.to(indices.dtype), indices, ids)), num_nodes=len(indptr) - 1)
    else:
        assert columns.edge_type_to_id is not None
        first, dst, ends = columns.first_nodes(), expand_indptr(indptr, indices.dtype), {}
        for etype in columns.edge_type_to_id:
            places, (a, r, b) = columns.places(etype), etype_str_to_tuple(etype)
            ends[a, r, b] = indices[places] - first[a][0], dst[places] - first[b][0]
        g = heterograph(ends, {ntype: end - start for ntype, (start, end) in first.items()})
    for name, values in nodes.items():
        set_nodes(g, columns, name, values)
    for name, values in edges.items():
        set_edges(g, columns, name, values)
    return g


def columns_of(g: DGLGraph) -> FusedColumns:
    """Return the fused columns of a DGLGraph: types numbered in its order, a node's edges ordered by type."""
    if g.is_homogeneous:
        indptr, indices, edge_ids = g.adj_tensors("csc")
        return FusedColumns(indptr.long(), indices, edge_ids.long() if len(edge_ids) else None)
    ntypes, etypes = g.ntypes, g.canonical_etypes
    offset = torch.tensor([0, *(g.num_nodes(ntype) for ntype in ntypes)]).cumsum(0)
    first = dict(zip(ntypes, offset.tolist(), strict=False))
    # The place of an edge: where its destination's begin, plus those of types before, plus its place among its own.
    indptr = torch.zeros(int(offset[-1]) + 1, dtype=torch.int64)
    parts = []
    for i, (source, _, destination) in enumerate(etypes):
        bounds, indices, edge_ids = g.adj_tensors("csc", etypes[i])
        edge_ids = edge_ids if len(edge_ids) else torch.arange(len(indices))
        degrees = bounds.long().diff()
        indptr[1 + first[destination] : 1 + first[destination] + len(degrees)] += degrees
        parts.append((i, first[destination], bounds.long(), indices.long() + first[source], edge_ids.long()))
    torch.cumsum(indptr, 0, out=indptr)
    indices, edge_ids = (torch.empty(int(indptr[-1]), dtype=torch.int64) for _ in range(2))
    kinds, filled = torch.empty(len(indices), dtype=torch.uint8 if len(etypes) < 256 else torch.int64), indptr.clone()
    for i, start, bounds, sources, ids in parts:
        span = slice(start, start + len(bounds) - 1)
        places = (filled[span] - bounds[:-1]).repeat_interleave(bounds.diff()) + torch.arange(len(sources))
        filled[span] += bounds.diff()
        indices[places], edge_ids[places], kinds[places] = sources, ids, i
    names = {etype_tuple_to_str(etype): i for i, etype in enumerate(etypes)}
    dtype = torch.int32 if g.idtype == torch.int32 else torch.int64
    return FusedColumns(
        indptr, indices.to(dtype), edge_ids, offset, kinds, {ntype: i for i, ntype in enumerate(ntypes)}, names
    )


class MergedEdges(NamedTuple):
    """What edges of the graph of all types in one are in the DGLGraph.

    Attributes
    ----------
    types, edge_ids
        for each edge the number of its type in the DGLGraph, and its id among those of its type.
    first_nodes, first_sources
        by node type, and by edge type of the sources, the number of the first node.
    """

    types: np.ndarray
    edge_ids: np.ndarray
    first_nodes: np.ndarray
    first_sources: np.ndarray


def merged_edges(graph: Any) -> MergedEdges:
    """Return what the edges of all types in one are, for a graph of several types."""
    g, columns = graph.g, graph.columns
    first, count = columns.first_nodes(), len(columns.indices)
    types = np.empty(count, np.uint8 if len(g.canonical_etypes) < 256 else np.int64)
    edge_ids = np.empty(count, g.numpy_idtype)
    for i, etype in enumerate(g.canonical_etypes):
        places = columns.places(etype_tuple_to_str(etype)).numpy()
        types[places], edge_ids[places] = i, np.arange(len(places))
    first_nodes = np.array([first[ntype][0] for ntype in g.ntypes])
    return MergedEdges(types, edge_ids, first_nodes, first_nodes[[source for source, _ in g.type_graph.ends]])


# -- attributes --------------------------------------------------------------------------------------------------------
def type_numbers(columns: FusedColumns | None, g: DGLGraph | None) -> tuple[dict[str, int] | None, ...]:
    """Return the numbers of node types and of edge types by name; None for a graph of one of each."""
    if columns is not None or g is None:
        assert columns is not None
        return columns.node_type_to_id, columns.edge_type_to_id
    if g.is_homogeneous:
        return None, None
    names: tuple[Any, ...] = g.ntypes, map(etype_tuple_to_str, g.canonical_etypes)
    return tuple({name: i for i, name in enumerate(x)} for x in names)


def common_columns(frames: Sequence[Any]) -> list[str]:
    """Return the names of features that all frames have, without ids."""
    return [x for x in frames[0] if x not in _INTERNAL and all(x in frame for frame in frames)]


def node_values(g: DGLGraph) -> dict[str, torch.Tensor]:
    """Return the features that all node types have, one type after the other."""
    frames = [g.nodes[ntype].data for ntype in g.ntypes]
    return {name: torch.cat([frame[name] for frame in frames]) for name in common_columns(frames)}


def edge_values(g: DGLGraph, columns: FusedColumns) -> dict[str, torch.Tensor]:
    """Return the features that all edge types have, in the order of ``indices``."""
    frames = [g.edges[etype].data for etype in g.canonical_etypes]
    names, attributes = common_columns(frames), {}
    for name in names:
        if columns.edge_type_to_id is None:
            values = frames[0][name]
            attributes[name] = values if columns.edge_ids is None else values[columns.edge_ids]
            continue
        attributes[name] = frames[0][name].new_empty((len(columns.indices), *frames[0][name].shape[1:]))
        for etype, frame in zip(columns.edge_type_to_id, frames, strict=True):
            attributes[name][columns.places(etype)] = frame[name]
    return attributes


def set_nodes(g: DGLGraph, columns: FusedColumns, name: str, values: torch.Tensor) -> None:
    """Give a graph a feature of all nodes."""
    if columns.node_type_to_id is None:
        g.ndata[name] = values
        return
    for ntype, (first, last) in columns.first_nodes().items():
        g.nodes[ntype].data[name] = values[first:last]


def set_edges(g: DGLGraph, columns: FusedColumns, name: str, values: torch.Tensor) -> None:
    """Give a graph a feature of all edges, in the order of ``indices``."""
    if columns.edge_type_to_id is None:
        g.edata[name] = columns.by_id(values)
        return
    for etype in columns.edge_type_to_id:
        g.edges[etype_str_to_tuple(etype)].data[name] = values[columns.places(etype)]
