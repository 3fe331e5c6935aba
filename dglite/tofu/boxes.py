"""Boxes of tensors, and what moves between workers that hold some and workers that need others.

A box is a range of rows, or sorted ids of rows, for each dimension. All that execution sends is found by `transfers`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import DGLError

__all__ = ["Box", "BoxMove", "BoxRows", "Near", "box_shape", "check_complete", "pieces_of", "split_box", "transfers"]

BoxRows = tuple[int, int] | np.ndarray
Box = tuple[BoxRows, ...]
Near = Callable[[int, int], Any]

SMALL = 64
"""Elements so few that a second exchange would take longer than sending them to all."""


def box_shape(box: Box) -> tuple[int, ...]:
    """Return the shape of a tensor that holds a box."""
    return tuple(len(rows) if isinstance(rows, np.ndarray) else rows[1] - rows[0] for rows in box)


def split_box(box: Box, count: int) -> list[Box]:
    """Return a box of ranges cut into ``count`` along its longest dimension; some are empty if that is too short."""
    sizes = box_shape(box)
    d = max(range(len(sizes)), key=lambda i: sizes[i])
    lo, n = int(box[d][0]), sizes[d]
    return [(*box[:d], (lo + j * n // count, lo + (j + 1) * n // count), *box[d + 1 :]) for j in range(count)]


def _common(box: Box, tile: Box) -> Box | None:
    """Return what of a box lies in a tile of ranges."""
    found: list[BoxRows] = []
    for rows, (first, last) in zip(box, tile, strict=True):
        if isinstance(rows, np.ndarray):
            one: BoxRows = rows[np.searchsorted(rows, first) : np.searchsorted(rows, last)]
            empty = not len(one)
        else:
            one = max(rows[0], first), min(rows[1], last)
            empty = one[0] >= one[1]
        if empty:
            return None
        found.append(one)
    return tuple(found)


class BoxMove(NamedTuple):
    source: int
    target: int
    part: int
    box: Box


def transfers(
    held: Sequence[Box | None], needed: Sequence[Box | None], parts: Sequence[int], near: Near
) -> list[BoxMove]:
    """Return what each worker takes from whom: from itself if it can, else from the nearest."""
    tiles: dict[tuple[int, Box], list[int]] = {}
    for worker, box in enumerate(held):
        if box is not None:
            tiles.setdefault((parts[worker], box), []).append(worker)
    found = []
    for target, box in enumerate(needed):
        if box is None:
            continue
        for (part, tile), holders in tiles.items():
            common = _common(box, tile)
            if common is not None:
                source = target if target in holders else min(holders, key=lambda w: near(w, target))
                found.append(BoxMove(source, target, part, common))
    return found


def check_complete(moves: list[BoxMove], needed: Sequence[Box | None]) -> None:
    """Raise if some worker needs what nobody holds, or would get it twice."""
    sizes: dict[tuple[int, int], int] = {}
    for m in moves:
        sizes[m.target, m.part] = sizes.get((m.target, m.part), 0) + math.prod(box_shape(m.box))
    reached = {target for target, _ in sizes}
    sizes |= {(target, 0): 0 for target in range(len(needed)) if target not in reached}
    for (target, _), size in sizes.items():
        box = needed[target]
        if box is not None and size != math.prod(box_shape(box)):
            raise DGLError(f"worker {target} needs {box_shape(box)} of a tensor, {size} elements of which are made")


def pieces_of(held: Sequence[Box | None], parts: Sequence[int]) -> list[Box | None]:
    """Return which piece of its box each worker reduces where boxes are held more than once; none where none is."""
    owners: dict[Box, list[int]] = {}
    for worker, box in enumerate(held):
        if box is not None:
            owners.setdefault(box, []).append(worker)
    if not any(
        len({parts[w] for w in workers}) > 1 and math.prod(box_shape(box)) >= SMALL for box, workers in owners.items()
    ):
        return []
    found: list[Box | None] = [None] * len(held)
    for box, workers in owners.items():
        for worker, piece in zip(workers, split_box(box, len(workers)), strict=True):
            found[worker] = piece if math.prod(box_shape(piece)) else None
    return found
