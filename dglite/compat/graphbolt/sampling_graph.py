"""Graphs to sample from, under GraphBolt's names."""

from __future__ import annotations

import copy
import os
import weakref
from collections.abc import Mapping
from typing import Any, Self

import torch

from ...errors import DGLError
from ...frame import EID, ETYPE, NID, NTYPE
from ...graph import DGLGraph
from ...io.shared import forget_place, shared_place
from ...random import generator
from ...transforms import to_homogeneous
from .base import ORIGINAL_EDGE_ID, etype_str_to_tuple, etype_tuple_to_str, shown
from .columns import FusedColumns, check_columns, columns_of, graph_of
from .draws import GraphDraws

__all__ = [
    "FusedCSCSamplingGraph",
    "SamplingGraph",
    "from_dglgraph",
    "fused_csc_sampling_graph",
    "load_from_shared_memory",
]

_INTERNAL = frozenset({NID, EID, NTYPE, ETYPE})
Attributes = Mapping[str, torch.Tensor] | None


class SamplingGraph:
    """Base of graphs to sample from."""

    @property
    def num_nodes(self) -> Any:
        """Number of nodes; a dictionary by type where there are several."""
        raise NotImplementedError(f"{type(self).__name__} must define num_nodes")

    @property
    def num_edges(self) -> Any:
        """Number of edges; a dictionary by type, as strings, where there are several."""
        raise NotImplementedError(f"{type(self).__name__} must define num_edges")

    def copy_to_shared_memory(self, shared_memory_name: str) -> SamplingGraph:
        """Copy the graph to memory that other processes find by a name."""
        raise NotImplementedError(f"{type(self).__name__} must define copy_to_shared_memory(shared_memory_name)")

    def to(self, device: Any) -> SamplingGraph:
        """Return the graph on a device."""
        raise NotImplementedError(f"{type(self).__name__} must define to(device)")


def _field(name: str, doc: str) -> Any:
    """Return a property for a field of the fused columns, which may be set."""

    def read(self: Any) -> Any:
        return getattr(self.columns, name)

    def write(self: Any, value: Any) -> None:
        self._columns, self._g = check_columns(self.columns._replace(**{name: value})), None

    return property(read, write, doc=doc)


