"""A node order that keeps neighbours close: a hierarchy of clusters, each a range of ids.

A kernel that gathers the features of a row's neighbours waits on memory unless they are in cache. So nodes are
clustered by label propagation (Raghavan, Albert and Kumara, 2007) under a bound on the size (Meyerhenke, Sanders and
Schulz, 2014), the clusters are clustered in turn under a bound ``GROWTH`` times as large, and so on: whatever the size
of a cache, some level's clusters fit it.
"""

from __future__ import annotations

import numpy as np

from .. import kernels
from ..progress import progress
from ..structure import Adjacency
from ..structure.compressed import compress

GROWTH = 16
"""Nodes in a cluster of the first level, and clusters in one of the next."""

SWEEPS = 4
"""The most sweeps per level: later ones move few nodes."""

_Graph = tuple[np.ndarray, np.ndarray, np.ndarray]


def locality_order(adjacency: Adjacency) -> np.ndarray:
    """Return the nodes of a square relation in an order that keeps closely linked ones together, int64.

    Takes O(levels * (num_nodes + num_edges)) time in one thread, and 16 bytes per edge while it runs.
    """
    num_nodes = adjacency.num_src
    src, dst = adjacency.endpoints()
    if 2 * adjacency.num_edges >= 2**31:
        src, dst = src.astype(np.int64), dst.astype(np.int64)
    both = compress(np.concatenate([src, dst]), np.concatenate([dst, src]), num_nodes)
    graph = both.indptr, both.indices, np.ones(both.num_edges, np.float32)
    return _ordered(graph, np.ones(num_nodes, np.int64), GROWTH)


def _ordered(graph: _Graph, sizes: np.ndarray, most: int) -> np.ndarray:
    """Return the order of a level's nodes: by the order of their clusters, inside a cluster by id."""
    labels = _clusters(graph, sizes, most)
    starts, members = _members(labels)
    num_clusters = len(starts) - 1
    if num_clusters == len(labels) and most >= sizes.sum():
        return members  # nothing is linked any more
    if num_clusters > 1:
        coarse = kernels.compiled("graph.cluster").cluster_graph(*graph, labels, starts, members)
        inner = _ordered(coarse, np.add.reduceat(sizes[members], starts[:-1]), most * GROWTH)
        place = np.empty(num_clusters, np.int64)
        place[inner] = np.arange(num_clusters)
        return np.argsort(place[labels], kind="stable")
    return members


def _clusters(graph: _Graph, sizes: np.ndarray, most: int) -> np.ndarray:
    """Return the cluster of each node, numbered from 0."""
    indptr, indices, weights = graph
    labels, label_sizes = np.arange(len(sizes), dtype=indices.dtype), sizes.copy()
    for _ in progress(range(SWEEPS), f"clusters of {len(sizes):,} nodes", "sweep"):
        moved = kernels.compiled("graph.cluster").sweep(indptr, indices, weights, sizes, most, labels, label_sizes)
        if moved * 100 < len(labels):
            break
    number = np.cumsum(np.bincount(labels, minlength=len(labels)) > 0) - 1
    return number[labels].astype(indices.dtype)


def _members(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(starts, members)``: the nodes sorted by cluster, and where each cluster starts."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels))])
    return starts, np.argsort(labels, kind="stable")
