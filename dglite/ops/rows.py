"""Operations on rows whose gradients are kernels, too: gathering rows, reducing segments of rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..expr import Operand, Side
from ..opspec import Reducer
from ..structure.adjacency import Adjacency
from .operands import check_tensor
from .sparse import spmm, spmm_unchecked

__all__ = ["RowIndex", "segment_reduce", "segments", "take_rows"]


class RowIndex:
    """Rows that are taken more than once: what the gradient needs is made the first time. They are never changed."""

    __slots__ = ("_kept", "rows")

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows
        self._kept: dict[int, Adjacency] = {}

    def taken_from(self, num_rows: int) -> Adjacency:
        """Return the relation of every row that is taken to the one of ``num_rows`` that it comes from."""
        found = self._kept.get(num_rows)
        if found is None:
            count = len(self.rows)
            made = Adjacency.from_coo(count, num_rows, np.arange(count), self.rows, validate=False)
            found = self._kept.setdefault(num_rows, made)
        return found


def take_rows(x: Tensor, rows: np.ndarray | RowIndex, permutation: bool = False) -> Tensor:
    """Return ``x[rows]``, (len(rows), *feat).

    The gradient is a g-SpMM, not a scatter; with ``permutation`` (every row exactly once) it is the inverse gather. A
    :class:`RowIndex` keeps the structure of the former. Negative or too large rows raise ``IndexError``.
    """
    if isinstance(rows, RowIndex):
        if _is_gather(x):
            return active.take(x, rows.rows)
        return active.apply(_TakeRows(rows.rows, active.shape(x)[0], permutation, rows), x)
    if _is_gather(x):
        return active.take(x, rows)
    return active.apply(_TakeRows(rows, active.shape(x)[0], permutation), x)


def _is_gather(x: Tensor) -> bool:
    """Whether rows are taken by the library's own gather, which compilers and transforms know."""
    return active.compiling() or not active.requires_grad(x) or active.needs_operator((x,))


class _TakeRows:
    saved = ()

    def __init__(self, rows: np.ndarray, num_rows: int, permutation: bool, index: RowIndex | None = None) -> None:
        self.rows, self.num_rows, self.permutation, self.index = rows, num_rows, permutation, index

    def forward(self, x: Tensor) -> Tensor:
        return active.take(x, self.rows)

    def backward(self, inputs: Sequence[Tensor | None], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        if self.permutation:
            inverse = np.empty_like(self.rows)
            inverse[self.rows] = np.arange(len(self.rows))
            return [take_rows(grad, inverse, permutation=True)]
        index = RowIndex(self.rows) if self.index is None else self.index
        return [spmm_unchecked(index.taken_from(self.num_rows), Operand(Side.U, 0), Reducer.SUM, (grad,))]


def segment_reduce(lengths: np.ndarray, x: Tensor, reducer: Reducer) -> Tensor:
    """Reduce consecutive segments of rows of ``x``: ``(len(lengths), *feat)``, 0 for an empty segment."""
    if not reducer.fused:
        raise DGLError(f"segments have no kernel for {reducer.value!r}; expected sum, mean, max, min or logsumexp")
    relation = segments(lengths)
    check_tensor(x, relation.num_edges, "element of a segment")
    return spmm(relation, Operand(Side.E, 0), reducer, (x,))


def segments(lengths: np.ndarray) -> Adjacency:
    """Return the relation whose destination i has the next ``lengths[i]`` edges, int64, from as many sources.

    Of few elements it is the one made before, with what was found about calls: a batch is read more than once.
    """
    if len(lengths) + int(lengths.sum()) > _FEW_ELEMENTS:
        return _segments(lengths.data)
    return _few_segments(lengths.tobytes())


def _segments(lengths: bytes | memoryview) -> Adjacency:
    indptr = np.concatenate([[0], np.cumsum(np.frombuffer(lengths, np.int64))])
    count = int(indptr[-1])
    return Adjacency.from_csc(count, len(indptr) - 1, indptr, np.arange(count), copy=False, validate=False)


_FEW_ELEMENTS = 1 << 16
_few_segments = lru_cache(maxsize=64)(_segments)
