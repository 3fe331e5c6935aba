"""Temporal neighbour sampling into blocks: no edge is later than the seed that it is drawn for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..graph import DGLGraph
from ..structure.distinct import distinct
from ..transforms.block import block_of_rows
from .arguments import numbers, seed_sets
from .frontier import edge_frame
from .neighbor import Times, choose

TIME = "_TIME"
"""Column of a block's nodes that holds the time at which each is looked at: its seed's."""

_NO_IDS = np.empty(0, np.int64)


def edge_times(g: DGLGraph, name: str) -> list[np.ndarray | None]:
    """Return the times of each edge type's edges, None for a type without the feature, whose edges are always there.

    Raises
    ------
    DGLError
        No type has the feature, or it is not one number per edge.
    """
    columns = [g._edge_frame(i).peek(name) for i in range(len(g.adjacencies))]
    if all(column is None for column in columns):
        raise DGLError(f"edge_time={name!r} is not an edge feature of any type")
    return [
        None if x is None else _times(x, g.adjacencies[i].num_edges, f"edge_time of edge type {g.etypes[i]!r}")
        for i, x in enumerate(columns)
    ]


def seed_times(g: DGLGraph, node_set: int, ids: np.ndarray, name: str) -> np.ndarray:
    """Return the times of some nodes of a set.

    Raises
    ------
    DGLError
        There is no such feature, it is not one number per node, or a time is NaN.
    """
    if not len(ids):
        return _NO_IDS
    ntype, column = g._metagraph.ntypes[node_set], g._node_frame(node_set).peek(name)
    if column is None:
        raise DGLError(f"seeds of type {ntype!r} have no time: there is no node feature {name!r}")
    times = _times(column, g._num_nodes[node_set], f"time of node type {ntype!r}")[ids]
    if (times != times).any():
        raise DGLError(f"time of {ntype!r} node {ids[(times != times).argmax()]} is NaN")
    return times


def _times(column: Tensor, count: int, label: str) -> np.ndarray:
    """Return one time for each of ``count``; integers stay such, as floating-point numbers lack nanoseconds.

    Common dtypes are not copied: this is done for each batch.
    """
    array = active.to_numpy(column)
    if array.dtype.kind not in "iu" or array.size != count or len(array) != count:
        return numbers(column, count, label)
    array = np.ascontiguousarray(array.reshape(-1))
    return array if array.dtype in (np.int32, np.int64) else array.astype(np.int64)


def sample_blocks_until(
    g: DGLGraph,
    nodes: Any,
    fanouts: Sequence[Any],
    time: str,
    edge_time: str,
    prob: str | None,
    replace: bool,
    exclude_edges: Any,
) -> list[DGLGraph]:
    """Return the blocks that seeds need, first layer first, of edges that are not later than the seeds' times.

    A node that seeds of several times reach is a node of the block for each of these times, with edges of its own.
    Nodes have a column ``TIME``.

    Raises
    ------
    DGLError
        As :func:`dglite.sampling.sample_neighbors`, :func:`edge_times` and :func:`seed_times`.
    """
    sets = seed_sets(g, nodes, True)
    times = {node_set: seed_times(g, node_set, ids, time) for node_set, ids in sets.items()}
    return sample_blocks_at(g, sets, times, fanouts, edge_time, prob, replace, exclude_edges)


def sample_blocks_at(
    g: DGLGraph,
    sets: dict[int, np.ndarray],
    seed_dates: dict[int, np.ndarray],
    fanouts: Sequence[Any],
    edge_time: str,
    prob: str | None,
    replace: bool,
    exclude_edges: Any,
) -> list[DGLGraph]:
    """Return the blocks of :func:`sample_blocks_until` for seeds by node set, with a time for each seed."""
    of_edges = edge_times(g, edge_time)
    levels = distinct(np.concatenate([_NO_IDS, *seed_dates.values()]))
    versions, count = max(len(levels), 1), len(g._num_nodes)
    keys: list[np.ndarray] = [_NO_IDS] * count
    for node_set, seed_ids in sets.items():
        keys[node_set] = seed_ids * versions + np.searchsorted(levels, seed_dates[node_set])
    reached, blocks = set(sets), []
    for fanout in reversed(fanouts):
        ids, limits = [x // versions for x in keys], [levels[x % versions] for x in keys]
        ends = [dst_set if dst_set in reached else None for _, dst_set in g._metagraph.ends]
        seeds = [None if end is None else ids[end] for end in ends]
        times: list[Times | None] = [
            None if dates is None or end is None else (dates, _limits(limits[end], dates.dtype))
            for dates, end in zip(of_edges, ends, strict=True)
        ]
        picks = choose(g, seeds, fanout, True, prob, replace, exclude_edges, times)
        rows: list[tuple[np.ndarray, np.ndarray] | None] = []
        for edges, end in zip(picks, ends, strict=True):
            if end is None or edges.indptr is None:
                rows.append(None)
                continue
            version = np.repeat(keys[end] % versions, np.diff(edges.indptr))
            rows.append((edges.indptr, edges.src.astype(np.int64) * versions + version))
        block, sources = block_of_rows(g, keys, rows, versions)
        block._edge_frames = [edge_frame(g, block, i, edges.edge_ids) for i, edges in enumerate(picks)]
        for i, (src, dst) in enumerate(zip(sources, keys, strict=True)):
            for place, x in ((i, src), (count + i, dst)):
                block._node_frame(place)[TIME] = block._tensor(levels[x % versions])
        keys, reached = sources, set(range(count))
        blocks.append(block)
    blocks.reverse()
    return blocks


def _limits(times: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return seeds' times in the kind of numbers that edges' times are, never later."""
    if times.dtype.kind == dtype.kind:
        return times.astype(np.int64 if dtype.kind == "i" else np.float64, copy=False)
    if dtype.kind == "f":
        return times.astype(np.float64)
    bounds = np.iinfo(np.int64)
    return np.clip(np.floor(times.astype(np.float64)), float(bounds.min), np.nextafter(2.0**63, 0)).astype(np.int64)
