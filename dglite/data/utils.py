"""Helpers of data sets, by DGL's names."""

from __future__ import annotations

from ..io import load_graphs, load_info, load_labels, load_tensors, save_graphs, save_info, save_tensors

__all__ = [
    "load_graphs",
    "load_info",
    "load_labels",
    "load_tensors",
    "save_graphs",
    "save_info",
    "save_tensors",
]
