"""Kernels of steps, and the loop that runs a sequence of them without returning to Python."""

from __future__ import annotations

from functools import lru_cache

from ...render.rows import StepSpec, step_source
from ..compile.cached import cfunc
from ..compile.jit import block_lanes, compile_kernel
from ..lanes.simd import word
from ..run.launch import call_kernel, launch, num_threads

__all__ = ["run_steps", "step_kernel", "step_of"]

_steps: dict[int, StepSpec] = {}


@lru_cache(maxsize=4096)
def step_kernel(spec: StepSpec) -> int:
    """Return the address of a step's kernel. Its vectors are a quarter of a sum's accumulators.

    A formula has many values in registers at a time, where a sum has little beside its accumulators.
    """
    address = compile_kernel("step", step_source(spec, block_lanes(spec.dtype) // 4))
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


def run_steps(words: int, starts: int, first: int, last: int, work: int, threads: int) -> None:
    """Run the steps from ``first`` to before ``last``, of ``work`` values; each has words from its start on.

    Both lie at addresses. There are no barriers, so steps must read and write as :mod:`...render.rows` says.
    """
    used = num_threads(work, threads)
    launch(_sequence.address, (words, starts, first, last), used, used)
