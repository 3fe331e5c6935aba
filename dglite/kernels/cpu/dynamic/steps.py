"""Kernels of steps, and the loop that runs a sequence of them without returning to Python."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ....expr import Expr
from ...render.rows import (
    StepSpec,
    step_source,
)
from ..compile.cached import cfunc
from ..compile.jit import (
    block_lanes,
    compile_kernel,
)
from ..lanes.simd import word
from ..run.launch import (
    call_kernel,
    launch,
    num_tasks,
    num_threads,
)

__all__ = ["run_steps", "run_steps_by_rows", "step_kernel", "step_of"]

_steps: dict[int, StepSpec] = {}


@lru_cache(maxsize=4096)
def step_kernel(formulas: tuple[Expr, ...], spread: tuple[bool, ...], add: bool, total: bool, dtype: str) -> int:
    """Return the address of the kernel that computes ``formulas``. Its vectors are a quarter of a sum's accumulators.

    A formula has many values in registers at a time, where a sum has little beside its accumulators.
    """
    spec = StepSpec(formulas, spread, add, total, dtype, block_lanes(dtype) // 4)
    address = compile_kernel("step", step_source(spec))
    _steps[address] = spec
    return address


def step_of(address: int) -> StepSpec:
    """Return what the kernel at an address computes."""
    return _steps[address]


@cfunc("void(int64, int64, int64)")
def _sequence(args, task, num_tasks):  # type: ignore[no-untyped-def]
    """Run one task of every step. Words of ``args``: address of the steps' words, their starts, first and last step."""
    if task < 0:
        return
    words, starts = word(args, 0), word(args, 1)
    for step in range(word(args, 2), word(args, 3)):
        step_args = words + 8 * word(starts, step)
        call_kernel(word(step_args, 0), step_args, task, num_tasks)


@cfunc("void(int64, int64, int64)")
def _by_rows(args, task, num_tasks):  # type: ignore[no-untyped-def]
    """Run one task of one step, on some of its rows. Word of ``args``: address of the step's words."""
    if task < 0:
        return
    call_kernel(word(word(args, 0), 0), word(args, 0), task, -num_tasks)


def run_steps(words: int, starts: int, first: int, last: int, work: int, threads: int) -> None:
    """Run the steps from ``first`` to before ``last``, of ``work`` values; each has words from its start on.

    Both lie at addresses. There are no barriers, so steps must read and write as :mod:`...render.rows` says.
    """
    used = num_threads(work, threads)
    launch(_sequence.address, (words, starts, first, last), used, used)


def run_steps_by_rows(words: np.ndarray, starts: np.ndarray, first: int, last: int, threads: int) -> None:
    """Run steps whose results are different rows each, one after the other, with a barrier after each."""
    address = words.ctypes.data
    for start in starts[first:last].tolist():
        work = int(words[start + 1] * words[start + 2])
        used = num_threads(work, threads)
        launch(_by_rows.address, (address + 8 * start,), num_tasks(used, work), used)
