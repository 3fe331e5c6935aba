"""Edges to exclude from a sample, so that a model does not see the edges that it predicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..graph import DGLGraph
from ..structure.distinct import distinct
from ..structure.ids import integer_array

Edges = Tensor | Mapping[Any, Tensor]
"""Edge ids of the only type, or by edge type."""

_MODES = "None, 'self', 'reverse_id', 'reverse_types', ids, or a function of the seed edges"


def require_mode(exclude: Any) -> None:
    """Raise ``ValueError`` for a text that names no edges to exclude."""
    if isinstance(exclude, str) and exclude not in ("self", "reverse_id", "reverse_types"):
        raise ValueError(f"exclude={exclude!r} is not understood; expected {_MODES}")


def find_exclude_eids(
    g: DGLGraph,
    seed_edges: Edges,
    exclude: str | Edges | Callable[[Any], Any] | None,
    reverse_eids: Edges | None = None,
    reverse_etypes: Mapping[Any, Any] | None = None,
    output_device: Any = None,
) -> Any:
    """Return the edges that a sample around some edges must exclude, in the same form as its argument.

    Raises DGLError: a type is unknown, or ``reverse_eids`` or ``reverse_etypes`` is missing or does not have the edges;
    ValueError: ``exclude`` is something else.

    Parameters
    ----------
    seed_edges
        edge ids, or a dictionary of them by edge type.
    exclude
        None for no edges; ``"self"`` for the edges themselves; ``"reverse_id"`` for them and edges
        ``reverse_eids[edge]`` of the same type; ``"reverse_types"`` for them and the edges of the same ids of type
        ``reverse_etypes[type]``; a function that returns the edges to leave out; or these edges themselves.
    reverse_eids
        id of each edge's reverse, by edge type where the seeds are.
    reverse_etypes
        edge type of the reverse edges, by edge type.
    output_device
        where to put the ids.
    """
    if exclude is None:
        return None
    require_mode(exclude)
    if isinstance(exclude, str):
        if isinstance(seed_edges, Mapping):
            seed_edges = {g.to_canonical_etype(etype): ids for etype, ids in seed_edges.items()}
        if exclude == "self":
            excluded: Any = seed_edges
        elif exclude == "reverse_id":
            excluded = _with_reverse_ids(g, seed_edges, reverse_eids)
        else:
            excluded = _with_reverse_types(g, seed_edges, reverse_etypes)
    elif callable(exclude):
        excluded = exclude(seed_edges)
    elif active.is_tensor(exclude) or isinstance(exclude, Mapping):
        excluded = exclude
    else:
        raise ValueError(f"exclude={exclude!r} is not understood; expected {_MODES}")
    if excluded is None or output_device is None:
        return excluded
    if isinstance(excluded, Mapping):
        return {etype: active.to_device(ids, output_device) for etype, ids in excluded.items()}
    return active.to_device(excluded, output_device)


def _with_reverse_ids(g: DGLGraph, edges: Any, reverse: Any) -> Any:
    if reverse is None:
        raise DGLError("exclude='reverse_id' needs reverse_eids, the id of each edge's reverse edge")
    if not isinstance(edges, Mapping):
        return g.ids_tensor(_and_reverse(g, edges, None, reverse))
    if not isinstance(reverse, Mapping):
        raise DGLError("edges are given by type; give reverse_eids as a dictionary by edge type, too")
    by_type = {g.to_canonical_etype(etype): ids for etype, ids in reverse.items()}
    missing = [etype for etype in edges if etype not in by_type]
    if missing:
        raise DGLError(f"reverse_eids lacks edge types {missing}; it has {list(by_type)}")
    return {etype: g.ids_tensor(_and_reverse(g, ids, etype, by_type[etype])) for etype, ids in edges.items()}


def _and_reverse(g: DGLGraph, edges: Any, etype: Any, reverse: Any) -> np.ndarray:
    ids = g.edge_ids_of(edges, etype)
    by_edge = integer_array(reverse, "reverse_eids")
    if len(ids) and ids.max() >= len(by_edge):
        raise DGLError(f"reverse_eids has {len(by_edge)} entries, none for edge {ids.max()}; give one for each edge")
    return np.concatenate([ids, by_edge[ids].astype(np.int64, copy=False)])


def _with_reverse_types(g: DGLGraph, edges: Any, reverse: Any) -> dict[Any, Tensor]:
    if reverse is None:
        raise DGLError("exclude='reverse_types' needs reverse_etypes, the edge type of the reverse edges by edge type")
    if not isinstance(edges, Mapping):
        edges = {g.canonical_etypes[g.etype_id()]: edges}
    by_etype = {etype: [g.edge_ids_of(ids, etype)] for etype, ids in edges.items()}
    for etype, other in reverse.items():
        etype, other = g.to_canonical_etype(etype), g.to_canonical_etype(other)
        if etype in edges:
            by_etype.setdefault(other, []).append(g.edge_ids_of(edges[etype], etype))
    return {etype: g.ids_tensor(distinct(np.concatenate(parts))) for etype, parts in by_etype.items()}


@final
class SpotTarget:
    """Excludes those seed edges that touch a node of low in-degree (Zhu et al. 2023, https://arxiv.org/abs/2306.00899).

    A function to give as ``exclude``: of the seed edges, those of which an end has fewer than ``degree_threshold``
    in-edges are excluded as ``exclude``, ``reverse_eids`` and ``reverse_etypes`` say; the others stay in the sample.
    """

    def __init__(
        self,
        g: DGLGraph,
        exclude: Any,
        degree_threshold: int = 10,
        reverse_eids: Any = None,
        reverse_etypes: Any = None,
    ) -> None:
        self.g, self.exclude, self.degree_threshold = g, exclude, degree_threshold
        self.reverse_eids, self.reverse_etypes = reverse_eids, reverse_etypes

    def __call__(self, seed_edges: Any) -> Any:
        """Return the edges to exclude of some seed edges, in the form in which they are given."""
        if isinstance(seed_edges, Mapping):
            excluded: Any = {etype: self._at_low_degree(ids, etype) for etype, ids in seed_edges.items()}
        else:
            excluded = self._at_low_degree(seed_edges, None)
        return find_exclude_eids(self.g, excluded, self.exclude, self.reverse_eids, self.reverse_etypes)

    def _at_low_degree(self, edges: Any, etype: Any) -> Tensor:
        g = self.g
        index = g.etype_id(etype)
        ids = g.edge_ids_of(edges, index)
        low = np.zeros(len(ids), bool)
        for ends, node_set in zip(g.adjacencies[index].find_edges(ids), g.type_graph.ends[index], strict=True):
            low |= self._in_degrees(node_set)[ends] < self.degree_threshold
        return g.ids_tensor(ids[low])

    def _in_degrees(self, node_set: int) -> np.ndarray:
        total = np.zeros(self.g.node_counts[node_set], np.int64)
        for adjacency, ends in zip(self.g.adjacencies, self.g.type_graph.ends, strict=True):
            if ends[1] == node_set:
                total += adjacency.in_degrees()
        return total
