"""Softmax and losses over rows, and their gradients, against torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dglite.kernels.cpu.dynamic.kernels import CLEAR, TOTALS, rowwise_kernel
from dglite.kernels.render.rowwise import FORMS, LABELLED
from tests.kernels.cpu.calls import call


def expected(form: str, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    if form in LABELLED:
        return getattr(F, form)(x, labels, reduction="none")
    return getattr(F, form)(x, dim=1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [1, 5, 21])
@pytest.mark.parametrize("special", ["", "large", "infinite", "nan"])
def test_forms_and_their_gradients(form: str, dtype: str, width: int, special: str) -> None:
    rows, rng = 5, np.random.default_rng(width)
    x = rng.standard_normal((rows, width)).astype(dtype)
    x[1, 0] = {"": 0, "large": 300.0, "infinite": -np.inf, "nan": np.nan}[special]
    labels = rng.integers(0, width, rows)
    labels[2] = -100
    shown = torch.from_numpy(x.copy()).requires_grad_()
    result = expected(form, shown, torch.from_numpy(labels))
    y = np.full(tuple(result.shape), np.nan, dtype)
    g = rng.standard_normal(y.shape).astype(dtype)
    result.backward(torch.from_numpy(g))
    d, error = np.full_like(x, np.nan), np.zeros(1, np.int64)
    for gradient, add in ((False, 0), (True, 0), (True, 1)):
        kernel = rowwise_kernel(form, gradient, dtype)
        words = [kernel, rows, width, x.ctypes.data, x.strides[0], labels.ctypes.data, 8, y.ctypes.data, y.strides[0]]
        words += [g.ctypes.data, g.strides[0], d.ctypes.data, d.strides[0], add, error.ctypes.data]
        given = np.array(words, np.int64)
        for task in range(2):
            call(kernel, given.ctypes.data, task, 2)
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype == "float32" else {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(y, result.detach().numpy(), **close)
    np.testing.assert_allclose(d, 2 * shown.grad.numpy(), **close)
    assert error[0] == 0


@pytest.mark.parametrize("label", [-1, 5])
@pytest.mark.parametrize("form", LABELLED)
def test_a_label_out_of_range_is_reported(form: str, label: int) -> None:
    x, y, labels, error = np.ones((1, 5)), np.ones(1), np.array([label]), np.zeros(1, np.int64)
    kernel = rowwise_kernel(form, False, "float64")
    places = [x.ctypes.data, 0, labels.ctypes.data, 0, y.ctypes.data, 0, 0, 0, 0, 0, 0, error.ctypes.data]
    words = np.array([kernel, 1, 5, *places], np.int64)
    call(kernel, words.ctypes.data, 0, 1)
    assert error[0] >> 1 == label


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_totals_of_losses_and_their_gradients(dtype: str) -> None:
    losses, grads, total = np.array([1.5, 2, 4], dtype), np.zeros(2, dtype), np.zeros(1)
    item = losses.itemsize
    values = losses.ctypes.data + item * np.array([0, 2, 2])
    starts = grads.ctypes.data + item * np.array([0, 1, 1])
    place = [values.ctypes.data, starts.ctypes.data]
    words = np.array([TOTALS, total.ctypes.data, 3, item, *place], np.int64)
    call(TOTALS, words.ctypes.data, 0, 1)
    assert total[0] == 9.5
    assert grads.tolist() == [1, 2]


def test_memory_is_cleared_in_shares() -> None:
    memory = np.ones(11)
    words = np.array([CLEAR, memory.ctypes.data, 80], np.int64)
    for task in range(3):
        call(CLEAR, words.ctypes.data, task, 3)
    assert memory.tolist() == [0.0] * 10 + [1.0]
