"""Samplers that return a subgraph for each batch: clusters, GraphSAINT, ShaDow."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from ..backend import active
from ..column import TensorOrDict
from ..errors import DGLError
from ..frame import EID
from ..graph import DGLGraph
from ..graph.storage import require_graph
from ..random import generator
from ..sampling import random_walk
from ..sampling.arguments import edge_weights, excluded_edges, fanouts_of
from ..structure.distinct import contains, distinct
from ..structure.ids import as_ids
from ..subgraph import edge_subgraph, node_subgraph
from ..transforms import metis_partition_assignment
from .base import Names, SubgraphSampler, check_nodes, listed_fanouts
from .neighbor_sampler import NeighborSampler


@final
class ClusterGCNSampler(SubgraphSampler):
    """Samples the subgraph of the nodes of some parts, of ``k`` that METIS cuts the graph into (Cluster-GCN).

    The indices of a loader are numbers of parts, ``range(k)``.

    Raises DGLError: the graph is not homogeneous, ``k`` is not from 1 to the number of nodes, or the file is not one of
    parts of such a graph.

    Parameters
    ----------
    g
        a homogeneous graph.
    cache_path
        file that keeps the parts, in NumPy's ``.npz`` format, to be read by the next run; None keeps none.
    balance_ntypes, balance_edges, mode
        as for :func:`dglite.metis_partition_assignment`.
    prefetch_ndata, prefetch_edata, output_device
        as for :class:`SubgraphSampler`.
    """

    def __init__(
        self,
        g: DGLGraph,
        k: int,
        cache_path: str | Path | None = "cluster_gcn.pkl",
        balance_ntypes: Any = None,
        balance_edges: bool = False,
        mode: str = "k-way",
        prefetch_ndata: Names = None,
        prefetch_edata: Names = None,
        output_device: Any = None,
    ) -> None:
        super().__init__(prefetch_ndata, prefetch_edata, output_device)
        _require_homogeneous(g, "ClusterGCNSampler")
        if cache_path is not None and Path(cache_path).exists():
            offsets, nodes = _read_parts(Path(cache_path), g, k)
        else:
            parts = active.to_numpy(metis_partition_assignment(g, k, balance_ntypes, balance_edges, mode))
            nodes = np.argsort(parts, kind="stable")
            offsets = np.concatenate([[0], np.cumsum(np.bincount(parts, minlength=k))])
            if cache_path is not None:
                with open(cache_path, "wb") as file:
                    np.savez(file, offsets=offsets, nodes=nodes)
        self._offsets, self._nodes = offsets, nodes
        self.partition_offset, self.partition_node_ids = active.from_numpy(offsets), active.from_numpy(nodes)

    def check(self, g: DGLGraph, indices: Any) -> None:
        """Raise :class:`DGLError` if an index is not a part, or the graph is not the partitioned one."""
        if g.num_nodes() != len(self._nodes):
            raise DGLError(f"the graph has {g.num_nodes()} nodes; the sampler was made for {len(self._nodes)}")
        as_ids(indices, len(self._offsets) - 1, "part")

    def sample(self, g: DGLGraph, partition_ids: Any) -> DGLGraph:
        """Return the subgraph of the nodes of some parts."""
        parts = as_ids(partition_ids, len(self._offsets) - 1, "part")
        nodes = [self._nodes[self._offsets[i] : self._offsets[i + 1]] for i in parts.tolist()]
        none = np.empty(0, np.int64)
        return self.finish(node_subgraph(g, np.concatenate([none, *nodes]), output_device=self.output_device))


def _read_parts(path: Path, g: DGLGraph, k: int) -> tuple[np.ndarray, np.ndarray]:
    help_ = f"remove {path}, or give another cache_path"
    try:
        with np.load(path, allow_pickle=False) as file:
            offsets, nodes = file["offsets"], file["nodes"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DGLError(f"{path} is not a file of parts written by dglite ({error}); {help_}") from error
    if len(offsets) != k + 1 or len(nodes) != g.num_nodes():
        raise DGLError(
            f"{path} has {len(offsets) - 1} parts of a graph of {len(nodes)} nodes; expected {k} parts of "
            f"{g.num_nodes()} nodes: {help_}"
        )
    return offsets, nodes


@final
class SAINTSampler(SubgraphSampler):
    """Samples the subgraph of nodes drawn at random (GraphSAINT); the indices of a loader only count its batches.

    Raises DGLError: the mode or budget is not understood; when sampling, the graph is not homogeneous or has nothing to
    draw.

    Parameters
    ----------
    mode
        ``"node"`` draws nodes in proportion to their out-degree; ``"edge"`` the ends of edges, each in proportion to
        1 / in-degree of its destination + 1 / out-degree of its source; ``"walk"`` the nodes on random walks from nodes
        drawn uniformly.
    budget
        how many draws, which may repeat; for ``"walk"`` a pair of the number of walks and of their steps.
    cache
        keep the probabilities from one batch to the next, as long as the graph has the same edges.
    prefetch_ndata, prefetch_edata, output_device
        as for :class:`SubgraphSampler`.
    """

    def __init__(
        self,
        mode: str,
        budget: int | tuple[int, int],
        cache: bool = True,
        prefetch_ndata: Names = None,
        prefetch_edata: Names = None,
        output_device: Any = "cpu",
    ) -> None:
        super().__init__(prefetch_ndata, prefetch_edata, output_device)
        if mode not in ("node", "edge", "walk"):
            raise DGLError(f"mode={mode!r} is not understood; expected 'node', 'edge' or 'walk'")
        numbers = list(budget) if isinstance(budget, tuple | list) else [budget]
        if len(numbers) != (2 if mode == "walk" else 1) or not all(isinstance(x, int) and x > 0 for x in numbers):
            expected = "a pair (walks, steps)" if mode == "walk" else "a number"
            raise DGLError(f"budget of mode {mode!r} must be {expected} above 0, got {budget!r}")
        self.mode, self.budget, self.cache = mode, budget, cache
        self._numbers = numbers
        self._cached_sums: tuple[Any, np.ndarray] | None = None

    def sample(self, g: DGLGraph, indices: Any = None) -> DGLGraph:
        """Return the subgraph of the nodes drawn, in ascending order; ``indices`` are not read."""
        _require_homogeneous(g, "SAINTSampler")
        if self.mode == "walk":
            nodes = self._on_walks(g)
        else:
            picks = self._draw(self._cumulated(g))
            nodes = picks if self.mode == "node" else np.concatenate(g.adjacencies[0].find_edges(picks))
        return self.finish(node_subgraph(g, distinct(nodes), output_device=self.output_device))

    def _cumulated(self, g: DGLGraph) -> np.ndarray:
        """Return the running sum of the weights of nodes or edges."""
        adjacency, cached = g.adjacencies[0], self._cached_sums
        if cached is not None and cached[0] is adjacency:
            return cached[1]
        out_degrees = np.maximum(adjacency.out_degrees(), 1)
        if self.mode == "node":
            weights = out_degrees.astype(np.float64)
        else:
            src, dst = adjacency.endpoints()
            weights = 1 / np.maximum(adjacency.in_degrees(), 1)[dst] + 1 / out_degrees[src]
        if not len(weights):
            raise DGLError(f"the graph has no {self.mode}s to draw")
        summed = np.cumsum(weights)
        if self.cache:
            self._cached_sums = adjacency, summed
        return summed

    def _draw(self, summed: np.ndarray) -> np.ndarray:
        positions = np.searchsorted(summed, generator().random(self._numbers[0]) * summed[-1], "right")
        return distinct(np.minimum(positions, len(summed) - 1))

    def _on_walks(self, g: DGLGraph) -> np.ndarray:
        walks, steps = self._numbers
        if not g.num_nodes():
            raise DGLError("the graph has no nodes to walk from")
        traces, _ = random_walk(g, generator().integers(g.num_nodes(), size=walks), length=steps)
        nodes = active.to_numpy(traces)
        return nodes[nodes >= 0]


class HopSampler(SubgraphSampler):
    """Base of subgraph samplers that go from seed nodes to neighbours, hop after hop; arguments of NeighborSampler."""

    def __init__(
        self,
        fanouts: Sequence[Any],
        replace: bool = False,
        prob: str | None = None,
        prefetch_node_feats: Names = None,
        prefetch_edge_feats: Names = None,
        output_device: Any = None,
    ) -> None:
        super().__init__(prefetch_node_feats, prefetch_edge_feats, output_device)
        self.fanouts, self.replace, self.prob = listed_fanouts(fanouts, "hop"), replace, prob

    def check(self, g: DGLGraph, indices: Any) -> None:
        """Raise :class:`DGLError` where seeds, fan-outs or weights do not fit the graph."""
        check_nodes(g, indices)
        for hop, fanout in enumerate(self.fanouts):
            fanouts_of(g, fanout, f"the fan-out of hop {hop}")
        edge_weights(g, self.prob)

    def induced(self, g: DGLGraph, nodes: Any, exclude_eids: Any) -> DGLGraph:
        """Return the subgraph of some nodes, without some edges, where it is to be and with features gathered."""
        subgraph = node_subgraph(g, nodes)
        if exclude_eids is not None:
            subgraph = _without_edges(g, subgraph, exclude_eids)
        if self.output_device is not None:
            subgraph = subgraph.to(self.output_device)
        return self.finish(subgraph)


@final
class ShaDowKHopSampler(HopSampler):
    """Samples the subgraph of the seed nodes and the neighbours drawn from them, hop after hop (ShaDow-GNN).

    Raises DGLError as :class:`NeighborSampler`.

    Parameters
    ----------
    fanouts, replace, prob
        as for :class:`NeighborSampler`.
    prefetch_node_feats, prefetch_edge_feats, output_device
        as ``prefetch_ndata``, ``prefetch_edata`` and ``output_device`` of :class:`SubgraphSampler`.
    """

    def sample(
        self, g: DGLGraph, seed_nodes: Any, exclude_eids: Any = None
    ) -> tuple[TensorOrDict, TensorOrDict, DGLGraph]:
        """Return the subgraph's nodes, the seed nodes, which come first among them, and the subgraph.

        Edges ``exclude_eids`` are not in it, nor followed.
        """
        hops = NeighborSampler(self.fanouts, prob=self.prob, replace=self.replace)
        nodes, _, _ = hops.sample_blocks(g, seed_nodes, exclude_eids)
        return nodes, seed_nodes, self.induced(g, nodes, exclude_eids)


def _without_edges(g: DGLGraph, subgraph: DGLGraph, edges: Any) -> DGLGraph:
    """Return a subgraph without some edges of the graph that it is of."""
    masks = {}
    for index, (etype, ids) in enumerate(zip(g.canonical_etypes, excluded_edges(g, edges), strict=True)):
        edge_ids = active.to_numpy(subgraph.edge_frame_at(index)[EID])
        masks[etype] = np.arange(len(edge_ids)) if ids is None else (~contains(ids, edge_ids)).nonzero()[0]
    return edge_subgraph(subgraph, masks, relabel_nodes=False, store_ids=False)


def _require_homogeneous(g: DGLGraph, caller: str) -> None:
    require_graph(g)
    if not g.is_homogeneous:
        raise DGLError(f"{caller} needs a graph of one node and one edge type; see dglite.to_homogeneous")
