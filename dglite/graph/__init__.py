"""The graph object: relations, frames, and message passing."""

from .numbered import GraphIndex
from .storage import DGLGraph
from .tensors import to_tensors

__all__ = ["DGLGraph", "GraphIndex", "to_tensors"]
