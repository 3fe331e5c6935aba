"""Products of rows with a matrix, outer products and totals, in shares of any number of tasks, against NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dglite.kernels.cpu.dynamic.kernels import matrix_kernel, run_kernel
from dglite.kernels.cpu.run.launch import launch
from tests.kernels.cpu.calls import call

HEIGHTS_AND_WIDTHS = [(1, 1), (5, 67), (33, 8), (64, 31), (300, 24)]
ROWS = [1, 2, 3, 7]


def run(form: str, x: np.ndarray, m: np.ndarray, y: np.ndarray, last: Sequence[int], tasks: int) -> None:
    """Run all tasks of a kernel, the last one first."""
    kernel = matrix_kernel(form, m.dtype.name)
    place = [number for array in (x, m, y) for number in (array.ctypes.data, array.strides[0])]
    words = np.array([kernel, len(x), *m.shape, *place, *last], np.int64)
    for task in reversed(range(tasks)):
        call(kernel, words.ctypes.data, task, tasks)


@pytest.fixture(params=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> str:
    return request.param


def random(dtype: str, *shape: int) -> np.ndarray:
    # A column more than is looked at: rows are further apart than they are long.
    return np.random.default_rng(sum(shape)).standard_normal((shape[0], shape[1] + 1)).astype(dtype)[:, :-1]


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize(("height", "width"), HEIGHTS_AND_WIDTHS)
@pytest.mark.parametrize("rows", ROWS)
def test_products_both_ways(rows: int, height: int, width: int, tasks: int, dtype: str) -> None:
    m, x, start = random(dtype, height, width), random(dtype, rows, width), random(dtype, 1, height)
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype == "float32" else {"rtol": 1e-12, "atol": 1e-12}
    y = np.full((rows, height), np.nan, dtype)
    run("dots", x, m, y, (start.ctypes.data, 0), tasks)
    np.testing.assert_allclose(y, x @ m.T + start, **close)
    back = np.full((rows, width), np.nan, dtype)
    run("sums", y, m, back, (0, 0), tasks)
    np.testing.assert_allclose(back, y @ m, **close)
    run("sums", y, m, back, (back.ctypes.data, back.strides[0]), tasks)
    np.testing.assert_allclose(back, 2 * (y @ m), **close)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("form", ["dots", "sums"])
@pytest.mark.parametrize(("height", "width"), HEIGHTS_AND_WIDTHS)
def test_products_of_a_run_of_rows_leave_others_alone(
    height: int, width: int, form: str, threads: int, dtype: str
) -> None:
    m = random(dtype, height, width)
    inner, outer = (width, height) if form == "dots" else (height, width)
    for count in (0, 1, 3, 9, 17):
        x, y = random(dtype, count + 3, inner), np.full((count + 3, outer + 1), np.nan, dtype)
        place = [number for array in (x, m, y) for number in (array.ctypes.data, array.strides[0])]
        launch(run_kernel(form, dtype), [2, 2 + count, *m.shape, *place], threads, threads)
        expected = x[2 : 2 + count] @ (m.T if form == "dots" else m)
        np.testing.assert_allclose(y[2 : 2 + count, :outer], expected, rtol=1e-4, atol=1e-4)
        y[2 : 2 + count, :outer] = np.nan
        assert np.isnan(y).all()


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize(("height", "width"), HEIGHTS_AND_WIDTHS)
@pytest.mark.parametrize("rows", ROWS)
def test_outer_products_and_totals(rows: int, height: int, width: int, tasks: int, dtype: str) -> None:
    x, y, m = random(dtype, rows, height), random(dtype, rows, width), random(dtype, height, width)
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype == "float32" else {"rtol": 1e-12, "atol": 1e-12}
    expected = 0.5 * m - 2 * x.T @ y
    factors = np.array([0.5, -2.0], dtype)
    run("outer", x, m, y, (factors.ctypes.data,), tasks)
    np.testing.assert_allclose(m, expected, **close)
    factors[:] = 0, 1  # what keeps nothing does not read, either
    for form, into in (
        ("outer", np.full((height, width), np.nan, dtype)),
        ("totals", np.full((1, width), np.nan, dtype)),
    ):
        run(form, x, into, y, (factors.ctypes.data,), tasks)
        np.testing.assert_allclose(into, x.T @ y if form == "outer" else y.sum(0, keepdims=True), **close)
