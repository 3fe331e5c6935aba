"""Breadth-first, depth-first and topological orders of a square sparse matrix. Serial, and they release the lock."""

from __future__ import annotations

import numpy as np

from .cached import njit

__all__ = ["bfs", "dfs", "topological"]

_jit = njit(nogil=True)

FORWARD, REVERSE, NONTREE = 0, 1, 2
"""Labels of :func:`dfs`: towards a new node, back along the edge that found a node, to a node found before."""


@_jit
def bfs(
    indptr: np.ndarray,
    indices: np.ndarray,
    sources: np.ndarray,
    nodes: np.ndarray,
    entries: np.ndarray,
    ends: np.ndarray,
) -> tuple[int, int]:
    """Write nodes level after level, and the entry that found each; return (number of nodes, number of levels).

    ``nodes``, ``entries`` and ``ends`` have room for every node; ``ends[i]`` is where level i ends. Sources, whose
    entry is -1, are level 0, each once.
    """
    seen = np.zeros(len(indptr) - 1, np.bool_)
    count, levels, first = 0, 0, 0
    for source in sources:
        if not seen[source]:
            seen[source] = True
            nodes[count] = source
            entries[count] = -1
            count += 1
    while count > first:
        ends[levels] = count
        levels += 1
        last = count
        for i in range(first, last):
            for entry in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
                neighbour = indices[entry]
                if not seen[neighbour]:
                    seen[neighbour] = True
                    nodes[count] = neighbour
                    entries[count] = entry
                    count += 1
        first = last
    return count, levels


@_jit
def topological(
    indptr: np.ndarray, indices: np.ndarray, waiting: np.ndarray, nodes: np.ndarray, ends: np.ndarray
) -> tuple[int, int]:
    """Write nodes level after level, each after all that point to it; return (number of nodes, number of levels).

    ``waiting`` holds the number of entries that point to each node, and is used up. Nodes on or behind a cycle are
    never written.
    """
    count, levels, first = 0, 0, 0
    for node in range(len(waiting)):
        if waiting[node] == 0:
            nodes[count] = node
            count += 1
    while count > first:
        ends[levels] = count
        levels += 1
        last = count
        for i in range(first, last):
            for entry in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
                neighbour = indices[entry]
                waiting[neighbour] -= 1
                if waiting[neighbour] == 0:
                    nodes[count] = neighbour
                    count += 1
        nodes[last:count].sort()
        first = last
    return count, levels


@_jit
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
    seen = np.zeros(num_nodes, np.bool_)
    path, found_by, next_entry = np.empty(num_nodes, np.int64), np.empty(num_nodes, np.int64), indptr[:-1].copy()
    count = 0
    for i in range(len(sources)):
        depth = 0
        if not seen[sources[i]]:
            seen[sources[i]] = True
            path[0], found_by[0], depth = sources[i], -1, 1
        while depth:
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
            if not seen[neighbour]:
                seen[neighbour] = True
                entries[count], labels[count] = entry, FORWARD
                count += 1
                path[depth], found_by[depth] = neighbour, entry
                depth += 1
            elif nontree:
                entries[count], labels[count] = entry, NONTREE
                count += 1
        ends[i] = count
    return count
