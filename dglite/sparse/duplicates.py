"""Entries with the same indices: finding and adding them, and matching the indices of two matrices."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from ..opspec import Reducer
from ..structure import Adjacency, Compressed
from ..structure.distinct import numbered
from ..structure.formats import index_dtype_for
from .base import MatrixBase, take_rows
from .reduction import reduced

Matrix = TypeVar("Matrix", bound=MatrixBase)


def has_duplicate(A: MatrixBase) -> bool:
    """Whether two entries share a place."""
    return A.along(0).is_multigraph


def coalesce(A: Matrix) -> Matrix:
    """Return the matrix with its entries in order of row, then column, those that share a place added up."""
    if A.nnz == 0:
        return A
    return summed(A, *A.along(0).sorted_edges())  # edges run from columns to rows; reversed, the rows come first


def summed(A: Matrix, row: np.ndarray, col: np.ndarray, order: np.ndarray) -> Matrix:
    """Return the matrix of entries ``order`` of ``A.val`` at sorted indices; those with the same indices are summed."""
    new = np.empty(len(row), np.bool_)
    new[:1] = True
    np.not_equal(row[1:], row[:-1], out=new[1:])
    new[1:] |= col[1:] != col[:-1]
    first = new.nonzero()[0]
    if len(first) == len(row):
        return A.from_row_col(row, col, take_rows(A.val, order.astype(np.int64, copy=False), permutation=True))
    groups = grouping(np.append(first, len(row)), order)
    return A.from_row_col(row[first], col[first], reduced(groups, A.val, Reducer.SUM))


def grouping(starts: np.ndarray, order: np.ndarray) -> Adjacency:
    """Return the relation in which group i has the edges ``order[starts[i]:starts[i + 1]]``; every edge is in one."""
    dtype = index_dtype_for(1, len(starts) - 1, len(order))
    indices = np.zeros(len(order), dtype)
    return Adjacency.from_rows(1, len(starts) - 1, Compressed(starts.astype(dtype), indices, order.astype(dtype)))


def keys_of(A: MatrixBase, B: MatrixBase) -> tuple[np.ndarray, np.ndarray]:
    """Return a number for each entry of two matrices of one shape: equal for equal indices, and in their order."""
    (row, col), (other_row, other_col) = A.row_col(), B.row_col()
    num_rows, num_cols = A.shape
    rows, cols = np.concatenate([row, other_row]), np.concatenate([col, other_col])
    if num_rows * num_cols >= 2**63:  # number only the rows and columns that occur
        rows, cols = (numbered(x)[1] for x in (rows, cols))
        num_cols = int(cols.max(initial=-1)) + 1
    keys = rows.astype(np.int64) * num_cols + cols
    return keys[: A.nnz], keys[A.nnz :]
