"""``dgl.heterograph`` and ``dgl.subgraph``: graph classes, all of which are ``DGLGraph`` here."""

from __future__ import annotations

from ..classic import BatchedHeteroDGLGraph
from ..graph import DGLGraph

__all__ = ["BatchedDGLHeteroGraph", "DGLBlock", "DGLGraph", "DGLHeteroGraph", "DGLSubGraph"]

DGLHeteroGraph = DGLBlock = DGLSubGraph = DGLGraph
BatchedDGLHeteroGraph = BatchedHeteroDGLGraph
