"""The graph object: relations, frames, and message passing."""

from .storage import DGLGraph

__all__ = ["DGLGraph"]
