"""The order in which a graph's vertices are evaluated, and the tables that find children and parents in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...errors import DGLError
from ...kernels import compiled
from ...structure import Adjacency
from ...structure.derived import CacheKey, cache_key

_NO_KINDS = np.empty(0, np.int64)


@dataclass
class VertexOrder:
    """Vertices numbered by class, then level: class c is rows ``classes[c]`` to ``classes[c + 1]``.

    A level of a class is a run of rows, and its edges, numbered by row, are a run of edges. ``segments`` has
    (class, first row, last row), children before parents.
    """

    nodes: np.ndarray
    places: np.ndarray
    classes: np.ndarray
    bounds: np.ndarray
    children: np.ndarray
    parents: np.ndarray
    parent_bounds: np.ndarray
    parent_entries: np.ndarray
    segments: np.ndarray

    def __post_init__(self) -> None:
        """Keep what each call needs."""
        self.num_nodes = len(self.nodes)
        self.class_bounds = self.bounds[self.classes]
        self.segment_edges = np.ascontiguousarray(self.bounds[self.segments[:, 1:]])
        self.class_rows: list[int] = self.classes.tolist()
        rows = self.class_rows
        self.filled = tuple([c for c in range(len(rows) - 1) if rows[c] < rows[c + 1]])

    @cached_property
    def tables(self) -> Any:
        """The arrays as :mod:`dglite.kernels.cpu.dynamic.fill` takes them."""
        kind = compiled("dynamic.fill").OrderTables
        return kind(*[getattr(self, name).reshape(-1) for name in kind._fields])


_ORDER: CacheKey[VertexOrder] = cache_key("vertex order", "the order in which a vertex program visits the nodes")


def order_of(adjacency: Adjacency, kinds: np.ndarray | None, num_kinds: int) -> VertexOrder:
    """Return the order of a graph's vertices, whose children are the sources of their in-edges in edge-id order.

    Vertices of the same kind form two classes: ``2 kind`` without children, ``2 kind + 1`` with children. Without
    ``kinds``, which are as many as there are vertices, all are of kind 0.

    Raises
    ------
    DGLError
        The graph has a cycle; its nodes are named.
    """
    if kinds is None and _ORDER in adjacency.cache:
        return adjacency.cache[_ORDER]
    src, dst = adjacency.endpoints()
    numbers = _NO_KINDS if kinds is None else kinds
    cycle, *parts = compiled("dynamic.levels").level_order(src, dst, adjacency.num_dst, numbers, num_kinds)
    if len(cycle):
        names = " <- ".join(map(str, [*cycle[:8].tolist(), *(["..."] if len(cycle) > 8 else []), int(cycle[0])]))
        raise DGLError(
            f"the graph has a cycle of {len(cycle)} nodes: {names}; a vertex program needs a graph without cycles, in "
            "which a vertex comes after those it gathers from"
        )
    order = VertexOrder(*parts)
    if kinds is None:
        order = adjacency.cache.setdefault(_ORDER, order)
    return order
