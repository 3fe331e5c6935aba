"""Mini-batches of edges, with or without negative pairs, from samplers of nodes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, final, overload

from ..arguments import explained
from ..column import TensorOrDict
from ..convert import heterograph
from ..errors import DGLError
from ..frame import EID, NID
from ..graph import DGLGraph
from ..subgraph import edge_subgraph
from ..transforms import compact_graphs
from .base import Names, Sampler, check_edges, set_edge_lazy_features
from .exclusion import find_exclude_eids, require_mode
from .neighbor_sampler import NeighborSampler
from .pairs_in_time import in_time

Batch = TypeVar("Batch")
Positives = tuple[TensorOrDict, DGLGraph, list[DGLGraph]]
WithNegatives = tuple[TensorOrDict, DGLGraph, DGLGraph, list[DGLGraph]]


@overload
def as_edge_prediction_sampler(
    sampler: Any,
    exclude: Any = None,
    reverse_eids: Any = None,
    reverse_etypes: Any = None,
    negative_sampler: None = None,
    prefetch_labels: Names = None,
) -> EdgePredictionSampler[Positives]: ...
@overload
def as_edge_prediction_sampler(
    sampler: Any,
    exclude: Any = None,
    reverse_eids: Any = None,
    reverse_etypes: Any = None,
    *,
    negative_sampler: Callable[[DGLGraph, Any], Any],
    prefetch_labels: Names = None,
) -> EdgePredictionSampler[WithNegatives]: ...
@explained
def as_edge_prediction_sampler(
    sampler: Any,
    exclude: Any = None,
    reverse_eids: Any = None,
    reverse_etypes: Any = None,
    negative_sampler: Callable[[DGLGraph, Any], Any] | None = None,
    prefetch_labels: Names = None,
) -> EdgePredictionSampler[Any]:
    """Return a sampler of edges: ``sampler``, a sampler of nodes, is applied to the ends of a batch of edges.

    Raises TypeError: ``sampler.sample`` takes no edges to leave out.

    Parameters
    ----------
    sampler
        its ``sample`` takes a third argument, the edges to leave out.
    exclude, reverse_eids, reverse_etypes
        edges that samples must not contain: see :func:`find_exclude_eids`.
    negative_sampler
        a function of the graph and the edges that returns pairs of nodes, (source, destination), or a dictionary of
        them by edge type: see :mod:`dglite.dataloading.negative_sampler`.
    prefetch_labels
        edge features to gather for the graph of the batch's edges; names, or by edge type.

    Notes
    -----
    A :class:`NeighborSampler` with ``edge_time`` draws for the ends of each edge, and of its negative pairs, no edges
    that are later than it; others of the same time may be, itself too unless it is excluded. A node is in the graphs
    once for each time. Negative pairs must be as many for each edge, edge after edge.
    """
    return EdgePredictionSampler(sampler, exclude, reverse_eids, reverse_etypes, negative_sampler, prefetch_labels)


@final
class EdgePredictionSampler(Sampler, Generic[Batch]):
    """The sampler that :func:`as_edge_prediction_sampler` returns.

    With ``g_sampling``, another graph over the same nodes, blocks are of that one, from which no edges are left out.
    """

    def __init__(
        self,
        sampler: Any,
        exclude: Any = None,
        reverse_eids: Any = None,
        reverse_etypes: Any = None,
        negative_sampler: Callable[[DGLGraph, Any], Any] | None = None,
        prefetch_labels: Names = None,
        g_sampling: DGLGraph | None = None,
    ) -> None:
        super().__init__()
        if isinstance(sampler, type) or not callable(getattr(sampler, "sample", None)):
            raise TypeError(f"{sampler!r:.60} is no sampler; pass one such as NeighborSampler([10, 10])")
        if negative_sampler is not None and (isinstance(negative_sampler, type) or not callable(negative_sampler)):
            raise TypeError(
                "negative_sampler must be a function of a graph and edge ids, such as negative_sampler.Uniform(5), "
                f"got {negative_sampler!r:.60}"
            )
        require_mode(exclude)
        parameters = inspect.signature(sampler.sample).parameters.values()
        positional = [x for x in parameters if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)]
        if len(positional) < 3 and not any(x.kind is x.VAR_POSITIONAL for x in parameters):
            raise TypeError(
                f"{type(sampler).__name__}.sample(g, indices) takes no edges to leave out, so it cannot sample for "
                "edges; give it a third argument, exclude_eids=None"
            )
        self.sampler, self.negative_sampler = sampler, negative_sampler
        self.exclude = exclude if g_sampling is None else None
        self.reverse_eids, self.reverse_etypes = reverse_eids, reverse_etypes
        self.prefetch_labels, self.g_sampling = prefetch_labels or [], g_sampling
        self.output_device = sampler.output_device if isinstance(sampler, Sampler) else None

    formats = ("coo", "csr", "csc")

    def check(self, g: DGLGraph, indices: Any) -> None:
        """Raise :class:`DGLError` where a seed is no edge of the graph, or the node sampler does not fit it."""
        check_edges(g, indices)
        if isinstance(self.sampler, Sampler):
            self.sampler.check(g, {g.ntypes[0]: []})

    def sample(self, g: DGLGraph, seed_edges: Any) -> Batch:
        """Return input nodes, the graph of the seed edges, that of the negative pairs if any, and the blocks.

        The two graphs have the same nodes, numbered as the last block's destinations.
        """
        g_sampling = g if self.g_sampling is None else self.g_sampling
        if isinstance(seed_edges, Mapping):
            seed_edges = {g.to_canonical_etype(etype): ids for etype, ids in seed_edges.items()}
        pairs = edge_subgraph(g, seed_edges, relabel_nodes=False)
        ids = [pairs.edge_frame_at(i)[EID] for i in range(len(pairs.adjacencies))]
        graphs = [pairs]
        if self.negative_sampler is not None:
            graphs.append(self.negative_graph(g, seed_edges))
        excluded = find_exclude_eids(g_sampling, seed_edges, self.exclude, self.reverse_eids, self.reverse_etypes)
        if isinstance(self.sampler, NeighborSampler) and self.sampler.edge_time is not None:
            graphs, sets, times = in_time(g, graphs, self.sampler.edge_time)
            input_nodes, _, blocks = self.sampler.sample_at(g_sampling, sets, times, excluded)
        else:
            graphs = compact_graphs(graphs)
            for i, column in enumerate(ids):
                graphs[0].edge_frame_at(i)[EID] = column
            input_nodes, _, blocks = self.sampler.sample(g_sampling, graphs[0].ndata[NID], excluded)
        set_edge_lazy_features(graphs[0], self.prefetch_labels)
        if self.output_device is not None:
            graphs = [graph.to(self.output_device) for graph in graphs]
        batch: Any = input_nodes, *graphs, blocks
        return batch

    def negative_graph(self, g: DGLGraph, seed_edges: Any) -> DGLGraph:
        """Return the graph of the pairs that the negative sampler returns for some edges."""
        assert self.negative_sampler is not None
        pairs = self.negative_sampler(g, seed_edges)
        if not isinstance(pairs, Mapping):
            if len(g.canonical_etypes) != 1:
                raise DGLError(
                    f"the negative sampler returned pairs without a type, but the graph has {g.canonical_etypes}; "
                    "return a dictionary by edge type"
                )
            pairs = {g.canonical_etypes[0]: pairs}
        return graph_of_pairs(g, pairs)


def graph_of_pairs(g: DGLGraph, pairs: Mapping[Any, Any]) -> DGLGraph:
    """Return the graph over the nodes of ``g`` whose edges are pairs (source, destination), by edge type."""
    by_etype = {g.to_canonical_etype(etype): ends for etype, ends in pairs.items()}
    none: tuple[list[int], list[int]] = [], []
    edges = {etype: by_etype.get(etype, none) for etype in g.canonical_etypes}
    counts = {ntype: g.num_nodes(ntype) for ntype in g.ntypes}
    return heterograph(edges, counts, idtype=g.idtype, device=g.device)
