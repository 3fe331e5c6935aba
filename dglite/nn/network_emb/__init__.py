"""Embeddings of nodes, trained on random walks."""

from .deepwalk import DeepWalk
from .metapath2vec import MetaPath2Vec

__all__ = ["DeepWalk", "MetaPath2Vec"]
