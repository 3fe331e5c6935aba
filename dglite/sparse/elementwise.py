"""Element-wise arithmetic: two sparse matrices, a matrix and a number, a matrix and a broadcast vector."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..arguments import explained
from ..backend import Tensor, active
from ..errors import DGLError
from ..expr import Operand, Side
from ..ops import core
from .base import MatrixBase, is_float, is_scalar, take_rows, value_shape
from .duplicates import coalesce, has_duplicate, keys_of

Matrix = TypeVar("Matrix", bound=MatrixBase)


@explained
def add(A: Matrix, B: Matrix) -> Matrix:
    """Return ``A + B``, coalesced: an entry wherever one of them has one, in order of row, then column."""
    _check_pair(A, B, "add")
    (row, col), (other_row, other_col) = A.row_col(), B.row_col()
    rows, cols = np.concatenate([row, other_row]), np.concatenate([col, other_col])
    return coalesce(A.from_row_col(rows, cols, active.concat([A.val, B.val])))


@explained
def sub(A: Matrix, B: Matrix) -> Matrix:
    """Return ``A - B``; see :func:`add`."""
    _check_pair(A, B, "sub")
    return add(A, B.like(-B.val))


@explained
def mul(A: Any, B: Any) -> Any:
    """Return the product of a matrix and a number, or of two matrices place by place.

    Two matrices give an entry where both have one, in order of row, then column; entries that share a place are added
    up first.
    """
    if is_scalar(A):
        A, B = B, A
    if is_scalar(B):
        return A.like(A.val * B)
    _check_pair(A, B, "mul")
    A, B = coalesce(A), coalesce(B)
    _, ours, theirs = np.intersect1d(*keys_of(A, B), assume_unique=True, return_indices=True)
    row, col = A.row_col()
    return A.from_row_col(row[ours], col[ours], take_rows(A.val, ours) * take_rows(B.val, theirs))


@explained
def div(A: Matrix, B: Any) -> Matrix:
    """Return ``A`` divided by a number, or element-wise by a matrix with entries at the same indices.

    Entries keep the order of ``A``. Integers give floats.

    Raises DGLError: two matrices do not have the same indices, or have several entries at one.
    """
    if is_scalar(B):
        return A.like(A.val / B)
    _check_pair(A, B, "div")
    if has_duplicate(A) or has_duplicate(B):
        raise DGLError("division needs matrices without repeated indices; coalesce() them first")
    ours, theirs = keys_of(A, B)
    order, other = np.argsort(ours), np.argsort(theirs)
    if A.nnz != B.nnz or not np.array_equal(ours[order], theirs[other]):
        raise DGLError("division needs matrices with entries at the same indices; these differ")
    partner = np.empty(A.nnz, np.int64)
    partner[order] = other
    return A.like(A.val / take_rows(B.val, partner, permutation=True))


@explained
def power(A: Matrix, scalar: Any) -> Matrix:
    """Return the matrix with the value of every entry raised to a number; places without an entry stay empty."""
    if not is_scalar(scalar):
        raise DGLError(f"the exponent must be a number, got {type(scalar).__name__}")
    return A.like(A.val**scalar)


@explained
def neg(A: Matrix) -> Matrix:
    """Return the matrix with every entry negated."""
    return A.like(-A.val)


@explained
def inv(A: Matrix) -> Matrix:
    """Return the inverse of a square diagonal matrix with scalar values and no empty place on the diagonal.

    Raises DGLError: the matrix is of another sort.
    """
    num_rows, num_cols = A.shape
    row, col = A.row_col()
    if num_rows != num_cols or not np.array_equal(row, col) or value_shape(A.val):
        raise DGLError(f"only square diagonal matrices of scalars are inverted; got shape {A.shape}")
    whole = coalesce(A)
    if whole.nnz != num_rows:
        raise DGLError(f"{num_rows - whole.nnz} of {num_rows} diagonal entries are missing; there is no inverse")
    return whole.like(1.0 / whole.val)


# -- broadcasting a vector ---------------------------------------------------------------------------------------------
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name) for name in ("add", "sub", "mul", "truediv")
}


@explained
def sp_broadcast_v(A: Matrix, v: Tensor, op: str) -> Matrix:
    """Return ``A`` with ``op`` (``add``, ``sub``, ``mul``, ``truediv``) of each entry and a vector's element.

    ``v`` of shape (num_cols,) or (1, num_cols) has an element per column, of shape (num_rows, 1) one per row; values of
    D elements all meet the same one.

    Raises DGLError: the shapes differ, or the operator is not supported.
    """
    if op not in _OPERATORS:
        raise DGLError(f"op={op!r} is not understood; expected one of {', '.join(_OPERATORS)}")
    shape, (num_rows, num_cols) = tuple(active.shape(v)), A.shape
    if shape in ((num_cols,), (1, num_cols)):
        side, dim, flat = Side.U, 1, active.reshape(v, (num_cols,))
    elif shape == (num_rows, 1):
        side, dim, flat = Side.V, 0, active.reshape(v, (num_rows,))
    else:
        raise DGLError(
            f"a vector of shape {shape} does not fit a matrix of shape {A.shape}; expected ({num_cols},), "
            f"(1, {num_cols}) or ({num_rows}, 1)"
        )
    wide = active.reshape(flat, (-1, 1)) if value_shape(A.val) else flat
    if is_float(A.val) and active.dtype(v) == active.dtype(A.val):
        expr = _OPERATORS[op](Operand(Side.E, 0), Operand(side, 1))
        return A.like(core.sddmm(A.along(1), expr, (A.val, wide)))
    return A.like(_OPERATORS[op](A.val, take_rows(wide, A.row_col()[dim].astype(np.int64))))


@explained
def sp_add_v(A: Matrix, v: Tensor) -> Matrix:
    """Return ``A`` with a vector added; see :func:`sp_broadcast_v`."""
    return sp_broadcast_v(A, v, "add")


@explained
def sp_sub_v(A: Matrix, v: Tensor) -> Matrix:
    """Return ``A`` with a vector subtracted; see :func:`sp_broadcast_v`."""
    return sp_broadcast_v(A, v, "sub")


@explained
def sp_mul_v(A: Matrix, v: Tensor) -> Matrix:
    """Return ``A`` multiplied by a vector; see :func:`sp_broadcast_v`."""
    return sp_broadcast_v(A, v, "mul")


@explained
def sp_div_v(A: Matrix, v: Tensor) -> Matrix:
    """Return ``A`` divided by a vector; see :func:`sp_broadcast_v`."""
    return sp_broadcast_v(A, v, "truediv")


def _check_pair(A: Any, B: Any, name: str) -> None:
    for x in (A, B):
        if not isinstance(x, MatrixBase):
            raise DGLError(f"{name} takes sparse matrices, got {type(x).__name__}")
    if A.shape != B.shape or value_shape(A.val) != value_shape(B.val):
        raise DGLError(
            f"{name} of matrices of shapes {A.shape} and {B.shape} with values of shapes {value_shape(A.val)} and "
            f"{value_shape(B.val)}; expected the same"
        )
