"""Selecting from sparse matrices: rows or columns by index, range or at random, and compacting."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from ..arguments import explained
from ..backend import Tensor, active
from ..errors import DGLError
from ..random import generator
from ..structure.compressed import expand_ranges
from ..structure.distinct import contains, distinct
from ..structure.ids import as_ids, count_of
from .base import MatrixBase, take_rows, value_shape

Matrix = TypeVar("Matrix", bound=MatrixBase)

_NAMES = ("column", "row")


@explained
def index_select(A: Matrix, dim: int, index: Tensor) -> Matrix:
    """Return the given rows (``dim`` 0) or columns (1), in the given order, which may repeat.

    Entries are ordered by their place in ``index``. Values keep their gradient.

    Raises ``ValueError`` or ``TypeError`` or ``DGLError``: ``dim`` is neither 0 nor 1, ``index`` is no tensor, or a
    number is out of range.
    """
    _check_dim(dim)
    if not active.is_tensor(index) and not isinstance(index, np.ndarray):
        raise TypeError(f"{type(index).__name__} is unsupported input type; expected a tensor of numbers")
    return _selected(A, dim, as_ids(index, A.shape[dim], _NAMES[1 - dim]).astype(np.int64))


@explained
def range_select(A: Matrix, dim: int, index: slice) -> Matrix:
    """Return the rows (``dim`` 0) or columns (1) in a slice of step 1.

    Raises ``ValueError`` or ``TypeError`` or ``NotImplementedError``: ``dim`` is neither 0 nor 1, ``index`` is no
    slice, or has another step.
    """
    _check_dim(dim)
    if not isinstance(index, slice):
        raise TypeError(f"{type(index).__name__} is unsupported input type; expected a slice")
    if index.step not in (None, 1):
        raise NotImplementedError("Slice with step other than 1 are not supported yet.")
    return _selected(A, dim, np.arange(*index.indices(A.shape[dim])))


@explained
def sample(
    A: Matrix, dim: int, fanout: int, ids: Tensor | None = None, replace: bool = False, bias: bool = False
) -> Matrix:
    """Return up to ``fanout`` entries, drawn by chance, of each of the given rows (``dim`` 0) or columns (1).

    Raises ValueError, DGLError: ``dim`` is neither 0 nor 1, a number is out of range, ``fanout`` is negative, or values
    cannot be weights.

    Parameters
    ----------
    ids
        Rows or columns, which become 0, 1, ... of the result; all by default.
    replace
        Draw ``fanout`` entries of each row that has any, the same one several times perhaps. Otherwise a row with no
        more than ``fanout`` entries keeps all of them.
    bias
        Draw in proportion to the values, scalars from 0 up; entries of value 0 are never drawn.

    Draws follow :func:`dglite.seed`.
    """
    _check_dim(dim)
    fanout = count_of(fanout, "fanout")
    size = A.shape[dim]
    candidates = np.arange(size) if ids is None else as_ids(ids, size, _NAMES[1 - dim]).astype(np.int64)
    counts, cols, edge_ids = _rows_of(A, dim, candidates)
    weights = _weights(A, edge_ids) if bias else None
    if replace:
        picked, new = _with_replacement(counts, fanout, weights)
    else:
        picked, new = _without_replacement(counts, fanout, weights)
    return _placed(A, dim, new, cols[picked], edge_ids[picked], len(candidates))


@explained
def compact(A: Matrix, dim: int, leading_indices: Any = None) -> tuple[Matrix, Tensor]:
    """Drop empty rows (``dim`` 0) or columns (1) and number the others anew.

    Raises ValueError, DGLError: ``dim`` is neither 0 nor 1, or a number is out of range or given twice.

    Parameters
    ----------
    leading_indices
        Rows or columns that come first, in this order, even if they are empty; the others follow in ascending order.

    Returns
    -------
    tuple
        The matrix, and the old number of each row or column.
    """
    _check_dim(dim)
    size = A.shape[dim]
    leading = as_ids([] if leading_indices is None else leading_indices, size, _NAMES[1 - dim]).astype(np.int64)
    if len(distinct(leading)) != len(leading):
        raise DGLError("leading_indices holds a number twice; give each once")
    places = [x.astype(np.int64) for x in A.row_col()]
    present = distinct(places[dim])
    old = np.concatenate([leading, present[~contains(leading, present)]])
    order = np.argsort(old)
    places[dim] = order[np.searchsorted(old, places[dim], sorter=order)]
    shape = (len(old), A.shape[1]) if dim == 0 else (A.shape[0], len(old))
    return A.from_row_col(places[0], places[1], A.val, shape), A.ids(old)


# -- parts -------------------------------------------------------------------------------------------------------------
def _check_dim(dim: int) -> None:
    if dim not in (0, 1):
        raise ValueError(f"The selection dimension should be 0 or 1, got {dim!r}.")


def _rows_of(A: MatrixBase, dim: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each row's number of entries, and row after row their other ends and their numbers."""
    stored = A.along(1 - dim).csc()
    counts = (stored.indptr[rows + 1] - stored.indptr[rows]).astype(np.int64)
    entries = expand_ranges(stored.indptr[rows].astype(np.int64), counts)
    return counts, stored.indices[entries], stored.edge_ids_of(entries).astype(np.int64)


