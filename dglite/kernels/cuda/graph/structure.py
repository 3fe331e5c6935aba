"""A compressed matrix on a GPU, with long rows split into chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..run.program import Memory, Runner
from .convert import compress

__all__ = ["Structure", "row_limit"]

LEAST_LIMIT, TIMES_MEAN = 256, 8
"""Rows longer than the first, and than the mean times the second, are cut: shorter ones do not delay their warp."""


def row_limit(num_rows: int, num_entries: int) -> int:
    """Return how many entries one team of lanes takes at most."""
    mean = num_entries // max(num_rows, 1)
    return max(LEAST_LIMIT, 1 << (TIMES_MEAN * mean).bit_length())


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
        """Copy a compressed matrix from the host. ``limit`` is chosen unless given."""
        structure = cls.on_device(
            runner, indptr, len(indices), runner.upload(indptr), runner.upload(indices), None, limit
        )
        structure.ids_known = False
        if edge_ids is not None:
            structure.add_edge_ids(runner, lambda: edge_ids)
        return structure

    @classmethod
    def sort(cls, runner: Runner, rows: np.ndarray, cols: np.ndarray, num_rows: int) -> Structure:
        """Copy edges from the host and sort them by row on the device. Waits for the lengths of the rows."""
        index, ends = str(rows.dtype), [runner.upload(rows), runner.upload(cols)]
        matrix = compress(runner, index, ends[0].address, ends[1].address, num_rows, len(rows))
        indptr = runner.download(matrix.indptr.address, num_rows + 1, index)
        return cls.on_device(runner, indptr, len(rows), matrix.indptr, matrix.indices, matrix.edge_ids)

    def add_edge_ids(self, runner: Runner, make: Callable[[], np.ndarray | None]) -> None:
        """Copy the edge ids that ``make`` gives to the device, unless they are there: few kernels need them."""
        if self.ids_known:
            return
        edge_ids = make()
        self.edge_ids = None if edge_ids is None else runner.upload(edge_ids)
        self.ids_known = True

    @classmethod
    def on_device(
        cls,
        runner: Runner,
        host_indptr: np.ndarray,
        num_entries: int,
        indptr: Memory,
        indices: Memory,
        edge_ids: Memory | None,
        limit: int = 0,
    ) -> Structure:
        """Make a structure of arrays that are on the device already; ``host_indptr`` tells the lengths of rows."""
        num_rows = len(host_indptr) - 1
        limit = limit or row_limit(num_rows, num_entries)
        lengths = np.diff(host_indptr)
        long_rows = np.flatnonzero(lengths > limit)
        counts = -(-lengths[long_rows] // limit)
        starts = np.concatenate([[0], np.cumsum(counts)])
        chunk_rows = np.repeat(long_rows, counts)
        within = np.arange(len(chunk_rows)) - np.repeat(starts[:-1], counts)
        firsts = host_indptr[chunk_rows] + within * limit
        cuts = np.concatenate([chunk_rows, firsts, long_rows, starts]).astype(host_indptr.dtype)
        uploaded = runner.upload(cuts) if len(long_rows) else None
        index = str(host_indptr.dtype)
        return cls(
            index, num_rows, num_entries, indptr, indices, edge_ids, limit, len(long_rows), len(chunk_rows), uploaded
        )

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

    @property
    def mean(self) -> float:
        """Mean number of entries of a row."""
        return self.num_entries / max(self.num_rows, 1)
