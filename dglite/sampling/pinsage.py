"""PinSAGE neighbours: the nodes that short random walks visit most often."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from ..backend import active
from ..errors import DGLError
from ..graph import DGLGraph
from ..graph.storage import make_graph
from ..structure import Adjacency, Metagraph
from ..structure.ids import count_of
from .arguments import probability
from .frontier import compiled
from .walks import repeated, walk

_LARGEST_TRACES = 1 << 27
"""Nodes in the walks from one seed: they take 1 GiB."""
_TRACES_AT_ONCE = 1 << 23
"""Nodes in the walks that are in memory at a time, if they are those of several seeds."""


class RandomWalkNeighborSampler:
    """Connects nodes to those that random walks from them visit most often (PinSAGE, Ying et al. 2018).

    A walk repeats a metapath that begins and ends at one node type; the nodes at which it completes the metapath are
    visited. Calling the sampler with seed ids gives a homogeneous graph of that type's nodes: edges into each seed from
    its most visited nodes, the most visited first, of equals the lowest id. The walks of one seed are in memory
    together, those of many seeds are not.

    Raises DGLError: the metapath does not end where it begins, a count is negative, the walks of one seed have more
    than 2**27 nodes together, or the probability is not in [0, 1].

    Parameters
    ----------
    G
        the graph.
    num_traversals
        how often a walk repeats the metapath at most.
    termination_prob
        probability to end a walk after each time through the metapath.
    num_random_walks
        walks from each seed.
    num_neighbors
        the most edges per seed.
    metapath
        edge types; by default one step along the only edge type.
    weight_column
        name of the edge feature with the number of visits.
    """

    def __init__(
        self,
        G: DGLGraph,
        num_traversals: int,
        termination_prob: float,
        num_random_walks: int,
        num_neighbors: int,
        metapath: Sequence[Any] | None = None,
        weight_column: str = "weights",
    ) -> None:
        if metapath is None:
            if len(G.adjacencies) != 1:
                raise DGLError(f"the graph has several edge types; give a metapath of {G.canonical_etypes}")
            metapath = [0]
        self._hop_relations = [G.etype_id(etype) for etype in metapath]
        ends = G.type_graph.ends
        if not self._hop_relations or ends[self._hop_relations[0]][0] != ends[self._hop_relations[-1]][1]:
            raise DGLError(f"metapath {list(metapath)} must begin and end at the same node type")
        self.G, self.weight_column = G, weight_column
        self.num_hops, self.num_traversals = len(self._hop_relations), count_of(num_traversals, "num_traversals", 1)
        self.num_random_walks = count_of(num_random_walks, "num_random_walks", 1)
        self.num_neighbors = count_of(num_neighbors, "num_neighbors")
        self._trace_size = self.num_random_walks * (self.num_hops * self.num_traversals + 1)
        if self._trace_size > _LARGEST_TRACES:
            raise DGLError(
                f"{self.num_random_walks} walks of {self.num_traversals} times {self.num_hops} steps from each seed "
                f"have {self._trace_size} nodes, at most {_LARGEST_TRACES} are kept; lower num_random_walks or "
                "num_traversals, some hundred visits rank the neighbors"
            )
        self._relations = repeated(self._hop_relations, self.num_traversals)
        self._node_set = ends[self._hop_relations[0]][0]
        self.ntype = G.type_graph.ntypes[self._node_set]
        self._stops = np.zeros(len(self._relations))
        self._stops[self.num_hops :: self.num_hops] = probability(termination_prob, "termination_prob")
        self._metagraph = Metagraph([self.ntype], [(self.ntype, "_E", self.ntype)])

    def __call__(self, seed_nodes: Any) -> DGLGraph:
        """Return the graph of edges into the seeds from their most visited nodes.

        Raises DGLError: a seed is not a node.
        """
        G, num_nodes = self.G, self.G.node_counts[self._node_set]
        seeds = G.node_ids_at(seed_nodes, self._node_set)
        at_once = max(_TRACES_AT_ONCE // self._trace_size, 1)
        parts = [self._visited(seeds[i : i + at_once]) for i in range(0, max(len(seeds), 1), at_once)]
        src, dst, times = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        adjacency = Adjacency.from_coo(num_nodes, num_nodes, src, dst, G.numpy_idtype, validate=False)
        result = make_graph(self._metagraph, (adjacency,), (num_nodes,), G.device)
        result.edata[self.weight_column] = result.as_tensor(times)
        return result

    def _visited(self, seeds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the most visited nodes of each seed, the seed, and the numbers of visits."""
        num_nodes = self.G.node_counts[self._node_set]
        most = min(self.num_neighbors, num_nodes, self.num_random_walks * self.num_traversals)  # as many can be visited
        starts = np.repeat(seeds, self.num_random_walks)
        traces, _, _ = walk(self.G, starts, self._relations, None, self._stops, False)
        nodes, times = np.zeros((len(seeds), most), np.int64), np.zeros((len(seeds), most), np.int64)
        counts = np.zeros(len(seeds), np.int64)
        arguments = traces.reshape(-1), traces.shape[1] - 1, self.num_hops, self.num_random_walks, most
        outputs = nodes.reshape(-1), times.reshape(-1), counts
        run, threads = compiled().rows.run_rows, active.num_threads()
        run(compiled().walk.count_visits, len(seeds), traces.size, threads, *arguments, *outputs)
        is_listed = np.arange(most) < counts[:, None]
        return nodes[is_listed], np.repeat(seeds, counts), times[is_listed]


@final
class PinSAGESampler(RandomWalkNeighborSampler):
    """:class:`RandomWalkNeighborSampler` on a bipartite graph with edges in both directions.

    The metapath goes from ``ntype`` to ``other_type`` and back.

    Raises DGLError: there is not exactly one edge type in each direction, or as the base class.
    """

    def __init__(
        self,
        G: DGLGraph,
        ntype: str,
        other_type: str,
        num_traversals: int,
        termination_prob: float,
        num_random_walks: int,
        num_neighbors: int,
        weight_column: str = "weights",
    ) -> None:
        metapath = [_only(G, ntype, other_type), _only(G, other_type, ntype)]
        super().__init__(G, num_traversals, termination_prob, num_random_walks, num_neighbors, metapath, weight_column)


def _only(g: DGLGraph, source: str, destination: str) -> tuple[str, str, str]:
    etypes = [etype for etype in g.canonical_etypes if (etype[0], etype[2]) == (source, destination)]
    if len(etypes) != 1:
        raise DGLError(f"expected one edge type from {source!r} to {destination!r}, found {etypes or 'none'}")
    return etypes[0]
