"""A cache's bookkeeping: which row lies in which slot, and which slot is given up for a new row.

Slots are in two circular lists, from the oldest to the newest: list 0 for rows that have proven nothing yet (S3-FIFO's
small queue; unused by other policies) and list 1, the main one. A policy is four numbers, see :class:`Slots`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compile.written import Kernel


class Slots(NamedTuple):
    """Arrays of a cache of ``capacity`` rows, and its policy.

    Attributes
    ----------
    slot_of, ghost_of
        for each key its slot, and its place in ``ghosts``, or -1; ``ghost_of`` is empty without list 0.
    key_of
        (capacity,) the key in each slot, or -1.
    older, newer
        (capacity + 2,) neighbours of each slot in its list; the last two entries are the ends of lists 0 and 1.
    list_of, reads
        (capacity,) each slot's list, and how often it was read lately, ``most`` at most.
    ghosts
        keys that left list 0 lately, a ring.
    state
        slots in use, slots in list 0, the next place of ``ghosts``, and the hand: where the search for a slot goes on,
        or -1.
    most, refresh, in_place, small
        the policy: the largest number of reads that is remembered; whether a read makes a row the newest; whether a
        row that is passed over stays where it is, or becomes the newest; how many slots list 0 may have.
    """

    slot_of: np.ndarray
    ghost_of: np.ndarray
    key_of: np.ndarray
    older: np.ndarray
    newer: np.ndarray
    list_of: np.ndarray
    reads: np.ndarray
    ghosts: np.ndarray
    state: np.ndarray
    most: int
    refresh: int
    in_place: int
    small: int


@Kernel
def find_rows(cache: Slots, keys: np.ndarray, slots: np.ndarray) -> int:
    """Write each key's slot, or -1, to ``slots``, as reads; return how many lack."""
    missing = 0
    for i in range(len(keys)):
        slot = -1
        if keys[i] >= 0 and keys[i] < len(cache.slot_of):
            slot = int(cache.slot_of[keys[i]])
        slots[i] = slot
        if slot < 0:
            missing += 1
        else:
            _read(cache, slot)
    return missing


@Kernel
def insert_rows(cache: Slots, keys: np.ndarray, slots: np.ndarray) -> None:
    """Give each key a slot, in the place of another key if there is no room; keys that have one keep it.

    ``slots[i]`` is the slot of ``keys[i]`` after all of them, -1 if its slot was given up again or the key comes again.
    """
    capacity = len(cache.key_of)
    for i in range(len(keys)):
        key = keys[i]
        slot = int(cache.slot_of[key])
        if slot >= 0:
            _read(cache, slot)
        else:
            if cache.state[0] < capacity:
                slot = int(cache.state[0])
                cache.state[0] += 1
            else:
                slot = _give_up(cache)
            cache.key_of[slot], cache.slot_of[key], cache.reads[slot] = key, slot, 0
            number = 1
            if cache.small > 0:
                ghost = int(cache.ghost_of[key])
                number = 0
                if ghost >= 0 and cache.ghosts[ghost] == key:
                    number = 1
            _append(cache, slot, number)
    for place in range(len(keys)):
        i = len(keys) - 1 - place
        slot = int(cache.slot_of[keys[i]])
        slots[i] = slot if slot >= 0 else -1
        if slot >= 0:
            cache.slot_of[keys[i]] = -2 - slot  # for earlier places of the key
    for i in range(len(keys)):
        if slots[i] >= 0:
            cache.slot_of[keys[i]] = slots[i]


@Kernel
def _read(cache: Slots, slot: int) -> None:
    if cache.reads[slot] < cache.most:
        cache.reads[slot] += 1
    if cache.refresh:
        number = int(cache.list_of[slot])
        _remove(cache, slot)
        _append(cache, slot, number)


@Kernel
def _append(cache: Slots, slot: int, number: int) -> None:
    """Make a slot the newest of a list."""
    end = len(cache.key_of) + number
    before = int(cache.older[end])
    cache.older[slot], cache.newer[slot] = before, end
    cache.newer[before], cache.older[end] = slot, slot
    cache.list_of[slot] = number
    if number == 0:
        cache.state[1] += 1


@Kernel
def _remove(cache: Slots, slot: int) -> None:
    before, after = int(cache.older[slot]), int(cache.newer[slot])
    cache.newer[before], cache.older[after] = after, before
    if cache.list_of[slot] == 0:
        cache.state[1] -= 1


@Kernel
def _give_up(cache: Slots) -> int:
    """Return the slot of the row that the policy gives up, which is in no list any more."""
    capacity = len(cache.key_of)
    end = capacity + 1
    slot = -1
    while slot < 0 and (cache.state[1] > cache.small or cache.newer[end] == end):  # only in list 0 is there one
        first = int(cache.newer[capacity])
        _remove(cache, first)
        if cache.reads[first] > 1:
            cache.reads[first] = 0
            _append(cache, first, 1)
        else:
            key, place = cache.key_of[first], int(cache.state[2])
            cache.ghosts[place], cache.ghost_of[key] = key, place
            cache.state[2] = (place + 1) % len(cache.ghosts)
            slot = first
    if slot < 0:
        slot = int(cache.state[3])
        if slot < 0 or cache.in_place == 0:
            slot = int(cache.newer[end])
        while cache.reads[slot] > 0:
            cache.reads[slot] -= 1
            after = int(cache.newer[slot])
            if cache.in_place == 0:
                _remove(cache, slot)
                _append(cache, slot, 1)
                after = int(cache.newer[end])
            slot = int(cache.newer[end]) if after == end else after
        after = int(cache.newer[slot])
        cache.state[3] = -1 if after == end else after
        _remove(cache, slot)
    cache.slot_of[cache.key_of[slot]] = -1
    return slot
