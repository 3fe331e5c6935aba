"""Products of few rows and their gradients against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from dglite.kernels.cpu.launch import launch
from dglite.kernels.cpu.product import column_sum_kernel, outer_kernel, product_kernel

COUNTS = [0, 1, 2, 3, 7, 8, 9, 17]
"""Below and above what a block has, and what makes threads share rows instead of columns."""
SHAPES = [("float32", 37, 64), ("float64", 6, 32), ("float32", 5, 528)]


def place(x: np.ndarray) -> list[int]:
    """Return address and row stride."""
    return [x.ctypes.data, x.strides[0]]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("dtype", "height", "width"), SHAPES)
def test_products_of_a_few_rows(dtype: str, height: int, width: int, turned: bool, threads: int) -> None:
    generator = np.random.default_rng(0)
    matrix = generator.random((height, width)).astype(dtype)
    inner, outer = (width, height) if turned else (height, width)
    for count in COUNTS:
        x = generator.random((count + 3, inner + 5)).astype(dtype)[:, 5:]
        y = np.full((count + 3, outer + 1), np.nan, dtype)
        expected, bias = x[2 : 2 + count] @ (matrix.T if turned else matrix), generator.random(outer).astype(dtype)
        for times, added in enumerate(([0, 0], [bias.ctypes.data, 0], place(y))):
            words = [2, 2 + count, height, width, *place(x), *place(matrix), *place(y), *added]
            launch(product_kernel(dtype, width, turned), words, threads, threads)
            total = (times or 1) * expected + (bias if times else 0)
            np.testing.assert_allclose(y[2 : 2 + count, :outer], total, rtol=1e-5)
        y[2 : 2 + count, :outer] = np.nan
        assert np.isnan(y).all()  # other rows and columns are left alone


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("dtype", "height", "width"), SHAPES)
def test_gradients_of_matrices_are_set_or_added_to(dtype: str, height: int, width: int, threads: int) -> None:
    generator = np.random.default_rng(0)
    for count in COUNTS[1:]:
        x, y = (generator.random((count + 3, n + 2)).astype(dtype)[:, 2:] for n in (height, width))
        out = np.full((height, width), np.nan, dtype)
        for adds in (0, 1):
            words = [1, 1 + count, height, width, *place(x), *place(out), *place(y), adds]
            launch(outer_kernel(dtype, width), words, threads, threads)
            expected = (adds + 1) * x[1 : 1 + count].T @ y[1 : 1 + count]
            np.testing.assert_allclose(out, expected, rtol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_sums_of_rows_are_set_or_added_to(threads: int) -> None:
    x, out = np.random.default_rng(0).random((13, 70)), np.full(64, np.nan)
    for adds in (0, 1):
        launch(column_sum_kernel("float64", 64), [2, 12, 64, *place(x), out.ctypes.data, adds], threads, threads)
        np.testing.assert_allclose(out, (adds + 1) * x[2:12, :64].sum(0))


def test_rows_that_are_no_full_vectors_are_left_to_others() -> None:
    assert product_kernel("float32", 33, False) == outer_kernel("float32", 33) == column_sum_kernel("float64", 1) == 0
