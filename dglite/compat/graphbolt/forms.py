"""The two forms of a graph of GraphBolt: compressed columns of all types in one numbering, and a DGLGraph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ...convert import graph
from ...frame import EID
from ...graph import DGLGraph
from . import columns as fused
from .base import ORIGINAL_EDGE_ID, etype_str_to_tuple, shown
from .columns import FusedColumns, MergedEdges, check_columns, merged_edges
from .errors import InputError

__all__ = ["SamplingGraph"]

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


def _field(name: str, doc: str, place: int | None = None) -> Any:
    """Return a property for a field of the fused columns, which may be set; ``place`` of :func:`fused.type_numbers`."""

    def read(self: Any) -> Any:
        return getattr(self.columns, name) if place is None else fused.type_numbers(self._columns, self._g)[place]

    def write(self: Any, value: Any) -> None:
        self._columns = check_columns(self.columns._replace(**{name: value}))
        self._g = self._merged = self._merged_edges = None

    return property(read, write, doc=doc)


def _attributes(kind: str, doc: str) -> Any:
    """Return a property for the attributes of nodes or of edges."""

    def read(self: Any) -> Any:
        if self._attributes[kind] is None and self._of_dglgraph:
            self._attributes[kind] = self._read_attributes(kind)
        return self._attributes[kind] or None

    def write(self: Any, value: Attributes) -> None:
        self._attributes[kind] = {}
        for name, tensor in (value or {}).items():
            self._add_attribute(kind, name, tensor)

    return property(read, write, doc=doc)


class TwoForms(SamplingGraph):
    """Base of the sampling graph: what it has; the forms are made of each other when they are needed."""

    def __init__(
        self,
        columns: FusedColumns | None = None,
        node_attributes: Attributes = None,
        edge_attributes: Attributes = None,
        g: DGLGraph | None = None,
        has_original_edge_ids: bool = False,
    ) -> None:
        if (columns is None) == (g is None):
            raise InputError("make a graph by fused_csc_sampling_graph(indptr, indices) or from_dglgraph(g)")
        self._columns, self._g = columns, g
        self._merged: DGLGraph | None = None
        self._merged_edges: Any = None
        self._of_dglgraph, self._has_ids = g is not None, has_original_edge_ids
        attributes = {"node": node_attributes, "edge": edge_attributes}
        self._attributes = {kind: None if x is None else dict(x) for kind, x in attributes.items()}

    csc_indptr = _field("indptr", "Where the in-edges of each node begin, (total_num_nodes + 1,).")
    indices = _field("indices", "Sources of the edges, (total_num_edges,).")
    node_type_offset = _field("node_type_offset", "Where each type's nodes begin, (num_types + 1,), or None.")
    type_per_edge = _field("type_per_edge", "Numbers of the edges' types, (total_num_edges,), or None.")
    node_type_to_id = _field("node_type_to_id", "Numbers of the node types by name; None for a graph of one.", 0)
    edge_type_to_id = _field("edge_type_to_id", "Numbers of the edge types by name; None for a graph of one.", 1)
    node_attributes = _attributes("node", "Tensors of all nodes by name, or None; features that all node types have.")
    edge_attributes = _attributes("edge", "Tensors of all entries of ``indices`` by name, or None.")

    def __repr__(self) -> str:
        fields: dict[str, Any] = {"csc_indptr": self.csc_indptr, "indices": self.indices}
        fields["total_num_nodes"] = f"{self.total_num_nodes}, num_edges={self.num_edges}"
        names = "node_type_offset type_per_edge node_type_to_id edge_type_to_id node_attributes edge_attributes"
        fields |= {name: x for name in names.split() if (x := getattr(self, name)) is not None}
        return shown("FusedCSCSamplingGraph", fields)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_merged": None, "_merged_edges": None, "_g": self._g if self._of_dglgraph else None}

    # -- forms -----------------------------------------------------------------------------------------------------
    @property
    def columns(self) -> FusedColumns:
        """The compressed columns."""
        if self._columns is None:
            assert self._g is not None
            self._columns = fused.columns_of(self._g)
        return self._columns

    @property
    def g(self) -> DGLGraph:
        """The DGLGraph, whose edges of a type are numbered as they come in the columns, or as they were before."""
        if self._g is None:
            self._g = fused.graph_of(self.columns, self._attributes["node"] or {}, self._attributes["edge"] or {})
        return self._g

    @property
    def merged(self) -> DGLGraph:
        """The graph of all types in one, edges as in the columns, on the host; ``g`` for a graph of one type."""
        if not self.typed:
            return self.g
        if self._merged is None:
            indptr, indices = self.columns.indptr.to(self.columns.indices.dtype), self.columns.indices
            self._merged = graph(("csc", (indptr, indices, indices[:0])), num_nodes=len(indptr) - 1)
            self._merged.edata.update(self.edge_attributes or {})
            self._merged.ndata.update(self.node_attributes or {})
        return self._merged

    @property
    def merged_edges(self) -> MergedEdges:
        """What the edges of :attr:`merged` are in :attr:`g`, for a graph of several types."""
        if self._merged_edges is None:
            self._merged_edges = merged_edges(self)
        return self._merged_edges  # type: ignore[no-any-return]

    @property
    def typed(self) -> bool:
        """Whether values are dictionaries by type."""
        return self.node_type_to_id is not None

    def fields(self, small: bool = True) -> dict[str, Any]:
        """Return the arguments of :func:`fused_csc_sampling_graph` that make the graph.

        ``small`` ids and numbers of edges are int32, if they fit.
        """
        columns, edges = self.columns, self.total_num_edges
        indptr, indices = columns.indptr, columns.indices
        if small and edges < 2**31 and self.total_num_nodes < 2**31:
            indptr, indices = indptr.int(), indices.int()
        names = "node_type_offset type_per_edge node_type_to_id edge_type_to_id node_attributes edge_attributes"
        return {"csc_indptr": indptr, "indices": indices, **{name: getattr(self, name) for name in names.split()}}

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
        if not self.typed:
            return self.total_num_nodes
        if self._g is not None:
            return {ntype: self._g.num_nodes(ntype) for ntype in self._g.ntypes}
        return {ntype: last - first for ntype, (first, last) in self.columns.first_nodes().items()}

    @property
    def num_edges(self) -> Any:
        if not self.typed:
            return self.total_num_edges
        if self._g is not None:
            return {etype: self._g.num_edges(etype_str_to_tuple(etype)) for etype in self.edge_type_to_id}
        counts = torch.bincount(self.type_per_edge.long(), minlength=len(self.edge_type_to_id)).tolist()
        return {etype: counts[i] for etype, i in self.edge_type_to_id.items()}

    # -- attributes ------------------------------------------------------------------------------------------------
    def _read_attributes(self, kind: str) -> dict[str, torch.Tensor]:
        if kind == "node":
            return fused.node_values(self.g)
        columns, values = self.columns, fused.edge_values(self.g, self.columns)
        if self._has_ids:
            ids = columns.edge_ids
            values[ORIGINAL_EDGE_ID] = torch.arange(len(columns.indices)) if ids is None else ids
        return values

    def node_attribute(self, name: str) -> torch.Tensor | None:
        """Return an attribute of the nodes, or None."""
        return (self.node_attributes or {}).get(name)

    def edge_attribute(self, name: str) -> torch.Tensor | None:
        """Return an attribute of the edges, or None."""
        return (self.edge_attributes or {}).get(name)

    def add_node_attribute(self, name: str, tensor: torch.Tensor) -> None:
        """Add an attribute of the nodes, (total_num_nodes, *feat)."""
        self._add_attribute("node", name, tensor)

    def add_edge_attribute(self, name: str, tensor: torch.Tensor) -> None:
        """Add an attribute of the edges, (total_num_edges, *feat), in the order of ``indices``."""
        self._add_attribute("edge", name, tensor)

    def _add_attribute(self, kind: str, name: str, tensor: torch.Tensor) -> None:
        of_nodes = kind == "node"
        check_rows(name, tensor, self.total_num_nodes if of_nodes else self.total_num_edges, kind)
        present = self.node_attributes if of_nodes else self.edge_attributes
        self._attributes[kind], self._merged = {**(present or {}), name: tensor}, None
        (fused.set_nodes if of_nodes else fused.set_edges)(self.g, self.columns, name, tensor)

    @property
    def has_original_edge_ids(self) -> bool:
        """Whether samples have the ids that edges had before they were ordered by destination."""
        return self._has_ids or (not self._of_dglgraph and ORIGINAL_EDGE_ID in (self._attributes["edge"] or {}))

    def name_edges(self, block: DGLGraph) -> DGLGraph:
        """Let the edges of a sampled block have their original ids, where there are some; return the block."""
        if self.has_original_edge_ids and not self._of_dglgraph:
            for etype in block.canonical_etypes:
                data = block.edges[etype].data
                data[EID] = self.original_ids(etype, data[EID])
        return block

    def original_ids(self, etype: tuple[str, str, str], ids: torch.Tensor) -> torch.Tensor:
        """Return the original ids of edges of a type, where there are some, else their ids in :attr:`g`."""
        if not self.has_original_edge_ids or self._of_dglgraph:
            return ids
        return self.g.edges[etype].data[ORIGINAL_EDGE_ID][ids.long()]  # type: ignore[no-any-return]


def shape_of(x: Any) -> str:
    return str(tuple(x.shape)) if torch.is_tensor(x) else type(x).__name__


def check_rows(name: str, tensor: Any, count: int, kind: str) -> None:
    if not torch.is_tensor(tensor) or tensor.ndim == 0 or len(tensor) != count:
        raise InputError(f"{kind} attribute {name!r} is {shape_of(tensor)}; expected a tensor with {count} rows")
