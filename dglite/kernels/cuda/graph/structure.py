"""A compressed matrix on a GPU, with long rows split into chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..run.program import Memory, Runner
from .convert import compress, cut_rows

LEAST_LIMIT, TIMES_MEAN = 256, 8
"""Rows longer than the first, and than the mean times the second, are cut: shorter ones do not delay their warp."""

MOST_MERGES, MERGE_COLUMNS = 4096, 32
"""Blocks that put chunks together, each one row after the other, and the columns of a block."""


def row_limit(num_rows: int, num_entries: int) -> int:
    """Return how many entries one team of lanes takes at most."""
    mean = num_entries // max(num_rows, 1)
    return max(LEAST_LIMIT, 1 << (TIMES_MEAN * mean).bit_length())


@dataclass(frozen=True)
class _Cuts:
    """The chunks of the rows longer than ``limit``: ``array`` is what :class:`Structure` holds of them."""

    limit: int
    num_long: int
    num_chunks: int
    array: np.ndarray

    @classmethod
    def of_rows(cls, lengths: np.ndarray, firsts: np.ndarray, limit: int) -> _Cuts:
        """Cut rows of these lengths, whose first entries are ``firsts``."""
        long_rows = np.flatnonzero(lengths > limit)
        if not len(long_rows):
            return cls(limit, 0, 0, long_rows)
        counts = -(-lengths[long_rows] // limit)
        starts = np.concatenate([[0], np.cumsum(counts)])
        chunk_rows = np.repeat(long_rows, counts)
        within = np.arange(len(chunk_rows)) - np.repeat(starts[:-1], counts)
        chunk_firsts = firsts[chunk_rows] + within * limit
        array = np.concatenate([chunk_rows, chunk_firsts, long_rows, starts])
        return cls(limit, len(long_rows), len(chunk_rows), array)


@dataclass(frozen=True)
class _Slice:
    """Memory inside other memory, which it keeps."""

    whole: Memory
    address: int


def _slices(memory: Memory, dtype: np.dtype, *lengths: int) -> tuple[Memory, ...]:
    """Return arrays that lie one after the other, and what comes after them."""
    offsets = np.cumsum([0, *lengths]) * dtype.itemsize
    return tuple(_Slice(memory, memory.address + int(offset)) for offset in offsets)


@dataclass
class Structure:
    """Rows of entries on a device: ``indptr``, ``indices`` and ``edge_ids`` (None: entry j is edge j).

    Of the long rows it holds, per chunk, ``chunk_rows`` and the first entry, and per row ``long_rows`` and where its
    chunks begin, all in one piece of memory.
    """

    index: str
    num_rows: int
    num_entries: int
    indptr: Memory
    indices: Memory
    edge_ids: Memory | None
    limit: int
    num_long: int
    num_chunks: int
    cuts: Memory | None
    ids_known: bool = True
    addresses: tuple[int, int, int, int] = field(init=False)
    """Of the chunks' rows, their first entries, the long rows, and their first chunks."""

    def __post_init__(self) -> None:
        start, item = 0 if self.cuts is None else self.cuts.address, 4 if self.index == "int32" else 8
        sizes = np.cumsum([0, self.num_chunks, self.num_chunks, self.num_long]) * item
        self.addresses = tuple(start + int(size) if start else 0 for size in sizes)  # type: ignore[assignment]

    @classmethod
    def upload(
        cls, runner: Runner, indptr: np.ndarray, indices: np.ndarray, edge_ids: np.ndarray | None = None, limit: int = 0
    ) -> Structure:
        """Copy a compressed matrix from the host, as one array. ``limit`` is chosen unless given."""
        cuts = _Cuts.of_rows(np.diff(indptr), indptr[:-1], limit or row_limit(len(indptr) - 1, len(indices)))
        memory = runner.upload(np.concatenate([indptr, indices, cuts.array.astype(indptr.dtype)]))
        starts, entries, where = _slices(memory, indptr.dtype, len(indptr), len(indices))
        arrays = starts, entries, None
        structure = cls._of_arrays(str(indptr.dtype), len(indptr) - 1, len(indices), arrays, cuts, where)
        structure.ids_known = False
        if edge_ids is not None:
            structure.add_edge_ids(runner, lambda: edge_ids)
        return structure

    @classmethod
    def sort(cls, runner: Runner, rows: np.ndarray, cols: np.ndarray, num_rows: int) -> Structure:
        """Copy edges from the host, as one array, and sort them by row on the device.

        The host counts the edges of each row meanwhile, so as not to wait for what the device finds.
        """
        lengths = np.bincount(rows, minlength=num_rows)
        cuts = _Cuts.of_rows(lengths, np.cumsum(lengths) - lengths, row_limit(num_rows, len(rows)))
        memory = runner.upload(np.concatenate([rows, cols, cuts.array.astype(rows.dtype)]))
        from_rows, from_cols, where = _slices(memory, rows.dtype, len(rows), len(cols))
        matrix = compress(runner, str(rows.dtype), from_rows.address, from_cols.address, num_rows, len(rows))
        arrays = matrix.indptr, matrix.indices, matrix.edge_ids
        return cls._of_arrays(str(rows.dtype), num_rows, len(rows), arrays, cuts, where)

    @classmethod
    def sort_there(cls, runner: Runner, index: str, rows: int, cols: int, num_rows: int, num_entries: int) -> Structure:
        """Sort edges by row whose ends are on the device, at these addresses; the host learns nothing of the rows.

        So there is room for as many chunks as such rows can have, most of them unused, here and in :meth:`of_rows`.
        """
        matrix = compress(runner, index, rows, cols, num_rows, num_entries)
        return cls.of_rows(runner, index, num_rows, num_entries, matrix.indptr, matrix.indices, None, matrix.edge_ids)

    @classmethod
    def of_rows(
        cls,
        runner: Runner,
        index: str,
        num_rows: int,
        num_entries: int,
        indptr: Memory,
        indices: Memory,
        longest: int | None = None,
        edge_ids: Memory | None = None,
    ) -> Structure:
        """Return rows that are on the device; ``longest``: the most entries of one, if the host knows it."""
        limit = row_limit(num_rows, num_entries)
        num_long, cuts = num_entries // (limit + 1), None
        if longest is not None and longest <= limit:
            num_long = 0
        num_chunks = num_entries // limit + num_long if num_long else 0
        if num_long:
            cuts = cut_rows(runner, index, indptr.address, num_rows, limit, num_long, num_chunks)
        return cls(index, num_rows, num_entries, indptr, indices, edge_ids, limit, num_long, num_chunks, cuts)

    def add_edge_ids(self, runner: Runner, make: Callable[[], np.ndarray | None]) -> None:
        """Copy the edge ids that ``make`` gives to the device, unless they are there: few kernels need them."""
        if self.ids_known:
            return
        edge_ids = make()
        self.edge_ids = None if edge_ids is None else runner.upload(edge_ids)
        self.ids_known = True

    @classmethod
    def _of_arrays(
        cls,
        index: str,
        num_rows: int,
        num_entries: int,
        arrays: tuple[Memory, Memory, Memory | None],
        cuts: _Cuts,
        where: Memory,
    ) -> Structure:
        uploaded = where if cuts.num_long else None
        return cls(index, num_rows, num_entries, *arrays, cuts.limit, cuts.num_long, cuts.num_chunks, uploaded)

    @property
    def words(self) -> tuple[int, ...]:
        """The words of ``Rows`` in rows.cuh."""
        edge_ids = 0 if self.edge_ids is None else self.edge_ids.address
        chunks = self.addresses[:2]
        return (
            *(self.indptr.address, self.indices.address, edge_ids, self.num_rows),
            *(*chunks, self.num_chunks, self.limit),
        )

    @property
    def uncut_words(self) -> tuple[int, ...]:
        """The words of the same rows without chunks."""
        return (*self.words[:4], 0, 0, 0, 1 << 62)

    @property
    def chunk_words(self) -> tuple[int, ...]:
        """The words of the chunks alone."""
        return (*self.words[:3], 0, *self.words[4:])

    @property
    def num_teams(self) -> int:
        """Teams of lanes that a kernel over the rows needs."""
        return self.num_chunks + self.num_rows

    def merge_grid(self, width: int) -> tuple[int, int]:
        """Return the blocks that put the chunks of long rows of ``width`` columns together (``MergeThread``)."""
        return min(self.num_long, MOST_MERGES), -(-width // MERGE_COLUMNS)

    @property
    def mean(self) -> float:
        """Mean number of entries of a row."""
        return self.num_entries / max(self.num_rows, 1)
