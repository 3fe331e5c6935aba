"""Pooling: from the nodes of each batched graph to one row per graph."""

from .avgpooling import AvgPooling
from .globalattentionpooling import GlobalAttentionPooling
from .maxpooling import MaxPooling
from .set2set import Set2Set
from .settransformerdecoder import SetTransformerDecoder
from .settransformerencoder import SetTransformerEncoder
from .sortpooling import SortPooling
from .sumpooling import SumPooling
from .weightandsum import WeightAndSum

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
