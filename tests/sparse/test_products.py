"""Products against dense torch: values, gradients, second gradients."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from dglite import DGLError
from dglite.sparse import bsddmm, bspmm, from_csr, matmul, sddmm, spmatrix, spmm, spspmm
from tests.sparse.cases import CASES, dense, matrix

F64 = torch.float64


def _checked(run, *inputs):
    inputs = [x.detach().requires_grad_() for x in inputs]
    assert gradcheck(run, inputs, fast_mode=True) and gradgradcheck(run, inputs, fast_mode=True)


@pytest.mark.parametrize("ids", [torch.int32, torch.int64])
@pytest.mark.parametrize("width", [(), (5,), (0,), (1,)])
@pytest.mark.parametrize("name", CASES)
def test_spmm(name, width, ids):
    A = matrix(name, ids=ids)
    X = torch.rand(A.shape[1], *width, dtype=F64)
    torch.testing.assert_close(A @ X, dense(A) @ X)
    torch.testing.assert_close(spmm(A, X), A @ X)
    if A.nnz and 0 not in width:
        _checked(lambda val, X: spmm(A.like(val), X), A.val, X)


@pytest.mark.parametrize("name", CASES)
def test_bspmm(name):
    A = matrix(name, (2,))
    X = torch.rand(A.shape[1], 3, 2, dtype=F64)
    torch.testing.assert_close(bspmm(A, X), torch.einsum("lmk,mnk->lnk", dense(A), X))
    torch.testing.assert_close(A @ X, bspmm(A, X))
    if A.nnz:
        _checked(lambda val, X: bspmm(A.like(val), X), A.val, X)


@pytest.mark.parametrize("values", [(), (3,)])
@pytest.mark.parametrize("name", CASES)
def test_sddmm(name, values):
    A = matrix(name, values)
    (rows, cols), inner = A.shape, 4
    X1, X2 = torch.rand(rows, inner, dtype=F64), torch.rand(inner, cols, dtype=F64)
    product = (X1 @ X2)[A.row, A.col]
    result = sddmm(A, X1, X2)
    torch.testing.assert_close(result.val, A.val * (product[:, None] if values else product))
    assert torch.equal(result.indices(), A.indices())
    x1, x2 = torch.rand(rows, dtype=F64), torch.rand(cols, dtype=F64)
    outer = torch.outer(x1, x2)[A.row, A.col]
    torch.testing.assert_close(sddmm(A, x1, x2).val, A.val * (outer[:, None] if values else outer))
    if A.nnz:
        _checked(lambda val, X1, X2: sddmm(A.like(val), X1, X2).val, A.val, X1, X2)
        _checked(lambda val, x1, x2: sddmm(A.like(val), x1, x2).val, A.val, x1, x2)


@pytest.mark.parametrize("values", [(), (2,)])
@pytest.mark.parametrize("name", CASES)
def test_bsddmm(name, values):
    A = matrix(name, values)
    rows, cols = A.shape
    X1, X2 = torch.rand(rows, 4, 2, dtype=F64), torch.rand(4, cols, 2, dtype=F64)
    product = torch.einsum("lmk,mnk->lnk", X1, X2)[A.row, A.col]
    torch.testing.assert_close(bsddmm(A, X1, X2).val, product * (A.val if values else A.val[:, None]))
    if A.nnz:
        _checked(lambda val, X1, X2: bsddmm(A.like(val), X1, X2).val, A.val, X1, X2)


def test_the_documented_products():
    A = spmatrix(torch.tensor([[1, 1, 2], [2, 3, 3]]), torch.arange(1, 4).float(), (3, 4))
    X1 = torch.arange(0, 3 * 5 * 2).view(3, 5, 2).float()
    X2 = torch.arange(0, 5 * 4 * 2).view(5, 4, 2).float()
    assert bsddmm(A, X1, X2).val.tolist() == [[1560, 1735], [3400, 3770], [8400, 9105]]
    A = spmatrix(torch.tensor([[0, 1, 1], [1, 0, 1]]), torch.ones(3))
    B = spmatrix(torch.tensor([[0, 1, 1], [0, 2, 1]]), torch.ones(3))
    C = spspmm(A, B)
    assert (C.indices().tolist(), C.val.tolist()) == ([[0, 0, 1, 1, 1], [1, 2, 0, 1, 2]], [1, 1, 1, 1, 1])


PAIRS = [(a, b) for a in CASES for b in CASES if CASES[a][1][1] == CASES[b][1][0]]


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int16]
)
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(("first", "second"), [*PAIRS, ("plain", "T"), ("duplicates", "T")])
def test_spspmm(first, second, grad, dtype):
    if grad and not dtype.is_floating_point:
        grad = False
    A = matrix(first, dtype=dtype, grad=grad)
    B = matrix(first, dtype=dtype, grad=grad).T if second == "T" else matrix(second, dtype=dtype, grad=grad)
    C = A @ B
    expected = dense(A, A.val.detach().double()) @ dense(B, B.val.detach().double())
    loose = dtype in (torch.float16, torch.bfloat16)
    torch.testing.assert_close(
        dense(C, C.val.detach().double()), expected, atol=0.3 if loose else 1e-5, rtol=0.02 if loose else 1e-5
    )
    assert C.dtype == dtype
    keys = C.row * max(C.shape[1], 1) + C.col
    assert (keys[1:] > keys[:-1]).all()
    ones = dense(A, torch.ones(A.nnz)) @ dense(B, torch.ones(B.nnz))
    assert C.nnz == int((ones > 0).sum())


@pytest.mark.parametrize(("first", "second"), [("plain", "T"), ("duplicates", "T"), ("dense", "dense")])
def test_spspmm_gradients(first, second):
    A = matrix(first)
    B = matrix(first).T if second == "T" else matrix(second)
    _checked(lambda x, y: spspmm(A.like(x), B.like(y)).val, A.val, B.val)
    x, y = A.val.clone().requires_grad_(), B.val.clone().requires_grad_()
    weight = torch.rand(A.shape[0], B.shape[1], dtype=F64)
    ours = torch.autograd.grad((spspmm(A.like(x), B.like(y)).to_dense() * weight).sum(), (x, y))
    theirs = torch.autograd.grad(((dense(A, x) @ dense(B, y)) * weight).sum(), (x, y))
    for mine, reference in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, reference)


@pytest.mark.parametrize("grad", [False, True])
def test_an_entry_stands_where_products_cancel(grad):
    A = spmatrix(torch.tensor([[0, 0, 1], [0, 1, 0]]), torch.tensor([1.0, 1.0, 0.0]).requires_grad_(grad), (2, 2))
    B = spmatrix(torch.tensor([[0, 1], [0, 0]]), torch.tensor([1.0, -1.0]), (2, 1))
    C = A @ B
    assert (C.indices().tolist(), C.val.tolist()) == ([[0, 1], [0, 0]], [0.0, 0.0])


def test_spspmm_of_larger_matrices_by_both_ways():
    torch.manual_seed(0)
    A = spmatrix(torch.randint(0, 300, (2, 3000)), torch.rand(3000), (300, 300))
    B = A.like(A.val.clone().requires_grad_())
    plain, recorded = A @ A, B @ B
    assert torch.equal(plain.indices(), recorded.indices())
    torch.testing.assert_close(plain.val, recorded.val.detach())


def test_matmul_chooses():
    A, X = matrix("plain"), torch.rand(4, 2, dtype=F64)
    assert torch.equal(matmul(A, X), spmm(A, X))
    assert torch.equal(matmul(X, X.T), X @ X.T)
    assert torch.equal(matmul(A, A.T).val, spspmm(A, A.T).val)
    with pytest.raises(DGLError, match=r"write \(B.T @ A.T\).T"):
        matmul(X.T, A.T)
    with pytest.raises(DGLError, match="matmul takes"):
        A @ 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_other_dtypes(dtype):
    A = matrix("duplicates", dtype=dtype)
    X = torch.rand(4, 8).to(dtype)
    torch.testing.assert_close(A @ X, (dense(A, A.val.double()) @ X.double()).to(dtype), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda A: A @ torch.rand(3, dtype=F64), "expected"),
        (lambda A: A @ torch.rand(4), "dtype"),
        (lambda A: A @ torch.rand(4, 2, 2, dtype=F64), "expected"),
        (lambda A: A.long() @ torch.ones(4, dtype=torch.int64), "dtype int64"),
        (lambda A: spmm(A, [1.0]), "spmm takes"),
        (lambda A: A @ A, "inner sizes"),
        (lambda A: A @ A.T.float(), "dtypes"),
        (lambda A: matrix("plain", (2,)) @ A.T, "scalar values"),
        (lambda A: spspmm(A, torch.ones(4)), "spspmm takes"),
        (lambda A: bspmm(matrix("plain", (2,)), torch.rand(4, 3, 3, dtype=F64)), "expected"),
        (lambda A: sddmm(A, torch.rand(3, 2, dtype=F64), torch.rand(3, 4, dtype=F64)), "not understood"),
        (lambda A: sddmm(A, torch.rand(4, 2, dtype=F64), torch.rand(2, 4, dtype=F64)), "must have that shape"),
        (lambda A: sddmm(A, torch.rand(3, dtype=F64), torch.rand(3, dtype=F64)), "must have that shape"),
        (lambda A: sddmm(A, 1, 2), "sddmm takes"),
        (lambda A: from_csr(torch.tensor([0, 2, 1]), torch.tensor([0])), "indptr"),
    ],
)
def test_what_does_not_fit_is_named(call, message):
    with pytest.raises(DGLError, match=message):
        call(matrix("plain"))
