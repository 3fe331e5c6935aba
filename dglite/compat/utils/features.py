"""``dgl.utils``: features of a graph, handed to another one all at once, as functions that make graphs do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import frame as frames
from ...errors import DGLError
from ...frame import EID, NID
from ...graph import DGLGraph
from ..containers import is_listlike
from ..frame import Frame, wrapped

__all__ = ["extract_edge_subframes", "extract_node_subframes", "set_new_frames"]


def extract_node_subframes(graph: DGLGraph, nodes_or_device: Any, store_ids: bool = True) -> list[Frame]:
    """Return the node features by type, a frame each: of all nodes, of given ones, or of all on a device.

    ``nodes_or_device`` is None, a list of ids by type, or a device. Given ids are kept as ``dgl.NID`` unless
    ``store_ids`` is false.
    """
    of_types = [graph.node_frame_at(i) for i in range(len(graph.ntypes))]
    return _subframes(of_types, nodes_or_device, NID if store_ids else None)


def extract_edge_subframes(graph: DGLGraph, edges_or_device: Any, store_ids: bool = True) -> list[Frame]:
    """Return the edge features by type, as :func:`extract_node_subframes` does those of nodes; ids as ``dgl.EID``."""
    of_types = [graph.edge_frame_at(i) for i in range(len(graph.etypes))]
    return _subframes(of_types, edges_or_device, EID if store_ids else None)


def _subframes(of_types: Sequence[frames.Frame], rows_or_device: Any, ids: str | None) -> list[Frame]:
    if rows_or_device is None:
        return [wrapped(inner).clone() for inner in of_types]
    if not is_listlike(rows_or_device):
        return [wrapped(inner).to(rows_or_device) for inner in of_types]
    subframes = [wrapped(inner).subframe(rows) for inner, rows in zip(of_types, rows_or_device, strict=True)]
    if ids is not None:
        for frame, rows in zip(subframes, rows_or_device, strict=True):
            frame[ids] = rows
    return subframes


def set_new_frames(
    graph: DGLGraph, *, node_frames: Sequence[Frame] | None = None, edge_frames: Sequence[Frame] | None = None
) -> None:
    """Replace all features of nodes, of edges, or of both: a frame by type.

    Raises DGLError: there is not one frame by type, or one has another number of rows; nothing is replaced then.
    """
    pairs = []
    if node_frames is not None:
        pairs += _paired([graph.node_frame_at(i) for i in range(len(graph.ntypes))], node_frames, "node")
    if edge_frames is not None:
        pairs += _paired([graph.edge_frame_at(i) for i in range(len(graph.etypes))], edge_frames, "edge")
    for inner, frame in pairs:
        columns = dict(frame)
        inner.clear()
        inner.update(columns)


def _paired(of_types: list[frames.Frame], new: Sequence[Frame], kind: str) -> list[tuple[frames.Frame, Frame]]:
    if [inner.num_rows for inner in of_types] != [frame.num_rows for frame in new]:
        rows, counts = [frame.num_rows for frame in new], [inner.num_rows for inner in of_types]
        raise DGLError(f"the {kind} frames have {rows} rows by type; the graph has {counts} {kind}s")
    return list(zip(of_types, new, strict=True))
