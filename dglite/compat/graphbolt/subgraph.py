"""Sampled subgraphs: compressed columns with the ids of nodes and edges, and their conversion to and from blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from ...convert import create_block
from ...frame import EID, NID
from ...graph import DGLGraph
from ...structure.compressed import expand_ranges
from ...structure.distinct import contains
from .base import (
    CSCFormatBase,
    Movable,
    by_type,
    etype_str_to_tuple,
    etype_tuple_to_str,
    expand_indptr,
    seed_type_str_to_ntypes,
    shown,
)
from .compact import Ready, unique_and_compact_csc_formats
from .errors import InputError

__all__ = [
    "PyGLayerData",
    "PyGLayerHeteroData",
    "SampledSubgraph",
    "SampledSubgraphImpl",
]


_FIELDS = (
    "sampled_csc",
    "original_column_node_ids",
    "original_row_node_ids",
    "original_edge_ids",
    "_edge_ids_in_fused_csc_sampling_graph",
)


class PyGLayerData(NamedTuple):
    """What a PyG layer takes: features, edges (2, num_edges), numbers of source and destination nodes."""

    x: Any
    edge_index: Any
    size: Any


class PyGLayerHeteroData(NamedTuple):
    """:class:`PyGLayerData` of several types: dictionaries."""

    x: Any
    edge_index: Any
    size: Any


class SampledSubgraph(Movable):
    """Base of sampled subgraphs; values are dictionaries by type where the graph has several.

    Attributes
    ----------
    sampled_csc
        edges by destination.
    original_column_node_ids, original_row_node_ids
        ids in the graph of the destination and source nodes; of the sources None where edges have those ids themselves.
    original_edge_ids
        ids of the edges, or None.
    """

    sampled_csc: Any = None
    original_column_node_ids: Any = None
    original_row_node_ids: Any = None
    original_edge_ids: Any = None

    def exclude_edges(self, edges: Any, assume_num_node_within_int32: bool = True, async_op: bool = False) -> Any:
        """Return a subgraph without the edges between some nodes.

        Parameters
        ----------
        edges
            pairs of node ids in the graph, (n, 2), or a dictionary of them by edge type. Repeated edges between a pair
            are all left out; pairs without an edge are ignored.
        assume_num_node_within_int32
            accepted: ids of any size are distinguished.
        async_op
            return an object whose ``wait()`` returns the subgraph.

        Raises
        ------
        DGLError
            Edges are no pairs, or have types where the subgraph has none, or none where it has some.
        """
        csc = self.sampled_csc
        if isinstance(csc, Mapping) != isinstance(edges, Mapping):
            with_types = "several edge types" if isinstance(csc, Mapping) else "no edge types"
            raise InputError(f"the sampled subgraph has {with_types}; edges to exclude are {type(edges).__name__}")
        hidden = by_type(_between, csc, edges, by_type(lambda *x: x, *self._ids_of_ends()))
        fields = dict(vars(self))
        fields["sampled_csc"] = by_type(_csc_without, csc, hidden)
        for name in ("original_edge_ids", "_edge_ids_in_fused_csc_sampling_graph"):
            ids = getattr(self, name, None)
            fields[name] = None if ids is None else by_type(_without, ids, hidden)
        result = SampledSubgraphImpl(*(fields.get(name) for name in _FIELDS))
        return Ready(result) if async_op else result

    def _ids_of_ends(self) -> tuple[Any, Any, Any]:
        """Return edge types, and the ids of the source and destination nodes of each."""
        csc, rows, columns = self.sampled_csc, self.original_row_node_ids, self.original_column_node_ids
        if not isinstance(csc, Mapping):
            return None, rows, columns
        ends = {etype: etype_str_to_tuple(etype) for etype in csc}
        pick = lambda ids, place: {x: None if ids is None else ids.get(ends[x][place]) for x in csc}  # noqa: E731
        return ends, pick(rows, 0), pick(columns, 2)

    def to_pyg(self, x: Any) -> PyGLayerData | PyGLayerHeteroData:
        """Return what a PyG layer takes, of features of the source nodes, (num_sources, *feat), by type for several.

        Features of the destination nodes are the first rows.
        """
        csc, rows, columns = self.sampled_csc, self.original_row_node_ids, self.original_column_node_ids
        if not isinstance(csc, Mapping):
            size = len(rows), len(columns)
            return PyGLayerData((x, x[: size[1]]), _edge_index(csc), size)
        ends = {etype: etype_str_to_tuple(etype) for etype in csc}
        sizes = {etype: (len(rows[ends[etype][0]]), len(columns[ends[etype][2]])) for etype in csc}
        features = (x, {ntype: values[: len(columns[ntype])] for ntype, values in x.items() if ntype in columns})
        return PyGLayerHeteroData(features, {etype: _edge_index(edges) for etype, edges in csc.items()}, sizes)


class SampledSubgraphImpl(SampledSubgraph):
    """A :class:`SampledSubgraph` with the fields that it is made of."""

    def __init__(
        self,
        sampled_csc: Any = None,
        original_column_node_ids: Any = None,
        original_row_node_ids: Any = None,
        original_edge_ids: Any = None,
        _edge_ids_in_fused_csc_sampling_graph: Any = None,
    ) -> None:
        parts = list(sampled_csc.values()) if isinstance(sampled_csc, Mapping) else [sampled_csc]
        if wrong := [x for x in parts if not isinstance(x, CSCFormatBase)]:
            raise InputError(
                f"sampled_csc must be a CSCFormatBase, or a dictionary of them; got {type(wrong[0]).__name__}"
            )
        for etype in sampled_csc if isinstance(sampled_csc, Mapping) else ():
            etype_str_to_tuple(etype)
        self.sampled_csc = sampled_csc
        self.original_column_node_ids, self.original_row_node_ids = original_column_node_ids, original_row_node_ids
        self.original_edge_ids = original_edge_ids
        self._edge_ids_in_fused_csc_sampling_graph = _edge_ids_in_fused_csc_sampling_graph

    def __repr__(self) -> str:
        names = ("sampled_csc", "original_row_node_ids", "original_edge_ids", "original_column_node_ids")
        return shown("SampledSubgraphImpl", {name: getattr(self, name) for name in names}, "\n)")


def _edge_index(csc: CSCFormatBase) -> torch.Tensor:
    return torch.stack([csc.indices.long(), expand_indptr(csc.indptr, torch.int64)])


def _between(csc: CSCFormatBase, edges: torch.Tensor | None, ends: tuple[Any, Any, Any]) -> np.ndarray | None:
    """Return the positions of the edges between some pairs of nodes, in order, or None for no edges.

    Only the in-edges of the pairs' destinations are looked at.
    """
    if edges is None or not len(edges) or not len(csc.indices):
        return None
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise InputError(f"edges to exclude have shape {tuple(edges.shape)}; expected pairs (num_pairs, 2)")
    _, rows, columns = ends
    indptr, indices, pairs = (x.cpu().numpy() for x in (csc.indptr, csc.indices, edges))
    pairs = pairs[np.argsort(pairs[:, 1], kind="stable")].astype(np.int64)
    nodes = np.arange(len(indptr) - 1) if columns is None else columns.cpu().numpy()
    first, last = (np.searchsorted(pairs[:, 1], nodes, side) for side in ("left", "right"))
    near = np.flatnonzero(first < last)
    degrees = indptr[near + 1] - indptr[near]
    entries = expand_ranges(indptr[near].astype(np.int64), degrees)
    src = indices[entries] if rows is None else rows.cpu().numpy()[indices[entries]]
    width = int(max(src.max(initial=0), pairs[:, 0].max())) + 1
    keys = np.searchsorted(pairs[:, 1], pairs[:, 1]) * width + pairs[:, 0]
    return entries[contains(keys, np.repeat(first[near], degrees) * width + src)]


def _without(values: torch.Tensor, hidden: np.ndarray | None) -> torch.Tensor:
    """Return values without those at some positions."""
    if hidden is None or not len(hidden):
        return values
    return torch.from_numpy(np.delete(values.cpu().numpy(), hidden)).to(values.device)


def _csc_without(csc: CSCFormatBase, hidden: np.ndarray | None) -> CSCFormatBase:
    if hidden is None or not len(hidden):
        return csc
    before = torch.from_numpy(np.searchsorted(hidden, csc.indptr.cpu().numpy())).to(csc.indptr)
    return CSCFormatBase(csc.indptr - before, _without(csc.indices, hidden))


# -- blocks ------------------------------------------------------------------------------------------------------------
def subgraph_of(block: DGLGraph, typed: bool, has_original_edge_ids: bool = False) -> SampledSubgraphImpl:
    """Return a block as a sampled subgraph.

    Parameters
    ----------
    typed
        whether values are dictionaries by type.
    has_original_edge_ids
        whether the block's edge ids are its ``original_edge_ids``, which are None otherwise.
    """
    csc, ids = {}, {}
    for etype in block.canonical_etypes:
        name, (indptr, indices, order) = etype_tuple_to_str(etype), block.adj_tensors("csc", etype)
        edges = block.edges[etype].data[EID]
        csc[name], ids[name] = CSCFormatBase(indptr.long(), indices), edges[order.long()] if len(order) else edges
    columns = {ntype: block.dstnodes[ntype].data[NID] for ntype in block.dsttypes}
    rows = {ntype: block.srcnodes[ntype].data[NID] for ntype in block.srctypes}
    fields: list[Any] = [csc, columns, rows, ids]
    fields = fields if typed else [next(iter(x.values())) for x in fields]
    edges, columns, rows, ids = fields
    return SampledSubgraphImpl(edges, columns, rows, ids if has_original_edge_ids else None, ids)


def compacted(subgraph: SampledSubgraph) -> SampledSubgraph:
    """Return a subgraph whose sources are numbered from 0 on, destinations first; itself where they are."""
    if subgraph.original_row_node_ids is not None:
        return subgraph
    columns = subgraph.original_column_node_ids
    rows, csc = unique_and_compact_csc_formats(subgraph.sampled_csc, columns)
    ids = subgraph.original_edge_ids, getattr(subgraph, "_edge_ids_in_fused_csc_sampling_graph", None)
    return SampledSubgraphImpl(csc, columns, rows, *ids)


def block_of(subgraph: SampledSubgraph) -> DGLGraph:
    """Return a sampled subgraph as a block, with node ids and, if it has them, edge ids."""
    subgraph = compacted(subgraph)
    csc, columns, rows = subgraph.sampled_csc, subgraph.original_column_node_ids, subgraph.original_row_node_ids
    edge_ids = subgraph.original_edge_ids
    if edge_ids is None:
        edge_ids = getattr(subgraph, "_edge_ids_in_fused_csc_sampling_graph", None)
    if not isinstance(csc, Mapping):
        block = create_block(("csc", _arrays(csc)), len(rows), len(columns))
        block.srcdata[NID], block.dstdata[NID] = rows, columns
        if edge_ids is not None:
            block.edata[EID] = edge_ids
        return block
    etypes = {etype: etype_str_to_tuple(etype) for etype in csc}
    sources, destinations = ({t: len(ids) for t, ids in x.items()} for x in (rows, columns))
    for source, _, destination in etypes.values():
        sources.setdefault(source, 0)
        destinations.setdefault(destination, 0)
    data = {etypes[etype]: ("csc", _arrays(x)) for etype, x in csc.items()}
    block = create_block(data, sources, destinations)
    for ntype, ids in rows.items():
        block.srcnodes[ntype].data[NID] = ids
    for ntype, ids in columns.items():
        block.dstnodes[ntype].data[NID] = ids
    for etype, ids in (edge_ids or {}).items():
        block.edges[etypes[etype]].data[EID] = ids
    return block


def _arrays(csc: CSCFormatBase) -> tuple[Any, Any, Any]:
    return csc.indptr.to(csc.indices.dtype), csc.indices, csc.indices[:0]


def columns_of_seeds(seed_type: str | None, seeds: torch.Tensor) -> list[tuple[Any, torch.Tensor]]:
    """Return node types and ids of each column of seeds (n, k)."""
    ntypes = [None] * seeds.shape[1] if seed_type is None else seed_type_str_to_ntypes(seed_type, seeds.shape[1])
    return list(zip(ntypes, seeds.unbind(1), strict=True))
