"""Breadth-first, depth-first and topological orders of a square sparse matrix. Serial, without the GIL.

Each goes some way at a call and keeps where it is in ``state``, so that Python sees to signals in between.
"""

from __future__ import annotations

import numpy as np

from ..compile.written import Kernel
from ..run.sort import merge_sort

STEPS_PER_CALL = 1 << 23
"""Nodes and entries that one call looks at: a tenth of a second or so."""

FORWARD, REVERSE, NONTREE = 0, 1, 2
"""Labels of :func:`dfs`: towards a new node, back along the edge that found a node, to a node found before."""


def bfs(
    indptr: np.ndarray,
    indices: np.ndarray,
    sources: np.ndarray,
    nodes: np.ndarray,
    entries: np.ndarray,
    ends: np.ndarray,
) -> tuple[int, int]:
    """Write nodes level after level, and the entry that found each; return (number of nodes, number of levels).

    ``nodes``, ``entries`` and ``ends`` have room for every node that is reached; ``ends[i]`` is where
    level i ends. Sources, whose entry is -1, are level 0, each once.
    """
    visited, state = np.zeros(len(indptr) - 1, np.bool_), np.zeros(4, np.int64)
    _enter_sources(sources, visited, nodes, entries, state)
    while not _go_on_bfs(indptr, indices, visited, nodes, entries, ends, state, STEPS_PER_CALL):
        pass
    return int(state[0]), int(state[1])


@Kernel
def _enter_sources(
    sources: np.ndarray, visited: np.ndarray, nodes: np.ndarray, entries: np.ndarray, state: np.ndarray
) -> None:
    for i in range(len(sources)):
        source = sources[i]
        if not visited[source]:
            visited[source] = True
            nodes[state[0]] = source
            entries[state[0]] = -1
            state[0] += 1


@Kernel
def _go_on_bfs(
    indptr: np.ndarray,
    indices: np.ndarray,
    visited: np.ndarray,
    nodes: np.ndarray,
    entries: np.ndarray,
    ends: np.ndarray,
    state: np.ndarray,
    steps: int,
) -> bool:
    """Return whether all is done. ``state``: nodes, levels, nodes that have been left, and the end of this level."""
    count, levels, i, last = state[0], state[1], state[2], state[3]
    while i < count and steps > 0:
        if i == last:
            ends[levels] = count
            levels, last = levels + 1, count
        start, end = indptr[nodes[i]], indptr[nodes[i] + 1]
        for entry in range(start, end):
            neighbour = indices[entry]
            if not visited[neighbour]:
                visited[neighbour] = True
                nodes[count] = neighbour
                entries[count] = entry
                count += 1
        i, steps = i + 1, steps - 1 - (end - start)
    state[0], state[1], state[2], state[3] = count, levels, i, last
    return i == count


def topological(
    indptr: np.ndarray, indices: np.ndarray, waiting: np.ndarray, nodes: np.ndarray, ends: np.ndarray
) -> tuple[int, int]:
    """Write nodes level after level, each after all that point to it; return (number of nodes, number of levels).

    ``waiting`` holds the number of entries that point to each node, and is used up. Nodes on or behind a cycle are
    never written.
    """
    free, state = np.flatnonzero(waiting == 0), np.zeros(4, np.int64)
    state[0] = len(free)
    nodes[: len(free)] = free
    spare = np.empty_like(nodes)
    while not _go_on_topological(indptr, indices, waiting, nodes, ends, spare, state, STEPS_PER_CALL):
        pass
    return int(state[0]), int(state[1])


@Kernel
def _go_on_topological(
    indptr: np.ndarray,
    indices: np.ndarray,
    waiting: np.ndarray,
    nodes: np.ndarray,
    ends: np.ndarray,
    spare: np.ndarray,
    state: np.ndarray,
    steps: int,
) -> bool:
    """Return whether all is done. ``state`` is that of :func:`_go_on_bfs`."""
    count, levels, i, last = state[0], state[1], state[2], state[3]
    while i < count and steps > 0:
        if i == last:
            merge_sort(nodes[last:count], spare, None, 0)
            ends[levels] = count
            levels, last = levels + 1, count
        start, end = indptr[nodes[i]], indptr[nodes[i] + 1]
        for entry in range(start, end):
            neighbour = indices[entry]
            waiting[neighbour] -= 1
            if waiting[neighbour] == 0:
                nodes[count] = neighbour
                count += 1
        i, steps = i + 1, steps - 1 - (end - start)
    state[0], state[1], state[2], state[3] = count, levels, i, last
    return i == count


def dfs(
    indptr: np.ndarray,
    indices: np.ndarray,
    sources: np.ndarray,
    reverse: bool,
    nontree: bool,
    entries: np.ndarray,
    labels: np.ndarray,
    ends: np.ndarray,
) -> int:
    """Write the entries that a walk from each source goes along, and their labels; return how many.

    ``ends[i]`` is where the walk from source i ends. Walks share what they have seen. ``entries`` and ``labels`` have
    room for twice as many as there are entries.
    """
    num_nodes = len(indptr) - 1
    visited, state = np.zeros(num_nodes, np.bool_), np.zeros(3, np.int64)
    path, found_by, next_entry = np.empty(num_nodes, np.int64), np.empty(num_nodes, np.int64), indptr[:-1].copy()
    walk = visited, path, found_by, next_entry, state
    while not _go_on_dfs(indptr, indices, sources, reverse, nontree, entries, labels, ends, *walk, STEPS_PER_CALL):
        pass
    return int(state[2])


@Kernel
def _go_on_dfs(
    indptr: np.ndarray,
    indices: np.ndarray,
    sources: np.ndarray,
    reverse: bool,
    nontree: bool,
    entries: np.ndarray,
    labels: np.ndarray,
    ends: np.ndarray,
    visited: np.ndarray,
    path: np.ndarray,
    found_by: np.ndarray,
    next_entry: np.ndarray,
    state: np.ndarray,
    steps: int,
) -> bool:
    """Return whether all is done. ``state``: walks that have ended, length of the path, entries written."""
    i, depth, count = state[0], state[1], state[2]
    while i < len(sources) and steps > 0:
        if depth == 0 and not visited[sources[i]]:
            visited[sources[i]] = True
            path[0], found_by[0], depth = sources[i], -1, 1
        while depth and steps > 0:
            steps -= 1
            node = path[depth - 1]
            entry = next_entry[node]
            if entry == indptr[node + 1]:
                depth -= 1
                if depth and reverse:
                    entries[count], labels[count] = found_by[depth], REVERSE
                    count += 1
                continue
            next_entry[node] = entry + 1
            neighbour = indices[entry]
            if not visited[neighbour]:
                visited[neighbour] = True
                entries[count], labels[count] = entry, FORWARD
                count += 1
                path[depth], found_by[depth] = neighbour, entry
                depth += 1
            elif nontree:
                entries[count], labels[count] = entry, NONTREE
                count += 1
        if depth == 0:
            ends[i] = count
            i, steps = i + 1, steps - 1
    state[0], state[1], state[2] = i, depth, count
    return i == len(sources)
