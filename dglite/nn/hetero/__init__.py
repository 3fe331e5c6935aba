"""Layers for heterogeneous graphs."""

from .bytype import HeteroEmbedding, HeteroLinear
from .heterographconv import HeteroGraphConv
from .typedlinear import TypedLinear

__all__ = ["HeteroEmbedding", "HeteroGraphConv", "HeteroLinear", "TypedLinear"]
