"""The merge sort of compiled functions is NumPy's stable one."""

from __future__ import annotations

import numpy as np
import pytest

from dglite.kernels.cpu.run.sort import merge_sort

SIZES = [0, 1, 2, 15, 16, 17, 33, 100, 1000]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers(size, dtype):
    values = np.random.default_rng(size).integers(-5, size + 1, size).astype(dtype)
    want = np.sort(values)
    merge_sort(values, np.empty_like(values), None, 0)
    np.testing.assert_array_equal(values, want)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("descending", [0, 1])
def test_positions_by_keys_are_stable(size, dtype, descending):
    keys = np.random.default_rng(size).integers(0, size // 3 + 1, size).astype(dtype)
    order = np.arange(size)
    merge_sort(order, np.empty_like(order), keys, descending)
    np.testing.assert_array_equal(order, np.argsort(-keys if descending else keys, kind="stable"))
