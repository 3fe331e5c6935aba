"""Products of sparse matrices with dense and sparse ones, and sampled dense-dense products."""

from __future__ import annotations

from typing import Any, TypeVar, overload

import numpy as np

from ..arguments import explained
from ..backend import Tensor, active, admitted
from ..errors import DGLError
from ..expr import Operand, Side
from ..ops import core
from ..opspec import Reducer
from ..structure import Adjacency, Compressed
from ..structure.compressed import expand_ranges
from ..structure.formats import index_dtype_for
from .base import MatrixBase, is_float, take_rows, value_shape
from .duplicates import grouping
from .reduction import reduced

Matrix = TypeVar("Matrix", bound=MatrixBase)

_WEIGHTED = Operand(Side.U, 0) * Operand(Side.E, 1)
_PRODUCT = Operand(Side.V, 0) * Operand(Side.U, 1)


# -- sparse times dense ------------------------------------------------------------------------------------------------
@explained
def spmm(A: MatrixBase, X: Tensor) -> Tensor:
    """Return ``A @ X`` by g-SpMM; a row without entries gives 0.

    Raises DGLError: shapes or dtypes do not fit, or the dtype is not a floating one.

    Parameters
    ----------
    A
        (L, M), with scalar values, or with values of length K.
    X
        (M,) or (M, N); with values of length K, (M, N, K). Of the values' dtype.

    Returns
    -------
    Tensor
        (L,), (L, N) or (L, N, K). Differentiable twice in the values and in ``X``.
    """
    X = admitted(X, "the dense matrix")
    if not isinstance(A, MatrixBase) or not active.is_tensor(X):
        raise DGLError(f"spmm takes a sparse matrix and a tensor, got {type(A).__name__} and {type(X).__name__}")
    shape, values = tuple(active.shape(X)), value_shape(A.val)
    if len(shape) not in ((3,) if values else (1, 2)) or shape[0] != A.shape[1] or (values and shape[2:] != values):
        expected = f"({A.shape[1]}, N, {values[0]})" if values else f"({A.shape[1]},) or ({A.shape[1]}, N)"
        raise DGLError(f"a matrix of shape {A.shape} with values of shape {values} times {shape}; expected {expected}")
    return core.spmm(A.along(1), _WEIGHTED, Reducer.SUM, (X, A.val))


@explained
def bspmm(A: MatrixBase, X: Tensor) -> Tensor:
    """Return ``A @ X`` for each of the K elements of the values: ``X`` is (M, N, K); see :func:`spmm`."""
    return spmm(A, X)


# -- dense times dense, at sparse indices ------------------------------------------------------------------------------
@explained
def sddmm(A: Matrix, X1: Tensor, X2: Tensor) -> Matrix:
    """Return ``(X1 @ X2) * A`` at the nonzeros of ``A`` by g-SDDMM; the dense product is never stored.

    Raises DGLError: shapes or dtypes do not fit, or the dtype is not a floating one.

    Parameters
    ----------
    A
        (L, N), with scalar values or values of length K.
    X1, X2
        (L, M) and (M, N); or (L,) and (N,), whose outer product is taken; or (L, M, K) and (M, N, K), one product for
        each element of the values, which scalars are stretched to.

    Returns
    -------
    SparseMatrix
        The structure of ``A``, with its kind of values, or values of length K. Differentiable twice.
    """
    X1, X2 = admitted(X1, "the first dense matrix"), admitted(X2, "the second dense matrix")
    for x in (X1, X2):
        if not active.is_tensor(x):
            raise DGLError(f"sddmm takes a sparse matrix and two tensors, got {type(x).__name__}")
    first, second = tuple(active.shape(X1)), tuple(active.shape(X2))
    ndim, values = len(first), value_shape(A.val)
    inner_fits = ndim == 1 or first[1:2] == second[:1]
    if ndim not in (1, 2, 3) or len(second) != ndim or not inner_fits or first[2:] != second[2:]:
        hint = "; X2.T transposes the second" if ndim == 2 and first == second else ""
        raise DGLError(
            f"X1 of shape {first} times X2 of shape {second} is not understood; expected (L, M) and (M, N), perhaps "
            f"with a K last{hint}"
        )
    if (first[0], second[min(ndim - 1, 1)]) != A.shape or (ndim == 3 and values not in ((), first[2:])):
        raise DGLError(
            f"{first} times {second} sampled at a matrix of shape {A.shape} with values of shape {values}; "
            "the product must have that shape, and its elements those values"
        )
    adj = A.along(1)
    if ndim == 1:
        product = core.sddmm(adj, _PRODUCT, (X1, X2))
        return A.like(_unsqueezed(product) * A.val if values else product * A.val)
    if ndim == 2:
        product = core.sddmm(adj, _PRODUCT, (X1, X2.swapaxes(0, 1)), dot=True)  # (nnz, 1)
        return A.like(product * A.val if values else active.reshape(product, (-1,)) * A.val)
    product = core.sddmm(adj, _PRODUCT, (X1.swapaxes(1, 2), X2.swapaxes(0, 1).swapaxes(1, 2)), dot=True)
    product = active.reshape(product, (A.nnz, *first[2:]))
    return A.like(product * (A.val if values else _unsqueezed(A.val)))


@explained
def bsddmm(A: Matrix, X1: Tensor, X2: Tensor) -> Matrix:
    """Return ``(X1 @ X2) * A`` for each of K elements: (L, M, K) and (M, N, K); see :func:`sddmm`."""
    return sddmm(A, X1, X2)


def _unsqueezed(x: Tensor) -> Tensor:
    return active.reshape(x, (active.shape(x)[0], 1))


