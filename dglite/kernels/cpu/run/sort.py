"""A merge sort for compiled functions."""

from __future__ import annotations

import numpy as np

from ..compile.written import Kernel

_RUN = 16
"""Numbers that are sorted by insertion, before runs are merged."""


@Kernel
def merge_sort(values: np.ndarray, spare: np.ndarray, keys: np.ndarray | None, descending: int) -> None:
    """Sort integers by themselves, or stably by their ``keys``, none of which is NaN; ``spare`` is as long."""
    count = len(values)
    for begin in range(0, count, _RUN):
        for i in range(begin + 1, min(begin + _RUN, count)):
            value, at = values[i], i
            while at > begin and _comes_before(keys, value, values[at - 1], descending):
                values[at] = values[at - 1]
                at -= 1
            values[at] = value
    width = _RUN
    while width < count:
        for begin in range(0, count, 2 * width):
            _merge(values, spare, begin, min(begin + width, count), min(begin + 2 * width, count), keys, descending)
        width *= 2


@Kernel
def _merge(
    values: np.ndarray, spare: np.ndarray, begin: int, middle: int, end: int, keys: np.ndarray | None, descending: int
) -> None:
    """Merge two sorted runs that lie side by side; the first is moved out of the way."""
    if middle == end or not _comes_before(keys, values[middle], values[middle - 1], descending):
        return
    for i in range(begin, middle):
        spare[i] = values[i]
    left, right, at = begin, middle, begin
    while left < middle and right < end:  # without a branch for the smaller one, which could not be predicted
        early, late = spare[left], values[right]
        is_late = _comes_before(keys, late, early, descending)
        values[at] = late if is_late else early
        left, right, at = left + 1 - is_late, right + is_late, at + 1
    while left < middle:
        values[at] = spare[left]
        left, at = left + 1, at + 1


@Kernel
def _comes_before(keys: np.ndarray | None, a: int, b: int, descending: int) -> bool:
    if keys is None:
        return b < a if descending else a < b
    return keys[b] < keys[a] if descending else keys[a] < keys[b]
