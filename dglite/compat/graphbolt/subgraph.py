"""Sampled subgraphs: compressed columns with the ids of nodes and edges, and their conversion to and from blocks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch

from ...convert import create_block
from ...frame import EID, NID
from ...graph import DGLGraph
from ...graph.storage import make_graph
from ...kernels import compiled
from ...structure import Adjacency
from .base import (
    CSCFormatBase,
    Later,
    Movable,
    by_type,
    etype_str_to_tuple,
    etype_tuple_to_str,
    expand_indptr,
    seed_type_str_to_ntypes,
    shown,
)
from .compact import Ready, compact_csc_format, unique_and_compact_csc_formats
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

        Raises DGLError: edges are no pairs, or have types where the subgraph has none, or none where it has some.

        Parameters
        ----------
        edges
            pairs of node ids in the graph, (n, 2), or a dictionary of them by edge type. Repeated edges between a pair
            are all left out; pairs without an edge are ignored.
        assume_num_node_within_int32
            accepted: ids of any size are distinguished.
        async_op
            return an object whose ``wait()`` returns the subgraph.
        """
        csc = self.sampled_csc
        if isinstance(csc, Mapping) != isinstance(edges, Mapping):
            with_types = "several edge types" if isinstance(csc, Mapping) else "no edge types"
            raise InputError(f"the sampled subgraph has {with_types}; edges to exclude are {type(edges).__name__}")
        left = by_type(lambda x, pairs, ends: entries_left(x.indptr, x.indices, pairs, *ends), csc, edges, self._ends())
        fields = {name: getattr(self, name, None) for name in _FIELDS}
        fields["sampled_csc"] = by_type(_csc_of, csc, left)
        for name in ("original_edge_ids", "_edge_ids_in_fused_csc_sampling_graph"):
            fields[name] = None if fields[name] is None else by_type(_at, fields[name], left)
        result = SampledSubgraphImpl(**fields)
        return Ready(result) if async_op else result

    def _ends(self) -> Any:
        """Return the ids of the source and destination nodes, by edge type where there are several."""
        csc, rows, columns = self.sampled_csc, self.original_row_node_ids, self.original_column_node_ids
        if not isinstance(csc, Mapping):
            return rows, columns
        ends = {etype: etype_str_to_tuple(etype) for etype in csc}
        pick = lambda ids, ntype: None if ids is None else ids.get(ntype)  # noqa: E731
        return {etype: (pick(rows, source), pick(columns, target)) for etype, (source, _, target) in ends.items()}

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

    original_edge_ids = Later()
    _edge_ids_in_fused_csc_sampling_graph = Later()

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


Left = tuple[torch.Tensor, torch.Tensor] | None
"""Where the edges begin and end that are left of each destination, and their positions; None where all are left."""


def entries_left(indptr: torch.Tensor, indices: torch.Tensor, pairs: Any, rows: Any, columns: Any) -> Left:
    """Return the edges that are not between some pairs of nodes; ``rows`` and ``columns`` are the ends' ids, or None.

    Raises DGLError: they are no pairs.
    """
    if pairs is None or not len(pairs) or not len(indices):
        return None
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise InputError(f"edges to exclude have shape {tuple(pairs.shape)}; expected pairs (num_pairs, 2)")
    ids, device = pairs.cpu().numpy().astype(np.int64), indptr.device
    width, hashing = int(ids[:, 0].max()) + 1, compiled("sample.hashing")
    sets = hashing.id_set(np.ascontiguousarray(ids[:, 1])), hashing.id_set(ids[:, 1] * width + ids[:, 0])
    bounds, left = np.empty(len(indptr), np.int64), np.empty(len(indices) + 1, np.int64)  # written to behind the last
    arrays = (np.empty(0, np.int64) if x is None else x.cpu().contiguous().numpy() for x in (rows, columns))
    inputs = indptr.cpu().numpy(), indices.cpu().numpy(), *arrays, *sets, width
    count = compiled("sample.split").entries_left(*inputs, bounds, left)
    if count == len(indices):
        return None
    return torch.from_numpy(bounds).to(device), torch.from_numpy(left[:count]).to(device)


def _at(values: torch.Tensor, left: Left) -> torch.Tensor:
    return values if left is None else values[left[1]]


def _csc_of(csc: CSCFormatBase, left: Left) -> CSCFormatBase:
    return csc if left is None else CSCFormatBase(left[0].to(csc.indptr.dtype), csc.indices[left[1]])


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
    csc: dict[str, CSCFormatBase] = {}
    orders: list[Any] = []
    on_host = block.device.type == "cpu"
    names = [etype_tuple_to_str(etype) for etype in block.canonical_etypes]
    for i, name in enumerate(names):
        stored = block.adjacencies[i].csc() if on_host else None
        if stored is not None and stored.edge_ids is None:  # as samplers make blocks
            parts: Any = torch.from_numpy(stored.indptr), block.ids_tensor(stored.indices), ()
        else:
            parts = block.adj_tensors("csc", block.canonical_etypes[i])
        indptr, indices, order = parts
        csc[name] = CSCFormatBase(indptr.long(), indices, check=False)
        orders.append(order)
    count, frames = len(block.srctypes), [block.edge_frame_at(i) for i in range(len(names))]
    nodes = [block.node_frame_at(i)[NID] for i in range(len(block.node_counts))]
    rows, columns = (
        dict(zip(block.srctypes, nodes, strict=False)),
        dict(zip(block.dsttypes, nodes[count:], strict=True)),
    )

    @cache
    def ids() -> Any:
        read = [frame[EID] for frame in frames]
        read = [x[order.long()] if len(order) else x for x, order in zip(read, orders, strict=True)]
        return dict(zip(names, read, strict=True)) if typed else read[0]

    result = SampledSubgraphImpl.__new__(SampledSubgraphImpl)
    fields = (csc, columns, rows) if typed else (next(iter(x.values())) for x in (csc, columns, rows))
    fields = *fields, ids if has_original_edge_ids else None, ids
    result.__dict__.update(zip(_FIELDS, fields, strict=True))
    return result


