"""Arithmetic entry by entry, against dense torch."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from dglite import DGLError
from dglite.sparse import (
    add,
    diag,
    div,
    inv,
    mul,
    neg,
    power,
    sp_add_v,
    sp_broadcast_v,
    sp_div_v,
    sp_mul_v,
    sp_sub_v,
    spmatrix,
    sub,
)
from tests.sparse.cases import CASES, dense, matrix, places


def _partner(A):
    """Return a matrix of the same shape and kind with some of the places of ``A``, others too, and duplicates."""
    rows, cols = A.shape
    if not rows or not cols:
        return A
    row = torch.cat([A.row[::2], torch.tensor([rows - 1, 0, 0])])
    col = torch.cat([A.col[::2], torch.tensor([cols - 1, 0, 0])])
    val = torch.rand(len(row), *A.val.shape[1:], dtype=torch.float64) + 0.5
    return spmatrix(torch.stack([row, col]), val.to(A.dtype) if A.dtype.is_floating_point else (val * 4).to(A.dtype),
                    A.shape)  # fmt: skip


def _ordered(A):
    keys = A.row * max(A.shape[1], 1) + A.col
    return bool((keys[1:] > keys[:-1]).all())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int64])
@pytest.mark.parametrize("values", [(), (2,)])
@pytest.mark.parametrize("name", CASES)
def test_two_matrices(name, values, dtype):
    A = matrix(name, values, dtype)
    B = _partner(A)
    for actual, same, expected in (
        (A + B, add(A, B), dense(A) + dense(B)),
        (A - B, sub(A, B), dense(A) - dense(B)),
        (A * B, mul(A, B), dense(A) * dense(B)),
    ):
        torch.testing.assert_close(dense(actual), expected)
        assert torch.equal(actual.val, same.val)
        assert _ordered(actual) and actual.dtype == dtype
    torch.testing.assert_close(dense(A + A), 2 * dense(A))


@pytest.mark.parametrize("values", [(), (2,)])
@pytest.mark.parametrize("call", [add, sub, mul])
@pytest.mark.parametrize("name", ["plain", "duplicates"])
def test_gradients(name, call, values):
    A = matrix(name, values)
    B = _partner(A)
    inputs = [x.val.clone().requires_grad_() for x in (A, B)]

    def run(x, y):
        return call(A.like(x), B.like(y)).val

    assert gradcheck(run, inputs, fast_mode=True) and gradgradcheck(run, inputs, fast_mode=True)


def test_the_documented_sums():
    A = spmatrix(torch.tensor([[1, 0, 2], [0, 1, 2]]), torch.tensor([10, 20, 30]))
    B = diag(torch.arange(1, 4))
    assert (places(A + B), (A + B).val.tolist()) == ([[0, 0, 1, 1, 2], [0, 1, 0, 1, 2]], [1, 20, 10, 2, 33])
    assert (A - B).val.tolist() == [-1, 20, 10, -2, 27]
    A = spmatrix(torch.tensor([[1, 0, 2], [0, 3, 2]]), torch.tensor([1, 2, 3]), (3, 4))
    B = spmatrix(torch.tensor([[2, 0, 1], [0, 3, 2]]), torch.tensor([3, 2, 1]), (3, 4))
    assert (places(A * B), (A * B).val.tolist()) == ([[0], [3]], [4])


def test_numbers():
    A = matrix("duplicates", grad=True)
    two = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    for actual, expected in (
        (A * 2, A.val * 2),
        (2 * A, A.val * 2),
        (mul(3, A), A.val * 3),
        (A * two, A.val * two),
        (two * A, A.val * two),
        (A / 2, A.val / 2),
        (A / two, A.val / two),
        (A**2, A.val**2),
        (power(A, 0.5), A.val**0.5),
        (-A, -A.val),
        (neg(A), -A.val),
        (A.neg(), -A.val),
    ):
        assert torch.equal(actual.val, expected)
        assert torch.equal(actual.indices(), A.indices())
    (A * two).val.sum().backward()
    assert two.grad == A.val.sum()
    assert (matrix("plain", dtype=torch.int64) / 2).dtype == torch.float32
    for wrong in (lambda: A + 1, lambda: A - 1, lambda: 1 / A, lambda: A**A, lambda: A * [1], lambda: A / "x"):
        with pytest.raises(TypeError):
            wrong()


def test_division_keeps_the_order_of_the_first():
    A = spmatrix(torch.tensor([[2, 0, 1], [2, 3, 0]]), torch.tensor([8.0, 6.0, 5.0]), (3, 4))
    B = spmatrix(torch.tensor([[0, 1, 2], [3, 0, 2]]), torch.tensor([3.0, 5.0, 2.0]), (3, 4))
    assert places(A / B) == places(A)
    assert div(A, B).val.tolist() == [4.0, 2.0, 1.0]
    inputs = [x.val.double().requires_grad_() for x in (A, B)]
    assert gradcheck(lambda x, y: (A.like(x) / B.like(y)).val, inputs, fast_mode=True)
    with pytest.raises(DGLError, match="these differ"):
        A / matrix("plain")
    with pytest.raises(DGLError, match="repeated indices"):
        matrix("duplicates") / matrix("duplicates")


def test_inverse():
    val = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64, requires_grad=True)
    D = diag(val)
    assert D.inv().val.tolist() == [1.0, 0.5, 0.25]
    torch.testing.assert_close((D @ inv(D)).to_dense(), torch.eye(3, dtype=torch.float64))
    assert gradcheck(lambda x: diag(x).inv().val, (val,), fast_mode=True)
    twice = spmatrix(torch.tensor([[1, 0, 1], [1, 0, 1]]), torch.tensor([1.0, 2.0, 3.0]))
    assert dense(twice.inv()).tolist() == [[0.5, 0], [0, 0.25]]
    for wrong in (matrix("plain"), diag(val, (3, 4)), diag(torch.ones(3, 2)), spmatrix(torch.tensor([[1], [1]]))):
        with pytest.raises(DGLError, match=r"invers|invert"):
            wrong.inv()


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
@pytest.mark.parametrize("values", [(), (2,)])
@pytest.mark.parametrize("shape", ["flat", "row", "column"])
@pytest.mark.parametrize("name", CASES)
def test_vectors(name, shape, values, dtype):
    A = matrix(name, values, dtype)
    rows, cols = A.shape
    size = {"flat": (cols,), "row": (1, cols), "column": (rows, 1)}[shape]
    v = torch.randint(1, 9, size).to(dtype)
    element = v.flatten()[A.row if shape == "column" else A.col]
    element = element[:, None] if values else element
    for op, call, expected in (
        ("add", sp_add_v, A.val + element),
        ("sub", sp_sub_v, A.val - element),
        ("mul", sp_mul_v, A.val * element),
        ("truediv", sp_div_v, A.val / element),
    ):
        torch.testing.assert_close(call(A, v).val, expected)
        assert torch.equal(sp_broadcast_v(A, v, op).val, call(A, v).val)
        if dtype.is_floating_point and A.nnz:
            inputs = [x.clone().requires_grad_() for x in (A.val, v)]
            assert gradcheck(lambda x, v, call=call: call(A.like(x), v).val, inputs, fast_mode=True)


def test_what_does_not_fit_is_named():
    A = matrix("plain")
    for wrong, message in (
        (lambda: A + A.T, "expected the same"),
        (lambda: A + matrix("plain", (2,)), "expected the same"),
        (lambda: add(A, 3), "add takes sparse matrices"),
        (lambda: mul(A, "x"), "mul takes sparse matrices"),
        (lambda: power(A, A), "exponent"),
        (lambda: sp_add_v(A, torch.ones(3)), "does not fit"),
        (lambda: sp_broadcast_v(A, torch.ones(4), "pow"), "op='pow'"),
    ):
        with pytest.raises(DGLError, match=message):
            wrong()


def test_places_are_matched_in_matrices_of_any_size():
    size = 2**40
    A = spmatrix(torch.tensor([[0, size - 1], [size - 1, 5]]), torch.tensor([2.0, 3.0]), (size, size))
    B = spmatrix(torch.tensor([[size - 1, 7], [5, 7]]), torch.tensor([4.0, 1.0]), (size, size))
    C = A * B
    assert (places(C), C.val.tolist()) == ([[size - 1], [5]], [12.0])
