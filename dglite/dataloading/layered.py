"""The blocks of a batch in one go: layers are numbered by one table, which the next batch uses again.

The nodes of a layer are the first nodes of the next one, so that what has a number keeps it, and a table with a place
for every node of the graph is cleared by the few places that were written. Blocks are those that
``sample_neighbors_fused`` makes, layer by layer, of the same draws; where edges are left out, by the same law.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..backend import active
from ..graph import DGLGraph
from ..ops.processors import Gpu, processor_on
from ..random import draw_key
from ..sampling.arguments import excluded_edges, fanouts_of, seed_sets
from ..sampling.frontier import compiled, edge_frame
from ..structure import Adjacency
from ..transforms.block import index_dtype_of, numbered_block
from .buffers import Buffers, current_buffers

__all__ = ["sample_layers"]

LARGEST_TABLE = 1 << 26
"""Nodes of a type up to which there is a table with a place for each; beyond, numbers are looked up in hash tables."""
_NO_IDS = np.empty(0, np.int64)
_ANOTHER = 0x2545F4914F6CDD1D
"""Makes another key of one."""


def sample_layers(
    g: DGLGraph, nodes: Any, fanouts: Sequence[Any], replace: bool, exclude: Any = None
) -> list[DGLGraph] | None:
    """Return the blocks of uniformly drawn in-edges, last layer first, without the edges ``exclude``.

    None where they are to be made one by one: outside of a loader, for a graph on a GPU and for one too large.
    """
    buffers = current_buffers()
    if buffers is None or g.is_block or max(g._num_nodes, default=0) > LARGEST_TABLE:
        return None
    if isinstance(processor_on(g._device), Gpu):
        return None
    sets = seed_sets(g, nodes, True)
    dtype, blocks = index_dtype_of(g), []
    excluded = [None if ids is None else compiled().hashing.id_set(ids) for ids in excluded_edges(g, exclude)]
    with _numberings(buffers, g._num_nodes, dtype) as numberings:
        for i, ids in sets.items():
            numberings[i].reserve(len(ids))
            numberings[i].place(ids.astype(dtype, copy=False))
        for fanout in reversed(fanouts):
            blocks.append(_layer(g, numberings, fanouts_of(g, fanout), replace, excluded))
    return blocks


@contextmanager
def _numberings(buffers: Buffers, counts: Sequence[int], dtype: np.dtype) -> Iterator[list[Any]]:
    """Yield an empty numbering for each node set, with tables of the buffers, which have them back cleared."""
    tables = buffers.take_tables(tuple(counts), dtype)
    numberings = [compiled().hashing.Numbering(len(table), 0, dtype, table) for table in tables]
    yield numberings  # after an exception nobody knows what is in the tables, and nobody has them back
    for numbering in numberings:
        numbering.clear()
    buffers.give_tables(tuple(counts), tables)


def _layer(
    g: DGLGraph, numberings: list[Any], fanouts: list[int], replace: bool, excluded: list[np.ndarray | None]
) -> DGLGraph:
    """Return the block whose destinations are the nodes that have numbers; its sources have numbers then, too."""
    dst_ids, key = [numbering.ids for numbering in numberings], draw_key()
    rows: list[tuple[np.ndarray, np.ndarray] | None] = []
    chosen = []
    for i, (adjacency, (src_set, dst_set)) in enumerate(zip(g.adjacencies, g._metagraph.ends, strict=True)):
        if not len(dst_ids[dst_set]) or fanouts[i] == 0:
            rows.append(None)
            chosen.append(_NO_IDS)
            continue
        offsets, far, edges = _draw(adjacency, dst_ids[dst_set], fanouts[i], replace, key + i, excluded[i])
        numberings[src_set].reserve(len(far))
        numberings[src_set].add(far, far)
        rows.append((offsets, far))
        chosen.append(edges)
    # Copies: the numberings' arrays have places for every end of an edge, which the block must not keep alive.
    src_ids = [numbering.ids.copy() for numbering in numberings]
    block = numbered_block(g, [len(ids) for ids in dst_ids], src_ids, rows)
    block._edge_frames = [edge_frame(g, block, i, edge_ids) for i, edge_ids in enumerate(chosen)]
    return block


def _draw(
    adjacency: Adjacency, seeds: np.ndarray, fanout: int, replace: bool, key: int, excluded: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where the edges of each seed begin, their sources and their ids."""
    if not replace:
        fanout = min(fanout, adjacency.num_edges)  # there are scratch arrays of this size
    stored, kernels = adjacency.csc(), compiled()
    edge_ids = stored.edge_ids
    matrix = stored.indptr, stored.indices, stored.indices[:0] if edge_ids is None else edge_ids
    starts, offsets = np.empty(len(seeds), np.int64), np.empty(len(seeds) + 1, np.int64)
    kernels.sample.row_bounds(stored.indptr, seeds, fanout, replace, starts, offsets)
    total = int(offsets[-1])
    far, edges = np.empty(total, adjacency.index_dtype), np.empty(total, adjacency.idtype)
    run, threads = kernels.rows.run_rows, active.num_threads()
    how = *matrix, seeds, starts, offsets, fanout, int(replace)
    run(kernels.block.draw_rows, len(seeds), total, threads, *how, key, far, edges)
    if excluded is not None:
        counts = np.empty(len(seeds), np.int64)
        run(kernels.block.draw_again, len(seeds), total, threads, *how, key ^ _ANOTHER, excluded, counts, far, edges)
        if counts.sum() < total:
            kernels.block.close_gaps(offsets, counts, far, edges)
            far, edges = far[: offsets[-1]].copy(), edges[: offsets[-1]].copy()
    return offsets, far, edges
