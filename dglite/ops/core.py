"""What the layers above call: operations on a relation (``Adjacency``), expressions and tensors."""

from __future__ import annotations

from .attention import Attention, Score, attention, attention_weights, attention_with_edges
from .degrees import DEGREE_SCALES, degree_scale, require_in_edges
from .epilogue import spmm_epilogue
from .grouped import Groups, group_rows, grouped_mm
from .rows import RowIndex, segment_reduce, take_rows
from .scores import attends, edge_scores, edge_softmax, scores_wait
from .several import spmm_several
from .sparse import sddmm, spmm
from .traced import reversed_of

__all__ = [
    "DEGREE_SCALES",
    "Attention",
    "Groups",
    "RowIndex",
    "Score",
    "attends",
    "attention",
    "attention_weights",
    "attention_with_edges",
    "degree_scale",
    "edge_scores",
    "edge_softmax",
    "group_rows",
    "grouped_mm",
    "require_in_edges",
    "reversed_of",
    "scores_wait",
    "sddmm",
    "segment_reduce",
    "spmm",
    "spmm_epilogue",
    "spmm_several",
    "take_rows",
]
