"""Gathering rows, with a kernel for the gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backend import Tensor, active
from ..expr import Operand, Side
from ..kernels.spec import ITEM_BYTES
from ..opspec import Reducer
from ..structure.adjacency import Adjacency
from .devices import HOST, device_of
from .sparse import spmm_unchecked

_LEAST_BYTES, _LEAST_ROWS = 1 << 20, 1 << 10
"""Size of a result from which a kernel makes it: smaller ones are made in memory that malloc has at hand."""


class RowIndex:
    """Rows that are taken more than once: what the gradient needs is made the first time. They are never changed."""

    __slots__ = ("_relations", "rows")

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows
        self._relations: dict[int, Adjacency] = {}

    def taken_from(self, num_rows: int) -> Adjacency:
        """Return the relation from each row of the result to the row, of ``num_rows``, that it is taken from."""
        cached = self._relations.get(num_rows)
        if cached is None:
            count = len(self.rows)
            relation = Adjacency.from_coo(count, num_rows, np.arange(count), self.rows, validate=False)
            cached = self._relations.setdefault(num_rows, relation)
        return cached


def take_rows(x: Tensor, rows: np.ndarray | RowIndex, permutation: bool = False) -> Tensor:
    """Return ``x[rows]``, (len(rows), *feat).

    The gradient is a g-SpMM, not a scatter, unless the rows ascend, so that none is taken twice; with ``permutation``
    (every row exactly once) it is the inverse gather. A :class:`RowIndex` keeps the structure of the first. Negative or
    too large rows raise ``IndexError``.
    """
    if isinstance(rows, RowIndex):
        if _is_gather(x):
            return _gather(x, rows.rows)
        return active.apply(_TakeRows(rows.rows, active.shape(x)[0], permutation, rows), x)
    if _is_gather(x):
        return _gather(x, rows)
    return active.apply(_TakeRows(rows, active.shape(x)[0], permutation), x)


def _is_gather(x: Tensor) -> bool:
    """Whether rows are taken by the library's own gather, which compilers and transforms know."""
    return active.compiling() or not active.requires_grad(x) or active.needs_operator((x,))


def _gather(x: Tensor, rows: np.ndarray) -> Tensor:
    """Return ``x[rows]`` without a gradient; a large one on the host by a kernel, in memory of the pool."""
    if not isinstance(rows, np.ndarray) or len(rows) < _LEAST_ROWS or rows.dtype != np.int64:
        return active.take(x, rows)
    if active.compiling() or active.needs_operator((x,)) or device_of(x) is not HOST:  # sizes may be symbols
        return active.take(x, rows)
    shape = (len(rows), *active.shape(x)[1:])
    width = math.prod(shape[1:]) * ITEM_BYTES.get(active.dtype(x), 0)
    if width * len(rows) < _LEAST_BYTES or not rows.flags.c_contiguous:
        return active.take(x, rows)
    count = active.shape(x)[0]
    if int(rows.view(np.uint64).max()) >= count:  # a negative number is larger than any other
        raise IndexError(f"rows must be from 0 to {count - 1}, got {rows.min()} to {rows.max()}")
    (dense,), (address,) = active.dense((x,))
    out = active.new_empty(dense, shape)
    take = HOST.kernels("graph.gather").take_rows
    take(address, width, rows.ctypes.data, active.address(out), len(rows), HOST.queue)
    return out


class _TakeRows:
    saved = ()

    def __init__(self, rows: np.ndarray, num_rows: int, permutation: bool, index: RowIndex | None = None) -> None:
        self.rows, self.num_rows, self.permutation, self.index = rows, num_rows, permutation, index

    def forward(self, x: Tensor) -> Tensor:
        return _gather(x, self.rows)

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        if self.permutation:
            inverse = np.empty_like(self.rows)
            inverse[self.rows] = np.arange(len(self.rows))
            return [take_rows(grad, inverse, permutation=True)]
        if self.index is None and (self.rows[1:] > self.rows[:-1]).all():
            return [active.apply(_PlaceRows(self.rows, self.num_rows), grad)]
        index = RowIndex(self.rows) if self.index is None else self.index
        return [spmm_unchecked(index.taken_from(self.num_rows), Operand(Side.U, 0), Reducer.SUM, (grad,))]


class _PlaceRows:
    """Rows at places of a larger tensor, 0 elsewhere: the gradient of taking rows that ascend."""

    saved = ()

    def __init__(self, rows: np.ndarray, num_rows: int) -> None:
        self.rows, self.num_rows = rows, num_rows

    def forward(self, x: Tensor) -> Tensor:
        zeros = active.full((self.num_rows, *active.shape(x)[1:]), 0, active.dtype(x), active.device(x))
        return active.put(zeros, self.rows, x)

    def backward(self, inputs: Sequence[Any], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        return [take_rows(grad, self.rows)]
