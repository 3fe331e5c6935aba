"""Sampling of one layer on a graph of GraphBolt: neighbours, layer neighbours, by time, and all in-edges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ...convert import graph, heterograph
from ...errors import DGLError
from ...frame import EID, NID
from ...graph import DGLGraph
from ...sampling import sample_labors, sample_neighbors, sample_neighbors_fused
from ...transforms import to_block
from .base import CSCFormatBase, expand_indptr, indptr_edge_ids
from .columns import FusedColumns
from .compact import Ready
from .subgraph import SampledSubgraphImpl, subgraph_of

__all__ = ["GraphDraws", "checked_seeds", "listed_fanout"]


def listed_fanout(fanout: Any, num_etypes: int) -> list[int]:
    """Return a layer's fan-out, a number or numbers by edge type, as a list of one or of ``num_etypes`` numbers.

    Raises
    ------
    DGLError
        It has another length, or a number is below -1 or no integer.
    """
    numbers = np.atleast_1d(np.asarray(fanout))
    if numbers.dtype.kind not in "iu" or numbers.ndim != 1 or (numbers < -1).any():
        raise DGLError(f"fan-outs must be integers >= -1, got {fanout!r:.80}")
    if len(numbers) not in (1, num_etypes):
        raise DGLError(f"fan-outs {numbers.tolist()} are for {len(numbers)} edge types; the graph has {num_etypes}")
    return [int(x) for x in numbers]


def checked_seeds(seeds: Any, typed: bool, name: str = "seeds") -> Any:
    """Return seeds that are a tensor, or a dictionary of tensors where the graph has several types.

    Raises
    ------
    DGLError
        They are not.
    """
    if typed != isinstance(seeds, Mapping):
        expected = "a dictionary of tensors by node type" if typed else "a tensor of node ids"
        raise DGLError(
            f"{name} must be {expected}, as the graph has {'several types' if typed else 'one type'}; "
            f"got {type(seeds).__name__}"
        )
    for ids in seeds.values() if isinstance(seeds, Mapping) else [seeds]:
        if not torch.is_tensor(ids) or ids.ndim != 1:
            shape = tuple(ids.shape) if torch.is_tensor(ids) else type(ids).__name__
            raise DGLError(f"{name} must be of one dimension, got {shape}")
    return seeds


class GraphDraws(ABC):
    """What a sampling graph draws. Seeds are ids, or ids by node type where there are several types.

    Results are :class:`SampledSubgraphImpl` whose columns are the seeds and whose edges have ids of their sources in
    the graph. A fan-out is a number for all in-edges of a node, whatever their types, or a tensor with one for each
    edge type; -1 takes all.
    """

    _merged: DGLGraph | None
    _columns: FusedColumns | None

    @property
    @abstractmethod
    def g(self) -> DGLGraph:
        """The DGLGraph."""

    @property
    @abstractmethod
    def columns(self) -> FusedColumns:
        """The compressed columns."""

    @property
    @abstractmethod
    def typed(self) -> bool:
        """Whether values are dictionaries by type."""

    @property
    @abstractmethod
    def has_original_edge_ids(self) -> bool:
        """Whether samples have original edge ids."""

    node_attributes: Any
    edge_attributes: Any
    edge_type_to_id: Any

    @abstractmethod
    def name_edges(self, block: DGLGraph) -> DGLGraph:
        """Let a block's edges have their original ids."""

    @property
    def merged(self) -> DGLGraph:
        """The graph of all types in one, whose edges are numbered as in the columns; ``g`` for a graph of one type."""
        if not self.typed:
            return self.g
        if self._merged is None:
            columns = self.columns
            indptr, indices = columns.indptr.to(columns.indices.dtype), columns.indices
            self._merged = graph(("csc", (indptr, indices, indices[:0])), num_nodes=len(indptr) - 1)
            self._merged.edata.update(self.edge_attributes or {})
            if self.g.device != self._merged.device:
                self._merged = self._merged.to(self.g.device)
        return self._merged

    def fanouts(self, fanouts: Sequence[Any]) -> list[list[int]]:
        """Return each layer's fan-outs: a list of one, or of one for each edge type in the order of their numbers."""
        etypes = self.edge_type_to_id
        return [listed_fanout(fanout, 1 if etypes is None else len(etypes)) for fanout in fanouts]

    def fanout_by_type(self, listed: list[int]) -> Any:
        """Return a layer's fan-out as samplers of the DGLGraph take it; for several types not one for all."""
        etypes = self.edge_type_to_id
        if etypes is None:
            return listed[0]
        counts = listed * len(etypes) if len(listed) == 1 else listed
        return {tuple(etype.split(":")): counts[i] for etype, i in etypes.items()}

    def in_one(self, fanouts: Sequence[list[int]]) -> bool:
        """Whether fan-outs of several types are for all types together, so that the merged graph is sampled."""
        return self.typed and any(len(x) == 1 and x[0] != -1 for x in fanouts)

    # -- one layer -------------------------------------------------------------------------------------------------
    def in_subgraph(self, nodes: Any) -> SampledSubgraphImpl:
        """Return all in-edges of some nodes."""
        return self.sample_neighbors(nodes, torch.tensor([-1]))

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

        def draw(g: DGLGraph, nodes: Any, fanout: Any) -> DGLGraph:
            return sample_neighbors_fused(g, nodes, fanout, prob=probs_name, replace=replace)

        return self._layer(draw, seeds, fanouts, async_op)

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
        numbers = None if random_seed is None else random_seed.tolist()

        def draw(g: DGLGraph, nodes: Any, fanout: Any) -> DGLGraph:
            sample, _ = sample_labors(
                g, nodes, fanout, prob=probs_name, random_seed=numbers, seed2_contribution=seed2_contribution
            )
            block = to_block(sample, nodes)
            for etype in g.canonical_etypes:
                block.edges[etype].data[EID] = sample.edges[etype].data[EID]
            return block

        return self._layer(draw, seeds, fanouts, async_op)

    def _layer(self, draw: Any, seeds: Any, fanouts: Any, async_op: bool) -> Any:
        checked_seeds(seeds, self.typed)
        (listed,) = self.fanouts([fanouts])
        if self.in_one([listed]):
            subgraph = self.split(draw(self.merged, self._numbered(seeds), listed[0]))
        else:
            block = self.name_edges(draw(self.g, seeds, self.fanout_by_type(listed)))
            subgraph = subgraph_of(block, self.typed, self.has_original_edge_ids)
        subgraph = self._uncompacted(subgraph, seeds)
        return Ready(subgraph) if async_op else subgraph

    def _uncompacted(self, subgraph: SampledSubgraphImpl, seeds: Any) -> SampledSubgraphImpl:
        rows, csc = subgraph.original_row_node_ids, subgraph.sampled_csc
        if not isinstance(csc, Mapping):
            subgraph.sampled_csc = CSCFormatBase(csc.indptr, rows[csc.indices.long()])
        else:
            subgraph.sampled_csc = {
                etype: CSCFormatBase(x.indptr, rows[etype.split(":")[0]][x.indices.long()]) for etype, x in csc.items()
            }
        subgraph.original_row_node_ids = None
        return subgraph

    # -- all types in one numbering --------------------------------------------------------------------------------
    def _numbered(self, seeds: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return seeds by type in the numbering of all types, types in their order."""
        first = self.columns.first_nodes()
        if unknown := set(seeds) - set(first):
            raise DGLError(f"seeds are of node types {sorted(unknown)}; the graph has {list(first)}")
        for ntype, (start, end) in first.items():
            ids = seeds.get(ntype)
            if ids is not None and len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < end - start:
                raise DGLError(f"seeds of type {ntype!r} are {ids.min()} to {ids.max()}; there are {end - start} nodes")
        dtype = self.columns.indices.dtype
        parts = [seeds[ntype].to(dtype) + start for ntype, (start, _) in first.items() if ntype in seeds]
        return torch.cat(parts) if parts else torch.empty(0, dtype=dtype)

    def split(self, block: DGLGraph) -> SampledSubgraphImpl:
        """Return a block of the merged graph as a sampled subgraph of all types."""
        indptr, indices, order = block.adj_tensors("csc")
        places = block.edata[EID].long()
        places = places[order.long()] if len(order) else places
        return self.split_edges(block.srcdata[NID].long(), block.dstdata[NID].long(), indptr.long(), indices, places)

    def split_edges(
        self, rows: torch.Tensor, columns: torch.Tensor, indptr: torch.Tensor, indices: torch.Tensor, places: Any
    ) -> SampledSubgraphImpl:
        """Return edges by destination, between nodes in the numbering of all types, by type.

        ``rows`` and ``columns`` are the nodes that edges are between; ``places`` the edges' places in the columns.
        """
        fused = self.columns
        assert fused.type_per_edge is not None and fused.edge_type_to_id is not None
        kinds, dst = fused.type_per_edge[places.cpu()], expand_indptr(indptr, torch.int64)
        dtype, local = fused.indices.dtype, self._local_ids()
        row_ids, row_places = self._by_type(rows, dtype)
        column_ids, column_places = self._by_type(columns, dtype)
        csc, edge_ids, original = {}, {}, {}
        attribute = (self.edge_attributes or {}).get("_ORIGINAL_EDGE_ID") if self.has_original_edge_ids else None
        for etype, number in fused.edge_type_to_id.items():
            destination, mask = etype.split(":")[2], kinds == number
            counts = torch.bincount(column_places[dst[mask]], minlength=len(column_ids[destination]))
            bounds = torch.zeros(len(counts) + 1, dtype=torch.int64)
            torch.cumsum(counts, 0, out=bounds[1:])
            csc[etype] = CSCFormatBase(bounds, row_places[indices[mask].long()].to(dtype))
            edge_ids[etype] = local[places[mask]].to(dtype)
            original[etype] = edge_ids[etype] if attribute is None else attribute[places[mask]]
        ids = original if self.has_original_edge_ids else None
        return SampledSubgraphImpl(csc, column_ids, row_ids, ids, edge_ids)

    def _by_type(self, nodes: torch.Tensor, dtype: Any) -> tuple[dict[str, Any], torch.Tensor]:
        """Return ids by type, and each node's place among its type's."""
        places, ids = torch.empty(len(nodes), dtype=torch.int64), {}
        for ntype, (start, end) in self.columns.first_nodes().items():
            mask = (nodes >= start) & (nodes < end)
            ids[ntype] = (nodes[mask] - start).to(dtype)
            places[mask] = torch.arange(len(ids[ntype]))
        return ids, places

    def _local_ids(self) -> torch.Tensor:
        """Return the id of each entry of the columns among the edges of its type in the DGLGraph."""
        fused = self.columns
        if fused.edge_ids is not None:
            return fused.edge_ids
        assert fused.edge_type_to_id is not None
        local = torch.empty(len(fused.indices), dtype=torch.int64)
        for etype in fused.edge_type_to_id:
            places = fused.places(etype)
            local[places] = torch.arange(len(places))
        self._columns = fused._replace(edge_ids=local)
        return local

    # -- by time ---------------------------------------------------------------------------------------------------
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

        Parameters
        ----------
        seeds_timestamp
            the time of each seed, in the form of the seeds.
        seeds_pre_time_window
            how long before its seed an edge may be at most; in the form of the seeds.
        node_timestamp_attr_name, edge_timestamp_attr_name
            names of the attributes with times: an edge is there for a seed if its source's time, and its own, is below
            the seed's.

        Raises
        ------
        DGLError
            There is no such attribute, or times are not as many as seeds.
        """

        def draw(candidates: DGLGraph, nodes: Any, fanout: int) -> torch.Tensor:
            sample = sample_neighbors(candidates, nodes, fanout, prob=probs_name, replace=replace, copy_ndata=False)
            return sample.edata[EID]

        times = seeds_timestamp, seeds_pre_time_window
        names = probs_name, node_timestamp_attr_name, edge_timestamp_attr_name
        return self._earlier(draw, seeds, times, fanouts, names)

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
        numbers = None if random_seed is None else random_seed.tolist()

        def draw(candidates: DGLGraph, nodes: Any, fanout: int) -> torch.Tensor:
            options: dict[str, Any] = {
                "random_seed": numbers,
                "seed2_contribution": seed2_contribution,
                "copy_ndata": False,
            }
            sample, _ = sample_labors(candidates, nodes, fanout, prob=probs_name, **options)
            return sample.edata[EID]

        times = seeds_timestamp, seeds_pre_time_window
        names = probs_name, node_timestamp_attr_name, edge_timestamp_attr_name
        return self._earlier(draw, seeds, times, fanouts, names)

    def _earlier(self, draw: Any, seeds: Any, times: Any, fanouts: Any, names: Any) -> SampledSubgraphImpl:
        checked_seeds(seeds, self.typed)
        (listed,) = self.fanouts([fanouts])
        fused = self.columns
        nodes = self._numbered(seeds).long() if self.typed else seeds.long()
        stamps, windows = (self._in_order(seeds, x) for x in times)
        assert stamps is not None
        probs, *attributes = names
        first, degrees = fused.indptr[nodes], fused.indptr[nodes + 1] - fused.indptr[nodes]
        bounds = torch.zeros(len(nodes) + 1, dtype=torch.int64)
        torch.cumsum(degrees, 0, out=bounds[1:])
        near = expand_indptr(bounds, torch.int64)
        places = indptr_edge_ids(bounds, torch.int64, first)
        keep = torch.ones(len(places), dtype=torch.bool)
        for name, owners, ids in zip(
            attributes,
            (self.node_attributes, self.edge_attributes),
            (fused.indices[places].long(), places),
            strict=True,
        ):
            if name is None:
                continue
            values = _attribute(owners, name)[ids]
            keep &= values < stamps[near]
            if windows is not None:
                keep &= values >= (stamps - windows)[near]
        places, near = places[keep], near[keep]
        weights = None if probs is None else _attribute(self.edge_attributes, probs)[places]
        candidates = self._pick(draw, places, near, len(nodes), listed, probs, weights)
        places, near = places[candidates], near[candidates]
        indptr = torch.zeros(len(nodes) + 1, dtype=torch.int64)
        torch.cumsum(torch.bincount(near, minlength=len(nodes)), 0, out=indptr[1:])
        sources = fused.indices[places]
        if self.typed:
            each = torch.arange(len(sources))
            return self._uncompacted(self.split_edges(sources, nodes, indptr, each, places), seeds)
        edge_ids = places if fused.edge_ids is None else fused.edge_ids[places]
        attribute = (self.edge_attributes or {}).get("_ORIGINAL_EDGE_ID") if self.has_original_edge_ids else None
        original = None if attribute is None else attribute[places]
        return SampledSubgraphImpl(CSCFormatBase(indptr, sources), seeds, None, original, edge_ids)

    def _pick(
        self,
        draw: Any,
        places: torch.Tensor,
        near: torch.Tensor,
        count: int,
        listed: list[int],
        name: Any,
        weights: Any,
    ) -> torch.Tensor:
        """Return positions of the candidates drawn, ascending, drawn for each edge type if fan-outs are by type."""
        picked = []
        for number, fanout in enumerate(listed):
            ids = torch.arange(len(places))
            if len(listed) > 1:
                ids = (self.columns.type_per_edge[places] == number).nonzero().flatten()  # type: ignore[index]
            edges = self.columns.indices[places[ids]].long(), near[ids]
            sizes = {"source": len(self.columns.indptr) - 1, "seed": count}
            candidates = heterograph({("source", "edge", "seed"): edges}, sizes)
            if weights is not None:
                candidates.edata[name] = weights[ids]
            picked.append(ids[draw(candidates, {"seed": torch.arange(count)}, fanout).long()])
        return torch.cat(picked).sort().values

    def _in_order(self, seeds: Any, values: Any) -> torch.Tensor | None:
        """Return a value of each seed in the order in which seeds are numbered."""
        if values is None:
            return None
        if not self.typed:
            seeds, values = {None: seeds}, {None: values}
        for key, ids in seeds.items():
            if key not in values or len(values[key]) != len(ids):
                suffix = "" if key is None else f" of type {key!r}"
                raise DGLError(f"there are {len(ids)} seeds{suffix}; give a time for each")
        if not self.typed:
            return values[None]
        return torch.cat([values[ntype] for ntype in self.columns.first_nodes() if ntype in seeds])


def _attribute(attributes: Any, name: str) -> torch.Tensor:
    if name not in (attributes or {}):
        raise DGLError(f"the graph has no attribute {name!r}; it has {sorted(attributes or {})}")
    return attributes[name]
