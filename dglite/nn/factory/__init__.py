"""Modules that make graphs from points."""

from .distance import pairwise_squared_distance
from .knngraph import KNNGraph
from .radiusgraph import RadiusGraph
from .segmentedknngraph import SegmentedKNNGraph

__all__ = ["KNNGraph", "RadiusGraph", "SegmentedKNNGraph", "pairwise_squared_distance"]
