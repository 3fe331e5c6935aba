"""The number of elements that all workers receive for an operand or an output.

A worker needs a slice, a range of rows or the ids of a graph's halo for each dimension, and holds another. It receives
what it needs and does not hold: of an operand once, of partial results once from each part. `slices.transfers` finds
who sends it, and checks that nothing is sent twice and nothing is missing. So the sums here are what is sent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..structure.distinct import distinct
from .library.graph import Neighbors
from .slices import SMALL
from .strategy import Combine, Region, RowSpan, TensorShape

WorkerRows = np.ndarray
"""The rows that workers hold, by the dimension that the last step splits: (dimensions + 1, workers, dimensions, 2)."""


class IndexCut(NamedTuple):
    """What a step's strategy says of one input or output: the index that it splits, and the region of a part of it."""

    name: str
    extent: int
    region: Region
    combine: Combine = "concat"


Cuts = tuple[IndexCut | None, ...]
Bounds = tuple[np.ndarray, np.ndarray]
Needed = list[Bounds | list[np.ndarray] | None]


def fetched(cuts: Cuts, shape: TensorShape, ks: tuple[int, ...], places: tuple[int, ...]) -> np.ndarray:
    """Return the elements that all workers receive of an operand, by the dimension that the last step splits.

    Parameters
    ----------
    cuts : tuple of IndexCut or None
        For each step.
    shape : tuple of int
        Of the whole tensor.
    ks : tuple of int
        Into how many groups each step splits.
    places : tuple of int
        The dimension that each step but the last splits, -1 for none.

    Returns
    -------
    ndarray
        Of shape (dimensions + 1,), the last for a tensor that the last step leaves replicated.
    """
    return _fetched(plain(cuts, ks), shape, ks, places)


def put(cuts: Cuts, shape: TensorShape, ks: tuple[int, ...], places: tuple[int, ...]) -> np.ndarray:
    """Return the elements that all workers receive of an output, which they hold as in `fetched`."""
    cuts = plain(cuts, ks)
    return (_reduced if any(c and c.combine != "concat" for c in cuts) else _written)(cuts, shape, ks, places)


def plain(cuts: Cuts, ks: tuple[int, ...]) -> Cuts:
    """Leave out indices that this tensor has nothing to do with, so that equal questions are asked once."""
    many = math.prod(ks)
    return tuple(None if c and c.combine == "concat" and c.extent >= many and not any(c.region) else c for c in cuts)


@lru_cache(maxsize=200_000)
def _fetched(cuts: Cuts, shape: TensorShape, ks: tuple[int, ...], places: tuple[int, ...]) -> np.ndarray:
    volume, common = _needed(cuts, shape, ks, _worker_rows(shape, ks, places))
    return (volume - common).sum(axis=1).astype(float)


@lru_cache(maxsize=200_000)
def _written(cuts: Cuts, shape: TensorShape, ks: tuple[int, ...], places: tuple[int, ...]) -> np.ndarray:
    rows = _worker_rows(shape, ks, places)
    _, common = _needed(cuts, shape, ks, rows)
    return (_volume(rows) - common).sum(axis=1).astype(float)


@lru_cache(maxsize=200_000)
def _reduced(cuts: Cuts, shape: TensorShape, ks: tuple[int, ...], places: tuple[int, ...]) -> np.ndarray:
    """Count a reduction: to where the result is held, or to pieces of that, which are then gathered."""
    rows = _worker_rows(shape, ks, places)
    part, count = _partials(cuts, ks)
    received = np.zeros(len(rows))
    for d, tile in enumerate(rows):
        spread = [s for s, place in enumerate((*places, d)) if place in (-1, len(shape))]
        pieces = _pieces(tile, spread, part, ks)
        first = tile if pieces is None else pieces
        volume, common = _volume(first), _needed(cuts, shape, ks, first[None])[1][0]
        received[d] = (count * volume - common).sum()
        if pieces is not None:
            received[d] += (_volume(tile) - volume).sum()
    return received


def _volume(slices: np.ndarray) -> np.ndarray:
    return (slices[..., 1] - slices[..., 0]).prod(axis=-1)


def _needed(cuts: Cuts, shape: TensorShape, ks: tuple[int, ...], tiles: WorkerRows) -> tuple[np.ndarray, np.ndarray]:
    """Return how many elements each worker has to do with, and how many of those it holds."""
    rows, there = _slices(cuts, shape, ks)
    sizes, common = np.empty(tiles.shape[1:3], np.int64), np.empty(tiles.shape[:3], np.int64)
    for d, (size, span) in enumerate(zip(shape, rows, strict=True)):
        if isinstance(span, list):
            sizes[:, d] = [len(ids) for ids in span]
            for w, ids in enumerate(span):
                first, last = np.searchsorted(ids, tiles[:, w, d].T)
                common[:, w, d] = last - first
        else:
            first, last = span or (0, size)
            sizes[:, d] = last - first
            common[..., d] = np.minimum(last, tiles[..., d, 1]) - np.maximum(first, tiles[..., d, 0])
    return sizes.prod(axis=1) * there, np.maximum(common, 0).prod(axis=2) * there


