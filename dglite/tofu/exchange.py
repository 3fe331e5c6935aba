"""Move slices of a tensor between workers: who sends which rows to whom, computed once.

A *slice* is a region of a tensor, for each dimension a range of rows or their sorted ids. Every worker knows the slices
of all, so each finds the same moves, and no worker waits for a message that nobody sends. Exchanges that are made at
one time share their messages: see `rounds`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from .slices import LinkDistance, TensorSlice, check_complete, pieces_of, slice_shape, transfers
from .strategy import Combine

COMBINE: dict[str, Any] = {"sum": torch.add, "max": torch.maximum, "min": torch.minimum, "prod": torch.mul}
"""How two partial results are combined."""

Pick = tuple[tuple[int, int, int] | tuple[int, torch.Tensor], ...]
"""How to read a slice of a tensor: (dimension, first row, count) or (dimension, rows) where it is not all of it."""


def pick_of(slice_: TensorSlice, tile: TensorSlice) -> Pick:
    """Return how to read a slice of the tensor that holds a tile."""
    pick: list[Any] = []
    for d, (rows, (first, last)) in enumerate(zip(slice_, tile, strict=True)):
        if isinstance(rows, np.ndarray):
            pick.append((d, torch.from_numpy(rows - first)))
        elif rows != (first, last):
            pick.append((d, rows[0] - first, rows[1] - rows[0]))
    return tuple(pick)


def read(tensor: torch.Tensor, pick: Pick) -> torch.Tensor:
    for step in pick:
        tensor = tensor.narrow(*step) if len(step) == 3 else tensor.index_select(step[0], step[1].to(tensor.device))
    return tensor


def _place(slice_: TensorSlice, whole: TensorSlice) -> Pick:
    """Return where a slice stands in the tensor that holds ``whole``: of sorted ids, those in a tile are a range."""
    pick: list[Any] = []
    for d, (rows, all_rows) in enumerate(zip(slice_, whole, strict=True)):
        if isinstance(all_rows, np.ndarray):
            assert isinstance(rows, np.ndarray)
            pick.append((d, int(np.searchsorted(all_rows, rows[0])), len(rows)))
        elif tuple(rows) != all_rows:
            pick.append((d, rows[0] - all_rows[0], rows[1] - rows[0]))
    return tuple(pick)


class ReceivedRows(NamedTuple):
    """Rows of a partial result, and where they stand in what is needed of it."""

    part: int
    place: Pick
    shape: tuple[int, ...]


class Exchange:
    """One movement of a tensor from slices that workers hold to those that they need.

    Parameters
    ----------
    rank : int
        This worker.
    held : sequence of TensorSlice or None
        Of ranges, for each worker; None holds nothing. Those of one part do not overlap but where they are equal.
    needed : sequence of TensorSlice or None
        For each worker.
    dtype, device
        Of the tensor.
    parts : sequence of int, optional
        Which partial result each worker holds; what is needed is then needed of each part.
    combine : str, optional
        How partial results are combined: each worker does so in one order, so equal slices get equal numbers.
    distance : callable, optional
        ``distance(source, target)`` is less for workers with a faster link.
    owns : bool
        Whether the result is kept for long, so that it may not be a view of more.

    Attributes
    ----------
    total : int
        Bytes that all workers together receive.
    pairs : set of (int, int)
        Which worker sends to which.
    sends : dict of int to list of (Pick, int)
        What each other worker gets of the tensor that this one holds, and how many elements that is.
    takes : dict of int to list of ReceivedRows
        What comes from each other worker.
    largest : int
        Bytes of the largest result of a worker.
    """

    def __init__(
        self,
        rank: int,
        tiles: Sequence[TensorSlice | None],
        needed: Sequence[TensorSlice | None],
        dtype: torch.dtype,
        device: torch.device,
        parts: Sequence[int] | None = None,
        combine: Combine = "concat",
        distance: LinkDistance | None = None,
        owns: bool = False,
    ) -> None:
        self.dtype, self.device, self._owns = dtype, device, owns
        self._combine, self.world, parts = COMBINE.get(combine), len(tiles), parts or [0] * len(tiles)
        moves = transfers(tiles, needed, parts, distance or (lambda source, target: (source - target) % self.world))
        check_complete(moves, needed)
        self.pairs = {(m.source, m.target) for m in moves if m.source != m.target}
        self.total = sum(math.prod(slice_shape(m.rows)) for m in moves if m.source != m.target) * dtype.itemsize
        self.largest = max(math.prod(slice_shape(slice_)) for slice_ in needed if slice_ is not None) * dtype.itemsize
        mine, target = tiles[rank], needed[rank]
        self._shape = None if target is None else slice_shape(target)
        self.sends: dict[int, list[tuple[Pick, int]]] = {}
        self.takes: dict[int, list[ReceivedRows]] = {}
        self._local: list[tuple[Pick, ReceivedRows]] = []
        for m in moves:
            if rank == m.source:
                assert mine is not None
                pick = pick_of(m.rows, mine)
            if rank == m.target:
                assert target is not None
                piece = ReceivedRows(m.part, _place(m.rows, target), slice_shape(m.rows))
            if rank == m.source == m.target:
                self._local.append((pick, piece))
            elif rank == m.source:
                self.sends.setdefault(m.target, []).append((pick, math.prod(slice_shape(m.rows))))
            elif rank == m.target:
                self.takes.setdefault(m.source, []).append(piece)
        self._numbers = sorted({m.part for m in moves if m.target == rank})

    def result(self, tensor: torch.Tensor | None, came: Sequence[tuple[ReceivedRows, torch.Tensor]] = ()) -> Any:
        """Return what is needed; None for a worker that needs nothing.

        Parameters
        ----------
        tensor : Tensor or None
            What this worker holds. What it needs of it alone may be a view.
        came : sequence of (ReceivedRows, Tensor)
            What has come from the others, in memory that is used again.
        """
        if self._shape is None:
            return None
        if not self._numbers:
            return self._empty()
        results: dict[int, torch.Tensor] = {}
        buffers: dict[int, torch.Tensor] = {}
        for pick, piece in self._local:
            assert tensor is not None
            rows = read(tensor, pick)
            self._put(piece, rows.clone() if self._owns and pick and not piece.place else rows, results, buffers)
        for piece, rows in came:
            self._put(piece, rows, results, buffers)
        if self._combine is None or len(self._numbers) == 1:
            (number,) = self._numbers
            is_message = any(rows is results[number] for _, rows in came)
            return results[number].clone() if is_message else results[number]
        first, second, *rest = (results[number] for number in self._numbers)
        result = self._combine(first, second)
        for part in rest:
            self._combine(result, part, out=result)
        return result

    def _put(self, piece: ReceivedRows, rows: torch.Tensor, results: dict[int, Any], buffers: dict[int, Any]) -> None:
        if not piece.place:
            results[piece.part] = rows
            return
        if piece.part not in buffers:
            results[piece.part] = buffers[piece.part] = self._empty()
        read(buffers[piece.part], piece.place).copy_(rows)

    def _empty(self) -> torch.Tensor:
        assert self._shape is not None
        return torch.empty(self._shape, dtype=self.dtype, device=self.device)


def reducing(
    rank: int,
    partials: Sequence[TensorSlice | None],
    tiles: Sequence[TensorSlice | None],
    dtype: torch.dtype,
    device: torch.device,
    parts: Sequence[int],
    combine: Combine,
    distance: LinkDistance | None = None,
) -> list[Exchange]:
    """Return the exchanges, one after the other, from partial results to their sum, or maximum, where they are held.

    Each worker takes all parts of what it holds. Slices that several workers hold are reduced in pieces and then
    gathered.
    """
    pieces = pieces_of(tiles, parts)
    first = Exchange(rank, partials, pieces or tiles, dtype, device, parts, combine, distance)
    return [first, Exchange(rank, pieces, tiles, dtype, device, distance=distance)] if pieces else [first]
