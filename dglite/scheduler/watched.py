"""Batches and columns that tell the tape of a recording what a function asks beside features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from ..backend import Tensor
from ..recorder import Tape, Unrecordable
from ..udf import Columns, EdgeBatch, NodeBatch


class WatchedBatch(EdgeBatch):
    """A batch of edges that tells its tape when it is asked for ids or sizes."""

    __slots__ = ("_tape",)

    def __init__(self, tape: Tape, *args: Any) -> None:
        super().__init__(*args)
        self._tape = tape

    def edges(self) -> tuple[Tensor, Tensor, Tensor]:
        self._tape.cacheable = False
        return super().edges()

    def batch_size(self) -> int:
        self._tape.cacheable = False
        return super().batch_size()

    @property
    def canonical_etype(self) -> tuple[str, str, str]:
        self._tape.cacheable = False
        return super().canonical_etype

    def __len__(self) -> int:
        return self.batch_size()


def refuse_graph() -> NoReturn:
    """Stand for the graph while a function is recorded: whatever is done with it, the function does at each call."""
    raise Unrecordable("it reads the graph")


class WatchedColumns(Columns):
    """Columns that tell their tape when it is asked which there are, and cannot be recorded where they are changed."""

    __slots__ = ("_tape",)

    def __init__(self, tape: Tape, *args: Any) -> None:
        super().__init__(*args)
        self._tape = tape

    def __contains__(self, name: object) -> bool:
        self._tape.cacheable = False
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        self._tape.cacheable = False
        return super().__iter__()

    def __len__(self) -> int:
        self._tape.cacheable = False
        return super().__len__()

    def __setitem__(self, name: str, value: Tensor) -> None:
        raise Unrecordable("it sets a column of its batch")

    def __delitem__(self, name: str) -> None:
        raise Unrecordable("it removes a column of its batch")


class AllNodes(NodeBatch):
    """The nodes of all degrees, given to a function written for one degree: it must not ask for their number."""

    __slots__ = ()

    def batch_size(self) -> int:
        raise Unrecordable("it asks how many nodes there are")

    def __len__(self) -> int:
        return self.batch_size()
