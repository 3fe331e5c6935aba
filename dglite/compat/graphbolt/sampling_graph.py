"""Graphs to sample from, under GraphBolt's names."""

from __future__ import annotations

import copy
import os
import weakref
from collections.abc import Mapping
from typing import Any, Self

import torch

from ...graph import DGLGraph
from ...io.shared import forget_place, shared_place
from ...random import generator
from ...transforms import to_homogeneous
from . import draws
from .base import etype_str_to_tuple
from .columns import FusedColumns, check_columns
from .compact import Ready
from .errors import InputError
from .forms import Attributes, TwoForms, check_rows, shape_of
from .subgraph import SampledSubgraphImpl

__all__ = [
    "FusedCSCSamplingGraph",
    "from_dglgraph",
    "fused_csc_sampling_graph",
    "load_from_shared_memory",
]


class FusedCSCSamplingGraph(TwoForms):
    """A graph by destination, nodes of all types numbered together; :func:`fused_csc_sampling_graph` makes one.

    Seeds are ids, or ids by node type where there are several types. Samples are :class:`SampledSubgraphImpl` whose
    columns are the seeds and whose edges have ids of their sources in the graph. A fan-out is a number for all in-edges
    of a node, whatever their types, or a tensor with one for each edge type; -1 takes all.

    Attributes
    ----------
    g
        the DGLGraph that is sampled from; it and the compressed columns are made of each other when they are needed.
    num_nodes, num_edges
        counts; dictionaries by type, edge types as strings, where the graph has several.
    total_num_nodes, total_num_edges
        counts of all types together.
    """

    # -- samples ---------------------------------------------------------------------------------------------------
    def in_subgraph(self, nodes: Any) -> SampledSubgraphImpl:
        """Return all in-edges of some nodes."""
        return self.sample_neighbors(nodes, torch.tensor([-1]))  # type: ignore[no-any-return]

    def sample_neighbors(
        self,
        seeds: Any,
        fanouts: Any,
        replace: bool = False,
        probs_name: str | None = None,
        returning_indices_and_original_edge_ids_are_optional: bool = False,
        async_op: bool = False,
    ) -> Any:
        """Return in-edges of the seeds, drawn with equal probability or by weights.

        Parameters
        ----------
        replace
            draw with replacement.
        probs_name
            name of the edge attribute with weights, or a mask.
        async_op
            return an object whose ``wait()`` returns the sample.
        """
        subgraph = draws.sample_layer(self, draws.Rule(probs_name, replace), seeds, fanouts)
        return Ready(subgraph) if async_op else subgraph

    def sample_layer_neighbors(
        self,
        seeds: Any,
        fanouts: Any,
        replace: bool = False,
        probs_name: str | None = None,
        returning_indices_and_original_edge_ids_are_optional: bool = False,
        random_seed: torch.Tensor | None = None,
        seed2_contribution: float = 0.0,
        async_op: bool = False,
    ) -> Any:
        """Return in-edges of the seeds, drawn so that seeds share sources: see :func:`dglite.sampling.sample_labors`.

        A seed has ``fanouts`` edges in expectation. ``replace`` is accepted; edges are drawn without replacement.
        """
        rule = draws.Rule(probs_name, shared=(random_seed, seed2_contribution))
        subgraph = draws.sample_layer(self, rule, seeds, fanouts)
        return Ready(subgraph) if async_op else subgraph

    def temporal_sample_neighbors(
        self,
        seeds: Any,
        seeds_timestamp: Any,
        fanouts: Any,
        replace: bool = False,
        seeds_pre_time_window: Any = None,
        probs_name: str | None = None,
        node_timestamp_attr_name: str | None = None,
        edge_timestamp_attr_name: str | None = None,
    ) -> SampledSubgraphImpl:
        """Return in-edges of the seeds that are earlier than the seeds, drawn as :meth:`sample_neighbors` does.

        Raises DGLError: there is no such attribute, or times are not as many as seeds.

        Parameters
        ----------
        seeds_timestamp
            the time of each seed, in the form of the seeds.
        seeds_pre_time_window
            how long before its seed an edge may be at most; in the form of the seeds.
        node_timestamp_attr_name, edge_timestamp_attr_name
            names of the attributes with times: an edge is there for a seed if its source's time, and its own, is below
            the seed's.
        """
        names = node_timestamp_attr_name, edge_timestamp_attr_name
        times = seeds_timestamp, seeds_pre_time_window
        return draws.sample_layer(self, draws.Rule(probs_name, replace), seeds, fanouts, times, names)

    def temporal_sample_layer_neighbors(
        self,
        seeds: Any,
        seeds_timestamp: Any,
        fanouts: Any,
        replace: bool = False,
        seeds_pre_time_window: Any = None,
        probs_name: str | None = None,
        node_timestamp_attr_name: str | None = None,
        edge_timestamp_attr_name: str | None = None,
        random_seed: torch.Tensor | None = None,
        seed2_contribution: float = 0.0,
    ) -> SampledSubgraphImpl:
        """Return in-edges as :meth:`temporal_sample_neighbors` does, drawn as :meth:`sample_layer_neighbors` does."""
        rule = draws.Rule(probs_name, shared=(random_seed, seed2_contribution))
        names = node_timestamp_attr_name, edge_timestamp_attr_name
        return draws.sample_layer(self, rule, seeds, fanouts, (seeds_timestamp, seeds_pre_time_window), names)

    def sample_negative_edges_uniform(
        self, edge_type: str | None, node_pairs: torch.Tensor, negative_ratio: int
    ) -> torch.Tensor:
        """Return pairs (num_pairs, 2) and after them ``negative_ratio`` of each one's source and a random destination.

        Destinations are drawn from all nodes of the edge type's destination type.
        """
        if not torch.is_tensor(node_pairs) or node_pairs.ndim != 2 or node_pairs.shape[1] != 2:
            raise InputError(f"node_pairs must be a tensor (num_pairs, 2), got {shape_of(node_pairs)}")
        ntype = None if edge_type is None else etype_str_to_tuple(edge_type)[2]
        dst = generator().integers(self.g.num_nodes(ntype), size=len(node_pairs) * negative_ratio)
        src = node_pairs[:, 0].repeat_interleave(negative_ratio)
        return torch.cat([node_pairs, torch.stack([src, torch.from_numpy(dst).to(src)], 1)])

    # -- copies ----------------------------------------------------------------------------------------------------
    def to(self, device: Any = "cpu") -> FusedCSCSamplingGraph:
        """Return the graph on a device; compressed columns and attributes stay in the host's memory."""
        moved = copy.copy(self)
        moved._g = self.g.to(device)
        return moved

    def pin_memory_(self) -> Self:
        """Return the graph: samples are drawn where it is."""
        return self

    def is_pinned(self) -> bool:
        """Return False: samples are drawn where the graph is."""
        return False

    def copy_to_shared_memory(self, shared_memory_name: str) -> FusedCSCSamplingGraph:
        """Return the graph in memory that other processes find by a name, as long as what is returned lives.

        Raises DGLError: the name is empty or no text.
        """
        place = shared_place(shared_memory_name)
        columns, nodes, edges = self.columns._asdict(), self.node_attributes, self.edge_attributes
        draft = place.with_name(f"{place.name}.{os.getpid()}")
        torch.save({"columns": columns, "nodes": nodes, "edges": edges, "ids": self._has_ids}, draft)
        draft.replace(place)
        shared = load_from_shared_memory(shared_memory_name)
        weakref.finalize(shared, forget_place, place, place.stat().st_ino, os.getpid())
        return shared


