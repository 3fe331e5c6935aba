"""Making sparse matrices: from indices, CSR or CSC, a diagonal, or another matrix's structure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..arguments import explained
from ..backend import Tensor, active, admitted
from ..errors import DGLError
from ..graph.storage import canonical_device
from ..structure import Adjacency
from ..structure.ids import check_range, count_of, integer_array
from ..structure.traced import traced_edges
from .base import checked_values
from .matrix import SparseMatrix

Shape = tuple[int, int]

_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


@explained
def spmatrix(indices: Tensor, val: Tensor | None = None, shape: Shape | None = None) -> SparseMatrix:
    """Make a matrix of entries at given indices.

    Raises DGLError: shapes do not fit, or a place is outside the matrix.

    Parameters
    ----------
    indices
        (2, nnz): rows, then columns; int32 or int64. Places may repeat.
    val
        (nnz,) or (nnz, D); ones of float32 by default.
    shape
        Numbers of rows and columns; one more than the largest by default.

    Examples
    --------
    >>> import torch
    >>> spmatrix(torch.tensor([[1, 1, 2], [2, 4, 3]])).shape
    (3, 5)
    """
    coordinates = integer_array(indices, "indices")
    if coordinates.ndim != 2 or len(coordinates) != 2:
        raise DGLError(f"indices have shape {coordinates.shape}; expected (2, nnz), rows and columns")
    return _from_row_col(coordinates[0], coordinates[1], val, shape, _device(indices))


@explained
def from_coo(row: Tensor, col: Tensor, val: Tensor | None = None, shape: Shape | None = None) -> SparseMatrix:
    """Make a matrix of entries at (``row[i]``, ``col[i]``); see :func:`spmatrix`."""
    if active.compiling() and shape is not None and active.is_tensor(row) and active.is_tensor(col):
        num_rows, num_cols = _checked_shape(shape)
        return matrix_of(traced_edges(col, row, num_cols, num_rows), val, _device(row))
    rows, cols = integer_array(row, "rows"), integer_array(col, "columns")
    if rows.ndim != 1 or rows.shape != cols.shape:
        raise DGLError(f"rows have shape {rows.shape} and columns {cols.shape}; expected (nnz,) both")
    return _from_row_col(rows, cols, val, shape, _device(row))


@explained
def from_csr(indptr: Tensor, indices: Tensor, val: Tensor | None = None, shape: Shape | None = None) -> SparseMatrix:
    """Make a matrix of rows: row i has columns ``indices[indptr[i]:indptr[i + 1]]`` and the values there.

    ``shape`` is (len(indptr) - 1, largest column + 1) by default and may be larger. Errors are those of
    :func:`spmatrix`; also, ``indptr`` must ascend from 0 to nnz.
    """
    return matrix_of(rows_of(indptr, indices, shape), val, _device(indices))


@explained
def from_csc(indptr: Tensor, indices: Tensor, val: Tensor | None = None, shape: Shape | None = None) -> SparseMatrix:
    """Make a matrix of columns: column j has rows ``indices[indptr[j]:indptr[j + 1]]``; see :func:`from_csr`."""
    turned = None if shape is None else _checked_shape(shape)[::-1]
    return matrix_of(rows_of(indptr, indices, turned).reverse(), val, _device(indices))


@explained
def val_like(mat: SparseMatrix, val: Tensor) -> SparseMatrix:
    """Make a matrix with the structure of ``mat`` and other values, (nnz,) or (nnz, D)."""
    return mat.like(val)


@explained
def diag(val: Tensor, shape: Shape | None = None) -> SparseMatrix:
    """Make a matrix with ``val``, (N,) or (N, D), on its diagonal; ``shape``, (N, N) by default, has N as its minimum.

    Raises DGLError: ``val`` has another shape.
    """
    val = admitted(val, "the diagonal")
    if not active.is_tensor(val) or not active.shape(val):
        raise DGLError(
            f"the diagonal must be a tensor of shape (N,) or (N, D), got {val!r:.60}; dglite.sparse.identity((3, 3)) "
            "has ones on it"
        )
    size = int(active.shape(val)[0])
    shape = (size, size) if shape is None else _checked_shape(shape)
    if size != min(shape):
        raise DGLError(f"{size} values for the diagonal of a matrix of shape {shape}; expected {min(shape)}")
    indices = np.arange(size)
    return _from_row_col(indices, indices, val, shape, None)


@explained
def identity(shape: Shape, d: int | None = None, dtype: Any = None, device: Any = None) -> SparseMatrix:
    """Make a matrix with ones on its diagonal: numbers, or vectors of length ``d``; float32 by default."""
    size = min(_checked_shape(shape))
    name = "float32" if dtype is None else str(dtype).rpartition(".")[2]
    shape_of_values = (size,) if d is None else (size, count_of(d, "d", most=2**31 - 1))
    ones = active.full(shape_of_values, 1, name, canonical_device(device))
    return diag(ones, shape)


# -- parts -------------------------------------------------------------------------------------------------------------
def _device(ids: Any) -> Any:
    return active.device(ids) if active.is_tensor(ids) else None


def _checked_shape(shape: Any) -> Shape:
    lengths = tuple(shape) if isinstance(shape, Iterable) else ()
    if len(lengths) != 2:
        raise DGLError(f"a shape is two numbers from 0 up, got {shape!r:.60}")
    return count_of(lengths[0], "the number of rows"), count_of(lengths[1], "the number of columns")


def _idtype(*ids: np.ndarray) -> np.dtype:
    return _INT32 if all(array.dtype == _INT32 for array in ids) else _INT64


def _from_row_col(row: np.ndarray, col: np.ndarray, val: Any, shape: Shape | None, device: Any) -> SparseMatrix:
    num_rows, num_cols = _bounds(row, col) if shape is None else _checked_shape(shape)
    check_range(row, num_rows, "row")
    check_range(col, num_cols, "column")
    adj = Adjacency.from_coo(num_cols, num_rows, col, row, _idtype(row, col), validate=False)
    return matrix_of(adj, val, device)


def _bounds(*ids: np.ndarray) -> Shape:
    first, second = (int(array.max()) + 1 if array.size else 0 for array in ids)
    return first, second


def rows_of(indptr: Any, indices: Any, shape: Shape | None, copy: bool = True) -> Adjacency:
    """Return the structure of compressed rows; without ``copy`` arrays of its own dtype are shared."""
    pointers, cols = integer_array(indptr, "indptr"), integer_array(indices, "indices")
    if pointers.ndim != 1 or cols.ndim != 1 or not len(pointers):
        raise DGLError(f"indptr has shape {pointers.shape}, indices {cols.shape}; expected (N + 1,) and (nnz,)")
    num_rows, num_cols = (len(pointers) - 1, *_bounds(cols, cols)[:1]) if shape is None else _checked_shape(shape)
    if num_rows > len(pointers) - 1:
        pointers = np.append(pointers, np.full(num_rows - len(pointers) + 1, pointers[-1]))
    check_range(cols, num_cols, "column")
    return Adjacency.from_csc(num_cols, num_rows, pointers, cols, None, _idtype(cols), copy)


def matrix_of(adj: Any, val: Any, device: Any = None) -> SparseMatrix:
    """Return the matrix of a structure and its values, ones where ``val`` is None."""
    if val is None:
        val = active.full((adj.num_edges,), 1, "float32", active.cpu() if device is None else device)
    matrix = object.__new__(SparseMatrix)
    matrix._adj, matrix._val = adj, checked_values(val, adj.num_edges)
    return matrix
