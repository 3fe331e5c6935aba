"""Prefix sums of each node's edge weights, cached between samples.

Draws by weight look for a place in the running sums of a node's weights. To sum them costs as much as the node has
edges; with sums that are kept a hub costs no more than other nodes. What is drawn is the same either way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import active
from ..graph import DGLGraph
from .columns import ColumnCache
from .frontier import IncidentEdges, compiled

_NONE = np.empty(0)


class WeightSums:
    """Running sums of one column of weights, computed once samples have read enough to repay them."""

    __slots__ = ("read", "sums")

    def __init__(self) -> None:
        self.read, self.sums = 0, _NONE


_SUMS: ColumnCache[WeightSums] = ColumnCache()


def cached_sums(
    g: DGLGraph, relation: int, prob: Any, weights: np.ndarray, inward: bool, sampled: IncidentEdges
) -> np.ndarray:
    """Return the running sums of each node's weights, by entry of the matrix; empty before they are computed.

    They are computed when samples by an edge feature have read as many entries as there are edges, and cached for this
    tensor and its version.

    Parameters
    ----------
    prob
        the edge feature's name; sums of other weights are not cached.
    weights
        its values.
    sampled
        the rows and entries that this sample reads.
    """
    if not isinstance(prob, str):
        return _NONE
    adjacency, column = g.adjacencies[relation], g.edge_frame_at(relation).peek(prob)
    with _SUMS.lock:
        entry = _SUMS.get(adjacency, column, WeightSums, inward)
        entry.read += sampled.entries
        if not len(entry.sums) and entry.read >= adjacency.num_edges > 0:
            indptr, edge_ids, total = sampled.rows.indptr, sampled.rows.edge_ids, adjacency.num_edges
            run, threads, sums = compiled().rows.run_rows, active.num_threads(), np.empty(total)
            run(compiled().weigh.sum_rows, len(indptr) - 1, total, threads, indptr, edge_ids, weights, sums)
            entry.sums = sums
        return entry.sums
