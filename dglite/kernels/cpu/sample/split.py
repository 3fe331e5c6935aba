"""Sort drawn edges by type, and take edges between given nodes out of a sample."""

from __future__ import annotations

import numpy as np

from ..compile.written import Kernel
from ..lanes.arrays import address_of
from ..lanes.memory import prefetch
from .hashing import in_set

_AHEAD = 32
"""Edges between asking for an edge's code and reading it."""


@Kernel
def read_types(types: np.ndarray, edges: np.ndarray, types_of_edges: np.ndarray, counts: np.ndarray) -> None:
    """Write the type of each edge to ``types_of_edges``, and count edges by type."""
    for i in range(len(edges)):
        if i + _AHEAD < len(edges):
            prefetch(address_of(types, edges[i + _AHEAD]))
        types_of_edges[i] = types[edges[i]]
        counts[types_of_edges[i]] += 1


@Kernel
def split_rows(
    offsets: np.ndarray,
    types: np.ndarray,
    far: np.ndarray,
    edges: np.ndarray,
    first: np.ndarray,
    begins: np.ndarray,
    bounds: np.ndarray,
    sources: np.ndarray,
    edges_of_types: np.ndarray,
) -> None:
    """Sort the edges of rows by type; those of a type stay in the order of the rows.

    ``edges`` of row i, from ``offsets[i]`` on, have sources ``far``. Those of type t go from ``begins[t]`` on, with
    sources minus ``first[t]``; the bounds of its rows to the (t * (num_rows + 1))-th number of ``bounds`` and on.
    """
    num_rows, num_types = len(offsets) - 1, len(begins)
    ends = np.empty(num_types, np.int64)
    for t in range(num_types):
        ends[t] = begins[t]
        bounds[t * (num_rows + 1)] = 0
    for i in range(num_rows):
        for at in range(offsets[i], offsets[i + 1]):
            t = types[at]
            to = ends[t]
            sources[to], edges_of_types[to] = far[at] - first[t], edges[at]
            ends[t] = to + 1
        for t in range(num_types):
            bounds[t * (num_rows + 1) + i + 1] = ends[t] - begins[t]


@Kernel
def entries_left(
    indptr: np.ndarray,
    indices: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    near: np.ndarray,
    pairs: np.ndarray,
    width: int,
    bounds: np.ndarray,
    left: np.ndarray,
) -> int:
    """List the entries that are not between given pairs of nodes; return their number.

    Parameters
    ----------
    rows, columns
        the ids of the nodes that sources and destinations are numbered by; empty for the numbers themselves.
    near, pairs
        sets of the pairs' destinations and of ``destination * width + source``; sources are below ``width``.
    bounds, left
        where the entries that are left of each destination begin and end, and these entries.
    """
    total = 0
    bounds[0] = 0
    for i in range(len(indptr) - 1):
        node = columns[i] if len(columns) > 0 else i
        if in_set(near, node):
            for entry in range(indptr[i], indptr[i + 1]):
                source = rows[indices[entry]] if len(rows) > 0 else indices[entry]
                left[total] = entry
                total += not (source < width and in_set(pairs, node * width + source))
        else:
            for entry in range(indptr[i], indptr[i + 1]):
                left[total] = entry
                total += 1
        bounds[i + 1] = total
    return total
