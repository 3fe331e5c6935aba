"""Row kernels of vertex programs against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from dglite.expr import Call, Constant, Operand, Side
from dglite.kernels.cpu.dynamic.kernels import formula_kernel, reduce_kernel
from dglite.kernels.cpu.run.launch import launch
from dglite.kernels.render.rows import RowAccess
from dglite.opspec import OPERATORS

A, B, C = (Operand(Side.E, slot) for slot in range(3))


def run(kernel: int, words: list[int], first: int, last: int, threads: int = 1) -> None:
    """Run one kernel on a run of rows."""
    launch(kernel, [first, last, *words], threads, threads)


def rows_of(x: np.ndarray, index: np.ndarray | None = None, step: int = 0) -> list[int]:
    """Return the words of an operand."""
    return [x.ctypes.data, x.strides[0], 0 if index is None else index.ctypes.data, step]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("dtype", "width"), [("float32", 16), ("float64", 37), ("float32", 1)])
def test_formulas_over_the_same_other_and_shared_rows(dtype: str, width: int, threads: int) -> None:
    generator = np.random.default_rng(0)
    a, b = (generator.random((n, width + 3)).astype(dtype)[:, :width] for n in (9, 5))
    c, index = generator.random((1, width)).astype(dtype), generator.integers(0, 5, 18)
    out, other = np.zeros((2, 9, width), dtype)
    shared = A * B + C
    formulas = shared, Call(OPERATORS["tanh"], (shared,))
    kernel = formula_kernel(formulas, (RowAccess.SAME, RowAccess.INDEXED, RowAccess.SHARED), dtype, width)
    operands = [*rows_of(a), *rows_of(b, index, 2), c.ctypes.data, 0, 0, 0]
    results = [out.ctypes.data, out.strides[0], other.ctypes.data, other.strides[0]]
    run(kernel, [width, *operands, *results], 2, 8, threads)
    expected = np.zeros_like(out)
    expected[2:8] = a[2:8] * b[index[::2][2:8]] + c
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    np.testing.assert_allclose(other, np.tanh(expected), rtol=1e-6, atol=1e-7)


def test_a_result_may_take_the_place_of_an_operand() -> None:
    a, b = np.arange(32, dtype="float32").reshape(2, 16), np.ones((2, 16), "float32")
    a0, b0 = a.copy(), b.copy()
    kernel = formula_kernel((A + B, A - B), (RowAccess.SAME, RowAccess.SAME), "float32", 16)
    run(kernel, [16, *rows_of(a), *rows_of(b), a.ctypes.data, 64, b.ctypes.data, 64], 0, 2)
    np.testing.assert_array_equal(a, a0 + b0)
    np.testing.assert_array_equal(b, a0 - b0)


def test_a_constant_and_a_condition() -> None:
    a, out, zeros = np.linspace(-1, 1, 16, dtype="float32")[None], *np.ones((2, 1, 16), "float32")[:, None, 0]
    positive = Call(OPERATORS["where"], (Call(OPERATORS["gt"], (A, Constant(0.0))), A, Constant(0.25)))
    kernel = formula_kernel((positive, Constant(0.0)), (RowAccess.SAME,), "float32", 16)
    run(kernel, [16, *rows_of(a), out.ctypes.data, 64, zeros.ctypes.data, 64], 0, 1)
    np.testing.assert_array_equal(out, np.where(a > 0, a, np.float32(0.25)))
    assert not zeros.any()


@pytest.mark.parametrize("width", [3, 70])
@pytest.mark.parametrize("rows", [RowAccess.SAME, RowAccess.INDEXED, RowAccess.ADDRESSED])
def test_sums(rows: RowAccess, width: int) -> None:
    generator = np.random.default_rng(0)
    x, bounds = generator.random((6, width)), np.array([0, 2, 2, 5])
    index = generator.integers(0, 6, 5)
    expected = np.zeros((3, width))
    for row in range(3):
        for entry in range(bounds[row], bounds[row + 1]):
            expected[row] += x[entry] if rows is RowAccess.SAME else x[index[entry]]
    if rows is RowAccess.ADDRESSED:
        expected[2] -= x[index[4]]
        index = x.ctypes.data + index * x.strides[0]
        index[4] = 0  # handed on nothing
    out = np.full((3, width), np.nan)
    source = [bounds.ctypes.data, x.ctypes.data, x.strides[0], index.ctypes.data]
    run(reduce_kernel(rows, "float64", width), [width, *source, out.ctypes.data, out.strides[0]], 0, 3)
    np.testing.assert_allclose(out, expected)
