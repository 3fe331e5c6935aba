"""What torch's compiler leaves to Python: functions and methods that read values of ids, or make graphs of them.

All other functions are read, and those of :mod:`dglite.ops`, readouts and layers are parts of programs; see
docs/compile.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from inspect import isfunction
from typing import Any

from .backend import active
from .graph import DGLGraph
from .scheduler.tape import reduce_once
from .structure.compressed import copy_as

_MODULES = (
    "batch convert generators geometry homophily io propagate readout sampling sparse subgraph transforms traversal"
).split()
_READ = {
    "convert": "graph heterograph create_block",
    "readout": "broadcast_edges broadcast_nodes max_edges max_nodes mean_edges mean_nodes readout_edges readout_nodes "
    "softmax_edges softmax_nodes sum_edges sum_nodes",
    "sparse": "from_coo val_like spmm bspmm sddmm bsddmm",
    "transforms": "add_self_loop reverse",
}
"""Functions of these modules that are parts of programs."""

_METHODS = (
    "add_nodes adj_tensors adj_external edge_ids filter_edges filter_nodes find_edges group_apply_edges "
    "has_edges_between has_nodes in_edges inc out_edges predecessors prop_edges prop_nodes pull push recv remove_edges "
    "remove_nodes send send_and_recv set_batch_num_edges set_batch_num_nodes subgraphs successors"
).split()


def leave_to_python() -> None:
    """Tell the active backend's compiler."""
    for function in _functions():
        active.left_to_python(function)


def _functions() -> Iterator[Any]:
    for name in _MODULES:
        module, read = import_module(f".{name}", __package__), _READ.get(name, "").split()
        yield from filter(isfunction, (getattr(module, member) for member in module.__all__ if member not in read))
    for name in _METHODS:
        yield getattr(DGLGraph, name)
    yield from (copy_as, reduce_once)
