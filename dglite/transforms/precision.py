"""Graphs with floating-point features in another dtype. Structure and other features are shared."""

from __future__ import annotations

from ..backend import active
from ..frame import Frame
from ..graph import DGLGraph
from ..graph.storage import require_graph

_FLOATS = ("float32", "float64", "float16", "bfloat16")


def to_half(g: DGLGraph) -> DGLGraph:
    """Return the graph with floating features as float16."""
    return _cast(g, "float16")


def to_float(g: DGLGraph) -> DGLGraph:
    """Return the graph with floating features as float32."""
    return _cast(g, "float32")


def to_double(g: DGLGraph) -> DGLGraph:
    """Return the graph with floating features as float64."""
    return _cast(g, "float64")


def to_bfloat16(g: DGLGraph) -> DGLGraph:
    """Return the graph with floating features as bfloat16."""
    return _cast(g, "bfloat16")


def _cast(g: DGLGraph, dtype: str) -> DGLGraph:
    require_graph(g)
    result = g.clone()
    frames: list[Frame] = [frame for frame in (*result.node_frames, *result.edge_frames) if frame]
    for frame in frames:
        frame.update({name: active.astype(x, dtype) for name, x in frame.items() if active.dtype(x) in _FLOATS})
    return result
