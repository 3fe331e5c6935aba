"""All blocks of a mini-batch in one pass, numbered by one table that later batches reuse.

The nodes of a layer are the first nodes of the next one, so that numbered nodes keep their number. The blocks
equal those that samplers make layer by layer, by the same draws; if edges are excluded, by the same distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..backend import active
from ..frame import EID
from ..graph import DGLGraph
from ..ops.devices import Gpu, device_on
from ..random import draw_key
from ..sampling.arguments import excluded_edges, fanouts_of, seed_sets
from ..sampling.frontier import Drawn, IncidentEdges, compiled, edge_frame
from ..structure import Adjacency
from ..transforms.block import block_of_rows, index_dtype_of, numbered_block
from .buffers import Buffers, current_buffers

LARGEST_TABLE = 1 << 26
"""Nodes of a type up to which there is a table with a place for each; beyond, numbers are looked up in hash tables."""
_NO_IDS = np.empty(0, np.int64)
ANOTHER = 0x2545F4914F6CDD1D
"""Makes another key of one."""

Draw = Callable[[int, np.ndarray, bool], Drawn | None]
"""``draw(relation, seeds, by_entry)`` returns in-edges of the seeds, None for none."""


def sample_layers(g: DGLGraph, nodes: Any, draws: Iterable[Draw]) -> list[DGLGraph] | None:
    """Return the blocks of the in-edges that are drawn, last layer first, which ``draws`` begins with.

    None where they are to be made one by one: outside of a loader, for a graph on a GPU and for one too large.
    """
    buffers = current_buffers()
    if buffers is None or not in_one_pass(g) or isinstance(device_on(g.device), Gpu):
        return None
    sets = seed_sets(g, nodes, True)
    dtype = index_dtype_of(g)
    with _numberings(buffers, g.node_counts, dtype) as numberings:
        for i, ids in sets.items():
            numberings[i].reserve(len(ids))
            numberings[i].place(ids.astype(dtype, copy=False))
        return [_layer(g, numberings, draw) for draw in draws]


def drawn_blocks(g: DGLGraph, nodes: Any, draws: Callable[[], Iterable[Draw]]) -> list[DGLGraph]:
    """Return the blocks of :func:`sample_layers`, in one pass or one by one."""
    layers = sample_layers(g, nodes, draws())
    if layers is not None:
        return layers
    blocks: list[DGLGraph] = []
    sets, ends = seed_sets(g, nodes, True), g.type_graph.ends
    ids = [sets.get(i, _NO_IDS) for i in range(len(g.node_counts))]
    for draw in draws():
        samples = [draw(i, ids[dst], False) if len(ids[dst]) else None for i, (_, dst) in enumerate(ends)]
        block, ids = block_of_drawn(g, ids, samples)
        blocks.append(block)
    return blocks


def in_one_pass(g: DGLGraph) -> bool:
    """Whether layers of a graph on the host are made in one pass: in a loader, unless it is too large."""
    too_large = g.is_block or max(g.node_counts, default=0) > LARGEST_TABLE
    return current_buffers() is not None and not too_large


def block_of_drawn(
    g: DGLGraph, dst_ids: list[np.ndarray], samples: Sequence[Drawn | None]
) -> tuple[DGLGraph, list[np.ndarray]]:
    """Return the block of edges drawn around nodes, by node set, and its source nodes, which begin with these."""
    rows = [None if sample is None else (sample.offsets, sample.far) for sample in samples]
    block, src_ids = block_of_rows(g, dst_ids, rows)
    block.edge_frames = [_edge_columns(g, block, i, sample) for i, sample in enumerate(samples)]
    return block, src_ids


@contextmanager
def _numberings(buffers: Buffers, counts: Sequence[int], dtype: np.dtype) -> Iterator[list[Any]]:
    """Yield an empty numbering for each node set, with tables of the buffers, which have them back."""
    hashing, key = compiled().hashing, tuple(counts)
    tables = buffers.take_tables(key) or [hashing.Places(count, dtype) for count in counts]
    numberings = [hashing.Numbering(len(table.values), 0, dtype, table) for table in tables]
    yield numberings  # after an exception the content of the tables is undefined: they are dropped
    for numbering in numberings:
        numbering.close()
    buffers.give_tables(key, tables)


def _layer(g: DGLGraph, numberings: list[Any], draw: Draw) -> DGLGraph:
    """Return the block whose destinations are the nodes that have numbers; its sources have numbers then, too."""
    dst_ids = [numbering.ids for numbering in numberings]
    rows: list[tuple[np.ndarray, np.ndarray] | None] = []
    samples = []
    for i, (src_set, dst_set) in enumerate(g.type_graph.ends):
        sample = draw(i, dst_ids[dst_set], _by_entry(g, i)) if len(dst_ids[dst_set]) else None
        samples.append(sample)
        if sample is None:
            rows.append(None)
            continue
        numberings[src_set].reserve(len(sample.far))
        numberings[src_set].add(sample.far, sample.far)
        rows.append((sample.offsets, sample.far))
    # Copies: the numberings' arrays have places for every end of an edge, which the block must not keep alive.
    src_ids = [numbering.ids.copy() for numbering in numberings]
    block = numbered_block(g, [len(ids) for ids in dst_ids], src_ids, rows)
    block.edge_frames = [_edge_columns(g, block, i, sample) for i, sample in enumerate(samples)]
    return block


def _by_entry(g: DGLGraph, relation: int) -> bool:
    """Whether ids of drawn edges may wait: there are no features to gather by them."""
    frame = g.edge_frames[relation]
    return frame is None or not len(frame)


def _edge_columns(g: DGLGraph, block: DGLGraph, relation: int, sample: Drawn | None) -> Any:
    """Return the features and ids of drawn edges, and their weights where they have some."""
    stored = None if sample is None else sample.stored
    if sample is None or stored is None:
        frame = edge_frame(g, block, relation, _NO_IDS if sample is None else sample.edges)
    else:
        # Not by the block's method: blocks must go when the last reference to them does.
        frame, tensor = block.edge_frame_at(relation), g.ids_tensor

        def ids(_: Any, entries: np.ndarray) -> Any:
            edge_ids = stored.edge_ids
            return tensor(entries.copy() if edge_ids is None else edge_ids[entries])

        frame.wait(EID, sample.edges, ids)
    if sample is not None and sample.weights is not None:
        frame["edge_weights"] = active.from_numpy(sample.weights)
    return frame


def uniform_draws(g: DGLGraph, fanouts: Sequence[Any], replace: bool, exclude: Any = None) -> Iterator[Draw]:
    """Yield what draws the edges of each layer with equal probability, last layer first; none of ``exclude``."""
    excluded = [None if ids is None else compiled().hashing.id_set(ids) for ids in excluded_edges(g, exclude)]
    for fanout in reversed(fanouts):
        yield uniform_draw(g, fanouts_of(g, fanout), replace, excluded, draw_key())


def uniform_draw(g: DGLGraph, fanouts: list[int], replace: bool, excluded: list[np.ndarray | None], key: int) -> Draw:
    """Return the function that draws the edges of one layer, by a key; ``excluded`` has sets of ids."""

    def draw(i: int, seeds: np.ndarray, by_entry: bool) -> Drawn | None:
        if fanouts[i] == 0:
            return None
        return _draw(g.adjacencies[i], seeds, fanouts[i], replace, key + i, excluded[i], by_entry)

    return draw


def _draw(
    adjacency: Adjacency,
    seeds: np.ndarray,
    fanout: int,
    replace: bool,
    key: int,
    excluded: np.ndarray | None,
    by_entry: bool,
) -> Drawn:
    if not replace:
        fanout = min(fanout, adjacency.num_edges)  # there are scratch arrays of this size
    by_entry = by_entry and excluded is None
    rows = IncidentEdges(adjacency, seeds, True, fanout, replace, by_entry)
    kernels, offsets, places = compiled(), rows.rows.offsets, rows.places(near=False)
    rows.run(kernels.sample.uniform_rows, fanout, int(replace), key, places, scan=False)
    far, edges = places.far, places.edges
    if excluded is not None:
        counts = np.empty(len(seeds), np.int64)
        arguments = fanout, int(replace), key ^ ANOTHER, excluded, counts, far, edges
        rows.run(kernels.block.draw_again, *arguments, scan=False)
        if counts.sum() < rows.room:
            kernels.block.close_gaps(offsets, counts, far, edges)
            far, edges = far[: offsets[-1]].copy(), edges[: offsets[-1]].copy()
    return Drawn(offsets, far, edges, rows.by_entry_of)
