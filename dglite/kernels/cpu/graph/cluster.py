"""Clusters of closely linked nodes: sweeps of label propagation, and the graph of the clusters.

A graph is ``(indptr, indices, weights)``, symmetric; a node's links to itself are ignored. One thread: a sweep reads
what it has just written, which is what makes few sweeps enough.
"""

from __future__ import annotations

import numpy as np

from ..compile.written import Kernel


@Kernel
def sweep(
    indptr: np.ndarray,
    indices: np.ndarray,
    weights: np.ndarray,
    sizes: np.ndarray,
    most: int,
    labels: np.ndarray,
    label_sizes: np.ndarray,
    scores: np.ndarray,
) -> int:
    """Move each node to the cluster that it has the heaviest links to, in place; return how many moved.

    A cluster whose members' ``sizes`` would sum to more than ``most`` takes no one in. Of equals a node prefers its
    own, then the one that it meets first. ``label_sizes`` holds the size of each cluster, ``scores`` a zero for each.
    """
    neighbours = np.empty(len(label_sizes), np.int64)
    moved = 0
    for node in range(len(labels)):
        count = 0
        for entry in range(indptr[node], indptr[node + 1]):
            label = labels[indices[entry]]
            if indices[entry] != node:
                if scores[label] == 0:
                    neighbours[count] = label
                    count += 1
                scores[label] += weights[entry]
        current = labels[node]
        best = current
        for i in range(count):
            if scores[neighbours[i]] > scores[best] and label_sizes[neighbours[i]] + sizes[node] <= most:
                best = neighbours[i]
        for i in range(count):
            scores[neighbours[i]] = 0
        if best != current:
            label_sizes[current] -= sizes[node]
            label_sizes[best] += sizes[node]
            labels[node] = best
            moved += 1
    return moved


@Kernel
def cluster_graph(
    indptr: np.ndarray,
    indices: np.ndarray,
    weights: np.ndarray,
    labels: np.ndarray,
    starts: np.ndarray,
    members: np.ndarray,
    coarse: np.ndarray,
    neighbours: np.ndarray,
    sums: np.ndarray,
) -> int:
    """Write the graph whose nodes are the clusters and whose weights are the sums between them; return its entries.

    The members of cluster c are ``members[starts[c]:starts[c + 1]]``. ``coarse`` (clusters + 1,), whose first is 0,
    gets the pointers, ``neighbours`` and ``sums`` the entries, of which there are not more than in the graph.
    """
    num_clusters, total = len(starts) - 1, 0
    slot_of = np.empty(num_clusters, np.int64)
    for cluster in range(num_clusters):
        slot_of[cluster] = -1
    for cluster in range(num_clusters):
        first = total
        for i in range(starts[cluster], starts[cluster + 1]):
            for entry in range(indptr[members[i]], indptr[members[i] + 1]):
                other = labels[indices[entry]]
                if other == cluster:
                    continue
                if slot_of[other] < first:
                    slot_of[other] = total
                    neighbours[total] = other
                    sums[total] = 0
                    total += 1
                sums[slot_of[other]] += weights[entry]
        coarse[cluster + 1] = total
    return total
