"""What generated kernels import: vectors in registers, memory, lanes, elementary functions."""

from .elementary import abs, erf, exp, expm1, log, maximum, minimum, power, sigmoid, sign, softplus, sqrt, tanh, where
from .lanes import differs, greater, reduce_add, reduce_max, select, splat
from .memory import (
    edge_gather,
    edge_index_loader,
    edge_scatter,
    index_loader,
    loader,
    part_loader,
    part_storer,
    prefetch,
    prefetch_l2,
    prefetch_write,
    repeat_loader,
    storer,
    word,
)
