"""``sample_neighbors_fused``: sampled neighbours directly as a block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arguments import explained
from ..errors import DGLError
from ..frame import EID
from ..graph import DGLGraph
from ..graph.attached import attach
from ..graph.storage import require_graph
from ..ops.devices import Gpu, device_on
from ..random import draw_key
from ..structure.arrays import HOST, renumbered
from ..structure.distinct import in_order_of_appearance
from ..transforms import to_block
from ..transforms.block import block_of_rows
from .arguments import fanouts_of, is_inward, seed_sets
from .frontier import edge_frame
from .layers_on_gpu import sample_layers_on_gpu
from .neighbor import choose, sample_neighbors
from .on_gpu import draw_on, excluded_there

_NO_IDS = np.empty(0, np.int64)


@explained
def sample_neighbors_fused(
    g: DGLGraph,
    nodes: Any,
    fanout: Any,
    edge_dir: str = "in",
    prob: Any = None,
    replace: bool = False,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    exclude_edges: Any = None,
    mapping: Any = None,
) -> DGLGraph:
    """Return the block of edges that :func:`sample_neighbors` chooses: its destinations are ``nodes``.

    With ``edge_dir="out"`` the sources are ``nodes``. The block's source nodes and its destination nodes are then the
    same: ``nodes`` first, then the others that edges lead to, in the order in which they come up.

    ``srcdata[NID]``, ``dstdata[NID]`` and ``edata[EID]`` have the ids in ``g``; the first two need ``copy_ndata``, the
    third ``copy_edata``. Arguments and errors are those of :func:`sample_neighbors`; ``mapping`` is accepted for DGL's
    sake. A graph that is a block is refused.

    A seed that is given twice is sampled twice, and with ``edge_dir="in"`` each node of the block has its own edges.
    """
    require_graph(g)
    if g.is_block:
        raise DGLError("sample_neighbors_fused: the graph is a block already")
    gpu = device_on(g.device)
    if not is_inward(edge_dir):
        frontier = sample_neighbors(g, nodes, fanout, edge_dir, prob, replace, exclude_edges=exclude_edges)
        block = to_block(frontier, _reached(frontier, nodes))
        for i in range(len(block.adjacencies)):
            block.edge_frame_at(i)[EID] = frontier.edge_frame_at(i)[EID]
    elif isinstance(gpu, Gpu):
        excluded, fanouts = excluded_there(g, exclude_edges), fanouts_of(g, fanout)
        draw = draw_on(g, gpu, True, fanouts, replace, draw_key(), prob, excluded)
        (block,) = sample_layers_on_gpu(g, gpu, nodes, [draw])
    else:
        sets, ends = seed_sets(g, nodes, True), g.type_graph.ends
        picks = choose(g, [sets.get(dst_set) for _, dst_set in ends], fanout, True, prob, replace, exclude_edges)
        rows = [None if edges.indptr is None else (edges.indptr, edges.src) for edges in picks]
        block, _ = block_of_rows(g, [sets.get(i, _NO_IDS) for i in range(len(g.node_counts))], rows)
        block.edge_frames = [edge_frame(g, block, i, edges.edge_ids) for i, edges in enumerate(picks)]
    if not copy_ndata:
        block.node_frames = [None] * len(block.node_frames)
    if not copy_edata:
        block.edge_frames = [None] * len(block.edge_frames)
    return block


def _reached(frontier: DGLGraph, nodes: Any) -> dict[str, Any]:
    """Return ``nodes`` and then the destinations of the edges, each once, by node type."""
    names, arrays = frontier.ntypes, frontier.id_arrays
    by_type = nodes if isinstance(nodes, Mapping) else {names[0]: nodes}
    parts = {ntype: [frontier.nodes_in(arrays, by_type.get(ntype, []), i)] for i, ntype in enumerate(names)}
    for adjacency, (_, _, ntype) in zip(frontier.adjacencies, frontier.canonical_etypes, strict=True):
        parts[ntype].append(arrays.astype(adjacency.ends(arrays)[1], np.dtype(np.int64)))
    if arrays is HOST:
        return {ntype: in_order_of_appearance(np.concatenate(ids)) for ntype, ids in parts.items()}
    counts = dict(zip(names, frontier.node_counts, strict=True))
    return {ntype: renumbered(arrays, arrays.concatenate(ids), counts[ntype])[0] for ntype, ids in parts.items()}


attach(sample_neighbors_fused=sample_neighbors_fused)
