"""Neighbours of given nodes as a block."""

from __future__ import annotations

from typing import Any

from ..errors import DGLError
from ..frame import EID, NID
from ..graph import DGLGraph
from ..graph.attached import attach
from ..transforms import to_block
from .neighbor import sample_neighbors

__all__ = ["sample_neighbors_fused"]


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

    ``srcdata[NID]``, ``dstdata[NID]`` and ``edata[EID]`` have the ids in ``g``; the first two need ``copy_ndata``, the
    third ``copy_edata``. Arguments and errors are those of :func:`sample_neighbors`; ``mapping`` is accepted for DGL's
    sake.

    Raises
    ------
    DGLError
        ``edge_dir`` is not "in": the edges of a block enter its nodes.
    """
    if edge_dir != "in":
        raise DGLError(f"sample_neighbors_fused: edge_dir={edge_dir!r}, but a block has in-edges; use sample_neighbors")
    frontier = sample_neighbors(
        g, nodes, fanout, edge_dir, prob, replace, copy_ndata, True, exclude_edges=exclude_edges
    )
    chosen = [frontier._edge_frame(index)[EID] for index in range(len(frontier.adjacencies))]
    block = to_block(frontier, nodes)
    for index, ids in enumerate(chosen):
        frame = block._edge_frame(index)
        if not copy_edata:
            frame.clear()
        else:
            frame[EID] = ids
    if not copy_ndata:
        for index in range(len(block._num_nodes)):
            del block._node_frame(index)[NID]
    return block


attach(sample_neighbors_fused=sample_neighbors_fused)
