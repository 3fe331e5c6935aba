"""What the floors above call: operations on a relation (``Adjacency``), expressions and tensors."""

from __future__ import annotations

from .attention import Attention, Score, attention, attention_weights
from .degrees import DEGREE_SCALES, degree_scale, require_in_edges
from .rows import segment_reduce, take_rows
from .softmax import edge_softmax
from .sparse import sddmm, spmm
from .traced import reversed_of

__all__ = [
    "DEGREE_SCALES",
    "Attention",
    "Score",
    "attention",
    "attention_weights",
    "degree_scale",
    "edge_softmax",
    "require_in_edges",
    "reversed_of",
    "sddmm",
    "segment_reduce",
    "spmm",
    "take_rows",
]