def compacted(subgraph: SampledSubgraph) -> SampledSubgraph:
    """Return a subgraph whose sources are numbered from 0 on, destinations first; itself where they are."""
    if subgraph.original_row_node_ids is not None:
        return subgraph
    rows, csc = unique_and_compact_csc_formats(subgraph.sampled_csc, subgraph.original_column_node_ids)
    return _renumbered(subgraph, rows, csc)


def with_own_sources(subgraph: SampledSubgraph) -> SampledSubgraph:
    """Return a subgraph in which each edge has a source of its own, after the destinations."""
    rows, csc = compact_csc_format(subgraph.sampled_csc, subgraph.original_column_node_ids)
    return _renumbered(subgraph, rows, csc)


def _renumbered(subgraph: SampledSubgraph, rows: Any, csc: Any) -> SampledSubgraph:
    ids = subgraph.original_edge_ids, getattr(subgraph, "_edge_ids_in_fused_csc_sampling_graph", None)
    return SampledSubgraphImpl(csc, subgraph.original_column_node_ids, rows, *ids)


def block_without(block: DGLGraph, edges: Any) -> DGLGraph:
    """Return a block without the edges between pairs of nodes of the graph, (n, 2), by edge type for several types.

    Raises DGLError: as :meth:`SampledSubgraph.exclude_edges`.
    """
    if isinstance(edges, Mapping) != (len(block.canonical_etypes) > 1) or block.device.type != "cpu":
        return block_of(subgraph_of(block, isinstance(edges, Mapping)).exclude_edges(edges))
    adjacencies, frames = list(block.adjacencies), list(block.edge_frames)
    for i, etype in enumerate(block.canonical_etypes):
        stored, (source, _, target) = adjacencies[i].csc(), etype
        indptr, indices = torch.from_numpy(stored.indptr), torch.from_numpy(stored.indices)
        pairs = edges.get(etype_tuple_to_str(etype)) if isinstance(edges, Mapping) else edges
        left = entries_left(indptr, indices, pairs, block.srcnodes[source].data[NID], block.dstnodes[target].data[NID])
        if left is None:
            continue
        bounds, places = (x.numpy() for x in left)
        sizes = adjacencies[i].num_src, adjacencies[i].num_dst
        rows = bounds, stored.indices[places]
        adjacencies[i] = Adjacency.from_csc(*sizes, *rows, None, block.numpy_idtype, copy=False, validate=False)
        edge_ids = places if stored.edge_ids is None else stored.edge_ids[places]
        frames[i] = block.edge_frame_at(i).take(edge_ids)
    result = make_graph(block.type_graph, tuple(adjacencies), block.node_counts, like=block)
    result.node_frames, result.edge_frames = list(block.node_frames), frames
    return result


def block_of(subgraph: SampledSubgraph) -> DGLGraph:
    """Return a sampled subgraph as a block, with node ids and, if it has them, edge ids."""
    subgraph = compacted(subgraph)
    csc, columns, rows = subgraph.sampled_csc, subgraph.original_column_node_ids, subgraph.original_row_node_ids
    edge_ids = subgraph.original_edge_ids
    if edge_ids is None:
        edge_ids = getattr(subgraph, "_edge_ids_in_fused_csc_sampling_graph", None)
    if not isinstance(csc, Mapping):
        kind = ("_N", "_E", "_N")
        etypes, csc, columns, rows = {None: kind}, {None: csc}, {"_N": columns}, {"_N": rows}
        edge_ids = None if edge_ids is None else {None: edge_ids}
    else:
        etypes = {etype: etype_str_to_tuple(etype) for etype in csc}
    sizes = [
        {t: len(ids[t]) if t in ids else 0 for a, _, b in etypes.values() for t in (a, b)} for ids in (rows, columns)
    ]
    for counts, ids in zip(sizes, (rows, columns), strict=True):
        counts.update({ntype: len(x) for ntype, x in ids.items()})
    block = create_block({etypes[etype]: ("csc", _arrays(x)) for etype, x in csc.items()}, sizes[0], sizes[1])
    for side, ids in ((block.srcnodes, rows), (block.dstnodes, columns)):
        for ntype, x in ids.items():
            side[ntype].data[NID] = x
    for etype, ids in (edge_ids or {}).items():
        block.edges[etypes[etype]].data[EID] = ids
    return block


def _arrays(csc: CSCFormatBase) -> tuple[Any, Any, Any]:
    return csc.indptr.to(csc.indices.dtype), csc.indices, csc.indices[:0]


def columns_of_seeds(seed_type: str | None, seeds: torch.Tensor) -> list[tuple[Any, torch.Tensor]]:
    """Return node types and ids of each column of seeds (n, k)."""
    ntypes = [None] * seeds.shape[1] if seed_type is None else seed_type_str_to_ntypes(seed_type, seeds.shape[1])
    return list(zip(ntypes, seeds.unbind(1), strict=True))
