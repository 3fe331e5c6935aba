"""Stages that sample and compact one layer: the steps of samplers of a user's own."""

from __future__ import annotations

from typing import Any

import torch

from .stages import MiniBatchTransformer, functional
from .subgraph import compacted, with_own_sources

__all__ = ["CompactPerLayer", "SamplePerLayer"]


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
        subgraph = compacted(subgraph) if self.deduplicate else with_own_sources(subgraph)
        batch.input_nodes, batch.sampled_subgraphs = subgraph.original_row_node_ids, [subgraph, *later]
        return batch
