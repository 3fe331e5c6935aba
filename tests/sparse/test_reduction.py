"""Reductions and softmax against dense torch."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from dglite import DGLError
from dglite.sparse import reduce, smax, smean, smin, softmax, spmatrix, sprod, sum
from tests.sparse.cases import CASES, matrix

NAMES = {"sum": sum, "smax": smax, "smin": smin, "smean": smean, "sprod": sprod}
THEIRS = {
    "sum": lambda x: x.sum(0),
    "smax": lambda x: x.amax(0),
    "smin": lambda x: x.amin(0),
    "smean": lambda x: x.mean(0),
    "sprod": lambda x: x.prod(0),
}


def _expected(A, dim, name, val=None):
    val = A.val if val is None else val
    if dim is None:
        groups = [val]
    else:
        place, count = (A.row, A.shape[0]) if dim == 1 else (A.col, A.shape[1])
        groups = [val[place == i] for i in range(count)]
    rows = [THEIRS[name](x) if len(x) else torch.zeros(val.shape[1:], dtype=val.dtype) for x in groups]
    if dim is None:
        return rows[0].to(val.dtype)
    return torch.stack(rows).to(val.dtype) if rows else torch.zeros(0, *val.shape[1:], dtype=val.dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int64, torch.int32])
@pytest.mark.parametrize("values", [(), (3,)])
@pytest.mark.parametrize("dim", [None, 0, 1])
@pytest.mark.parametrize("rtype", NAMES)
@pytest.mark.parametrize("name", CASES)
def test_reduce(name, rtype, dim, values, dtype):
    A = matrix(name, values, dtype)
    if rtype == "smean" and not dtype.is_floating_point:
        with pytest.raises(DGLError, match="have no mean"):
            reduce(A, dim, rtype)
        return
    expected = _expected(A, dim, rtype)
    for actual in (reduce(A, dim, rtype), A.reduce(dim, rtype), NAMES[rtype](A, dim), getattr(A, rtype)(dim)):
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("values", [(), (2,)])
@pytest.mark.parametrize("dim", [None, 0, 1])
@pytest.mark.parametrize("rtype", NAMES)
@pytest.mark.parametrize("name", ["plain", "duplicates", "empty rows and columns"])
def test_gradients(name, rtype, dim, values):
    A = matrix(name, values, grad=True)
    assert gradcheck(lambda val: reduce(A.like(val), dim, rtype), (A.val,), fast_mode=True)
    assert gradgradcheck(lambda val: reduce(A.like(val), dim, rtype), (A.val,), fast_mode=True)


def test_a_product_with_zeros_has_an_exact_gradient():
    val = torch.tensor([0.0, 2.0, 3.0, 0.0, 0.0], requires_grad=True)
    A = spmatrix(torch.tensor([[0, 0, 0, 1, 1], [0, 1, 2, 0, 1]]), val)
    A.sprod(1).sum().backward()
    assert val.grad.tolist() == [6.0, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("values", [(), (2,)])
@pytest.mark.parametrize("name", CASES)
def test_softmax(name, values, dim):
    A = matrix(name, values, grad=True)
    place = A.row if dim == 1 else A.col
    expected = torch.zeros_like(A.val)
    for i in place.unique():
        expected[place == i] = A.val.detach()[place == i].softmax(0)
    result = softmax(A, dim)
    torch.testing.assert_close(result.val.detach(), expected)
    assert torch.equal(result.indices(), A.indices())
    assert torch.equal(A.softmax(dim).val, result.val)
    if A.nnz:
        assert gradcheck(lambda val: softmax(A.like(val), dim).val, (A.val,), fast_mode=True)


def test_softmax_is_by_row_unless_told_otherwise():
    A = spmatrix(torch.tensor([[0, 0, 1, 2], [1, 2, 2, 0]]), torch.tensor([0.0, 1, 2, 3]))
    torch.testing.assert_close(A.softmax().val, torch.tensor([0.2689, 0.7311, 1, 1]), atol=1e-4, rtol=0)


def test_what_does_not_fit_is_named():
    A = matrix("plain")
    with pytest.raises(DGLError, match="rtype='mean'"):
        A.reduce(0, "mean")
    with pytest.raises(DGLError, match="dim=2"):
        A.sum(2)
    with pytest.raises(DGLError, match="softmax of values of dtype int64"):
        A.long().softmax()
