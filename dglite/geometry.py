"""Farthest point sampling and node matching, for pooling point clouds and coarsening graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arguments import explained
from .backend import Tensor, active, admitted
from .errors import DGLError
from .graph import DGLGraph
from .kernels import compiled
from .random import generator
from .structure.distinct import numbered

__all__ = ["farthest_point_sampler", "neighbor_matching"]


@explained
def farthest_point_sampler(pos: Tensor, npoints: int, start_idx: int | None = None) -> Tensor:
    """Choose points one by one, each the farthest from those chosen before.

    Raises DGLError: ``pos`` has other axes, a set has fewer points, or ``start_idx`` is not one of them.

    Parameters
    ----------
    pos
        sets of points, (batch_size, num_points, dimensions), floating.
    npoints
        how many points of each set to choose.
    start_idx
        the first point of each set; drawn, for each set, unless given.

    Returns
    -------
    Tensor
        Numbers of points (batch_size, npoints), int64, in the order of choice. Of points as far the first is chosen.
    """
    pos = admitted(pos, "pos")
    shape = tuple(active.shape(pos)) if active.is_tensor(pos) else np.shape(pos)
    if len(shape) != 3:
        raise DGLError(f"farthest_point_sampler: pos has shape {shape}; expected (batch_size, num_points, dimensions)")
    batch_size, num_points, _ = shape
    if not 0 <= npoints <= num_points:
        raise DGLError(
            f"farthest_point_sampler: npoints={npoints}; expected a number from 0 to the {num_points} points"
        )
    if start_idx is not None and not 0 <= start_idx < num_points:
        raise DGLError(f"farthest_point_sampler: start_idx={start_idx}; expected a number from 0 to {num_points - 1}")
    points = active.to_numpy(active.detach(pos)) if active.is_tensor(pos) else np.asarray(pos)
    points = np.ascontiguousarray(points, np.float64 if points.dtype == np.float64 else np.float32)
    samples = np.zeros((batch_size, npoints), np.int64)
    if npoints and batch_size:
        samples[:, 0] = generator().integers(num_points, size=batch_size) if start_idx is None else start_idx
        if not points.size:  # all are in one place
            points = np.zeros((*shape[:2], 1))
        nearest, dimensions = np.empty(num_points, points.dtype), points.shape[2]
        select = compiled("graph.geometry").farthest_points
        select(points.reshape(-1), samples.reshape(-1), batch_size, dimensions, nearest)
    return active.from_numpy(samples, active.device(pos) if active.is_tensor(pos) else None)


@explained
def neighbor_matching(graph: DGLGraph, e_weights: Tensor | None = None, relabel_idx: bool = True) -> Tensor:
    """Match every node with at most one neighbour, in random order, as a step of coarsening a graph.

    Each node that is not matched yet is matched with a neighbour that is not either, at the end of an out-edge: any of
    them, or the one whose edge is heaviest (Dhillon et al., "Weighted graph cuts without eigenvectors", 2007).
    Self-loops are left out. Give an undirected graph as edges in both directions.

    Raises DGLError: the graph has several types, or there is not one weight for each edge.

    Parameters
    ----------
    graph
        A homogeneous graph.
    e_weights
        Weights of edges, (num_edges,) or (num_edges, 1).
    relabel_idx
        Whether clusters are numbered from 0; else a cluster has the lowest number of its nodes.

    Returns
    -------
    Tensor
        The cluster of each node, (num_nodes,).
    """
    if not graph.is_homogeneous:
        raise DGLError(f"neighbor_matching needs a homogeneous graph; got the edge types {graph.canonical_etypes}")
    adjacency = graph.adjacency()
    csr = adjacency.csr()
    weights = np.zeros(0)
    if e_weights is not None:
        weights = _numbers(e_weights)
        if weights.size != adjacency.num_edges:
            raise DGLError(f"neighbor_matching: got {weights.size} weights for {adjacency.num_edges} edges")
        weights = weights.astype(np.float64) if csr.edge_ids is None else weights[csr.edge_ids].astype(np.float64)
    order = generator().permutation(adjacency.num_src)
    draws = generator().random(adjacency.num_src)
    labels = np.full(len(order), -1)
    compiled("graph.geometry").match(csr.indptr, csr.indices, weights, order, draws, labels)
    if relabel_idx:
        return active.from_numpy(numbered(labels)[1].astype(np.int64), graph.device)
    return graph.ids_tensor(labels)


def _numbers(weights: Any) -> np.ndarray:
    weights = admitted(weights, "e_weights")
    array = active.to_numpy(active.detach(weights)) if active.is_tensor(weights) else np.asarray(weights)
    return array.reshape(-1)
