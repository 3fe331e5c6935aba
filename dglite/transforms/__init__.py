"""Graphs made from graphs."""

from .block import to_block

__all__ = ["to_block"]
