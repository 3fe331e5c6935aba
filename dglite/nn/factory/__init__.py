"""Modules that make graphs from points."""

from .points import KNNGraph, RadiusGraph, SegmentedKNNGraph, pairwise_squared_distance

__all__ = ["KNNGraph", "RadiusGraph", "SegmentedKNNGraph", "pairwise_squared_distance"]
