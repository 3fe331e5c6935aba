"""What models are put together with."""

from .jumpingknowledge import JumpingKnowledge
from .labelpropagation import LabelPropagation
from .sequential import Sequential
from .weightbasis import WeightBasis

__all__ = ["JumpingKnowledge", "LabelPropagation", "Sequential", "WeightBasis"]
