"""The graph object: relations, frames, and message passing."""

from .storage import DGLGraph
from .tensors import to_tensors

__all__ = ["DGLGraph", "to_tensors"]
