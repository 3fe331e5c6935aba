"""The neighbour sampler and random walks of DGL 0.4, on today's sampling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError, warn_deprecated
from ..frame import EID, NID
from ..graph import DGLGraph
from ..random import draw_key
from ..sampling import random_walk as walks
from ..sampling import sample_neighbors
from ..structure.ids import count_of, integer_array
from ..transforms import to_block
from .nodeflow import NodeFlow


def random_walk(g: DGLGraph, seeds: Any, num_traces: int, num_hops: int) -> Tensor:
    """Walk ``num_traces`` times from each seed, ``num_hops`` steps along out-edges of a graph of one type.

    Returns node ids (num_seeds, num_traces, num_hops + 1), each walk with its seed first and -1 after it has ended.
    Errors are those of :func:`dglite.sampling.random_walk`.
    """
    warn_deprecated("contrib.sampling.random_walk", "use dglite.sampling.random_walk")
    starts = integer_array(seeds, "seeds").reshape(-1)
    traces, _ = walks(g, np.repeat(starts, num_traces), length=num_hops)
    return active.reshape(traces, (len(starts), num_traces, num_hops + 1))


class NeighborSampler:
    """Iterates over mini-batches of nodes, each with its sampled neighbours as a :class:`NodeFlow`.

    Deprecated: :func:`dglite.sampling.sample_neighbors` and :func:`dglite.to_block` do the same for one layer.

    Raises DGLError: the graph has several types, or ``neighbor_type`` is something else.

    Parameters
    ----------
    g
        the graph, of one type.
    batch_size
        nodes in the last layer of a flow; the last batch may have fewer.
    expand_factor
        neighbours of each node; all by default.
    num_hops
        blocks of a flow.
    neighbor_type
        "in": edges that enter the nodes; "out": edges that leave them, against which a flow's blocks then go.
    transition_prob
        edge feature with weights.
    seed_nodes
        the nodes; all by default.
    shuffle
        put the nodes in another order, which follows :func:`dglite.seed`.
    add_self_loop
        add an edge from each node to itself to its sample.
    num_workers, prefetch
        accepted for DGL's sake.
    """

    def __init__(
        self,
        g: DGLGraph,
        batch_size: int,
        expand_factor: int | None = None,
        num_hops: int = 1,
        neighbor_type: str = "in",
        transition_prob: Any = None,
        seed_nodes: Any = None,
        shuffle: bool = False,
        num_workers: int = 1,
        prefetch: bool = False,
        add_self_loop: bool = False,
    ) -> None:
        warn_deprecated("contrib.sampling.NeighborSampler", "use dglite.sampling.sample_neighbors and dglite.to_block")
        if not g.is_homogeneous:
            raise DGLError(f"NeighborSampler takes a graph of one type; this one has node types {g.ntypes}")
        if neighbor_type not in ("in", "out"):
            raise DGLError(f"neighbor_type={neighbor_type!r} is not understood; expected 'in' or 'out'")
        self._graph, self._inward = g, g if neighbor_type == "in" else g.reverse(copy_edata=True)
        self._size, self._hops = count_of(batch_size, "batch_size", least=1), count_of(num_hops, "num_hops")
        self._fanout = -1 if expand_factor is None else count_of(expand_factor, "expand_factor", least=-1)
        self._loops = add_self_loop
        self._prob, self._shuffle = transition_prob, shuffle
        self._seeds = np.arange(g.num_nodes()) if seed_nodes is None else integer_array(seed_nodes, "seed nodes")

    def __len__(self) -> int:
        """Return the number of batches."""
        return -(-len(self._seeds) // self._size)

    def __iter__(self) -> Iterator[NodeFlow]:
        seeds = self._seeds
        if self._shuffle:
            seeds = np.random.default_rng(draw_key()).permutation(seeds)
        for first in range(0, len(seeds), self._size):
            yield self._flow(seeds[first : first + self._size])

    def _flow(self, seeds: np.ndarray) -> NodeFlow:
        blocks: list[DGLGraph] = []
        for _ in range(self._hops):
            blocks.insert(0, self._block(seeds))
            seeds = active.to_numpy(blocks[0].srcdata[NID])
        return NodeFlow(self._graph, blocks)

    def _block(self, seeds: np.ndarray) -> DGLGraph:
        frontier = sample_neighbors(self._inward, seeds, self._fanout, prob=self._prob, copy_ndata=False)
        ids = active.to_numpy(frontier.edata[EID])
        frontier.edata.clear()
        if self._loops:
            frontier.add_edges(seeds, seeds)
            ids = np.concatenate([ids, np.full(len(seeds), -1, ids.dtype)])
        block = to_block(frontier, seeds, include_dst_in_src=False)
        block.edata[EID] = frontier.ids_tensor(ids)
        return block
