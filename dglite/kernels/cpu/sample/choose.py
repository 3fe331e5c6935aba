"""Choose positions in one row: uniformly, by weight, or the largest.

Without replacement all subsets of a size are equally likely: by Floyd's method (Bentley and Floyd 1987), or for short
rows by the first steps of a shuffle.

Weighted choices without replacement give every position an exponential clock whose rate is its weight and take the
first to ring (Efraimidis and Spirakis 2006): the same as drawing one by one in proportion to the weights left. Weights
of 0 are never chosen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compile.written import Kernel
from ..run.sort import merge_sort
from .counter import below, draw, unit

_SCAN = 24
"""Maximum number of positions that are compared one by one, which is cheaper than a hash set."""
_INSERTION = 64
"""Up to this count the greatest are kept in order as they come; above, the row is sorted."""


# -- uniform -----------------------------------------------------------------------------------------------------------
@Kernel
def set_size(count: int) -> int:
    size = 4
    while size < 2 * count:
        size *= 2
    return size


@Kernel
def choose_uniform(degree: int, count: int, replace: int, random: Any, scratch: np.ndarray, used: np.ndarray) -> None:
    """Write ``count`` positions below ``degree`` to ``scratch``, which holds 4 times as many."""
    if replace:
        for j in range(count):
            scratch[j] = below(draw(random, j), degree)
    elif degree <= 4 * count:
        for j in range(degree):
            scratch[j] = j
        for j in range(count):
            other = j + below(draw(random, j), degree - j)
            scratch[j], scratch[other] = scratch[other], scratch[j]
    elif count <= _SCAN:
        for j in range(count):
            limit = degree - count + j
            position = below(draw(random, j), limit + 1)
            for k in range(j):
                if scratch[k] == position:
                    position = limit
                    break
            scratch[j] = position
    else:
        _floyd(degree, count, random, scratch, used)


@Kernel
def _floyd(degree: int, count: int, random: Any, scratch: np.ndarray, used: np.ndarray) -> None:
    """Floyd's method with a hash set of what is taken."""
    mask = len(used) - 1
    for slot in range(len(used)):
        used[slot] = -1
    for j in range(count):
        limit = degree - count + j
        position = below(draw(random, j), limit + 1)
        slot = position & mask
        while used[slot] != -1 and used[slot] != position:
            slot = (slot + 1) & mask
        if used[slot] == position:
            position = limit
            slot = position & mask
            while used[slot] != -1:
                slot = (slot + 1) & mask
        used[slot] = position
        scratch[j] = position


@Kernel
def is_new(position: int, count: int, positions: np.ndarray, used: np.ndarray) -> bool:
    """Whether a position is not among the first ``count``; then it enters the set ``used``, which holds them.

    A set for few is not kept: they are compared.
    """
    if len(used) <= 2 * _SCAN:
        new = True
        for k in range(count):
            new = new and positions[k] != position
        return new
    mask = len(used) - 1
    slot = position & mask
    while used[slot] != -1 and used[slot] != position:
        slot = (slot + 1) & mask
    if used[slot] == position:
        return False
    used[slot] = position
    return True


# -- by weight ---------------------------------------------------------------------------------------------------------
@Kernel
def choose_weighted(
    weights: np.ndarray, degree: int, count: int, replace: int, random: Any, keys: np.ndarray, positions: np.ndarray
) -> int:
    """Write up to ``count`` positions chosen by ``weights[:degree]`` to ``positions``; return how many.

    ``keys`` and ``positions`` have room for ``min(count, degree)`` numbers, with replacement ``max(count, degree)``;
    a negative count takes every positive weight.
    """
    if count < 0:
        size = 0
        for j in range(degree):
            if weights[j] > 0:
                positions[size] = j
                size += 1
        return size
    if count == 0:
        return 0
    if replace:
        return _weighted_again(weights, degree, count, random, keys, positions)
    return _first_to_ring(weights, degree, count, random, keys, positions)


@Kernel
def _weighted_again(
    weights: np.ndarray, degree: int, count: int, random: Any, sums: np.ndarray, positions: np.ndarray
) -> int:
    """Draw with replacement, by binary search in the running sums."""
    total, final = 0.0, -1
    for j in range(degree):
        total += weights[j]
        sums[j] = total
        if weights[j] > 0:
            final = j
    if final < 0:
        return 0
    for j in range(count):
        target = unit(draw(random, j)) * total
        low, high = 0, final
        while low < high:
            middle = (low + high) >> 1
            if sums[middle] > target:
                high = middle
            else:
                low = middle + 1
        positions[j] = low
    return count


@Kernel
def _first_to_ring(
    weights: np.ndarray, degree: int, count: int, random: Any, keys: np.ndarray, positions: np.ndarray
) -> int:
    """Keep the ``count`` earliest of the exponential clocks in a heap whose root is the latest of them."""
    size = 0
    for j in range(degree):
        weight = weights[j]
        if not weight > 0:
            continue
        uniform = unit(draw(random, j))
        # -log(u) >= 1 - u: most clocks are seen to ring too late without a logarithm.
        if size == count and 1 - uniform >= keys[0] * weight:
            continue
        ring = -np.log(uniform) / weight
        if size < count:
            at = size
            size += 1
            while at > 0 and keys[(at - 1) >> 1] < ring:
                keys[at], positions[at] = keys[(at - 1) >> 1], positions[(at - 1) >> 1]
                at = (at - 1) >> 1
        elif ring < keys[0]:
            at = 0
            while True:
                child = 2 * at + 1
                if child + 1 < count and keys[child + 1] > keys[child]:
                    child += 1
                if child >= count or keys[child] <= ring:
                    break
                keys[at], positions[at] = keys[child], positions[child]
                at = child
        else:
            continue
        keys[at], positions[at] = ring, j
    return size


# -- the greatest ------------------------------------------------------------------------------------------------------
@Kernel
def choose_ranked(row: np.ndarray, count: int, ascending: int, order: np.ndarray, spare: np.ndarray) -> None:
    """Write the positions of the first ``count`` numbers in order to ``order``, which, like ``spare``, is as long as
    ``row``."""
    if count > _INSERTION:
        for j in range(len(row)):
            order[j] = j
        merge_sort(order, spare, row, not ascending)
        return
    size = 0
    for j in range(len(row)):
        if size == count and (count == 0 or not _before(row[j], row[order[count - 1]], ascending)):
            continue
        at = size if size < count else count - 1
        size = min(size + 1, count)
        while at > 0 and _before(row[j], row[order[at - 1]], ascending):
            order[at] = order[at - 1]
            at -= 1
        order[at] = j


@Kernel
def _before(a: Any, b: Any, ascending: int) -> bool:
    return a < b if ascending else a > b
