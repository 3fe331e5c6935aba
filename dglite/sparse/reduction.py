"""Reductions of a sparse matrix's entries along rows, columns or both; softmax along rows or columns.

Floating values go through g-SpMM. Integers, and products, whose gradient must be exact with zeros among the factors,
are reduced in buckets of rows with equally many entries: as many tensor operations as there are different numbers.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from ..arguments import explained
from ..backend import Tensor, active
from ..errors import DGLError
from ..expr import Operand, Side
from ..ops import core
from ..opspec import Reducer
from ..structure import Adjacency
from ..structure.compressed import expand_ranges
from .base import MatrixBase, is_float, take_rows, value_shape

Matrix = TypeVar("Matrix", bound=MatrixBase)

_REDUCERS = {"sum": Reducer.SUM, "smax": Reducer.MAX, "smin": Reducer.MIN, "smean": Reducer.MEAN, "sprod": Reducer.PROD}
_VALUE = Operand(Side.E, 0)


@explained
def reduce(input: MatrixBase, dim: int | None = None, rtype: str = "sum") -> Tensor:
    """Reduce the entries of each column (``dim`` 0), each row (1), or all of them (None).

    Places without an entry do not count; a row or column without entries gives 0. Entries that share a place count one
    by one.

    Raises DGLError: an unknown name or ``dim``, or the mean of integers.

    Parameters
    ----------
    rtype
        ``sum``, ``smax``, ``smin``, ``smean`` or ``sprod``.

    Returns
    -------
    Tensor
        (num_cols, *D), (num_rows, *D) or (*D,), of the values' dtype.
    """
    return _reduce(input, dim, rtype)


def _reduce(input: MatrixBase, dim: int | None, rtype: str) -> Tensor:
    if rtype not in _REDUCERS:
        raise DGLError(f"rtype={rtype!r} is not understood; expected one of {', '.join(_REDUCERS)}")
    reducer = _REDUCERS[rtype]
    if reducer is Reducer.MEAN and not (is_float(input.val) or "complex" in active.dtype(input.val)):
        raise DGLError(f"values of dtype {active.dtype(input.val)} have no mean; convert them, e.g. by A.float()")
    if dim is None:
        return _all_of(input.val, reducer)
    return reduced(input.along(dim), input.val, reducer)


@explained
def sum(input: MatrixBase, dim: int | None = None) -> Tensor:
    """Return the sum of the entries; see :func:`reduce`."""
    return _reduce(input, dim, "sum")


@explained
def smax(input: MatrixBase, dim: int | None = None) -> Tensor:
    """Return the largest entry; see :func:`reduce`. The gradient goes to the first among equals."""
    return _reduce(input, dim, "smax")


@explained
def smin(input: MatrixBase, dim: int | None = None) -> Tensor:
    """Return the smallest entry; see :func:`reduce`. The gradient goes to the first among equals."""
    return _reduce(input, dim, "smin")


@explained
def smean(input: MatrixBase, dim: int | None = None) -> Tensor:
    """Return the mean of the entries of each row (``dim`` 1), column (0) or of all (None); 0 for a row without entries.

    Shapes and errors are those of :func:`reduce`.
    """
    return _reduce(input, dim, "smean")


@explained
def sprod(input: MatrixBase, dim: int | None = None) -> Tensor:
    """Return the product of the entries; see :func:`reduce`."""
    return _reduce(input, dim, "sprod")


@explained
def softmax(input: Matrix, dim: int = 1) -> Matrix:
    """Normalise the entries of each row (``dim`` 1) or column (0) by a softmax; places without an entry stay empty.

    The values, (nnz,) or (nnz, D), are normalised for each of the D elements; those of the result have the same shape.
    Raises ``DGLError`` for values that are no floats, and for a ``dim`` that is neither 0 nor 1.
    """
    if not isinstance(input, MatrixBase):
        raise DGLError(
            f"dglite.sparse.softmax takes a sparse matrix, got {type(input).__name__}; of tensors, use torch.softmax"
        )
    adj = input.along(dim)
    if not is_float(input.val):
        raise DGLError(f"a softmax of values of dtype {active.dtype(input.val)}; convert them, e.g. by A.float()")
    return input.like(core.edge_softmax(adj, input.val))


# -- parts -------------------------------------------------------------------------------------------------------------
def _all_of(val: Tensor, reducer: Reducer) -> Tensor:
    count = active.shape(val)[0]
    if count == 0:
        return active.full(value_shape(val), 0, active.dtype(val), active.device(val))
    whole = active.reshape(val, (1, count, *value_shape(val)))
    return active.reshape(_reduced_bucket(whole, reducer), value_shape(val))


def reduced(adj: Adjacency, val: Tensor, reducer: Reducer) -> Tensor:
    """Reduce the values of the edges of each destination: (num_dst, *D), 0 for destinations without edges."""
    if is_float(val) and reducer.fused:
        return core.spmm(adj, _VALUE, reducer, (val,))
    csc, degrees = adj.csc(), adj.in_degrees()
    by_degree = np.argsort(degrees, kind="stable")
    sizes, first = np.unique(degrees[by_degree], return_index=True)
    counts = np.diff(np.append(first, adj.num_dst))
    entries = expand_ranges(csc.indptr[by_degree].astype(np.int64), degrees[by_degree])
    sorted_values = take_rows(val, csc.edge_ids_of(entries).astype(np.int64), permutation=True)
    parts = []
    runs = active.split(sorted_values, (sizes * counts).tolist())
    for size, count, run in zip(sizes.tolist(), counts.tolist(), runs, strict=True):
        if size == 0:
            parts.append(active.full((count, *value_shape(val)), 0, active.dtype(val), active.device(val)))
        else:
            bucket = active.reshape(run, (count, size, *value_shape(val)))
            parts.append(_reduced_bucket(bucket, reducer))
    if not parts:
        return active.full((0, *value_shape(val)), 0, active.dtype(val), active.device(val))
    back = np.empty(adj.num_dst, np.int64)
    back[by_degree] = np.arange(adj.num_dst)
    return take_rows(active.concat(parts), back, permutation=True)


def _reduced_bucket(values: Tensor, reducer: Reducer) -> Tensor:
    """Reduce the second axis of (rows, entries, *D), in the values' dtype."""
    dtype = active.dtype(values)
    if reducer is Reducer.MAX:
        return active.max(values, 1)
    if reducer is Reducer.MIN:
        return active.min(values, 1)
    if reducer is Reducer.PROD:
        return active.astype(active.prod(values, 1), dtype)
    total = active.astype(active.sum(values, 1), dtype)
    return total / active.shape(values)[1] if reducer is Reducer.MEAN else total
