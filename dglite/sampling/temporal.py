"""Temporal neighbour sampling into blocks: no edge is later than the seed that it is drawn for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph import DGLGraph
from ..ops.devices import Gpu, device_on
from ..structure.distinct import distinct
from ..transforms.block import block_of_rows
from .arguments import excluded_edges, fanouts_of, seed_sets
from .frontier import Chosen, edge_frame
from .latest import choose_latest
from .layers_on_gpu import TIME
from .neighbor import choose
from .temporal_on_gpu import sample_blocks_at_on_gpu, seed_times_there
from .times import NO_IDS, TimeLimits, edge_times, in_kind_of, seed_times


def sample_blocks_until(
    g: DGLGraph,
    nodes: Any,
    fanouts: Sequence[Any],
    time: str,
    edge_time: str,
    prob: str | None,
    replace: bool,
    latest: bool,
    exclude_edges: Any,
) -> list[DGLGraph]:
    """Return the blocks that seeds need, first layer first, of edges that are not later than the seeds' times.

    A node that seeds of several times reach is a node of the block for each of these times, with edges of its own.
    Nodes have a column ``TIME``. Edges with times are drawn at random, or are the ``latest``.

    Raises ``DGLError``: as :func:`dglite.sampling.sample_neighbors`, :func:`edge_times` and :func:`seed_times`.
    """
    gpu = device_on(g.device)
    if isinstance(gpu, Gpu) and not g.is_block:
        seeds, dates = seed_times_there(g, nodes, time)
        return sample_blocks_at_on_gpu(g, gpu, seeds, dates, fanouts, edge_time, prob, replace, latest, exclude_edges)
    sets = seed_sets(g, nodes, True)
    times = {node_set: seed_times(g, node_set, ids, time) for node_set, ids in sets.items()}
    return sample_blocks_at(g, sets, times, fanouts, edge_time, prob, replace, latest, exclude_edges)


def sample_blocks_at(
    g: DGLGraph,
    sets: dict[int, np.ndarray],
    seed_dates: dict[int, np.ndarray],
    fanouts: Sequence[Any],
    edge_time: str,
    prob: str | None,
    replace: bool,
    latest: bool,
    exclude_edges: Any,
) -> list[DGLGraph]:
    """Return the blocks of :func:`sample_blocks_until` for seeds by node set, with a time for each seed."""
    gpu = device_on(g.device)
    if isinstance(gpu, Gpu) and not g.is_block:
        seeds_there, dates_there = (
            {i: g.id_arrays.asarray(x) for i, x in by_set.items()} for by_set in (sets, seed_dates)
        )
        return sample_blocks_at_on_gpu(
            g, gpu, seeds_there, dates_there, fanouts, edge_time, prob, replace, latest, exclude_edges
        )
    of_edges = edge_times(g, edge_time)
    levels = distinct(np.concatenate([NO_IDS, *seed_dates.values()]))
    versions, count = max(len(levels), 1), len(g.node_counts)
    keys: list[np.ndarray] = [NO_IDS] * count
    for node_set, seed_ids in sets.items():
        keys[node_set] = seed_ids * versions + np.searchsorted(levels, seed_dates[node_set])
    reached, blocks = set(sets), []
    for fanout in reversed(fanouts):
        ids, limits = [x // versions for x in keys], [levels[x % versions] for x in keys]
        ends = [dst_set if dst_set in reached else None for _, dst_set in g.type_graph.ends]
        seeds = [None if end is None else ids[end] for end in ends]
        times: list[TimeLimits | None] = [
            None if dates is None or end is None else TimeLimits(dates, in_kind_of(limits[end], dates.dtype))
            for dates, end in zip(of_edges, ends, strict=True)
        ]
        if latest:
            picks = _latest_or_drawn(g, seeds, fanout, edge_time, times, exclude_edges)
        else:
            picks = choose(g, seeds, fanout, True, prob, replace, exclude_edges, times)
        block, keys = _block_of(g, keys, ends, picks, levels)
        reached = set(range(count))
        blocks.append(block)
    blocks.reverse()
    return blocks


def _block_of(
    g: DGLGraph, keys: list[np.ndarray], ends: list[int | None], picks: Sequence[Chosen], levels: np.ndarray
) -> tuple[DGLGraph, list[np.ndarray]]:
    """Return the block of the edges ``picks``, and its source nodes as (node * versions + version) by node set.

    ``keys`` are its destinations in the same form; version i is the time ``levels[i]``.
    """
    versions = max(len(levels), 1)
    rows: list[tuple[np.ndarray, np.ndarray] | None] = []
    for edges, end in zip(picks, ends, strict=True):
        if end is None or edges.indptr is None:
            rows.append(None)
            continue
        version = np.repeat(keys[end] % versions, np.diff(edges.indptr))
        rows.append((edges.indptr, edges.src.astype(np.int64) * versions + version))
    block, sources = block_of_rows(g, keys, rows, versions)
    block.edge_frames = [edge_frame(g, block, i, edges.edge_ids) for i, edges in enumerate(picks)]
    for i, (src, dst) in enumerate(zip(sources, keys, strict=True)):
        for place, x in ((i, src), (len(keys) + i, dst)):
            block.node_frame_at(place)[TIME] = block.as_tensor(levels[x % versions])
    return block, sources


def _latest_or_drawn(
    g: DGLGraph,
    seeds: list[np.ndarray | None],
    fanout: Any,
    edge_time: str,
    times: Sequence[TimeLimits | None],
    exclude_edges: Any,
) -> list[Chosen]:
    """Return the latest edges of the types that have times, and edges of the others as :func:`choose` draws them."""
    untimed = [ids if date is None else None for ids, date in zip(seeds, times, strict=True)]
    picks, fanouts = choose(g, untimed, fanout, True, None, False, exclude_edges), fanouts_of(g, fanout)
    excluded = excluded_edges(g, exclude_edges)
    for i, (ids, date) in enumerate(zip(seeds, times, strict=True)):
        if ids is not None and date is not None and fanouts[i]:
            picks[i] = choose_latest(g, i, ids, fanouts[i], edge_time, *date[:2], excluded[i])
    return picks