def _slices(cuts: Cuts, shape: TensorShape, ks: tuple[int, ...]) -> tuple[Needed, np.ndarray]:
    """Return the rows of each dimension that each worker has to do with, None for all, and who has a part at all."""
    rows: Needed = [None] * len(shape)
    there = np.ones(math.prod(ks), bool)
    for cut, steps, (lo, hi) in _parts(cuts, ks):
        there &= lo < hi
        for d, span in enumerate(cut.region):
            if isinstance(span, Neighbors):
                rows[d] = [span.ids(int(a), int(b)) for a, b in zip(lo, hi, strict=True)]
            elif span is not None:
                rows[d] = _span(span, shape[d], cut.extent, steps, ks)
    return rows, there


def _parts(cuts: Cuts, ks: tuple[int, ...]) -> Iterator[tuple[IndexCut, tuple[int, ...], Bounds]]:
    """Yield each index that is split, the steps that split it, and the part of it that each worker has."""
    for cut in {c.name: c for c in cuts if c}.values():
        steps = tuple(s for s, c in enumerate(cuts) if c and c.name == cut.name)
        yield cut, steps, _nested(cut.extent, steps, ks)


@lru_cache(maxsize=10_000)
def _span(span: RowSpan, size: int, extent: int, steps: tuple[int, ...], ks: tuple[int, ...]) -> Bounds:
    lo, hi = _nested(extent, steps, ks)
    first, last = np.array([span.rows(a, b, size) for a, b in zip(lo.tolist(), hi.tolist(), strict=True)]).T
    return first, last


@lru_cache(maxsize=1_000)
def _digits(ks: tuple[int, ...]) -> np.ndarray:
    """Return each worker's part in each step."""
    return np.indices(ks).reshape(len(ks), -1)


@lru_cache(maxsize=10_000)
def _nested(extent: int, steps: tuple[int, ...], ks: tuple[int, ...]) -> Bounds:
    """Return the part of a range that each worker has, if these steps split it."""
    lo = np.zeros(math.prod(ks), np.int64)
    hi = lo + extent
    for s in steps:
        j, size = _digits(ks)[s], hi - lo
        lo, hi = lo + j * size // ks[s], lo + (j + 1) * size // ks[s]
    return lo, hi


@lru_cache(maxsize=10_000)
def _worker_rows(shape: TensorShape, ks: tuple[int, ...], places: tuple[int, ...]) -> WorkerRows:
    """Return the rows that each worker holds, for each dimension that the last step may split, and for none."""
    rows = np.empty((len(shape) + 1, math.prod(ks), len(shape), 2), np.int64)
    for d, size in enumerate(shape):
        steps = tuple(s for s, place in enumerate(places) if place == d)
        rows[:, :, d] = np.stack(_nested(size, steps, ks), axis=1)
        rows[d, :, d] = np.stack(_nested(size, (*steps, len(places)), ks), axis=1)
    return rows


def _partials(cuts: Cuts, ks: tuple[int, ...]) -> tuple[np.ndarray, int]:
    """Return which partial result each worker makes, and how many there are."""
    part = np.zeros(math.prod(ks), np.int64)
    there = np.ones(math.prod(ks), bool)
    for cut, _, (lo, hi) in _parts(cuts, ks):
        there &= lo < hi
        if cut.combine != "concat":
            part = part * cut.extent + lo
    return part, len(distinct(part[there]))


def _pieces(tiles: np.ndarray, spread: Sequence[int], part: np.ndarray, ks: tuple[int, ...]) -> np.ndarray | None:
    """Return which piece each worker reduces where ``spread`` are the steps that replicate; see `slices.pieces_of`."""
    copies = math.prod(ks[s] for s in spread)
    if copies == 1 or not tiles.shape[1]:
        return None
    by_copy = np.moveaxis(part.reshape(ks), spread, range(len(spread))).reshape(copies, -1)
    large = np.moveaxis(_volume(tiles).reshape(ks), spread, range(len(spread))).reshape(copies, -1)[0] >= SMALL
    if not ((by_copy.max(axis=0) != by_copy.min(axis=0)) & large).any():
        return None
    number = np.zeros(len(part), np.int64)
    for s in spread:
        number = number * ks[s] + _digits(ks)[s]
    sizes = tiles[..., 1] - tiles[..., 0]
    workers, longest = np.arange(len(part)), sizes.argmax(axis=1)
    pieces = tiles.copy()
    lo, n = tiles[workers, longest, 0], sizes[workers, longest]
    pieces[workers, longest, 0] = lo + number * n // copies
    pieces[workers, longest, 1] = lo + (number + 1) * n // copies
    return pieces
