"""Farthest point sampling, and matchings of nodes."""

from __future__ import annotations

import numpy as np

from ..compile.cached import njit

_jit = njit(nogil=True)


@_jit
def farthest_points(points: np.ndarray, samples: np.ndarray) -> None:
    """Fill each row of ``samples`` (sets, wanted), whose first is given, from ``points`` (sets, points, dimensions)."""
    count, dimensions = points.shape[1], points.shape[2]
    nearest = np.empty(count, points.dtype)
    for s in range(points.shape[0]):
        for j in range(count):
            nearest[j] = np.inf
        last = samples[s, 0]
        for i in range(1, samples.shape[1]):
            furthest, farthest = points.dtype.type(-1.0), 0
            for j in range(count):
                distance = points.dtype.type(0.0)
                for d in range(dimensions):
                    apart = points[s, j, d] - points[s, last, d]
                    distance += apart * apart
                if distance < nearest[j]:
                    nearest[j] = distance
                if nearest[j] > furthest:
                    furthest, farthest = nearest[j], j
            samples[s, i] = last = farthest


@_jit
def match(
    indptr: np.ndarray, indices: np.ndarray, weights: np.ndarray, order: np.ndarray, draws: np.ndarray
) -> np.ndarray:
    """Return the lowest node of each node's pair, or itself.

    ``weights`` are by entry. If empty, ``draws`` (nodes,), from 0 to 1, choose among free neighbours.
    """
    labels = np.full(len(order), -1, np.int64)
    for u in order:
        if labels[u] >= 0:
            continue
        other, heaviest, free = u, -np.inf, 0
        for j in range(indptr[u], indptr[u + 1]):
            v = np.int64(indices[j])
            if v != u and labels[v] < 0:
                free += 1
                if len(weights) and weights[j] > heaviest:
                    other, heaviest = v, weights[j]
        if free and not len(weights):
            skip = np.int64(draws[u] * free)
            for j in range(indptr[u], indptr[u + 1]):
                v = np.int64(indices[j])
                if v != u and labels[v] < 0:
                    if skip == 0:
                        other = v
                    skip -= 1
        labels[u] = labels[other] = min(u, other)
    return labels
