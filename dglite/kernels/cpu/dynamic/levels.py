"""The order in which the vertices of a directed acyclic graph are evaluated. Serial, and it releases the lock."""

from __future__ import annotations

import numpy as np

from ..compile.cached import njit

__all__ = ["by_head", "child_table", "level_order", "places_of"]

_jit = njit(nogil=True)

_UNSEEN, _OPEN = -1, -2


@_jit
def by_head(heads: np.ndarray, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of each row's entries, and the entries by row, in their order."""
    bounds = np.zeros(num_rows + 1, np.int64)
    for head in heads:
        bounds[head + 1] += 1
    for row in range(num_rows):
        bounds[row + 1] += bounds[row]
    entries, free = np.empty(len(heads), np.int64), bounds[:-1].copy()
    for entry in range(len(heads)):
        entries[free[heads[entry]]] = entry
        free[heads[entry]] += 1
    return bounds, entries


@_jit
def _levels(src: np.ndarray, bounds: np.ndarray, entries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each node's level, one above the highest of its children, and the nodes of a cycle (empty without one)."""
    num_nodes = len(bounds) - 1
    levels, path = np.full(num_nodes, _UNSEEN), np.empty(num_nodes, np.int64)
    following = bounds[:-1].copy()
    for root in range(num_nodes):
        if levels[root] != _UNSEEN:
            continue
        path[0], levels[root], depth = root, _OPEN, 1
        while depth:
            node = path[depth - 1]
            entry = following[node]
            if entry < bounds[node + 1]:
                child = src[entries[entry]]
                if levels[child] == _UNSEEN:
                    path[depth], levels[child] = child, _OPEN
                    depth += 1
                    continue
                if levels[child] == _OPEN:
                    start = depth - 1
                    while path[start] != child:
                        start -= 1
                    return levels, path[start:depth].copy()
                following[node] = entry + 1
                continue
            level = 0
            for entry in range(bounds[node], bounds[node + 1]):
                level = max(level, levels[src[entries[entry]]] + 1)
            levels[node] = level
            depth -= 1
    return levels, path[:0].copy()


@_jit
def _arranged(
    levels: np.ndarray, kinds: np.ndarray, num_classes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return, of nodes by class and then by level, their order and places, where classes start, and the segments."""
    num_nodes, num_levels = len(levels), 0
    for level in levels:
        num_levels = max(num_levels, level + 1)
    keys, place = np.empty(num_nodes, np.int64), np.empty(num_nodes, np.int64)
    for node in range(num_nodes):
        group = 2 * (kinds[node] if len(kinds) else 0) + (levels[node] > 0)
        keys[node] = group * num_levels + levels[node]
    starts, order = by_head(keys, num_classes * num_levels)
    for row in range(num_nodes):
        place[order[row]] = row
    classes, segments, found = np.empty(num_classes + 1, np.int64), np.empty((num_classes * num_levels, 3), np.int64), 0
    for group in range(num_classes + 1):
        classes[group] = starts[group * num_levels]
    for level in range(num_levels):
        for group in range(num_classes):
            first, last = starts[group * num_levels + level], starts[group * num_levels + level + 1]
            if first < last:
                segments[found, 0], segments[found, 1], segments[found, 2] = group, first, last
                found += 1
    return order, place, classes, segments[:found]


@_jit
def _ends(
    src: np.ndarray, bounds: np.ndarray, entries: np.ndarray, order: np.ndarray, place: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the bounds of each row's entries, and the rows of children and parents."""
    child_bounds = np.zeros(len(order) + 1, np.int64)
    children, parents, at = np.empty(len(src), np.int64), np.empty(len(src), np.int64), 0
    for row in range(len(order)):
        for entry in range(bounds[order[row]], bounds[order[row] + 1]):
            children[at], parents[at] = place[src[entries[entry]]], row
            at += 1
        child_bounds[row + 1] = at
    return child_bounds, children, parents


def level_order(
    src: np.ndarray, dst: np.ndarray, num_nodes: int, kinds: np.ndarray, num_kinds: int
) -> tuple[np.ndarray, ...]:
    """Number the nodes anew: by class, then by level, then as they were. Node v with children has class 2 kind + 1.

    Returns (cycle, order, place, classes, child bounds, children, parents, parent bounds, parent entries, segments).
    ``order[row]`` is the node of a row, ``place[node]`` its row, ``classes`` where each class starts. Entries are the
    edges by row of their head, in edge order: ``children`` and ``parents`` have the row of either end. ``parent
    entries`` are the entries by row of their child. ``segments`` lists (class, first row, last row) level by level.
    Where ``cycle`` has nodes the rest means nothing.
    """
    bounds, entries = by_head(dst, num_nodes)
    levels, cycle = _levels(src, bounds, entries)
    if len(cycle):
        levels[:] = 0
    order, place, classes, segments = _arranged(levels, kinds, 2 * num_kinds)
    child_bounds, children, parents = _ends(src, bounds, entries, order, place)
    parent_bounds, parent_entries = by_head(children, num_nodes)
    return cycle, order, place, classes, child_bounds, children, parents, parent_bounds, parent_entries, segments


@_jit
def child_table(bounds: np.ndarray, children: np.ndarray, slots: int, absent: int) -> np.ndarray:
    """Return, for each row and each of ``slots``, the row of that child, or ``absent``."""
    table = np.full((len(bounds) - 1, slots), absent)
    for row in range(len(bounds) - 1):
        for entry in range(bounds[row], min(bounds[row + 1], bounds[row] + slots)):
            table[row, entry - bounds[row]] = children[entry]
    return table


@_jit
def places_of(nodes: np.ndarray, num_nodes: int) -> tuple[np.ndarray, bool]:
    """Return where each of ``num_nodes`` nodes is in ``nodes``, -1 where it is not; and whether each is there once."""
    places = np.full(num_nodes, -1)
    for i in range(len(nodes)):
        if nodes[i] < 0 or nodes[i] >= num_nodes or places[nodes[i]] >= 0:
            return places, False
        places[nodes[i]] = i
    return places, True
