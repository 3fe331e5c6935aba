"""Compiled kernels of rows, and the loop that runs a sequence of steps without returning to Python.

Formulas, sums and steps: see :mod:`...render.rows`; products of some rows with a matrix: :mod:`...render.matrix`;
softmax and losses: :mod:`...render.rowwise`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ....expr import Expr
from ...render.matrix import matrix_source, run_source
from ...render.rows import RowAccess, StepSpec, cell_source, reduce_source, step_source
from ...render.rowwise import rowwise_source
from ..compile.jit import block_lanes, compile_kernel
from ..compile.written import Kernel
from ..lanes.atomic import call_at
from ..lanes.simd import loader, storer, word
from ..run.launch import launch, num_threads


# -- formulas and sums -------------------------------------------------------------------------------------------------
# A formula has many values in registers at a time, where a sum has little beside its accumulators: so its vectors are
# a quarter of what these take.
@lru_cache(maxsize=4096)
def formula_kernel(formulas: tuple[Expr, ...], rows: tuple[RowAccess, ...], dtype: str, width: int) -> int:
    """Return the address of the kernel that computes ``formulas`` over rows of ``width`` values."""
    return compile_kernel("cell", cell_source(formulas, rows, dtype, width, block_lanes(dtype) // 4))


@lru_cache(maxsize=4096)
def reduce_kernel(rows: RowAccess, dtype: str, width: int, reducer: str = "sum") -> int:
    """Return the address of the kernel that takes the ``"sum"``, ``"max"`` or ``"min"`` of rows of ``width`` values."""
    return compile_kernel("reductions", reduce_source(rows, dtype, width, block_lanes(dtype), reducer))


_steps: dict[int, StepSpec] = {}


@lru_cache(maxsize=4096)
def step_kernel(spec: StepSpec) -> int:
    """Return the address of a step's kernel."""
    address = compile_kernel("step", step_source(spec, block_lanes(spec.dtype) // 4))
    _steps[address] = spec
    return address


def step_of(address: int) -> StepSpec:
    """Return what the kernel at an address computes."""
    return _steps[address]


@Kernel
def _sequence(args: int, task: int, num_tasks: int) -> None:
    """Run one task of every step. Words of ``args``: address of the steps' words, their starts, first and last step."""
    if task < 0:
        return
    words, starts = word(args, 0), word(args, 1)
    for step in range(word(args, 2), word(args, 3)):
        step_args = words + 8 * word(starts, step)
        call_at(word(step_args, 0), step_args, task, num_tasks)


def run_steps(words: int, starts: int, first: int, last: int, work: int, threads: int) -> None:
    """Run the steps from ``first`` to before ``last``, of ``work`` values; each has words from its start on.

    Both lie at addresses. There are no barriers, so steps must read and write as :mod:`...render.rows` says.
    """
    used = num_threads(work, threads)
    launch(_sequence.address, (words, starts, first, last), used, used)


# -- products with a matrix --------------------------------------------------------------------------------------------
MOST_ROWS = {"sums": 24, "dots": 48, "outer": 24}
"""From more rows on a GEMM is faster."""
_PAIRS = {name: np.array([[0.0, 1.0], [1.0, 1.0]], name) for name in ("float32", "float64")}
SET = {name: pairs.ctypes.data for name, pairs in _PAIRS.items()}
ADD = {name: SET[name] + pairs.strides[0] for name, pairs in _PAIRS.items()}
"""Addresses of what is kept of a gradient, and of the scale of what is added."""


@lru_cache(maxsize=256)
def matrix_kernel(form: str, dtype: str) -> int:
    """Return the address of the kernel of a form of product."""
    return compile_kernel("matrix", matrix_source(form, dtype, block_lanes(dtype) // 8))


@lru_cache(maxsize=64)
def run_kernel(form: str, dtype: str) -> int:
    """Return the address of the kernel of ``dots`` or ``sums`` for a run of rows."""
    return compile_kernel("matrix", run_source(form, dtype, block_lanes(dtype) // 8))


# -- softmax and losses ------------------------------------------------------------------------------------------------
@lru_cache(maxsize=64)
def rowwise_kernel(form: str, gradient: bool, dtype: str) -> int:
    """Return the address of the kernel of a softmax or a loss of a form, or of its gradient."""
    return compile_kernel("rowwise", rowwise_source(form, gradient, dtype, block_lanes(dtype) // 8))


_load4, _store4 = loader("float32", 1), storer("float32", 1)
_load8, _store8 = loader("float64", 1), storer("float64", 1)


@Kernel
def _clear(args: int, task: int, num_tasks: int) -> None:
    """Set memory to 0. Words: 1 address, 2 bytes, a multiple of 8."""
    if task < 0:
        return
    address, count = word(args, 1), word(args, 2) // 8
    for i in range(count * task // num_tasks, count * (task + 1) // num_tasks):
        _store8(address + 8 * i, 0.0)


@Kernel
def _totals(args: int, task: int, num_tasks: int) -> None:
    """Sum up losses, and start their gradients. Words: 1 address of the sum, float64, to which it is added, 2 number of
    losses, 3 bytes of one, 4 and 5 addresses of lists: of the losses, and of their gradients, to which 1 is added."""
    if task < 0:
        return
    total, single = _load8(word(args, 1)), word(args, 3) == 4
    for i in range(word(args, 2)):
        value, grad = word(word(args, 4), i), word(word(args, 5), i)
        if single:
            total += _load4(value)
            _store4(grad, _load4(grad) + 1.0)
        else:
            total += _load8(value)
            _store8(grad, _load8(grad) + 1.0)
    _store8(word(args, 1), total)


CLEAR, TOTALS = _clear.address, _totals.address
