"""Subgraphs of sampled neighbourhoods with a limit on the nodes of each hop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from ..backend import active
from ..column import TensorOrDict
from ..frame import NID
from ..graph import DGLGraph
from ..random import generator
from ..sampling import sample_neighbors_fused
from ..sampling.arguments import seed_sets
from ..structure.distinct import distinct, in_order_of_appearance
from ..structure.ids import count_of
from .base import Names
from .subgraph_samplers import HopSampler


@final
class CappedNeighborSampler(HopSampler):
    """Samples the subgraph of the seed nodes and at most ``fixed_k`` neighbours drawn from them in each hop.

    In each hop, neighbours are drawn from the nodes of the hop before; ``fixed_k`` of all that were reached, or all if
    there are fewer, go on to the next hop and into the subgraph.

    Raises DGLError: ``fixed_k`` is no integer above 0, or as :class:`NeighborSampler`.

    Parameters
    ----------
    fanouts, replace, prob
        as for :class:`NeighborSampler`; the last fan-out is the first hop's.
    fixed_k
        nodes of a hop, of all types together. Each type gets a share in proportion to its nodes that were reached;
        the rest of rounding goes to types at random. A type with fewer nodes takes all it has.
    upsample_rare_types
        shares in proportion to square roots, so that rare types get more.
    prefetch_node_feats, prefetch_edge_feats, output_device
        as ``prefetch_ndata``, ``prefetch_edata`` and ``output_device`` of :class:`SubgraphSampler`.
    """

    def __init__(
        self,
        fanouts: Sequence[Any],
        fixed_k: int,
        upsample_rare_types: bool,
        replace: bool = False,
        prob: str | None = None,
        prefetch_node_feats: Names = None,
        prefetch_edge_feats: Names = None,
        output_device: Any = None,
    ) -> None:
        super().__init__(fanouts, replace, prob, prefetch_node_feats, prefetch_edge_feats, output_device)
        self.fixed_k, self.upsample_rare_types = count_of(fixed_k, "fixed_k", 1), upsample_rare_types

    def sample(
        self, g: DGLGraph, indices: Any, exclude_eids: Any = None
    ) -> tuple[TensorOrDict, TensorOrDict, DGLGraph]:
        """Return the subgraph's nodes, the seed nodes, which come first among them, and the subgraph.

        Edges ``exclude_eids`` are not in it, nor followed.
        """
        hop = {g.ntypes[node_set]: ids for node_set, ids in seed_sets(g, indices, True).items()}
        seeds_of = {ntype: [ids] for ntype, ids in hop.items()}
        for fanout in reversed(self.fanouts):
            block = sample_neighbors_fused(
                g, hop, fanout, prob=self.prob, replace=self.replace, exclude_edges=exclude_eids
            )
            hop = self._capped(_reached(block))
            for ntype, ids in hop.items():
                seeds_of.setdefault(ntype, []).append(ids)
        nodes = {ntype: in_order_of_appearance(np.concatenate(parts)) for ntype, parts in seeds_of.items()}
        subgraph = self.induced(g, nodes, exclude_eids)
        if isinstance(indices, Mapping):
            by_type: Any = {ntype: subgraph.nodes[ntype].data[NID] for ntype in nodes}
            seeds: Any = indices
            return by_type, seeds, subgraph
        return subgraph.ndata[NID], indices, subgraph

    def _capped(self, reached: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the nodes of a hop, of those reached."""
        random = generator()
        if not reached:
            return reached
        counts = np.array([len(ids) for ids in reached.values()], np.float64)
        shares = np.sqrt(counts) if self.upsample_rare_types else counts
        shares /= shares.sum()
        # A share of exactly a whole number must not lose one to rounding.
        quotas = np.floor(self.fixed_k * shares + 1e-9).astype(np.int64)
        quotas += random.multinomial(max(self.fixed_k - int(quotas.sum()), 0), shares)
        return {
            ntype: ids if len(ids) <= most else ids[random.choice(len(ids), most, replace=False)]
            for (ntype, ids), most in zip(reached.items(), quotas.tolist(), strict=True)
        }


CapSampler = CappedNeighborSampler


def _reached(block: DGLGraph) -> dict[str, np.ndarray]:
    """Return the distinct nodes that a block's edges come from, by type; types without any left out."""
    by_type: dict[str, list[np.ndarray]] = {}
    for adjacency, (ntype, _, _) in zip(block.adjacencies, block.canonical_etypes, strict=True):
        if adjacency.num_edges:
            by_type.setdefault(ntype, []).append(distinct(adjacency.endpoints()[0]))
    ids = {ntype: active.to_numpy(block.srcnodes[ntype].data[NID]) for ntype in by_type}
    return {ntype: distinct(ids[ntype][np.concatenate(parts)]) for ntype, parts in by_type.items()}
