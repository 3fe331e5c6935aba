"""Utilities to build models: jumping knowledge, label propagation, ``Sequential``, shared bases."""

from .jumpingknowledge import JumpingKnowledge
from .labelpropagation import LabelPropagation
from .sequential import Sequential
from .weightbasis import WeightBasis

__all__ = ["JumpingKnowledge", "LabelPropagation", "Sequential", "WeightBasis"]
