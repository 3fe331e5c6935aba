"""Partition-n-reduce strategies: what one way of splitting an operator needs of its inputs and makes of its outputs.

`interval` derives them from an operator's description, `search` chooses among them, `execute` runs them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Combine = Literal["concat", "sum", "max", "min", "prod"]


@dataclass(frozen=True)
class Span:
    """The rows of a dimension that a part with the indices ``[lo, hi)`` has to do with.

    They are ``[start[0] * lo + start[1] * hi + before, stop[0] * lo + stop[1] * hi + after)``, clipped to the tensor. A
    plain split is ``Span()``; a halo of one row on both sides ``Span(before=-1, after=1)``.

    Attributes
    ----------
    start, stop : tuple of float
        Coefficients of ``lo`` and ``hi`` in the first row, and in the row after the last.
    before, after : float
        Constants added to them.
    """

    start: tuple[float, float] = (1, 0)
    stop: tuple[float, float] = (0, 1)
    before: float = 0
    after: float = 0


Region = tuple[Span | None, ...]
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
    combine : str
        ``"concat"``: each worker has the outputs' rows of its part; else the reduction that turns the workers' partial
        outputs, each of full size, into the result.
    inputs : tuple of Region
        What a part needs of each tensor input, in the operator's order.
    outputs : tuple of Region
        What a part makes of each output.
    """

    index: str
    extent: int
    combine: Combine
    inputs: tuple[Region, ...]
    outputs: tuple[Region, ...]
