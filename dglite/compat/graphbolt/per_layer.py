"""Stages that sample and compact one layer: the steps of samplers of a user's own."""

from __future__ import annotations

from typing import Any

import torch

from .compact import compact_csc_format
from .stages import MiniBatchTransformer, functional
from .subgraph import SampledSubgraphImpl, compacted

__all__ = ["CombineCachedAndFetchedInSubgraph", "CompactPerLayer", "FetchInsubgraphData", "SamplePerLayer"]


@functional("sample_per_layer")
class SamplePerLayer(MiniBatchTransformer):
    """Samples one layer for ``input_nodes``, at first the seeds, and puts it before the sampled subgraphs.

    Parameters
    ----------
    sampler
        a method such as :meth:`FusedCSCSamplingGraph.sample_neighbors`.
    fanout, replace, prob_name
        its arguments.
    """

    def __init__(
        self,
        datapipe: Any,
        sampler: Any,
        fanout: Any,
        replace: bool,
        prob_name: str | None,
        overlap_fetch: bool = False,
        asynchronous: bool = False,
    ) -> None:
        super().__init__(datapipe, self._sample)
        self.sampler, self.arguments = sampler, (torch.as_tensor(fanout).reshape(-1), replace, prob_name)

    def _sample(self, batch: Any) -> Any:
        seeds = batch._seed_nodes if batch.sampled_subgraphs is None else batch.input_nodes
        subgraph = self.sampler(seeds, *self.arguments)
        batch.sampled_subgraphs = [subgraph, *(batch.sampled_subgraphs or [])]
        batch.input_nodes = seeds
        return batch


@functional("compact_per_layer")
class CompactPerLayer(MiniBatchTransformer):
    """Numbers the nodes of the first sampled subgraph from 0 on; its source nodes become ``input_nodes``.

    Parameters
    ----------
    deduplicate
        whether a node that several edges lead to is one source node.
    """

    def __init__(self, datapipe: Any, deduplicate: bool, asynchronous: bool = False) -> None:
        super().__init__(datapipe, self._compact)
        self.deduplicate = deduplicate

    def _compact(self, batch: Any) -> Any:
        subgraph, *later = batch.sampled_subgraphs
        if self.deduplicate:
            subgraph = compacted(subgraph)
        else:
            rows, csc = compact_csc_format(subgraph.sampled_csc, subgraph.original_column_node_ids)
            ids = subgraph.original_edge_ids, getattr(subgraph, "_edge_ids_in_fused_csc_sampling_graph", None)
            subgraph = SampledSubgraphImpl(csc, subgraph.original_column_node_ids, rows, *ids)
        batch.input_nodes, batch.sampled_subgraphs = subgraph.original_row_node_ids, [subgraph, *later]
        return batch


@functional("fetch_insubgraph_data")
class FetchInsubgraphData(MiniBatchTransformer):
    """Does nothing: in-edges need not be fetched before sampling."""

    def __init__(self, datapipe: Any, graph: Any, prob_name: str | None = None) -> None:
        super().__init__(datapipe)


@functional("combine_cached_and_fetched_insubgraph")
class CombineCachedAndFetchedInSubgraph(MiniBatchTransformer):
    """Does nothing: in-edges are not cached."""

    def __init__(self, datapipe: Any, prob_name: str | None = None) -> None:
        super().__init__(datapipe)
