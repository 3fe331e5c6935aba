"""The graph object: relations, frames, and the verbs over them."""

from .storage import DGLGraph

__all__ = ["DGLGraph"]
