"""Kernels of steps against NumPy: rows at distances or listed, added or stored, summed, by several tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dglite.expr import Operand, Side
from dglite.kernels.cpu.dynamic.kernels import run_steps, step_kernel
from dglite.kernels.cpu.run.launch import launch
from dglite.kernels.render.rows import StepSpec

X, Y = Operand(Side.E, 0), Operand(Side.E, 1)
FORMULA = X.call("tanh") * Y + 2.0


def place(array: np.ndarray, listed: bool) -> list[int]:
    """Return the words of an operand; ``listed`` gives its rows one by one, in an array that the caller keeps."""
    rows = np.array([array.ctypes.data + i * array.strides[0] for i in range(len(array))])
    KEPT.append(rows)
    return [0, 0, rows.ctypes.data] if listed else [array.ctypes.data, array.strides[0], 0]


KEPT: list[Any] = []


def run(kernel: int, width: int, result: np.ndarray, operands: list[np.ndarray], listed: bool) -> None:
    words = [kernel, len(result), width]
    for array in (result, *operands):
        words += place(array, listed)
    launch(kernel, words)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("width", [1, 37, 64])
def test_formulas(dtype: str, listed: bool, width: int) -> None:
    generator = np.random.default_rng(0)
    x, y = (generator.standard_normal((5, 70)).astype(dtype)[:, :width] for _ in range(2))
    result = np.ones((5, 70), dtype)[:, :width]
    run(step_kernel(StepSpec((FORMULA,), (False, False), True, False, dtype)), width, result, [x, y], listed)
    np.testing.assert_allclose(result, 1 + np.tanh(x) * y + 2, rtol=1e-5 if dtype == "float32" else 1e-12)
    run(step_kernel(StepSpec((FORMULA,), (False, True), False, False, dtype)), width, result, [x, y], listed)
    np.testing.assert_allclose(result, np.tanh(x) * y[:, :1] + 2, rtol=1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("width", [1, 37, 64])
def test_totals(width: int) -> None:
    generator = np.random.default_rng(0)
    x, y, total = generator.standard_normal((5, width)), generator.standard_normal((5, width)), np.ones((5, 1))
    run(step_kernel(StepSpec((X * Y,), (False, False), True, True, "float64")), width, total, [x, y], False)
    np.testing.assert_allclose(total[:, 0], 1 + (x * y).sum(1))
    run(step_kernel(StepSpec((X * Y,), (False, False), False, True, "float64")), width, total, [x, y], False)
    np.testing.assert_allclose(total[:, 0], (x * y).sum(1))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_sequence_reads_what_it_has_written_and_leaves_out_rows_at_0(threads: int) -> None:
    x = np.random.default_rng(0).standard_normal((4, 100))
    double, square = np.zeros_like(x), np.zeros_like(x)
    rows = np.array([square.ctypes.data + i * square.strides[0] for i in range(4)])
    rows[2] = 0
    plus, times = (step_kernel(StepSpec((f,), (False, False), False, False, "float64")) for f in (X + Y, X * Y))
    words = np.array(
        [
            *(plus, 4, 100, *place(double, False), *place(x, False), *place(x, False)),
            *(times, 4, 100, 0, 0, rows.ctypes.data, *place(double, False), *place(x, False)),
        ]
    )
    starts = np.array([0, len(words) // 2])
    run_steps(words.ctypes.data, starts.ctypes.data, 0, 2, 1 << 20, threads)
    np.testing.assert_array_equal(double, 2 * x)
    np.testing.assert_array_equal(square, np.where(np.arange(4)[:, None] == 2, 0, 2 * x * x))


@pytest.mark.parametrize("width", [5, 100])
def test_several_formulas(width: int) -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 700, width))
    kernel = step_kernel(StepSpec((X * Y, (X * Y).call("tanh")), (False, False), True, False, "float64"))
    product, bounded = np.ones_like(x), np.ones_like(x)
    rows = np.array([bounded.ctypes.data + i * bounded.strides[0] for i in range(len(x))])
    rows[::3] = 0
    words = np.array(
        [kernel, *x.shape, *place(product, False), 0, 0, rows.ctypes.data, *place(x, False), *place(y, True)]
    )
    start = np.zeros(1, np.int64)
    run_steps(words.ctypes.data, start.ctypes.data, 0, 1, 1 << 20, 2)
    np.testing.assert_allclose(product, 1 + x * y)
    present = np.arange(len(x))[:, None] % 3 > 0
    np.testing.assert_allclose(bounded, np.where(present, 1 + np.tanh(x * y), 1))
