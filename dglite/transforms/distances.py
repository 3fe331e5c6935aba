"""Shortest-path distances, and node labels computed from them."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from ..arguments import explained
from ..backend import Tensor
from ..errors import DGLError
from ..graph import DGLGraph
from ..structure import Adjacency
from .parts import matrix, require_homogeneous


@overload
def shortest_dist(g: DGLGraph, root: int | None = None, return_paths: Literal[False] = False) -> Tensor: ...
@overload
def shortest_dist(g: DGLGraph, root: int | None = None, *, return_paths: Literal[True]) -> tuple[Tensor, Tensor]: ...
@explained
def shortest_dist(g: DGLGraph, root: int | None = None, return_paths: bool = False) -> Any:
    """Return how many edges the shortest directed paths have, int64, or -1 if there is no path.

    Raises DGLError: the graph has several types, or the node does not exist.

    Parameters
    ----------
    root
        the node where paths start: distances are (num_nodes,). By default all nodes: (num_nodes, num_nodes).
    return_paths
        also return the edge ids of one shortest path each, with another axis as long as the longest, filled up with
        -1. Of parallel edges the one with the lowest id is taken.

    Examples
    --------
    >>> from dglite.convert import graph
    >>> shortest_dist(graph(([0, 1, 1, 2], [2, 0, 3, 3])), root=0).tolist()
    [0, -1, 1, 2]
    """
    adjacency = require_homogeneous(g, "shortest_dist")
    if adjacency.num_src == 0:
        empty = np.empty((0, 0), np.int64)
        return (g.as_tensor(empty), g.as_tensor(np.empty((0, 0, 0), np.int64))) if return_paths else g.as_tensor(empty)
    roots = np.arange(adjacency.num_src) if root is None else g.node_ids(root)
    if root is not None and len(roots) != 1:
        raise DGLError(f"shortest_dist: root must be one node, got {len(roots)}")
    hops, before = _shortest(adjacency, roots)
    if not return_paths:
        return g.as_tensor(hops if root is None else hops[0])
    paths = _paths(adjacency, roots, hops, before)
    if root is not None:
        hops, paths = hops[0], paths[0]
    return g.as_tensor(hops), g.as_tensor(paths)


def _shortest(adjacency: Adjacency, roots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return distances, -1 where there is no path, and the node before each on a shortest path; (roots, nodes)."""
    from scipy.sparse.csgraph import shortest_path  # 0.2 s, which `import dglite` must not pay

    distances, before = shortest_path(
        matrix(adjacency), method="D", unweighted=True, indices=roots, return_predecessors=True
    )
    return np.where(np.isinf(distances), -1, distances).astype(np.int64), before


def _paths(adjacency: Adjacency, roots: np.ndarray, hops: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Return the edges of the paths, (roots, nodes, longest): every path is walked back one edge at a time."""
    paths = np.full((*hops.shape, max(int(hops.max()), 0)), -1, np.int64)
    row, end = (hops > 0).nonzero()
    node, left = end, hops[row, end]
    while len(row):
        previous = before[row, node].astype(np.int64)
        paths[row, end, left - 1] = adjacency.edge_ids(previous, node)
        going = left > 1
        row, end, node, left = row[going], end[going], previous[going], left[going] - 1
    return paths


@explained
def double_radius_node_labeling(g: DGLGraph, src: int, dst: int) -> Tensor:
    """Return a label of every node by its distances to both ends of a link, (num_nodes,), int64.

    A node at distance s from ``src``, not by way of ``dst``, and t the other way round has the label
    ``1 + min(s, t) + h (h + m - 1)``, where h and m are the quotient and remainder of s + t by 2. Both ends have 1,
    nodes without a path to both 0. Edges are walked both ways. Zhang and Chen, Link Prediction Based on Graph Neural
    Networks (2018).

    Raises DGLError: the graph has several types, or a node does not exist.
    """
    adjacency = require_homogeneous(g, "double_radius_node_labeling")
    ends = [int(g.node_ids(node)[0]) for node in (src, dst)]
    from_first, from_second = _undirected(adjacency, *ends), _undirected(adjacency, *ends[::-1])
    half, odd = np.divmod(from_first + from_second, 2)
    labels = 1 + np.minimum(from_first, from_second) + half * (half + odd - 1)
    labels[(from_first < 0) | (from_second < 0)] = 0
    labels[ends] = 1
    return g.as_tensor(labels)


def _undirected(adjacency: Adjacency, root: int, barred: int) -> np.ndarray:
    """Return the distances from ``root``, -1 for none, walking edges both ways but not into ``barred``."""
    src, dst = adjacency.endpoints()
    open_edges = ((src != barred) & (dst != barred)) if root != barred else np.ones(len(src), bool)
    ends = src[open_edges], dst[open_edges]
    both = np.concatenate(ends), np.concatenate(ends[::-1])
    relation = Adjacency.from_coo(adjacency.num_src, adjacency.num_src, *both, validate=False)
    return _shortest(relation, np.array([root]))[0][0]
