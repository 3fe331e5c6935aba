"""Times of edges and of seeds, as samplers read them from features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..graph import DGLGraph
from .arguments import numbers

NO_IDS = np.empty(0, np.int64)


class TimeLimits(NamedTuple):
    """Times of a relation's edges, and of its seeds, which have no edges that are later or too early.

    Attributes
    ----------
    edges, seeds
        seed i has no edge whose time is not at most ``seeds[i]``.
    edges_since, seeds_since
        where not empty, seed i has no edge whose time is not at least ``seeds_since[i]``.
    """

    edges: np.ndarray
    seeds: np.ndarray
    edges_since: np.ndarray = NO_IDS
    seeds_since: np.ndarray = NO_IDS


ALL_TIMES = TimeLimits(NO_IDS, NO_IDS)


def edge_times(g: DGLGraph, name: str) -> list[np.ndarray | None]:
    """Return the times of each edge type's edges, None for a type without the feature, whose edges are always there.

    Raises ``DGLError``: no type has the feature, or it is not one number per edge.
    """
    columns = [g.edge_frame_at(i).peek(name) for i in range(len(g.adjacencies))]
    if all(column is None for column in columns):
        raise DGLError(f"edge_time={name!r} is not an edge feature of any type")
    return [
        None if x is None else times_of(x, g.adjacencies[i].num_edges, f"edge_time of edge type {g.etypes[i]!r}")
        for i, x in enumerate(columns)
    ]


def seed_times(g: DGLGraph, node_set: int, ids: np.ndarray, name: str) -> np.ndarray:
    """Return the times of some nodes of a set.

    Raises ``DGLError``: there is no such feature, it is not one number per node, or a time is NaN.
    """
    if not len(ids):
        return NO_IDS
    ntype, column = g.type_graph.ntypes[node_set], g.node_frame_at(node_set).peek(name)
    if column is None:
        raise DGLError(f"seeds of type {ntype!r} have no time: there is no node feature {name!r}")
    times = times_of(column, g.node_counts[node_set], f"time of node type {ntype!r}")[ids]
    if (times != times).any():
        raise DGLError(f"time of {ntype!r} node {ids[(times != times).argmax()]} is NaN")
    return times


def times_of(column: Tensor, count: int, label: str) -> np.ndarray:
    """Return one time for each of ``count``; integers stay such, as floating-point numbers lack nanoseconds.

    Common dtypes are not copied: this is done for each batch.
    """
    array = active.to_numpy(column)
    if array.dtype.kind not in "iu" or array.size != count or len(array) != count:
        return numbers(column, count, label)
    array = np.ascontiguousarray(array.reshape(-1))
    return array if array.dtype in (np.int32, np.int64) else array.astype(np.int64)


def in_kind_of(times: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return seeds' times in the kind of numbers that edges' times are, never later."""
    if times.dtype.kind == dtype.kind:
        return times.astype(np.int64 if dtype.kind == "i" else np.float64, copy=False)
    if dtype.kind == "f":
        return times.astype(np.float64)
    bounds = np.iinfo(np.int64)
    return np.clip(np.floor(times.astype(np.float64)), float(bounds.min), np.nextafter(2.0**63, 0)).astype(np.int64)
