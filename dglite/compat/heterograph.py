"""``dgl.heterograph`` and ``dgl.subgraph``: graph classes, all of which are ``DGLGraph`` here."""

from __future__ import annotations

from ..graph import DGLGraph

__all__ = ["DGLBlock", "DGLGraph", "DGLHeteroGraph", "DGLSubGraph"]

DGLHeteroGraph = DGLBlock = DGLSubGraph = DGLGraph
