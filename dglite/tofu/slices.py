"""Slices of tensors, and the transfers between workers that hold some and workers that need others.

A slice has, for each dimension, a range of rows or sorted row ids. `transfers` finds everything that execution sends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import DGLError

SliceRows = tuple[int, int] | np.ndarray
TensorSlice = tuple[SliceRows, ...]
LinkDistance = Callable[[int, int], Any]

SMALL = 64
"""Elements so few that a second exchange would take longer than sending them to all."""


def slice_shape(slice_: TensorSlice) -> tuple[int, ...]:
    """Return the shape of a tensor that holds a slice."""
    return tuple(len(rows) if isinstance(rows, np.ndarray) else rows[1] - rows[0] for rows in slice_)


def split_slice(slice_: TensorSlice, count: int) -> list[TensorSlice]:
    """Return a slice of ranges cut into ``count`` along its longest dimension; some are empty if that is too short."""
    sizes = slice_shape(slice_)
    d = max(range(len(sizes)), key=lambda i: sizes[i])
    lo, n = int(slice_[d][0]), sizes[d]
    return [(*slice_[:d], (lo + j * n // count, lo + (j + 1) * n // count), *slice_[d + 1 :]) for j in range(count)]


def _common(slice_: TensorSlice, tile: TensorSlice) -> TensorSlice | None:
    """Return what of a slice lies in a tile of ranges."""
    common: list[SliceRows] = []
    for rows, (first, last) in zip(slice_, tile, strict=True):
        if isinstance(rows, np.ndarray):
            part: SliceRows = rows[np.searchsorted(rows, first) : np.searchsorted(rows, last)]
            empty = not len(part)
        else:
            part = max(rows[0], first), min(rows[1], last)
            empty = part[0] >= part[1]
        if empty:
            return None
        common.append(part)
    return tuple(common)


class SliceTransfer(NamedTuple):
    source: int
    target: int
    part: int
    rows: TensorSlice


def transfers(
    tiles_of: Sequence[TensorSlice | None],
    needed: Sequence[TensorSlice | None],
    parts: Sequence[int],
    distance: LinkDistance,
) -> list[SliceTransfer]:
    """Return what each worker takes from whom: from itself if it can, else from the nearest."""
    tiles: dict[tuple[int, TensorSlice], list[int]] = {}
    for worker, slice_ in enumerate(tiles_of):
        if slice_ is not None:
            tiles.setdefault((parts[worker], slice_), []).append(worker)
    moves = []
    for target, slice_ in enumerate(needed):
        if slice_ is None:
            continue
        for (part, tile), holders in tiles.items():
            common = _common(slice_, tile)
            if common is not None:
                source = target if target in holders else min(holders, key=lambda w: distance(w, target))
                moves.append(SliceTransfer(source, target, part, common))
    return moves


def check_complete(moves: list[SliceTransfer], needed: Sequence[TensorSlice | None]) -> None:
    """Raise if some worker needs what no worker holds, or would get it twice."""
    sizes: dict[tuple[int, int], int] = {}
    for m in moves:
        sizes[m.target, m.part] = sizes.get((m.target, m.part), 0) + math.prod(slice_shape(m.rows))
    reached = {target for target, _ in sizes}
    sizes |= {(target, 0): 0 for target in range(len(needed)) if target not in reached}
    for (target, _), size in sizes.items():
        slice_ = needed[target]
        if slice_ is not None and size != math.prod(slice_shape(slice_)):
            raise DGLError(f"worker {target} needs {slice_shape(slice_)} of a tensor, but is sent {size} elements")


def pieces_of(tiles: Sequence[TensorSlice | None], parts: Sequence[int]) -> list[TensorSlice | None]:
    """Return which piece of its slice each worker reduces where slices are held more than once; none where none is."""
    owners: dict[TensorSlice, list[int]] = {}
    for worker, slice_ in enumerate(tiles):
        if slice_ is not None:
            owners.setdefault(slice_, []).append(worker)
    if not any(
        len({parts[w] for w in workers}) > 1 and math.prod(slice_shape(slice_)) >= SMALL
        for slice_, workers in owners.items()
    ):
        return []
    pieces: list[TensorSlice | None] = [None] * len(tiles)
    for slice_, workers in owners.items():
        for worker, piece in zip(workers, split_slice(slice_, len(workers)), strict=True):
            pieces[worker] = piece if math.prod(slice_shape(piece)) else None
    return pieces