def _selected(A: Matrix, dim: int, rows: np.ndarray) -> Matrix:
    counts, cols, edge_ids = _rows_of(A, dim, rows)
    return _placed(A, dim, np.repeat(np.arange(len(rows)), counts), cols, edge_ids, len(rows))


def _placed(A: Matrix, dim: int, new: np.ndarray, other: np.ndarray, edge_ids: np.ndarray, size: int) -> Matrix:
    val = take_rows(A.val, edge_ids)
    if dim == 0:
        return A.from_row_col(new, other, val, (size, A.shape[1]))
    return A.from_row_col(other, new, val, (A.shape[0], size))


def _weights(A: MatrixBase, edge_ids: np.ndarray) -> np.ndarray:
    if value_shape(A.val):
        raise DGLError(f"values of shape {value_shape(A.val)} cannot be weights; expected scalars")
    weights = active.to_numpy(A.val)[edge_ids].astype(np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise DGLError("values are weights with bias=True; they must be finite and not negative")
    return weights


def _without_replacement(counts: np.ndarray, fanout: int, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the chosen positions in the list of entries, ascending, and the row of each.

    Every entry has a clock; the first ``fanout`` of a row to ring are chosen. An exponential clock of rate w makes
    that a draw in proportion to w, without replacement (Efraimidis and Spirakis, 2006).
    """
    row = np.repeat(np.arange(len(counts)), counts)
    if weights is None:
        clock = generator().random(len(row))
    else:
        possible = weights > 0
        clock = np.full(len(row), np.inf)
        clock[possible] = generator().standard_exponential(len(row))[possible] / weights[possible]
    order = np.lexsort((clock, row))
    rank = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    picked = np.sort(order[(rank < fanout) & np.isfinite(clock[order])])
    return picked, row[picked]


def _with_replacement(counts: np.ndarray, fanout: int, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the chosen positions in the list of entries, ascending by row, and the row of each."""
    first = np.cumsum(counts) - counts
    if weights is None:
        rows = np.repeat(np.flatnonzero(counts), fanout)
        picked = first[rows] + (generator().random(len(rows)) * counts[rows]).astype(np.int64)
        return np.sort(picked), rows
    running = np.concatenate([[0.0], np.cumsum(weights)])
    totals = running[first + counts] - running[first]
    rows = np.repeat(np.flatnonzero(totals > 0), fanout)
    target = running[first[rows]] + generator().random(len(rows)) * totals[rows]
    picked = np.searchsorted(running, target, side="right") - 1
    # Rounding may carry a target to the row's end, past its last entry with a weight.
    heavy = np.flatnonzero(weights > 0)
    last = heavy[np.searchsorted(heavy, (first + counts)[rows]) - 1] if len(heavy) else picked
    return np.sort(np.minimum(picked, last)), rows
