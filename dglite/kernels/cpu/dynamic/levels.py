"""The order in which the vertices of a directed acyclic graph are evaluated. Serial, and it releases the lock."""

from __future__ import annotations

import numpy as np

from ..compile.written import Kernel

_UNSEEN, _OPEN = -1, -2


def by_head(heads: np.ndarray, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of each row's entries, and the entries by row, in their order."""
    bounds, entries = np.zeros(num_rows + 1, np.int64), np.empty(len(heads), np.int64)
    _sort_by_head(heads, bounds, entries, np.empty(num_rows, np.int64))
    return bounds, entries


@Kernel
def _sort_by_head(heads: np.ndarray, bounds: np.ndarray, entries: np.ndarray, free: np.ndarray) -> None:
    """``bounds`` is 0; ``free`` is where the next entry of each row goes."""
    for entry in range(len(heads)):
        bounds[heads[entry] + 1] += 1
    for row in range(len(free)):
        free[row] = bounds[row]
        bounds[row + 1] += bounds[row]
    for entry in range(len(heads)):
        row = heads[entry]
        entries[free[row]] = entry
        free[row] += 1


@Kernel
def _find_levels(
    src: np.ndarray,
    bounds: np.ndarray,
    entries: np.ndarray,
    levels: np.ndarray,
    path: np.ndarray,
    following: np.ndarray,
    cycle: np.ndarray,
) -> None:
    """Write each node's level, one above the highest of its children, ``_UNSEEN`` before; of a cycle its first and last
    place in ``path``. ``following`` is the next entry of each node that is to be looked at."""
    for root in range(len(levels)):
        if levels[root] != _UNSEEN:
            continue
        path[0], levels[root], depth = root, _OPEN, 1
        while depth > 0:
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
                    cycle[0], cycle[1] = start, depth
                    return
                following[node] = entry + 1
                continue
            level = 0
            for below in range(bounds[node], bounds[node + 1]):
                level = max(level, levels[src[entries[below]]] + 1)
            levels[node] = level
            depth -= 1


@Kernel
def _find_keys(levels: np.ndarray, kinds: np.ndarray, num_levels: int, keys: np.ndarray) -> None:
    """Write the number of each node's class and level."""
    for node in range(len(levels)):
        group = 1 if levels[node] > 0 else 0
        if len(kinds) > 0:
            group += 2 * kinds[node]
        keys[node] = group * num_levels + levels[node]


@Kernel
def _find_segments(starts: np.ndarray, num_classes: int, num_levels: int, segments: np.ndarray) -> int:
    """Write (class, first row, last row), level by level; return how many there are."""
    count = 0
    for level in range(num_levels):
        for group in range(num_classes):
            first, last = starts[group * num_levels + level], starts[group * num_levels + level + 1]
            if first < last:
                segments[3 * count], segments[3 * count + 1], segments[3 * count + 2] = group, first, last
                count += 1
    return count


@Kernel
def _find_ends(
    src: np.ndarray,
    bounds: np.ndarray,
    entries: np.ndarray,
    order: np.ndarray,
    place: np.ndarray,
    child_bounds: np.ndarray,
    children: np.ndarray,
    parents: np.ndarray,
) -> None:
    """Write the place of each row's node, the bounds of each row's entries, and the rows of children and parents."""
    for row in range(len(order)):
        place[order[row]] = row
    at = 0
    child_bounds[0] = 0
    for row in range(len(order)):
        for entry in range(bounds[order[row]], bounds[order[row] + 1]):
            children[at], parents[at] = place[src[entries[entry]]], row
            at += 1
        child_bounds[row + 1] = at


def level_order(
    src: np.ndarray, dst: np.ndarray, num_nodes: int, kinds: np.ndarray, num_kinds: int
) -> tuple[np.ndarray, ...]:
    """NumberType the nodes anew: by class, then by level, then as they were. Node v with children has class 2 kind + 1.

    Returns (cycle, order, place, classes, child bounds, children, parents, parent bounds, parent entries, segments).
    ``order[row]`` is the node of a row, ``place[node]`` its row, ``classes`` where each class starts. Entries are the
    edges by row of their head, in edge order: ``children`` and ``parents`` have the row of either end. ``parent
    entries`` are the entries by row of their child. ``segments`` lists (class, first row, last row) level by level.
    Where ``cycle`` has nodes the rest means nothing.
    """
    bounds, entries = by_head(dst, num_nodes)
    levels, path, loop = np.full(num_nodes, _UNSEEN), np.empty(num_nodes, np.int64), np.zeros(2, np.int64)
    _find_levels(src, bounds, entries, levels, path, bounds[:-1].copy(), loop)
    cycle, num_classes = path[loop[0] : loop[1]], 2 * num_kinds
    if len(cycle):
        levels[:] = 0
    num_levels, keys = int(levels.max(initial=-1)) + 1, np.empty(num_nodes, np.int64)
    _find_keys(levels, kinds, num_levels, keys)
    starts, order = by_head(keys, num_classes * num_levels)
    classes = starts[::num_levels].copy() if num_levels else np.zeros(num_classes + 1, np.int64)
    segments = np.empty(3 * num_classes * num_levels, np.int64)
    count = _find_segments(starts, num_classes, num_levels, segments)
    place, child_bounds = np.empty(num_nodes, np.int64), np.empty(num_nodes + 1, np.int64)
    children, parents = np.empty(len(src), np.int64), np.empty(len(src), np.int64)
    _find_ends(src, bounds, entries, order, place, child_bounds, children, parents)
    parent_bounds, parent_entries = by_head(children, num_nodes)
    rows = segments[: 3 * count].reshape(-1, 3)
    return cycle, order, place, classes, child_bounds, children, parents, parent_bounds, parent_entries, rows


def places_of(nodes: np.ndarray, num_nodes: int) -> tuple[np.ndarray, bool]:
    """Return where each of ``num_nodes`` nodes is in ``nodes``, -1 where it is not; and whether each is there once."""
    places = np.full(num_nodes, -1)
    return places, _find_places(nodes, places) == len(nodes)


@Kernel
def _find_places(nodes: np.ndarray, places: np.ndarray) -> int:
    """Write the place of each node; return how many there are before one that is there already, or does not exist."""
    for i in range(len(nodes)):
        if nodes[i] < 0 or nodes[i] >= len(places) or places[nodes[i]] >= 0:
            return i
        places[nodes[i]] = i
    return len(nodes)
