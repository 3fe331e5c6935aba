"""Layers of temporal networks, whose edges have times: memories, attention over the past, sequences of events."""

from .dygformer import DyGFormer, EventSequence
from .graphmixer import GraphMixer
from .memory import TGNMemory
from .tgatconv import TGATConv
from .timeencoding import TimeEncoding

__all__ = ["DyGFormer", "EventSequence", "GraphMixer", "TGATConv", "TGNMemory", "TimeEncoding"]