class FusedCSCSamplingGraph(GraphDraws, SamplingGraph):
    """A graph by destination, nodes of all types numbered together; :func:`fused_csc_sampling_graph` makes one.

    Attributes
    ----------
    g
        the DGLGraph that is sampled from; it and the compressed columns are made of each other when they are needed.
    num_nodes, num_edges
        counts; dictionaries by type, edge types as strings, where the graph has several.
    total_num_nodes, total_num_edges
        counts of all types together.
    node_attributes, edge_attributes
        tensors by name with a row for each node, and for each entry of ``indices``; or None.
    """

    def __init__(
        self,
        columns: FusedColumns | None = None,
        node_attributes: Attributes = None,
        edge_attributes: Attributes = None,
        g: DGLGraph | None = None,
        has_original_edge_ids: bool = False,
    ) -> None:
        if (columns is None) == (g is None):
            raise DGLError("make a graph by fused_csc_sampling_graph(indptr, indices) or from_dglgraph(g)")
        self._columns: FusedColumns | None = columns
        self._g = g
        self._of_dglgraph, self._has_ids = g is not None, has_original_edge_ids
        self._nodes = None if node_attributes is None else dict(node_attributes)
        self._edges = None if edge_attributes is None else dict(edge_attributes)
        self._merged: DGLGraph | None = None

    csc_indptr = _field("indptr", "Where the in-edges of each node begin, (total_num_nodes + 1,).")
    indices = _field("indices", "Sources of the edges, (total_num_edges,).")
    node_type_offset = _field("node_type_offset", "Where each type's nodes begin, (num_types + 1,), or None.")
    type_per_edge = _field("type_per_edge", "Numbers of the edges' types, (total_num_edges,), or None.")

    def __repr__(self) -> str:
        fields: dict[str, Any] = {"csc_indptr": self.csc_indptr, "indices": self.indices}
        fields["total_num_nodes"] = f"{self.total_num_nodes}, num_edges={self.num_edges}"
        names = "node_type_offset type_per_edge node_type_to_id edge_type_to_id node_attributes edge_attributes"
        fields |= {name: x for name in names.split() if (x := getattr(self, name)) is not None}
        return shown("FusedCSCSamplingGraph", fields)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_merged": None, "_g": self._g if self._of_dglgraph else None}

    # -- the two forms ---------------------------------------------------------------------------------------------
    @property
    def columns(self) -> FusedColumns:
        """The compressed columns."""
        if self._columns is None:
            assert self._g is not None
            self._columns = columns_of(self._g)
        return self._columns

    @property
    def g(self) -> DGLGraph:
        """The DGLGraph, whose edges of a type are numbered as they come in the columns, or as they were before."""
        if self._g is None:
            self._g = graph_of(self.columns, self._nodes or {}, self._edges or {})
        return self._g

    @property
    def typed(self) -> bool:
        """Whether values are dictionaries by type."""
        return self.node_type_to_id is not None

    @property
    def node_type_to_id(self) -> dict[str, int] | None:
        """Numbers of the node types by name; None for a graph of one node and edge type."""
        if self._columns is not None or self._g is None:
            return self.columns.node_type_to_id
        return None if self._g.is_homogeneous else {ntype: i for i, ntype in enumerate(self._g.ntypes)}

    @node_type_to_id.setter
    def node_type_to_id(self, value: dict[str, int]) -> None:
        self._columns, self._g = check_columns(self.columns._replace(node_type_to_id=value)), None

    @property
    def edge_type_to_id(self) -> dict[str, int] | None:
        """Numbers of the edge types by name; None for a graph of one node and edge type."""
        if self._columns is not None or self._g is None:
            return self.columns.edge_type_to_id
        etypes = map(etype_tuple_to_str, self._g.canonical_etypes)
        return None if self._g.is_homogeneous else {etype: i for i, etype in enumerate(etypes)}

    @edge_type_to_id.setter
    def edge_type_to_id(self, value: dict[str, int]) -> None:
        self._columns, self._g = check_columns(self.columns._replace(edge_type_to_id=value)), None

    # -- counts ----------------------------------------------------------------------------------------------------
    @property
    def total_num_nodes(self) -> int:
        """Number of nodes of all types."""
        return self._g.num_nodes() if self._g is not None else len(self.columns.indptr) - 1

    @property
    def total_num_edges(self) -> int:
        """Number of edges of all types."""
        return self._g.num_edges() if self._g is not None else len(self.columns.indices)

    @property
    def num_nodes(self) -> Any:
        """Number of nodes; a dictionary by type where there are several."""
        if not self.typed:
            return self.total_num_nodes
        if self._g is not None:
            return {ntype: self._g.num_nodes(ntype) for ntype in self._g.ntypes}
        return {ntype: last - first for ntype, (first, last) in self.columns.first_nodes().items()}

    @property
    def num_edges(self) -> Any:
        """Number of edges; a dictionary by type, as strings, where there are several."""
        etypes = self.edge_type_to_id
        if etypes is None:
            return self.total_num_edges
        if self._g is not None:
            return {etype: self._g.num_edges(etype_str_to_tuple(etype)) for etype in etypes}
        counts = torch.bincount(self.columns.type_per_edge.long(), minlength=len(etypes)).tolist()  # type: ignore
        return {etype: counts[i] for etype, i in etypes.items()}

    # -- attributes ------------------------------------------------------------------------------------------------
    @property
    def node_attributes(self) -> dict[str, torch.Tensor] | None:
        """Tensors of all nodes by name, or None; of a DGLGraph the features that all node types have."""
        if self._nodes is None and self._of_dglgraph:
            g = self.g
            frames = [g.nodes[ntype].data for ntype in g.ntypes]
            names = [x for x in frames[0] if x not in _INTERNAL and all(x in frame for frame in frames)]
            self._nodes = {name: torch.cat([frame[name] for frame in frames]) for name in names}
        return self._nodes or None

    @node_attributes.setter
    def node_attributes(self, value: Attributes) -> None:
        self._nodes = {}
        for name, tensor in (value or {}).items():
            self.add_node_attribute(name, tensor)

    @property
    def edge_attributes(self) -> dict[str, torch.Tensor] | None:
        """Tensors of all entries of ``indices`` by name, or None; of a DGLGraph the features of all edge types."""
        if self._edges is None and self._of_dglgraph:
            self._edges = self._read_edges()
        return self._edges or None

    @edge_attributes.setter
    def edge_attributes(self, value: Attributes) -> None:
        self._edges = {}
        for name, tensor in (value or {}).items():
            self.add_edge_attribute(name, tensor)

    def _read_edges(self) -> dict[str, torch.Tensor]:
        g, columns = self.g, self.columns
        frames = {etype_tuple_to_str(etype): g.edges[etype].data for etype in g.canonical_etypes}
        first = next(iter(frames.values()))
        names = [x for x in first if x not in _INTERNAL and all(x in frame for frame in frames.values())]
        attributes = {}
        for name in names:
            if columns.edge_type_to_id is None:
                column = first[name]
                attributes[name] = column if columns.edge_ids is None else column[columns.edge_ids]
                continue
            values = first[name].new_empty((len(columns.indices), *first[name].shape[1:]))
            for etype, frame in frames.items():
                values[columns.places(etype)] = frame[name]
            attributes[name] = values
        if self._has_ids:
            ids = columns.edge_ids
            attributes[ORIGINAL_EDGE_ID] = torch.arange(len(columns.indices)) if ids is None else ids
        return attributes

    def node_attribute(self, name: str) -> torch.Tensor | None:
        """Return an attribute of the nodes, or None."""
        return (self.node_attributes or {}).get(name)

    def edge_attribute(self, name: str) -> torch.Tensor | None:
        """Return an attribute of the edges, or None."""
        return (self.edge_attributes or {}).get(name)

    def add_node_attribute(self, name: str, tensor: torch.Tensor) -> None:
        """Add an attribute of the nodes, (total_num_nodes, *feat)."""
        _check_rows(name, tensor, self.total_num_nodes, "node")
        self._nodes = {**(self.node_attributes or {}), name: tensor}
        g = self.g
        if not self.typed:
            g.ndata[name] = tensor
            return
        for ntype, (first, last) in self.columns.first_nodes().items():
            g.nodes[ntype].data[name] = tensor[first:last]

    def add_edge_attribute(self, name: str, tensor: torch.Tensor) -> None:
        """Add an attribute of the edges, (total_num_edges, *feat), in the order of ``indices``."""
        _check_rows(name, tensor, self.total_num_edges, "edge")
        self._edges, self._merged = {**(self.edge_attributes or {}), name: tensor}, None
        g, columns = self.g, self.columns
        if columns.edge_type_to_id is not None:
            for etype in columns.edge_type_to_id:
                g.edges[etype_str_to_tuple(etype)].data[name] = tensor[columns.places(etype)]
        else:
            g.edata[name] = columns.by_id(tensor)

    @property
    def has_original_edge_ids(self) -> bool:
        """Whether samples have the ids that edges had before they were ordered by destination."""
        return self._has_ids or (not self._of_dglgraph and ORIGINAL_EDGE_ID in (self._edges or {}))

    def name_edges(self, block: DGLGraph) -> DGLGraph:
        """Let the edges of a sampled block have their original ids, where there are some; return the block."""
        if self.has_original_edge_ids and not self._of_dglgraph:
            for etype in block.canonical_etypes:
                data, ids = block.edges[etype].data, self.g.edges[etype].data[ORIGINAL_EDGE_ID]
                data[EID] = ids[data[EID].long()]
        return block

    # -- copies ----------------------------------------------------------------------------------------------------
    def to(self, device: Any = "cpu") -> FusedCSCSamplingGraph:
        """Return the graph on a device; compressed columns and attributes stay in the host's memory."""
        moved = copy.copy(self)
        moved._g, moved._merged = self.g.to(device), None
        return moved

    def pin_memory_(self) -> Self:
        """Return the graph: samples are drawn where it is."""
        return self

    def is_pinned(self) -> bool:
        """Return False: samples are drawn where the graph is."""
        return False

    def copy_to_shared_memory(self, shared_memory_name: str) -> FusedCSCSamplingGraph:
        """Return the graph in memory that other processes find by a name, as long as what is returned lives.

        Raises
        ------
        DGLError
            The name is empty or no text.
        """
        place = shared_place(shared_memory_name)
        columns, nodes, edges = self.columns._asdict(), self.node_attributes, self.edge_attributes
        draft = place.with_name(f"{place.name}.{os.getpid()}")
        torch.save({"columns": columns, "nodes": nodes, "edges": edges, "ids": self._has_ids}, draft)
        draft.replace(place)
        shared = load_from_shared_memory(shared_memory_name)
        weakref.finalize(shared, forget_place, place, place.stat().st_ino, os.getpid())
        return shared

    def sample_negative_edges_uniform(
        self, edge_type: str | None, node_pairs: torch.Tensor, negative_ratio: int
    ) -> torch.Tensor:
        """Return pairs (num_pairs, 2) and after them ``negative_ratio`` of each one's source and a random destination.

        Destinations are drawn from all nodes of the edge type's destination type.
        """
        if not torch.is_tensor(node_pairs) or node_pairs.ndim != 2 or node_pairs.shape[1] != 2:
            raise DGLError(f"node_pairs must be a tensor (num_pairs, 2), got {_shape(node_pairs)}")
        ntype = None if edge_type is None else etype_str_to_tuple(edge_type)[2]
        dst = generator().integers(self.g.num_nodes(ntype), size=len(node_pairs) * negative_ratio)
        src = node_pairs[:, 0].repeat_interleave(negative_ratio)
        return torch.cat([node_pairs, torch.stack([src, torch.from_numpy(dst).to(src)], 1)])