# -- making graphs -----------------------------------------------------------------------------------------------------
def from_dglgraph(
    g: DGLGraph, is_homogeneous: bool = False, include_original_edge_id: bool = False
) -> FusedCSCSamplingGraph:
    """Return a graph to sample from; with ``is_homogeneous`` types are merged, without features.

    Blocks have ids of the edges of ``g`` in any case; sampled subgraphs with ``include_original_edge_id``.
    """
    if not isinstance(g, DGLGraph):
        raise InputError(f"from_dglgraph needs a DGLGraph, got {type(g).__name__}")
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

    Raises DGLError: lengths or types do not fit each other, or only some of the four arguments about types are given.

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
    kinds = (None if x is None else dict(x) for x in (node_type_to_id, edge_type_to_id))
    columns = check_columns(FusedColumns(csc_indptr, indices, None, node_type_offset, type_per_edge, *kinds))
    for attributes, count, kind in (
        (node_attributes, len(csc_indptr) - 1, "node"),
        (edge_attributes, len(indices), "edge"),
    ):
        for name, tensor in (attributes or {}).items():
            check_rows(name, tensor, count, kind)
    return FusedCSCSamplingGraph(columns, node_attributes, edge_attributes)


def load_from_shared_memory(shared_memory_name: str) -> FusedCSCSamplingGraph:
    """Return the graph that :meth:`FusedCSCSamplingGraph.copy_to_shared_memory` put there.

    Raises DGLError: no graph of that name is shared now.
    """
    place = shared_place(shared_memory_name)
    if not place.is_file():
        raise InputError(
            f"no graph is shared by the name {shared_memory_name!r}; its owner must keep what copy_to_shared_memory() "
            "returned"
        )
    state = torch.load(place, mmap=True, weights_only=True)
    graph = FusedCSCSamplingGraph(FusedColumns(**state["columns"]), state["nodes"], state["edges"])
    graph._has_ids = state["ids"]
    return graph
