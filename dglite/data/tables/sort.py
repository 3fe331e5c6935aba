"""Edges on disk to CSC on disk, with little memory: dealt into ranges of destinations, then sorted range by range."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...backend import active
from ...errors import DGLError
from ...kernels import compiled
from ...structure.formats import index_dtype_for
from .files import ConversionState, write_all

_DEALT = 80
"""Bytes of memory for an int32 edge while it is dealt or sorted: ends, id, their order, a copy of each, temporaries."""


def bytes_to_sort(num_dst: int) -> int:
    """Return the memory that sorting by destination takes beside the edges: a counter and an offset for each."""
    return 16 * (num_dst + 1)


class SortedRelation:
    """The edges of one type, in files of sources and destinations, to be written by destination.

    Raises DGLError: the limit has no room for the counters of the destinations.

    Parameters
    ----------
    ends
        two files with a number for each edge, of ``dtype``.
    num_src, num_dst, num_edges
        counts.
    memory
        limit in bytes.
    """

    def __init__(
        self, ends: tuple[Path, Path], dtype: np.dtype, num_src: int, num_dst: int, num_edges: int, memory: int
    ) -> None:
        self.num_edges, self.num_dst, self.dtype = num_edges, num_dst, dtype
        self._paths = ends
        self.index_dtype = index_dtype_for(num_src, num_dst, num_edges)
        left = memory - bytes_to_sort(num_dst)
        self._rows = left // (_DEALT * self.index_dtype.itemsize // 4)
        if self._rows < 4096 and num_edges > self._rows:
            raise DGLError(
                f"{memory:,} bytes are too few to sort edges to {num_dst:,} nodes; {bytes_to_sort(num_dst):,} are "
                "needed for their counters, and some MB for edges; raise the limit"
            )

    def write(self, file: Any, places: dict[str, int], state: ConversionState, step: str) -> Iterator[int]:
        """Write ``indptr``, ``indices`` and ``edge_ids`` to their places in a file; yield edges as they are done.

        Half of what is yielded counts reading. A step that ``state`` has recorded is passed over.
        """
        indptr = self._indptr()
        bounds = self._bounds(indptr)
        if not state.steps.get(f"{step} sorted", 0):
            _write_at(file, places["indptr"], indptr.astype(self.index_dtype))
        temporary = [
            path.with_suffix(f".{name}") for path, name in zip([*self._paths, self._paths[0]], _PARTS, strict=True)
        ]
        if len(bounds) > 2:
            yield from self._deal(indptr, bounds, temporary, state, step)
        else:
            yield self.num_edges
        for number in range(int(state.steps.get(f"{step} sorted", 0)), len(bounds) - 1):
            first, last = int(bounds[number]), int(bounds[number + 1])
            begin, end = int(indptr[first]), int(indptr[last])
            sources = [*self._paths, None] if len(bounds) == 2 else temporary
            for at, indices, edge_ids in self._sorted(sources, first, last, begin, end):
                _write_at(file, places["indices"] + at * self.index_dtype.itemsize, indices)
                _write_at(file, places["edge_ids"] + at * self.index_dtype.itemsize, edge_ids)
                yield len(indices)
            state.reached(f"{step} sorted", number + 1)
        for path in temporary:
            path.unlink(missing_ok=True)

    def _indptr(self) -> np.ndarray:
        counts = np.zeros(self.num_dst + 1, np.int64)
        kernel, threads = compiled("graph.convert").count_rows, active.num_threads()
        step = max(self._rows, 1 << 16)
        for first in range(0, self.num_edges, step):
            dst = self._read(self._paths[1], self.dtype, first, min(step, self.num_edges - first))
            if len(dst) * 4 > self.num_dst:
                counts[1:] += kernel(dst, self.num_dst, threads)
            else:
                np.add.at(counts[1:], dst, 1)
        return np.cumsum(counts, out=counts)

    def _bounds(self, indptr: np.ndarray) -> np.ndarray:
        """Return the first destinations of ranges whose edges fit in memory; a range of one node may have any number"""
        bounds = [0]
        while bounds[-1] < self.num_dst:
            last = int(np.searchsorted(indptr, indptr[bounds[-1]] + self._rows, "right")) - 1
            bounds.append(min(max(last, bounds[-1] + 1), self.num_dst))
        return np.array(bounds if len(bounds) > 1 else [0, 0])

    def _deal(
        self, indptr: np.ndarray, bounds: np.ndarray, targets: list[Path], state: ConversionState, step: str
    ) -> Iterator[int]:
        """Write the edges of each range together, in the order of their ids."""
        first_row, cursors = state.steps.get(f"{step} dealt", (0, indptr[bounds[:-1]].tolist()))
        sort, threads = compiled("graph.convert").sort_rows, active.num_threads()
        dtypes = [self.dtype, self.dtype, self.index_dtype]
        for path, dtype in zip(targets, dtypes, strict=True):
            reserve(path, self.num_edges * dtype.itemsize)
        files = [path.open("r+b", buffering=0) for path in targets]
        try:
            yield first_row
            for begin in range(first_row, self.num_edges, self._rows):
                count = min(self._rows, self.num_edges - begin)
                src, dst = (self._read(path, self.dtype, begin, count) for path in self._paths)
                ranges = (np.searchsorted(bounds, dst, "right") - 1).astype(np.int32)
                starts, order = sort(ranges, len(bounds) - 1, None, threads)
                columns = src[order], dst[order], (order + np.int64(begin)).astype(self.index_dtype)
                for number in np.flatnonzero(np.diff(starts)).tolist():
                    part = slice(int(starts[number]), int(starts[number + 1]))
                    for file, column in zip(files, columns, strict=True):
                        _write_at(file, cursors[number] * column.itemsize, column[part])
                    cursors[number] += part.stop - part.start
                state.reached(f"{step} dealt", (begin + count, list(cursors)))
                yield count
        finally:
            for file in files:
                file.close()

    def _sorted(
        self, paths: list[Any], first: int, last: int, begin: int, end: int
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield (position, sources, edge ids) of the entries of destinations ``first`` to ``last``."""
        step = self._rows if last == first + 1 else max(end - begin, 1)  # a node's edges are in order already
        for at in range(begin, end, step):
            count = min(step, end - at)
            src, dst = (self._read(path, self.dtype, at, count) for path in paths[:2])
            ids = None if paths[2] is None else self._read(paths[2], self.index_dtype, at, count)
            if last > first + 1:
                sort, threads = compiled("graph.convert").sort_rows, active.num_threads()
                _, order = sort(dst - dst.dtype.type(first), last - first, None, threads)
                src, ids = src[order], order if ids is None else ids[order]
            elif ids is None:
                ids = np.arange(at, at + count)
            yield at, src.astype(self.index_dtype, copy=False), ids.astype(self.index_dtype, copy=False)

    def _read(self, path: Path, dtype: np.dtype, first: int, count: int) -> np.ndarray:
        array: np.ndarray = np.fromfile(path, dtype, count, offset=first * dtype.itemsize)
        if len(array) != count:
            raise DGLError(f"{path} was cut short while edges are sorted; start the conversion again")
        return array


_PARTS = ("dealt-src", "dealt-dst", "dealt-ids")


def reserve(path: Path, size: int) -> None:
    """Make a file of a size, whose disk space is there; one that is longer or as long stays. ``OSError`` if not."""
    if path.exists() and path.stat().st_size >= size:
        return
    with path.open("ab") as file:
        if size and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)  # or a full disk would show only when all has been sorted
        else:
            file.truncate(size)


def _write_at(file: Any, place: int, array: np.ndarray) -> None:
    file.seek(place)
    write_all(file, np.ascontiguousarray(array))
