"""Graphs to sample from, under GraphBolt's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ...convert import graph, heterograph
from ...errors import DGLError
from ...graph import DGLGraph
from ...transforms import to_homogeneous
from .etypes import etype_str_to_tuple, etype_tuple_to_str

__all__ = ["FusedCSCSamplingGraph", "from_dglgraph", "fused_csc_sampling_graph"]


class FusedCSCSamplingGraph:
    """A DGLGraph to sample from. Edge attributes are its edge features.

    Attributes
    ----------
    g
        the graph.
    num_nodes, num_edges
        counts; dictionaries by type, edge types as strings, where the graph has several.
    total_num_nodes, total_num_edges
        counts of all types together.
    node_type_to_id, edge_type_to_id
        numbers of the types by name; None for a graph of one node and edge type.
    node_type_offset
        int64 (num_types + 1,), where each type's nodes begin if all are numbered together; or None.
    """

    def __init__(self, g: DGLGraph) -> None:
        self.g, typed = g, not g.is_homogeneous
        nodes = {ntype: g.num_nodes(ntype) for ntype in g.ntypes}
        edges = {etype_tuple_to_str(etype): g.num_edges(etype) for etype in g.canonical_etypes}
        self.total_num_nodes, self.total_num_edges = g.num_nodes(), g.num_edges()
        self.num_nodes: Any = nodes if typed else g.num_nodes()
        self.num_edges: Any = edges if typed else g.num_edges()
        self.node_type_to_id = {ntype: i for i, ntype in enumerate(nodes)} if typed else None
        self.edge_type_to_id = {etype: i for i, etype in enumerate(edges)} if typed else None
        self.node_type_offset = torch.tensor([0, *nodes.values()]).cumsum(0) if typed else None

    def fanouts(self, given: Sequence[Any]) -> list[Any]:
        """Return fan-outs as samplers take them, of numbers or tensors (1,), or (num_edge_types,) in their order.

        Raises
        ------
        DGLError
            A tensor has another length.
        """
        listed = [np.atleast_1d(np.asarray(x)).tolist() for x in given]
        etypes = self.g.canonical_etypes
        if wrong := [x for x in listed if len(x) not in (1, len(etypes))]:
            raise DGLError(f"fan-outs {wrong[0]} are for {len(wrong[0])} edge types; the graph has {len(etypes)}")
        return [x[0] if len(x) == 1 else dict(zip(etypes, x, strict=True)) for x in listed]

    def to(self, device: Any = "cpu") -> FusedCSCSamplingGraph:
        """Return the graph on a device."""
        return FusedCSCSamplingGraph(self.g.to(device))

    pin_memory_ = to  # what is sampled is on the CPU


def from_dglgraph(
    g: DGLGraph, is_homogeneous: bool = False, include_original_edge_id: bool = False
) -> FusedCSCSamplingGraph:
    """Return a graph to sample from; with ``is_homogeneous`` types are merged, without features.

    Blocks have ids of the edges of ``g`` in any case, where GraphBolt asks for ``include_original_edge_id``.
    """
    return FusedCSCSamplingGraph(to_homogeneous(g) if is_homogeneous and not g.is_homogeneous else g)


def fused_csc_sampling_graph(
    csc_indptr: torch.Tensor,
    indices: torch.Tensor,
    node_type_offset: torch.Tensor | None = None,
    type_per_edge: torch.Tensor | None = None,
    node_type_to_id: Mapping[str, int] | None = None,
    edge_type_to_id: Mapping[str, int] | None = None,
    node_attributes: Mapping[str, torch.Tensor] | None = None,
    edge_attributes: Mapping[str, torch.Tensor] | None = None,
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
    """
    nodes, edges = node_attributes or {}, edge_attributes or {}
    src, dst = indices.long(), torch.repeat_interleave(csc_indptr.diff())
    if node_type_offset is None or node_type_to_id is None or edge_type_to_id is None or type_per_edge is None:
        g = graph((src, dst), num_nodes=len(csc_indptr) - 1)
        g.ndata.update(nodes)
        g.edata.update(edges)
        return FusedCSCSamplingGraph(g)
    first = node_type_offset.tolist()
    places = {ntype: slice(first[i], first[i + 1]) for ntype, i in node_type_to_id.items()}
    own = {etype_str_to_tuple(name): (type_per_edge == i).nonzero().flatten() for name, i in edge_type_to_id.items()}
    ends = {(a, r, b): (src[ids] - places[a].start, dst[ids] - places[b].start) for (a, r, b), ids in own.items()}
    g = heterograph(ends, {ntype: place.stop - place.start for ntype, place in places.items()})
    for ntype, place in places.items():
        g.nodes[ntype].data.update({name: x[place] for name, x in nodes.items()})
    for etype, ids in own.items():
        g.edges[etype].data.update({name: x[ids] for name, x in edges.items()})
    return FusedCSCSamplingGraph(g)
