"""Graphs made from graphs."""

from .reorder import reorder_graph

__all__ = ["reorder_graph"]
