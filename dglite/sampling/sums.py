"""What samplers derive from a column of edge features, cached until the column changes: prefix sums of weights.

Draws by weight look for a place in the running sums of a node's weights. To sum them costs as much as the node has
edges; with sums that are kept a hub costs no more than other nodes. What is drawn is the same either way.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import numpy as np

from ..backend import active
from ..graph import DGLGraph
from ..locks import new_lock
from ..structure import Adjacency
from .frontier import IncidentEdges, compiled

Value = TypeVar("Value")


class ColumnCache(Generic[Value]):
    """One value for each relation, of one tensor, its version and options; another of them replaces it.

    Attributes
    ----------
    lock
        held while a value is made; hold it to change one.
    """

    def __init__(self) -> None:
        self.lock = new_lock()
        self._values: weakref.WeakKeyDictionary[Adjacency, tuple[Any, Hashable, Value]] = weakref.WeakKeyDictionary()

    def get(self, adjacency: Adjacency, column: Any, make: Callable[[], Value], *options: Hashable) -> Value:
        """Return the value of a column, made by ``make`` where it is not cached; hold ``lock``.

        A column whose changes cannot be seen is not cached.
        """
        version = active.version(column) if active.is_tensor(column) else None
        if version is None:
            return make()
        entry = self._values.get(adjacency)
        if entry is None or entry[0] is not column or entry[1] != (version, *options):
            entry = self._values[adjacency] = column, (version, *options), make()
        return entry[2]


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
