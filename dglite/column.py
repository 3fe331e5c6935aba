"""Columns of a frame whose rows are gathered when they are first read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .backend import Tensor, active

Take = Callable[[Tensor, np.ndarray], Tensor]
"""``take(x, rows)`` returns the rows of a tensor."""


class LazyColumn:
    """Rows of a column that have not been gathered yet. Frames that share it share the gathered column.

    Without a source ``take`` knows where they come from.
    """

    __slots__ = ("rows", "source", "take", "value")

    def __init__(self, source: Tensor | LazyColumn | None, rows: np.ndarray, take: Take | None = None) -> None:
        self.source: Any = source
        self.rows, self.take = rows, take
        self.value: Tensor | None = None

    @property
    def storage(self) -> Tensor:
        """The tensor that rows are taken of."""
        source = self.source if self.value is None else self.value
        return source.storage if type(source) is LazyColumn else source

    @property
    def index(self) -> Tensor | None:
        """The rows of :attr:`storage`, None once they are gathered."""
        if self.value is not None:
            return None
        inner = self.source.index if type(self.source) is LazyColumn else None
        rows = active.from_numpy(self.rows)
        return rows if inner is None else active.take(inner, rows)

    def gather(self, take: Take | None = None) -> Tensor:
        """Return the rows, which are kept unless they lack the gradient that a later read would record."""
        source, value = self.source, self.value  # in this order: a thread that gathers drops the source last
        if value is None:
            whole = source.gather() if type(source) is LazyColumn else source
            take = self.take or take or active.take
            if getattr(whole, "requires_grad", False) and not active.requires_grad(whole):
                return take(whole, self.rows)
            if active.compiling():
                value = self.value = take(whole, self.rows)
            elif not active.are_read((whole,)):  # a transform's tensor is gone when it ends
                return take(whole, self.rows)
            else:
                with active.lasting():
                    value = self.value = take(whole, self.rows)
            self.source = None
        return value

    def like(self) -> Tensor:
        """Return a tensor with the column's dtype and trailing shape."""
        source, value = self.source, self.value
        if value is not None:
            return value
        if self.take is not None:
            return self.gather()
        return source.like() if type(source) is LazyColumn else source

    def __reduce__(self) -> tuple[Any, ...]:
        # Gathered first: a pickle of a sampled block must not hold the features of the graph that it came from.
        return _gathered, (self.gather(),)


def _gathered(value: Tensor) -> LazyColumn:
    """Return a column whose rows have been gathered."""
    column = LazyColumn(None, np.empty(0, np.int64))
    column.value = value
    return column
