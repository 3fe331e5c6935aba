"""Belady's rule: which rows a cache keeps when all requests are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Reads(NamedTuple):
    """One request of a plan: its rows, ascending, and for each the slot of the cache.

    ``before`` is where a row is found, -1 if it is read from the store; ``after`` where it is kept for a later request,
    or -1.
    """

    rows: np.ndarray
    before: np.ndarray
    after: np.ndarray


def kept_rows(requests: Sequence[np.ndarray], capacity: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows a cache keeps from a request to the next one that needs them, by Belady's rule.

    A row goes into the cache only if it will be found there. Between two requests at most ``capacity`` rows are kept;
    where more would be, those go whose next request is the furthest. No choice leaves fewer rows to read.

    Parameters
    ----------
    requests
        distinct rows of each request.

    Returns
    -------
    tuple
        for each row of each request, one after the other: the position of the same row in a later request, or -1; and
        whether it was kept until this request.
    """
    sizes = [len(rows) for rows in requests]
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    every = np.concatenate([*requests, np.empty(0, np.int64)])
    order = np.argsort(every, kind="stable")
    again = every[order[1:]] == every[order[:-1]]
    following = np.full(len(every), -1, np.int64)
    following[order[:-1][again]] = order[1:][again]
    stays, waiting, occupied = np.zeros(len(every), np.bool_), np.zeros(len(sizes), np.int64), 0
    furthest = 0
    for number in range(len(sizes)):
        occupied -= int(waiting[number])
        later = following[offsets[number] : offsets[number + 1]]
        later = later[later >= 0]
        stays[later] = True
        targets = np.searchsorted(offsets, later, "right") - 1
        waiting += np.bincount(targets, minlength=len(sizes))
        occupied += len(later)
        furthest = max(furthest, int(targets.max(initial=0)))
        while occupied > capacity:
            while not waiting[furthest]:
                furthest -= 1
            entries = offsets[furthest] + np.flatnonzero(stays[offsets[furthest] : offsets[furthest + 1]])
            evicted = entries[-min(occupied - capacity, len(entries)) :]
            stays[evicted] = False
            waiting[furthest] -= len(evicted)
            occupied -= len(evicted)
    return following, stays


def planned_reads(requests: Sequence[np.ndarray], capacity: int) -> tuple[list[Reads], int]:
    """Return the reads of each request, with slots of the cache, and the number of slots; see :func:`kept_rows`."""
    following, stays = kept_rows(requests, capacity)
    slots = np.full(len(stays), -1, np.int32)
    free, num_slots, first, reads = np.empty(0, np.int32), 0, 0, []
    for rows in requests:
        part = slice(first, first + len(rows))
        first += len(rows)
        before, later = slots[part], following[part]
        staying = np.flatnonzero((later >= 0) & stays[later])
        free = np.concatenate([free, before[before >= 0]])
        more = max(len(staying) - len(free), 0)
        free = np.concatenate([free, np.arange(num_slots, num_slots + more, dtype=np.int32)])
        num_slots += more
        after = np.full(len(rows), -1, np.int32)
        after[staying], free = free[: len(staying)], free[len(staying) :]
        slots[later[staying]] = after[staying]
        reads.append(Reads(rows, before, after))
    return reads, num_slots
