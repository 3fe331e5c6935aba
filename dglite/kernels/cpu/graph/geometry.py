"""Farthest point sampling, and matchings of nodes."""

from __future__ import annotations

import numpy as np

from ..compile.written import Kernel


@Kernel
def farthest_points(points: np.ndarray, samples: np.ndarray, sets: int, dimensions: int, nearest: np.ndarray) -> None:
    """Fill each row of ``samples`` (sets * length,), whose first is set, by rows of ``points`` (sets * points *
    dimensions,).

    ``nearest`` has room for a number for each point of a set.
    """
    count, length = len(points) // (sets * dimensions), len(samples) // sets
    for s in range(sets):
        for j in range(count):
            nearest[j] = float("inf")
        last = samples[s * length]
        for i in range(1, length):
            furthest, farthest = -1.0, 0
            for j in range(count):
                at, to = (s * count + j) * dimensions, (s * count + last) * dimensions
                distance = (points[at] - points[to]) * (points[at] - points[to])
                for d in range(1, dimensions):
                    apart = points[at + d] - points[to + d]
                    distance += apart * apart
                if distance < nearest[j]:
                    nearest[j] = distance
                if nearest[j] > furthest:
                    furthest, farthest = nearest[j], j
            last = farthest
            samples[s * length + i] = last


@Kernel
def match(
    indptr: np.ndarray,
    indices: np.ndarray,
    weights: np.ndarray,
    order: np.ndarray,
    draws: np.ndarray,
    labels: np.ndarray,
) -> None:
    """Write the lowest node of each node's pair, or the node itself, into ``labels`` (nodes,), which are -1 before.

    ``weights`` are by entry. If empty, ``draws`` (nodes,), from 0 to 1, choose among free neighbours.
    """
    for i in range(len(order)):
        u = order[i]
        if labels[u] >= 0:
            continue
        other, heaviest, free = u, float("-inf"), 0
        for j in range(indptr[u], indptr[u + 1]):
            v = indices[j]
            if v != u and labels[v] < 0:
                free += 1
                if len(weights) > 0 and weights[j] > heaviest:
                    other, heaviest = v, weights[j]
        if free > 0 and len(weights) == 0:
            skip = int(draws[u] * free)
            for j in range(indptr[u], indptr[u + 1]):
                v = indices[j]
                if v != u and labels[v] < 0:
                    if skip == 0:
                        other = v
                    skip -= 1
        lowest = min(u, other)
        labels[u], labels[other] = lowest, lowest
