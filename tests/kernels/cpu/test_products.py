"""Products of many rows with a matrix, and their gradients: any sizes, strides and numbers of tasks, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from dglite.kernels.cpu.rows import products
from dglite.kernels.cpu.run import launch

SHAPES = [(1, 1, 1), (0, 3, 4), (3, 16, 16), (65, 7, 5), (131, 40, 33), (300, 17, 130), (1100, 64, 32)]
NOWHERE = (0, 0)


@pytest.fixture(autouse=True, params=[1, 3])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(launch, "PARALLEL_FROM", 1)
    return request.param


@pytest.fixture(params=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> str:
    return request.param


def random(dtype: str, rows: int, columns: int, apart: int = 3) -> np.ndarray:
    """Return rows that are further apart than they are long."""
    result = np.random.default_rng(rows + 7 * columns).standard_normal((rows, columns + apart)).astype(dtype)
    return result[:, :columns]


def place(x: np.ndarray) -> tuple[int, int]:
    return x.ctypes.data, x.strides[0] if x.ndim == 2 else 0


def assert_close(result: np.ndarray, expected: np.ndarray) -> None:
    tolerance = 2e-3 if result.dtype == np.float32 else 1e-11
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_products(shape: tuple[int, int, int], turned: bool, dtype: str, threads: int) -> None:
    rows, inner, outer = shape
    x, weight, bias = random(dtype, rows, inner), random(dtype, inner, outer), random(dtype, 1, outer)[0]
    lying = random(dtype, outer, inner) if turned else weight
    weight = lying.T if turned else weight
    memory = np.full((rows, outer + 2), np.nan, dtype)
    out = memory[:, :outer]
    for start in (None, bias, random(dtype, rows, outer)):
        places = place(x), place(lying), NOWHERE if start is None else place(start), place(out)
        products.product(dtype, shape, places, False, threads, turned)
        expected = x.astype(np.float64) @ weight.astype(np.float64) + (0 if start is None else start)
        assert_close(out, expected)
    products.product(dtype, shape, (place(x), place(lying), place(out), place(out)), False, threads, turned)
    assert_close(out, 2 * expected - start)
    assert np.isnan(memory[:, outer:]).all()
    packed = np.full((rows, outer), np.nan, dtype)
    products.product(dtype, shape, (place(x), place(lying), place(bias), place(packed)), True, threads, turned)
    assert_close(packed, np.maximum(x @ weight + bias, 0))


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients(shape: tuple[int, int, int], relu: bool, dtype: str, threads: int) -> None:
    rows, inner, outer = shape
    x, weight, grad = random(dtype, rows, inner), random(dtype, inner, outer), random(dtype, rows, outer, 0)
    result, turned = np.maximum(random(dtype, rows, outer, 0)[::-1].copy(), 0), np.ascontiguousarray(weight.T)
    passed = grad.astype(np.float64) * (result > 0) if relu else grad.astype(np.float64)
    expected = passed @ weight.T, x.T.astype(np.float64) @ passed, passed.sum(0)
    given = place(grad), place(result) if relu else NOWHERE, place(x), place(turned)
    for needed in ((True, True, True), (True, False, False), (False, True, False), (False, False, True)):
        out = [np.full(sizes, np.nan, dtype) for sizes in ((rows, inner), (inner, outer), (outer,))]
        written = [place(y) if n else NOWHERE for y, n in zip(out, needed, strict=True)]
        products.gradients(dtype, shape, given, written, threads)
        for actual, right, n in zip(out, expected, needed, strict=True):
            if n:
                assert_close(actual, right)
            else:
                assert np.isnan(actual).all()
        products.gradients(dtype, shape, given, written, threads, adds=True)
        for actual, right, n in zip(out[1:], expected[1:], needed[1:], strict=True):
            if n:
                assert_close(actual, 2 * right)


@pytest.mark.parametrize(("rows", "columns"), [(0, 4), (1, 1), (16, 16), (70, 33), (200, 5)])
def test_transposition(rows: int, columns: int, dtype: str, threads: int) -> None:
    x, memory = random(dtype, rows, columns), np.full((columns, rows + 2), np.nan, dtype)
    products.transpose(dtype, (rows, columns), place(x), place(memory[:, :rows]), threads)
    np.testing.assert_array_equal(memory[:, :rows], x.T)
    assert np.isnan(memory[:, rows:]).all()


def test_what_they_are_faster_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for outruns in (False, True):
        monkeypatch.setattr(products, "_outruns_libraries", lambda outruns=outruns: outruns)
        assert products.is_faster("float32", 32, 64) and products.is_faster("float64", 7, 3)
        assert products.is_faster("float32", 256, 256) is outruns
        assert not products.is_faster("float16", 8, 8) and not products.is_faster("float32", 0, 8)


def test_tasks_share_a_limited_memory(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    shape, taken = (5000, 8, 16), list[int]()
    x, grad, out = random("float64", 5000, 8), random("float64", 5000, 16), np.empty((8, 16))
    launched = products.launch
    monkeypatch.setattr(products, "launch", lambda *args: (taken.append(args[2]), launched(*args)))
    for most in (1 << 26, 1):
        monkeypatch.setattr(products, "_MOST_MEMORY", most)
        given = place(grad), NOWHERE, place(x), NOWHERE
        products.gradients("float64", shape, given, (NOWHERE, place(out), NOWHERE), threads)
        assert_close(out, x.T @ grad)
    assert taken[1] <= threads and (threads == 1 or taken[0] > taken[1])
