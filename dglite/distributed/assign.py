"""Which part each node goes to: by METIS, by streaming over the edges, at random, or as given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import kernels
from ..errors import DGLError
from ..graph import DGLGraph
from ..progress import progress
from ..random import generator
from ..structure.ids import integer_array
from ..transforms import metis_partition_assignment, to_homogeneous

METHODS = ("metis", "locality", "random")
_SLACK = 1.05
"""How much above the mean a part may be."""
_PASSES = 3
"""How often edges are gone through: a later time moves few nodes."""
_NODES_A_CALL = 1 << 18
"""Compiled code does not see Ctrl-C."""


def assign_parts(
    g: DGLGraph, num_parts: int, method: Any, balance_ntypes: Any = None, balance_edges: bool = False
) -> list[np.ndarray]:
    """Return the part of every node, an array for each node type.

    Raises ``DGLError``: there are more parts than nodes, a part is left without nodes, an argument is not understood,
    or METIS is asked for and not installed.
    """
    total = sum(g.node_counts)
    if num_parts > total:
        raise DGLError(f"{num_parts} parts for {total} nodes: a part would be empty; ask for fewer parts")
    if not isinstance(method, str):
        parts = _assigned(g, method, num_parts)
    elif method not in METHODS:
        raise DGLError(f"part_method={method!r} is not understood; expected one of {METHODS}, or a part for each node")
    elif num_parts == 1:
        parts = np.zeros(total, np.int64)
    else:
        kinds = _kinds(g, balance_ntypes)
        if method == "random":
            parts = _random(kinds, num_parts)
        else:
            whole = g if g.is_homogeneous else to_homogeneous(g, store_type=False)
            if method == "metis":
                types = None if kinds.max(initial=0) == 0 else whole.ids_tensor(kinds)
                parts = integer_array(metis_partition_assignment(whole, num_parts, types, balance_edges))
            else:
                parts = _streamed(whole, num_parts, kinds, balance_edges)
    empty = np.flatnonzero(np.bincount(parts, minlength=num_parts) == 0)
    if len(empty):
        raise DGLError(
            f"part {empty[0]} of {num_parts} has no nodes; ask for fewer parts, or choose another part_method"
        )
    return np.split(parts, np.cumsum(g.node_counts)[:-1])


def _by_type(g: DGLGraph, by_type: Any, name: str) -> np.ndarray:
    """Return an integer for each node, type after type, of a tensor or a dictionary of them by node type."""
    if not isinstance(by_type, Mapping):
        if len(g.ntypes) != 1:
            raise DGLError(f"the graph has nodes of types {g.ntypes}; give {name} as a dictionary by type")
        by_type = {g.ntypes[0]: by_type}
    if set(by_type) != set(g.ntypes):
        raise DGLError(f"{name} is given for types {list(by_type)}; the graph has {g.ntypes}")
    arrays = []
    for ntype in g.ntypes:
        values = integer_array(by_type[ntype], name)
        if values.shape != (g.num_nodes(ntype),):
            raise DGLError(
                f"{name} of type {ntype!r} has shape {values.shape}; expected an integer for each of "
                f"{g.num_nodes(ntype)} nodes"
            )
        arrays.append(values.astype(np.int64))
    return np.concatenate(arrays)


def _assigned(g: DGLGraph, method: Any, num_parts: int) -> np.ndarray:
    parts = _by_type(g, method, "part_method")
    if len(parts) and not 0 <= parts.min() <= parts.max() < num_parts:
        wrong = parts[(parts < 0) | (parts >= num_parts)][0]
        raise DGLError(f"part_method gives part {wrong}; there are {num_parts}, counted from 0")
    return parts


def _kinds(g: DGLGraph, balance_ntypes: Any) -> np.ndarray:
    """Return a number of what each node is to be balanced with: its type, and what is given."""
    kinds = np.repeat(np.arange(len(g.ntypes)), g.node_counts)
    if balance_ntypes is not None:
        if isinstance(balance_ntypes, Mapping):  # types that are left out are one kind each
            left_out = {ntype: np.zeros(g.num_nodes(ntype), np.int64) for ntype in g.ntypes}
            balance_ntypes = left_out | dict(balance_ntypes)
        groups = _by_type(g, balance_ntypes, "balance_ntypes")
        _, kinds = np.unique(np.stack([kinds, groups]), axis=1, return_inverse=True)
    return kinds.reshape(-1)


def _random(kinds: np.ndarray, num_parts: int) -> np.ndarray:
    """Deal out the nodes of each kind in random order; one kind begins where the last one ended."""
    order = np.lexsort((generator().permutation(len(kinds)), kinds))
    parts = np.empty(len(kinds), np.int64)
    parts[order] = np.arange(len(kinds)) % num_parts
    return parts


def _streamed(g: DGLGraph, num_parts: int, kinds: np.ndarray, balance_edges: bool) -> np.ndarray:
    """Return parts that a few passes over the in-edges find; memory is by nodes alone."""
    rows, count = g.adjacencies[0].csc(), g.num_nodes()
    weights = np.ones(count)
    if balance_edges and g.num_edges():
        weights += np.diff(rows.indptr) * (count / g.num_edges())
    capacities = _SLACK * np.bincount(kinds, weights) / num_parts
    capacities = np.maximum(capacities, weights.max(initial=0))
    parts, loads = np.full(count, -1, np.int32), np.zeros(len(capacities) * num_parts)
    assign = kernels.compiled("graph.stream").assign
    with progress(None, "assign nodes to parts", "node", _PASSES * count) as bar:
        for _ in range(_PASSES):
            for first in range(0, count, _NODES_A_CALL):
                last = min(first + _NODES_A_CALL, count)
                assign(first, last, rows.indptr, rows.indices, weights, kinds, capacities, parts, loads)
                bar.update(last - first)
    return parts.astype(np.int64)
