"""Operations on rows whose gradients are kernels too: gathering rows, reducing segments of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..backend import Tensor, active
from ..errors import DGLError
from ..expr import Operand, Side
from ..opspec import Reducer
from ..structure.adjacency import Adjacency
from .operands import check_tensor
from .sparse import spmm, spmm_unchecked

__all__ = ["segment_reduce", "take_rows"]


def take_rows(x: Tensor, rows: np.ndarray, permutation: bool = False) -> Tensor:
    """Return ``x[rows]``, (len(rows), *feat).

    The gradient is a g-SpMM, not a scatter; with ``permutation`` (every row exactly once) it is the inverse gather.
    Negative or too large rows raise ``IndexError``.
    """
    if active.compiling() or not active.requires_grad(x):  # a compiler knows the library's own gather
        return active.take(x, rows)
    return active.apply(_TakeRows(rows, active.shape(x)[0], permutation), x)


class _TakeRows:
    saved = ()

    def __init__(self, rows: np.ndarray, num_rows: int, permutation: bool) -> None:
        self.rows, self.num_rows, self.permutation = rows, num_rows, permutation

    def forward(self, x: Tensor) -> Tensor:
        return active.take(x, self.rows)

    def backward(self, inputs: Sequence[Tensor | None], grad: Tensor, needs: Sequence[bool]) -> list[Tensor | None]:
        if self.permutation:
            inverse = np.empty_like(self.rows)
            inverse[self.rows] = np.arange(len(self.rows))
            return [take_rows(grad, inverse, permutation=True)]
        taken = Adjacency.from_coo(len(self.rows), self.num_rows, np.arange(len(self.rows)), self.rows, validate=False)
        return [spmm_unchecked(taken, Operand(Side.U, 0), Reducer.SUM, (grad,))]


def segment_reduce(offsets: np.ndarray, x: Tensor, reducer: Reducer) -> Tensor:
    """Reduce ``x[offsets[i]:offsets[i + 1]]`` for every i: ``(len(offsets) - 1, *feat)``, 0 for an empty segment."""
    if not reducer.fused:
        raise DGLError(f"segments have no kernel for {reducer.value!r}; expected sum, mean, max, min or logsumexp")
    count = int(offsets[-1])
    check_tensor(x, count, "element of a segment")
    segments = Adjacency.from_csc(count, len(offsets) - 1, offsets, np.arange(count, dtype=offsets.dtype))
    return spmm(segments, Operand(Side.E, 0), reducer, (x,))
