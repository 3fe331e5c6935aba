"""Where sums are cut: by their sizes alone, so that their last bits do not depend on the number of threads.

Tasks are for balance; there are more of them for more threads. What is added up in several parts, rows of very many
entries and the sums of columns, has the same parts for any number of threads: a task takes whole parts, and their sums
are added in the order of the parts. See docs/decisions/0202-sums-are-cut-by-size-not-by-threads.md.
"""

from __future__ import annotations

from array import array
from functools import lru_cache

FEW_PARTS = 4
"""How many parts a sum of few rows may have, for threads, though parts then cost some percent of it."""
PART, MOST_PARTS = 1 << 14, 64
"""Elements of a part of the sums of columns, some microseconds of work, and how many parts a sum has at most. About 1%
of the time goes into what parts cost besides."""
ROW_PART, ENTRIES = 1 << 15, 256
"""Elements, and entries, of a part of a row at least."""
LARGEST = 1 << 22
"""Elements of a part at most, whatever their number: a call, which ends after a tenth of a second or so for interrupts,
has parts for all threads."""
MOST_BYTES = 1 << 30
"""Bytes of the results of all parts of a reduction at most, where rows are of tens of thousands of elements."""
ROUNDED = 16
"""How many parts a row of a 16-bit dtype has at most: the result of each is rounded to that dtype."""


def num_parts(work: int, rows: int, least: int) -> int:
    """Return into how many parts to cut sums of columns over ``work`` elements.

    A part has ``least`` of the ``rows``, or 128 where there would be less than :data:`FEW_PARTS`.
    """
    most = max(rows // least, min(rows // 128, FEW_PARTS), 1)
    return min(max(min(1 + work // PART, MOST_PARTS), work // LARGEST), most)


@lru_cache(maxsize=1024)
def part_memory(
    tasks: int, num_entries: int, width: int, part_bytes: int, half: bool
) -> tuple[int, array[int], int] | None:
    """Return how many of the ``tasks`` to use, the first words of the carry, see :mod:`.driver`, and its size in words.

    It is None if rows cannot be long enough to be cut: all have ``num_entries`` entries together. ``part_bytes`` are
    the bytes of one part's results; ``half``: they are rounded to 16 bits. Tasks are fewer where each would otherwise
    have less than a part.
    """
    least, largest = (max(size // max(width, 1), ENTRIES) for size in (ROW_PART, LARGEST))
    if num_entries * part_bytes > least * MOST_BYTES:
        least = -(-num_entries * part_bytes // MOST_BYTES)
        largest, tasks = max(largest, least), min(tasks, num_entries // least + 1)
    if num_entries <= least:
        return None
    most, of_task = ROUNDED if half else MOST_PARTS, -(-num_entries // tasks)
    slots = 1 + min(-(-of_task // least), most + 1 + of_task // largest)
    words = array("q", (least, most, largest, slots))
    size = 8 * len(words) + tasks * (8 * 2 + slots * part_bytes)
    return tasks, words, -(-size // 8)
