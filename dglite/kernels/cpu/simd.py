"""What rendered kernels import: vectors in registers, memory, lanes."""

from .lanes import exp, greater, reduce_add, reduce_max, select, splat
from .memory import (
    ahead_loader,
    edge_ahead_loader,
    edge_gather,
    edge_index_loader,
    edge_scatter,
    index_loader,
    loader,
    prefetch,
    repeat_loader,
    storer,
    word,
)

__all__ = [
    "ahead_loader",
    "edge_ahead_loader",
    "edge_gather",
    "edge_index_loader",
    "edge_scatter",
    "exp",
    "greater",
    "index_loader",
    "loader",
    "prefetch",
    "reduce_add",
    "reduce_max",
    "repeat_loader",
    "select",
    "splat",
    "storer",
    "word",
]
