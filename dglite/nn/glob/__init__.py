"""Pooling: from the nodes of each batched graph to one row per graph."""

from .pooling import AvgPooling, GlobalAttentionPooling, MaxPooling, SortPooling, SumPooling, WeightAndSum
from .set2set import Set2Set
from .settransformer import SetTransformerDecoder, SetTransformerEncoder

__all__ = [
    "AvgPooling",
    "GlobalAttentionPooling",
    "MaxPooling",
    "Set2Set",
    "SetTransformerDecoder",
    "SetTransformerEncoder",
    "SortPooling",
    "SumPooling",
    "WeightAndSum",
]
