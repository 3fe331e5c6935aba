"""Streaming partitioning: nodes are assigned one after the other while the edges are read once, in order.

Linear deterministic greedy (Stanton and Kliot, 2012): a node goes where most of its neighbours are, times the room left
there. Gone through again, each node sees all neighbours (restreaming: Nishimura and Ugander, 2013). One thread.
"""

from __future__ import annotations

import numpy as np

from ..compile.written import Kernel


@Kernel
def assign(
    first: int,
    last: int,
    indptr: np.ndarray,
    indices: np.ndarray,
    weights: np.ndarray,
    types: np.ndarray,
    capacities: np.ndarray,
    parts: np.ndarray,
    loads: np.ndarray,
) -> int:
    """Move the nodes ``first`` to ``last``, in place; return how many changed their part.

    ``loads`` (num_types * num_parts,) holds the sum of the weights of each type's nodes in each part, at most
    ``capacities`` (num_types,). A node without a part yet has part -1.
    """
    num_parts, moved = len(loads) // len(capacities), 0
    near = np.empty(num_parts, np.int64)
    for part in range(num_parts):
        near[part] = 0
    for node in range(first, last):
        current, weight, first_load = parts[node], weights[node], types[node] * num_parts
        if current >= 0:
            loads[first_load + current] -= weight
        for entry in range(indptr[node], indptr[node + 1]):
            other = indices[entry]
            if other != node and parts[other] >= 0:
                near[parts[other]] += 1
        capacity, best, best_score, least = capacities[types[node]], -1, -1.0, 0
        for part in range(num_parts):
            load = loads[first_load + part]
            if load < loads[first_load + least]:
                least = part
            if load + weight <= capacity:
                score = near[part] * (1.0 - load / capacity)
                if score > best_score or (score == best_score and load < loads[first_load + best]):
                    best, best_score = part, score
            near[part] = 0
        if best < 0:
            best = least
        loads[first_load + best] += weight
        parts[node] = best
        if best != current:
            moved += 1
    return moved
