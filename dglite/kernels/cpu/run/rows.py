"""Run a compiled function over a range of rows: on this thread, or split over the process's thread pool.

The function is a ``Kernel`` of arrays, integers and named tuples of these, and, last, the rows ``first`` and ``last``
of its share; it writes results for these rows only. One thread calls it as it is. Several read its arguments from
words, as :mod:`.launch` wants them.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from ..compile.entry import leaves
from ..compile.written import Kernel, plain
from .launch import launch_at, num_calls, num_threads, tasks_for

_COST = 8
"""Elements of a sum that take as long as one of these, a choice or a step to anywhere in memory."""


def run_rows(function: Kernel, num_rows: int, work: int, threads: int, *arguments: Any) -> None:
    """Call ``function(*arguments, first, last)`` for shares that cover all rows; ``work`` is about how many elements.

    Arrays are one-dimensional and contiguous; a share must not depend on what another one writes.
    """
    threads = num_threads(work, threads)
    if threads == 1:
        calls = min(num_calls(_COST * work), max(num_rows, 1))
        for i in range(calls):
            function(*arguments, num_rows * i // calls, num_rows * (i + 1) // calls)
        return
    arguments, words = tuple(map(plain, arguments)), [num_rows, 0]
    for x in leaves(arguments):
        words += [x.ctypes.data, len(x)] if isinstance(x, np.ndarray) else [x]
    packed = array("q", words)
    launch_at(function.task_address(arguments), packed.buffer_info()[0], *tasks_for(_COST * work, threads))
    if packed[1]:
        raise MemoryError