# -- sparse times sparse -----------------------------------------------------------------------------------------------
@explained
def spspmm(A: Matrix, B: Matrix) -> Matrix:
    """Return ``A @ B`` for matrices (L, M) and (M, N) with scalar values: (L, N), in order of row, then column.

    An entry stands wherever a product of two entries falls, even if they cancel. Without a gradient SciPy multiplies;
    with one, or while torch traces or transforms, every product of two entries is an edge from ``A``'s entry to the
    result's, and a g-SpMM adds them up, so that memory grows with the number of products. Differentiable twice.

    Raises DGLError: shapes or dtypes do not fit, or values are vectors.
    """
    for x in (A, B):
        if not isinstance(x, MatrixBase):
            raise DGLError(f"spspmm takes two sparse matrices, got {type(x).__name__}")
        if value_shape(x.val):
            raise DGLError(f"spspmm takes scalar values, got values of shape {value_shape(x.val)}")
    if A.shape[1] != B.shape[0] or active.dtype(A.val) != active.dtype(B.val):
        raise DGLError(
            f"{A.shape} {active.dtype(A.val)} times {B.shape} {active.dtype(B.val)}; the inner sizes and the dtypes "
            "must be the same"
        )
    records = active.requires_grad(A.val) or active.requires_grad(B.val) or active.needs_operator((A.val, B.val))
    if not records and active.dtype(A.val) in ("float32", "float64", "int32", "int64"):
        return _by_scipy(A, B)
    return _by_products(A, B)


def _by_scipy(A: Matrix, B: Matrix) -> Matrix:
    """Return the product. SciPy leaves out what cancels, so the structure comes from a product of ones."""
    first, second = _as_scipy(A), _as_scipy(B)
    product = first @ second
    first.data, second.data = np.ones_like(first.data), np.ones_like(second.data)
    pattern = first @ second
    product.sort_indices()
    pattern.sort_indices()
    row = np.repeat(np.arange(A.shape[0]), np.diff(pattern.indptr))
    data = product.data
    if product.nnz < pattern.nnz:
        width = B.shape[1]
        codes = np.repeat(np.arange(A.shape[0]), np.diff(product.indptr)) * width + product.indices
        data = np.zeros(pattern.nnz, product.dtype)
        data[np.searchsorted(row * width + pattern.indices, codes)] = product.data
    return A.from_row_col(row, pattern.indices, active.from_numpy(data), (A.shape[0], B.shape[1]))


def _as_scipy(A: MatrixBase) -> Any:
    import scipy.sparse  # 0.2 s, which `import dglite` must not pay

    rows = A.along(1).csc()
    values = active.to_numpy(A.val)
    data = values if rows.edge_ids is None else values[rows.edge_ids]
    return scipy.sparse.csr_array((data, rows.indices, rows.indptr), shape=A.shape)


def _by_products(A: Matrix, B: Matrix) -> Matrix:
    """Multiply by listing all products: entry (i, k) of A with every entry (k, j) of B's row k."""
    rows = B.along(1).csc()
    row, inner = A.row_col()
    counts = np.diff(rows.indptr).astype(np.int64)[inner]
    entries = expand_ranges(rows.indptr[inner].astype(np.int64), counts)
    ours = np.repeat(np.arange(A.nnz), counts)
    num_cols = B.shape[1]
    product_row, product_col = row[ours].astype(np.int64), rows.indices[entries]
    order = np.lexsort((product_col, product_row))
    product_row, product_col = product_row[order], product_col[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (product_row[1:] != product_row[:-1]) | (product_col[1:] != product_col[:-1])
    first = new.nonzero()[0]
    theirs = take_rows(B.val, rows.edge_ids_of(entries[order]).astype(np.int64))
    place, shape = (product_row[first], product_col[first]), (A.shape[0], num_cols)
    if not is_float(A.val):
        products = take_rows(A.val, ours[order]) * theirs
        groups = grouping(np.append(first, len(order)), np.arange(len(order)))
        return A.from_row_col(*place, reduced(groups, products, Reducer.SUM), shape)
    dtype = index_dtype_for(A.nnz, len(first), len(order))
    matrix = Compressed(np.append(first, len(order)).astype(dtype), ours[order].astype(dtype))
    terms = Adjacency.from_rows(A.nnz, len(first), matrix)
    return A.from_row_col(*place, core.spmm(terms, _WEIGHTED, Reducer.SUM, (A.val, theirs)), shape)


@overload
def matmul(A: Matrix, B: Matrix) -> Matrix: ...
@overload
def matmul(A: MatrixBase | Tensor, B: Tensor) -> Tensor: ...
@explained
def matmul(A: Any, B: Any) -> Any:
    """Return ``A @ B``: :func:`spmm` for a dense ``B``, :func:`spspmm` for a sparse one; two tensors are multiplied.

    Raises DGLError: a dense ``A`` with a sparse ``B``: use ``(B.T @ A.T).T``.
    """
    sparse = isinstance(A, MatrixBase), isinstance(B, MatrixBase)
    A, B = admitted(A, "the first matrix"), admitted(B, "the second matrix")
    for x, is_sparse in zip((A, B), sparse, strict=True):
        if not is_sparse and not active.is_tensor(x):
            hint = "; g.adj() is the sparse matrix of a graph" if type(x).__name__ == "DGLGraph" else ""
            raise DGLError(f"matmul takes sparse matrices and tensors, got {type(x).__name__}{hint}")
    if sparse == (True, True):
        return spspmm(A, B)
    if sparse == (True, False):
        return spmm(A, B)
    if sparse == (False, True):
        raise DGLError("a dense matrix times a sparse one is not supported; write (B.T @ A.T).T")
    return A @ B
