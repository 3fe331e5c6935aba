"""What rendered kernels import: vectors in registers, memory, lanes, elementary functions."""

from .elementary import abs, exp, expm1, log, maximum, minimum, power, sigmoid, sign, softplus, sqrt, tanh, where
from .lanes import greater, reduce_add, reduce_max, select, splat
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
    "abs",
    "ahead_loader",
    "edge_ahead_loader",
    "edge_gather",
    "edge_index_loader",
    "edge_scatter",
    "exp",
    "expm1",
    "greater",
    "index_loader",
    "loader",
    "log",
    "maximum",
    "minimum",
    "power",
    "prefetch",
    "reduce_add",
    "reduce_max",
    "repeat_loader",
    "select",
    "sigmoid",
    "sign",
    "softplus",
    "splat",
    "sqrt",
    "storer",
    "tanh",
    "where",
    "word",
]
