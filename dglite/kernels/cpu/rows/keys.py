"""A hash table of the ids of nodes: texts of any bytes, or int64 numbers, to the row of each."""

from __future__ import annotations

import numpy as np

from ..compile.written import Kernel

_PRIME = 1099511628211
"""The prime of FNV hashes of 64 bits; products wrap around."""


@Kernel
def insert_numbers(ids: np.ndarray, slots: np.ndarray, twice: np.ndarray) -> None:
    """Enter the rows of all int64 ids into ``slots``: see :func:`insert_keys`."""
    mask = len(slots) - 1
    for row in range(len(ids)):
        slot = _mix(ids[row]) & mask
        while slots[slot] >= 0:
            if ids[slots[slot]] == ids[row]:
                twice[0], twice[1] = slots[slot], row
                return
            slot = (slot + 1) & mask
        slots[slot] = row


@Kernel
def find_numbers(
    ids: np.ndarray, slots: np.ndarray, sought: np.ndarray, rows: np.ndarray, first: int, last: int
) -> None:
    """Write the row of each id ``first`` to ``last`` of ``sought``, or -1 for an id that is not in the table."""
    mask = len(slots) - 1
    for i in range(first, last):
        slot = _mix(sought[i]) & mask
        row = -1
        while slots[slot] >= 0:
            if ids[slots[slot]] == sought[i]:
                row = slots[slot]
                break
            slot = (slot + 1) & mask
        rows[i] = row


@Kernel
def _mix(number: int) -> int:
    value = number * _PRIME
    return value + (value >> 31) + (value >> 47)


@Kernel
def insert_keys(text: np.ndarray, offsets: np.ndarray, slots: np.ndarray, twice: np.ndarray) -> None:
    """Enter the rows of all texts into ``slots``, -1 everywhere before; their number is a power of two, over the rows'.

    ``text`` is uint8, and row i is ``text[offsets[i]:offsets[i + 1]]``. ``twice`` receives the first two rows of equal
    texts; it is left as it is if there are none.
    """
    mask = len(slots) - 1
    for row in range(len(offsets) - 1):
        slot = _hash(text, offsets[row], offsets[row + 1]) & mask
        while slots[slot] >= 0:
            other = slots[slot]
            if _equal(text, offsets[other], offsets[other + 1], text, offsets[row], offsets[row + 1]):
                twice[0], twice[1] = other, row
                return
            slot = (slot + 1) & mask
        slots[slot] = row


@Kernel
def find_keys(
    text: np.ndarray,
    offsets: np.ndarray,
    slots: np.ndarray,
    sought: np.ndarray,
    sought_offsets: np.ndarray,
    rows: np.ndarray,
    first: int,
    last: int,
) -> None:
    """Write the row of each text ``first`` to ``last`` of ``sought``, or -1 for a text that is not in the table."""
    mask = len(slots) - 1
    for i in range(first, last):
        begin, end = sought_offsets[i], sought_offsets[i + 1]
        slot = _hash(sought, begin, end) & mask
        row = -1
        while slots[slot] >= 0:
            other = slots[slot]
            if _equal(text, offsets[other], offsets[other + 1], sought, begin, end):
                row = other
                break
            slot = (slot + 1) & mask
        rows[i] = row


@Kernel
def _hash(text: np.ndarray, begin: int, end: int) -> int:
    value = 1469598103934665603
    for i in range(begin, end):
        value = (value + text[i]) * _PRIME
    return value + (value >> 29) + (value >> 47)


@Kernel
def _equal(text: np.ndarray, begin: int, end: int, other: np.ndarray, other_begin: int, other_end: int) -> bool:
    if end - begin != other_end - other_begin:
        return False
    for i in range(end - begin):  # noqa: SIM110 - kernels have no all()
        if text[begin + i] != other[other_begin + i]:
            return False
    return True