def _shape(x: Any) -> str:
    return str(tuple(x.shape)) if torch.is_tensor(x) else type(x).__name__


def _check_rows(name: str, tensor: Any, count: int, kind: str) -> None:
    if not torch.is_tensor(tensor) or tensor.ndim == 0 or len(tensor) != count:
        raise DGLError(f"{kind} attribute {name!r} is {_shape(tensor)}; expected a tensor with {count} rows")


# -- making graphs -----------------------------------------------------------------------------------------------------
def from_dglgraph(
    g: DGLGraph, is_homogeneous: bool = False, include_original_edge_id: bool = False
) -> FusedCSCSamplingGraph:
    """Return a graph to sample from; with ``is_homogeneous`` types are merged, without features.

    Blocks have ids of the edges of ``g`` in any case; sampled subgraphs with ``include_original_edge_id``.
    """
    if not isinstance(g, DGLGraph):
        raise DGLError(f"from_dglgraph needs a DGLGraph, got {type(g).__name__}")
    g = to_homogeneous(g) if is_homogeneous and not g.is_homogeneous else g
    return FusedCSCSamplingGraph(g=g, has_original_edge_ids=bool(include_original_edge_id))


def fused_csc_sampling_graph(
    csc_indptr: torch.Tensor,
    indices: torch.Tensor,
    node_type_offset: torch.Tensor | None = None,
    type_per_edge: torch.Tensor | None = None,
    node_type_to_id: Mapping[str, int] | None = None,
    edge_type_to_id: Mapping[str, int] | None = None,
    node_attributes: Attributes = None,
    edge_attributes: Attributes = None,
) -> FusedCSCSamplingGraph:
    """Return the graph whose node i has in-edges from ``indices[csc_indptr[i]:csc_indptr[i + 1]]``.

    Parameters
    ----------
    csc_indptr, indices
        integers (num_nodes + 1,) and (num_edges,).
    node_type_offset, type_per_edge
        where each type's nodes begin, (num_types + 1,), and numbers of edge types, (num_edges,). Edges of a type are
        numbered as they come.
    node_type_to_id, edge_type_to_id
        numbers of the types by name. All four are given, or the graph is homogeneous.
    node_attributes, edge_attributes
        features of all nodes, or edges, by name.

    Raises
    ------
    DGLError
        Lengths or types do not fit each other, or only some of the four arguments about types are given.
    """
    kinds = (None if x is None else dict(x) for x in (node_type_to_id, edge_type_to_id))
    columns = check_columns(FusedColumns(csc_indptr, indices, None, node_type_offset, type_per_edge, *kinds))
    for attributes, count, kind in (
        (node_attributes, len(csc_indptr) - 1, "node"),
        (edge_attributes, len(indices), "edge"),
    ):
        for name, tensor in (attributes or {}).items():
            _check_rows(name, tensor, count, kind)
    return FusedCSCSamplingGraph(columns, node_attributes, edge_attributes)


def load_from_shared_memory(shared_memory_name: str) -> FusedCSCSamplingGraph:
    """Return the graph that :meth:`FusedCSCSamplingGraph.copy_to_shared_memory` put there.

    Raises
    ------
    DGLError
        No graph of that name is shared now.
    """
    place = shared_place(shared_memory_name)
    if not place.is_file():
        raise DGLError(
            f"no graph is shared by the name {shared_memory_name!r}; its owner must keep what copy_to_shared_memory() "
            "returned"
        )
    state = torch.load(place, mmap=True, weights_only=True)
    graph = FusedCSCSamplingGraph(FusedColumns(**state["columns"]), state["nodes"], state["edges"])
    graph._has_ids = state["ids"]
    return graph
