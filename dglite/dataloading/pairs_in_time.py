"""Pair graphs for temporal link prediction: nodes are distinguished by the time of their edge."""

from __future__ import annotations

import numpy as np

from ..backend import active
from ..convert import heterograph
from ..errors import DGLError
from ..frame import EID, NID
from ..graph import DGLGraph
from ..sampling.temporal import TIME
from ..sampling.times import edge_times
from ..structure.distinct import distinct, numbered

Sets = dict[int, np.ndarray]
"""Something for the nodes of each node set."""


def in_time(g: DGLGraph, graphs: list[DGLGraph], edge_time: str) -> tuple[list[DGLGraph], Sets, Sets]:
    """Return graphs of pairs with a node for each node of ``g`` at each time, these nodes' ids, and their times.

    The first graph is of edges of ``g``, which have times. The second, if any, is of negative pairs: as many for each
    edge of the first, edge after edge, whose time is theirs, too.

    Raises ``DGLError``: edges have no time, or a time that is NaN; or there are not as many negative pairs for each
    edge.
    """
    times = _times(g, graphs, edge_time)
    levels = distinct(np.concatenate([x for part in times for x in part]))
    versions, ends = max(len(levels), 1), g.type_graph.ends
    parts: list[list[np.ndarray]] = [[] for _ in g.ntypes]
    for graph, of_graph in zip(graphs, times, strict=True):
        for adjacency, at, sets in zip(graph.adjacencies, of_graph, ends, strict=True):
            rank = np.searchsorted(levels, at)
            for ids, node_set in zip(adjacency.endpoints(), sets, strict=True):
                parts[node_set].append(ids.astype(np.int64) * versions + rank)
    keys, numbers = [], []
    for samples in parts:
        ids, places = numbered(np.concatenate([np.empty(0, np.int64), *samples]))
        keys.append(ids)
        numbers.append(iter(np.split(places, np.cumsum([len(x) for x in samples])[:-1]) if samples else []))
    counts = {ntype: len(x) for ntype, x in zip(g.ntypes, keys, strict=True)}
    result = []
    for graph in graphs:
        pairs = {
            etype: (next(numbers[a]), next(numbers[b])) for etype, (a, b) in zip(g.canonical_etypes, ends, strict=True)
        }
        renumbered = heterograph(pairs, counts, idtype=g.idtype, device=g.device)
        renumbered.edge_frames = graph.edge_frames
        for i, ntype in enumerate(g.ntypes):
            renumbered.nodes[ntype].data[NID] = g.ids_tensor(keys[i] // versions)
            renumbered.nodes[ntype].data[TIME] = g.as_tensor(levels[keys[i] % versions])
        result.append(renumbered)
    return result, {i: x // versions for i, x in enumerate(keys)}, {i: levels[x % versions] for i, x in enumerate(keys)}


def _times(g: DGLGraph, graphs: list[DGLGraph], edge_time: str) -> list[list[np.ndarray]]:
    """Return the times of each graph's pairs, by edge type."""
    first, *others = graphs
    of_edges = edge_times(g, edge_time)
    dates_of: list[list[np.ndarray]] = [[] for _ in graphs]
    for i, etype in enumerate(g.canonical_etypes):
        count, dates = first.adjacencies[i].num_edges, of_edges[i]
        if dates is None and count:
            raise DGLError(f"seed edges of type {etype} have no time: there is no edge feature {edge_time!r}")
        at = np.empty(0, np.int64) if dates is None else dates[active.to_numpy(first.edge_frame_at(i)[EID])]
        if (at != at).any():
            raise DGLError(f"the time of a seed edge of type {etype} is NaN")
        dates_of[0].append(at)
        for graph, times in zip(others, dates_of[1:], strict=True):
            pairs = graph.adjacencies[i].num_edges
            if pairs and (not count or pairs % count):
                raise DGLError(
                    f"{pairs} negative pairs for {count} edges of type {etype} have no time; draw as many for each "
                    "edge, edge after edge, as negative_sampler.Uniform does"
                )
            times.append(np.repeat(at, pairs // count) if count else at)
    return dates_of
