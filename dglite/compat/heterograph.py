"""``dgl.heterograph`` and ``dgl.subgraph``: the classes of graphs, which here are one."""

from __future__ import annotations

from ..graph import DGLGraph

__all__ = ["DGLBlock", "DGLGraph", "DGLHeteroGraph", "DGLSubGraph"]

DGLHeteroGraph = DGLBlock = DGLSubGraph = DGLGraph
