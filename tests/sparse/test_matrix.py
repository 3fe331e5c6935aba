"""Making sparse matrices, what they say of themselves, and their forms."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch.autograd import gradcheck

import dglite
from dglite import DGLError
from dglite.sparse import (
    SparseMatrix,
    diag,
    from_coo,
    from_csc,
    from_csr,
    from_torch_sparse,
    identity,
    spmatrix,
    to_torch_sparse_coo,
    to_torch_sparse_csc,
    to_torch_sparse_csr,
    val_like,
)
from tests.sparse.cases import CASES, dense, matrix, places


@pytest.mark.parametrize("ids", [torch.int32, torch.int64])
@pytest.mark.parametrize("values", [(), (1,), (3,)])
@pytest.mark.parametrize("name", CASES)
def test_facts(name, values, ids):
    A = matrix(name, values, torch.float32, ids)
    given, shape = CASES[name]
    assert (A.shape, A.nnz, A.dtype, A.device) == (shape, len(given[0]), torch.float32, torch.device("cpu"))
    assert A.row.dtype == A.col.dtype == A.indices().dtype == ids
    assert places(A) == given
    assert [x.tolist() for x in A.coo()] == given
    assert A.indices().tolist() == given
    torch.testing.assert_close(A.to_dense(), dense(A))
    B = from_coo(*A.coo(), A.val, shape)
    assert (places(B), B.val is A.val) == (given, True)


@pytest.mark.parametrize("name", CASES)
def test_compressed_forms(name):
    A = matrix(name, (2,))
    for (indptr, indices, order), make in ((A.csr(), from_csr), (A.csc(), from_csc)):
        val = A.val if order is None else A.val[order]
        B = make(indptr, indices, val, A.shape)
        assert B.shape == A.shape
        torch.testing.assert_close(B.to_dense(), A.to_dense())
        assert torch.equal(B.val, val)


def test_the_documented_forms():
    A = spmatrix(torch.tensor([[1, 2, 1], [2, 4, 3]]))
    assert [x.tolist() for x in A.csr()] == [[0, 0, 2, 3], [2, 3, 4], [0, 2, 1]]
    assert [x.tolist() for x in A.csc()] == [[0, 0, 0, 1, 2, 3], [1, 1, 2], [0, 2, 1]]
    assert (A.shape, A.val.tolist()) == ((3, 5), [1.0, 1.0, 1.0])
    assert from_csr(torch.tensor([0, 0, 2]), torch.tensor([1, 4])).shape == (2, 5)
    assert from_csc(torch.tensor([0, 0, 2]), torch.tensor([1, 4])).shape == (5, 2)
    assert from_csr(torch.tensor([0, 1]), torch.tensor([0]), shape=(4, 3)).shape == (4, 3)
    assert spmatrix(torch.tensor([[1, 1], [2, 2]]), shape=(5, 5)).csr()[2] is None


def test_printing():
    A = spmatrix(torch.tensor([[1, 1, 2], [2, 4, 3]]))
    assert repr(A) == (
        "SparseMatrix(indices=tensor([[1, 1, 2],\n"
        "                             [2, 4, 3]]),\n"
        "             values=tensor([1., 1., 1.]),\n"
        "             shape=(3, 5), nnz=3)"
    )
    B = val_like(A, torch.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]))
    assert repr(B).endswith(
        "             values=tensor([[1., 1.],\n"
        "                            [2., 2.],\n"
        "                            [3., 3.]]),\n"
        "             shape=(3, 5), nnz=3, val_size=(2,))"
    )


def test_diagonals():
    D = diag(torch.arange(1.0, 4.0), (3, 5))
    assert (D.shape, places(D), D.val.tolist()) == ((3, 5), [[0, 1, 2]] * 2, [1.0, 2.0, 3.0])
    assert D.is_diag() and D.T.is_diag() and not matrix("plain").is_diag()
    assert diag(torch.ones(2, 3)).val.shape == (2, 3)
    assert identity((3, 5), dtype=torch.float64).dtype == torch.float64
    assert torch.equal(identity((3, 3)).to_dense(), torch.eye(3))
    assert identity((3, 3), d=2).val.tolist() == [[1.0, 1.0]] * 3
    assert identity((0, 3)).nnz == 0
    with pytest.raises(DGLError, match="expected 3"):
        diag(torch.ones(4), (3, 5))


@pytest.mark.parametrize("name", CASES)
def test_transposes(name):
    A = matrix(name, (2,))
    for B in (A.T, A.t(), A.transpose()):
        assert B.shape == A.shape[::-1]
        torch.testing.assert_close(B.to_dense(), A.to_dense().transpose(0, 1))
        assert torch.equal(B.T.indices(), A.indices())


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.int32])
@pytest.mark.parametrize("values", [(), (2,)])
@pytest.mark.parametrize("name", CASES)
def test_coalescing(name, values, dtype):
    A = matrix(name, values, dtype)
    B = A.coalesce()
    unique = sorted(set(zip(*places(A), strict=True)))
    assert list(zip(*places(B), strict=True)) == unique
    assert A.has_duplicate() == (len(unique) < A.nnz)
    assert not B.has_duplicate()
    assert B.dtype == dtype
    torch.testing.assert_close(dense(B), dense(A))
    if A.nnz and dtype.is_floating_point:
        assert gradcheck(lambda val: A.like(val).coalesce().val, (A.val.requires_grad_(),), fast_mode=True)
        assert gradcheck(lambda val: A.like(val).to_dense(), (A.val.requires_grad_(),), fast_mode=True)


def test_the_documented_coalescing():
    A = spmatrix(torch.tensor([[1, 0, 0, 0, 1], [1, 1, 1, 2, 2]]), torch.tensor([0, 1, 2, 3, 4])).coalesce()
    assert (places(A), A.val.tolist()) == ([[0, 0, 1, 1], [1, 2, 1, 2]], [3, 3, 0, 4])


def test_dtypes_and_devices():
    A = matrix("plain")
    results = [A.float().dtype, A.int().dtype, A.long().dtype, A.to(dtype=torch.float16).dtype]
    assert results == [torch.float32, torch.int32, torch.int64, torch.float16]
    assert A.double() is A and A.cpu() is A and A.to("cpu", torch.float64) is A
    assert A.to("meta").device == torch.device("meta")


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_users_see_places_in_the_dtype_that_they_gave(dtype):
    indptr, indices = torch.tensor([0, 2, 3], dtype=dtype), torch.tensor([1, 0, 1], dtype=dtype)
    for A in (from_csr(indptr, indices), spmatrix(torch.stack([torch.tensor([0, 0, 1], dtype=dtype), indices]))):
        for result in (A, A.T, A.neg(), A.coalesce(), A.index_select(0, torch.tensor([1])), A + A):
            results = [result.indices(), result.row, result.col, *result.coo(), *result.csr(), *result.csc()]
            assert {x.dtype for x in results if x is not None} == {dtype}
    assert dglite.sparse.identity((2, 2)).row.dtype == torch.int64


@pytest.mark.parametrize("make, back", [("csr", to_torch_sparse_csr), ("csc", to_torch_sparse_csc)])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_exchange_shares_memory_where_dtypes_allow(make, back):
    indptr, indices = torch.tensor([0, 2, 3], dtype=torch.int32), torch.tensor([0, 1, 1], dtype=torch.int32)
    val = torch.rand(3)
    theirs = getattr(torch, f"sparse_{make}_tensor")(indptr, indices, val, (2, 2))
    given = theirs.values(), *((theirs.crow_indices(), theirs.col_indices()) if make == "csr" else
                               (theirs.ccol_indices(), theirs.row_indices()))  # fmt: skip
    again = back(from_torch_sparse(theirs))
    result = again.values(), *((again.crow_indices(), again.col_indices()) if make == "csr" else
                              (again.ccol_indices(), again.row_indices()))  # fmt: skip
    assert [x.data_ptr() for x in result] == [x.data_ptr() for x in given]
    A = from_csr(indptr, indices, val)  # what users make and see is their own
    indices[0] = 1
    A.csr()[1][:] = 0
    assert A.col.tolist() == [0, 1, 1]


@pytest.mark.parametrize("values", [(), (2,)])
@pytest.mark.parametrize("name", ["plain", "duplicates", "no entries"])
def test_exchange_with_torch(name, values):
    A = matrix(name, values)
    for to in (to_torch_sparse_coo, to_torch_sparse_csr, to_torch_sparse_csc):
        theirs = to(A)
        assert tuple(theirs.shape) == (*A.shape, *values)
        torch.testing.assert_close(from_torch_sparse(theirs).to_dense(), A.to_dense())
    torch.testing.assert_close(to_torch_sparse_coo(A).to_dense(), A.to_dense())
    assert places(from_torch_sparse(to_torch_sparse_coo(A))) == places(A)
    with pytest.raises(DGLError, match="layout"):
        from_torch_sparse(torch.ones(2, 2))


def test_indices_are_copies():
    A = matrix("plain")
    A.row.fill_(0), A.indices().fill_(0), A.csr()[0].fill_(0)
    assert places(A) == CASES["plain"][0]
    places_given = torch.tensor([[0, 1], [1, 0]])
    B = spmatrix(places_given)
    places_given.fill_(0)
    assert places(B) == [[0, 1], [1, 0]]


def test_pickling():
    A = matrix("duplicates", (2,))
    B = pickle.loads(pickle.dumps(A))
    assert (places(A), A.shape) == (places(B), B.shape)
    assert torch.equal(A.val, B.val)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: spmatrix(torch.tensor([1, 2])), r"expected \(2, nnz\)"),
        (lambda: spmatrix(torch.tensor([[0.5], [1.0]])), "must be integers"),
        (lambda: spmatrix(torch.tensor([[0], [-1]])), "column id -1 is negative"),
        (lambda: spmatrix(torch.tensor([[3], [0]]), shape=(3, 3)), "row id 3 does not exist"),
        (lambda: spmatrix(torch.tensor([[0], [0]]), torch.ones(2)), r"expected \(1,\)"),
        (lambda: spmatrix(torch.tensor([[0], [0]]), torch.ones(1, 2, 3)), r"expected \(1,\)"),
        (lambda: spmatrix(torch.tensor([[0], [0]]), [1.0]), "must be a tensor"),
        (lambda: spmatrix(torch.tensor([[0], [0]]), shape=(3, -1)), "number of columns must be an integer >= 0"),
        (lambda: from_coo(torch.tensor([0]), torch.tensor([0, 1])), "both"),
        (lambda: from_csr(torch.tensor([0, 3]), torch.tensor([0, 1])), "indptr"),
        (lambda: from_csr(torch.tensor([0, 1]), torch.tensor([5]), shape=(1, 3)), "column id 5"),
        (lambda: from_csr(torch.tensor([0, 1, 1]), torch.tensor([5]), shape=(1, 9)), "indptr"),
        (lambda: diag(3), "must be a tensor"),
    ],
)
def test_what_does_not_fit_is_named(call, message):
    with pytest.raises(DGLError, match=message):
        call()
    with pytest.raises(TypeError, match="made by spmatrix"):
        SparseMatrix()


def test_it_is_reached_from_the_package():
    assert dglite.sparse.SparseMatrix is SparseMatrix
