"""The first rows of each segment by a key, column by column."""

from __future__ import annotations

import numpy as np

from ..compile.written import Kernel


@Kernel
def first_rows(
    keys: np.ndarray, offsets: np.ndarray, k: int, width: int, numbers: np.ndarray, first: int, last: int
) -> None:
    """Write for segments ``first`` to ``last`` the numbers, inside the segment, of its ``k`` smallest keys, ascending.

    ``keys`` has (num_rows * width) numbers, ``numbers`` (num_segments * k * width); ranks that a segment does not reach
    are left as they are. Of equal keys the lower number is first, and NaN is last.
    """
    for segment in range(first, last):
        begin, end = offsets[segment], offsets[segment + 1]
        for column in range(width):
            start, count = segment * k * width + column, 0
            for number in range(end - begin):
                key = keys[(begin + number) * width + column]
                place = count
                while (
                    place > 0
                    and key == key  # NaN is not
                    and not keys[(begin + numbers[start + (place - 1) * width]) * width + column] <= key
                ):
                    place -= 1
                    if place + 1 < k:
                        numbers[start + (place + 1) * width] = numbers[start + place * width]
                if place < k:
                    numbers[start + place * width] = number
                    count = min(count + 1, k)
