"""Partition-n-reduce strategies: for one way to split an operator, the rows it needs and how results are combined.

`interval` derives them from an operator's description, `search` chooses among them, `execute` runs them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Combine = Literal["concat", "sum", "max", "min", "prod"]
Number = int | Fraction
TensorShape = tuple[int, ...]


@dataclass(frozen=True)
class RowSpan:
    """The rows of a dimension that a part with the indices ``[lo, hi)`` has to do with.

    They are ``[start[0] * lo + start[1] * hi + before, stop[0] * lo + stop[1] * hi + after)``, the first rounded down
    and the second up, clipped to the tensor. A plain split is ``RowSpan()``; a halo of one row on both sides
    ``RowSpan(before=-1, after=1)``.

    Attributes
    ----------
    start, stop : tuple of int or Fraction
        Coefficients of ``lo`` and ``hi`` in the first row, and in the row after the last.
    before, after : int or Fraction
        Constants added to them.
    """

    start: tuple[Number, Number] = (1, 0)
    stop: tuple[Number, Number] = (0, 1)
    before: Number = 0
    after: Number = 0

    def unclipped(self, lo: int, hi: int) -> tuple[int, int]:
        """Return the first row and the row after the last, which may lie outside of the tensor."""
        first = self.start[0] * lo + self.start[1] * hi + self.before
        last = self.stop[0] * lo + self.stop[1] * hi + self.after
        return math.floor(first), math.ceil(last)

    def rows(self, lo: int, hi: int, size: int) -> tuple[int, int]:
        """Return the first row and the row after the last, in a dimension of ``size`` rows."""
        first, last = self.unclipped(lo, hi)
        first = min(max(first, 0), size)
        return first, max(min(last, size), first)

    def count(self, lo: int, hi: int, size: int) -> int:
        """Return how many rows these are: what a part has to fetch."""
        first, last = self.rows(lo, hi, size)
        return last - first


PLAIN = RowSpan()
Region = tuple[RowSpan | None, ...]
"""A span per dimension of a tensor; None is the whole dimension."""


@dataclass(frozen=True)
class Strategy:
    """One way to split an operator: its index `index`, of which each worker has a part.

    Attributes
    ----------
    index : str
        The output or reduction index that is split.
    extent : int
        How many values it takes.
    combine : tuple of str
        For each output. ``"concat"``: a worker makes the rows in the output's region, or, where that is all None, the
        whole output as every other worker does; else the reduction that turns the workers' partial outputs, each of
        full size, into the result. One operator may mix them: a convolution's backward, split by samples, concatenates
        the gradient of the input and sums that of the filters.
    inputs : tuple of Region
        What a part needs of each tensor input, in the order of the operator's schema, lists flattened and None left
        out.
    outputs : tuple of Region
        What a part makes of each output, lists flattened; an output that is None counts as an empty vector.
    """

    index: str
    extent: int
    combine: tuple[Combine, ...]
    inputs: tuple[Region, ...]
    outputs: tuple[Region, ...]


def plain_dim(region: Region) -> int | None:
    """Return the one dimension that a region cuts, if the part's own rows are what it takes."""
    cut = [d for d, span in enumerate(region) if span is not None]
    return cut[0] if len(cut) == 1 and region[cut[0]] == PLAIN else None
