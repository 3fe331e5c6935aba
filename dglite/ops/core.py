"""What the floors above call: operations on a relation (``Adjacency``), expressions and tensors."""

from __future__ import annotations

from .attention import Attention, Score, attention, attention_weights
from .rows import segment_reduce, take_rows
from .softmax import edge_softmax
from .sparse import sddmm, spmm

__all__ = [
    "Attention",
    "Score",
    "attention",
    "attention_weights",
    "edge_softmax",
    "sddmm",
    "segment_reduce",
    "spmm",
    "take_rows",
]
