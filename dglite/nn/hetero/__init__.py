"""Layers for heterogeneous graphs."""

from .heteroembedding import HeteroEmbedding
from .heterographconv import HeteroGraphConv
from .heterolinear import HeteroLinear
from .typedlinear import TypedLinear

__all__ = ["HeteroEmbedding", "HeteroGraphConv", "HeteroLinear", "TypedLinear"]
