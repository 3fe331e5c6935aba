"""Functions of a module that the translator compiles."""

from __future__ import annotations

import numpy as np

from dglite.kernels.cpu.compile.written import Kernel
from dglite.kernels.cpu.lanes.atomic import put_word
from dglite.kernels.cpu.lanes.simd import word
from dglite.kernels.cpu.run.launch import launch_at

OFFSET = 3


@Kernel
def _twice(number: int) -> int:
    """Return twice a number."""
    return 2 * number


@Kernel
def twice_and_more(args: int, task: int, num_tasks: int) -> None:
    """Write twice the first word, and more, to the second."""
    put_word(args, 1, _twice(word(args, 0)) + OFFSET)


def test_it_runs_at_its_address():
    words = np.array([20, 0])
    launch_at(twice_and_more.address, words.ctypes.data)
    assert words[1] == 43


def test_python_calls_it():
    words = np.array([20, 0])
    twice_and_more(words.ctypes.data, 0, 1)
    assert words[1] == 43 and _twice(4) == 8
