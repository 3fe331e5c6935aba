"""A bias and the activation after it, and their gradients, in one pass over the rows. See :mod:`...render.biased`."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ....expr import Expr
from ...render.biased import RUN, BiasedWords, biased_source
from ...spec import ITEM_BYTES
from ..compile.jit import block_lanes, compile_kernel
from ..run.launch import launch, tasks_for
from ..run.parts import num_parts


@lru_cache(maxsize=256)
def _address(formula: Expr, summed: bool, scaled: bool, dtype: str) -> int:
    return compile_kernel("bias", biased_source(formula, summed, scaled, dtype, block_lanes(dtype) // 8))


def over_rows(
    dtype: str,
    formula: Expr,
    shape: tuple[int, int],
    rows: tuple[int, int],
    shared: int,
    out: int,
    threads: int,
    factor: int = 0,
) -> None:
    """Write ``formula`` of operands 0 and 1, both (rows, width), and 2, (width,), to ``out``, (rows, width).

    It is multiplied by ``factor``, (rows,), unless that is 0. A ``formula`` that is an operand is written only then.
    """
    _run(dtype, formula, shape, (*rows, shared, out), False, factor, threads)


def sums_over_rows(
    dtype: str,
    formula: Expr,
    shape: tuple[int, int],
    rows: tuple[int, int],
    shared: int,
    out: int,
    threads: int,
    factor: int = 0,
) -> np.ndarray:
    """Do it, and return the sums of the columns of ``formula``, without the factor, (width,)."""
    return _run(dtype, formula, shape, (*rows, shared, out), True, factor, threads)[0].copy()


def _run(
    dtype: str,
    formula: Expr,
    shape: tuple[int, int],
    addresses: tuple[int, int, int, int],
    summed: bool,
    factor: int,
    threads: int,
) -> np.ndarray:
    (rows, width), item = shape, ITEM_BYTES[dtype]
    tasks, threads = tasks_for(rows * width, threads)
    parts = num_parts(rows * width, rows, RUN) if summed else tasks
    sums = np.empty((2 * parts if summed else 0, width), dtype)
    words = BiasedWords(rows, width * item, *addresses, sums.ctypes.data, factor, parts)
    launch(_address(formula, summed, factor != 0, dtype), words, tasks, threads)
    return sums
