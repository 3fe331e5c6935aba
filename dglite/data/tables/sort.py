"""Edges on disk to CSC on disk, with little memory: dealt into ranges of destinations, then sorted range by range."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...backend import active
from ...errors import DGLError
from ...kernels import compiled
from ...structure.formats import index_dtype_for
from .files import ConversionState, write_all

_DEALT = 80
"""Bytes of memory for an int32 edge while it is dealt or sorted: ends, id, their order, a copy of each, temporaries."""
_WORKERS, _FEWEST, _PART = 8, 1 << 16, 1 << 24
"""Threads that deal and sort, at most; edges that each takes at a time, at least and at most: fewer fit in a cache."""

Item = TypeVar("Item")
Result = TypeVar("Result")


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
        left = (memory - bytes_to_sort(num_dst)) // (_DEALT * self.index_dtype.itemsize // 4)
        self._workers = min(active.num_threads(), _WORKERS, left // _FEWEST)
        self._rows = min(left // (self._workers + 1), _PART) if self._workers > 1 else left
        if self._rows < 4096 and num_edges > self._rows:
            raise DGLError(
                f"{memory:,} bytes are too few to sort edges to {num_dst:,} nodes; {bytes_to_sort(num_dst):,} are "
                "needed for their counters, and some MB for edges; raise the limit"
            )

    def write(self, file: Any, places: dict[str, int], state: ConversionState, step: str) -> Iterator[int]:
        """Write ``indptr``, ``indices`` and ``edge_ids`` to their places in a file; yield edges as they are done.

        Half of what is yielded counts reading. A step that ``state`` has recorded is passed over.
        """
        step = f"{step}, {self._rows} at a time"
        indptr = self._indptr()
        bounds = self._bounds(indptr)
        if not state.steps.get(f"{step} sorted", 0):
            _write_at(file, places["indptr"], indptr.astype(self.index_dtype))
        temporary = [self._paths[0].with_suffix(f".dealt-{name}") for name in ("src", "dst", "ids")]
        if len(bounds) > 2:
            yield from self._deal(indptr, bounds, temporary, state, step)
        else:
            yield self.num_edges
        first = int(state.steps.get(f"{step} sorted", 0))
        sources = [*self._paths, None] if len(bounds) == 2 else temporary
        parts = self._parts(indptr, bounds, first)
        for part, (indices, edge_ids) in self._in_order(lambda part: (part, self._sorted(sources, part)), parts):
            _write_at(file, places["indices"] + part.begin * self.index_dtype.itemsize, indices)
            _write_at(file, places["edge_ids"] + part.begin * self.index_dtype.itemsize, edge_ids)
            if part.is_last:
                state.reached(f"{step} sorted", part.number + 1)
            yield part.num_edges
        for path in temporary:
            path.unlink(missing_ok=True)

    def _indptr(self) -> np.ndarray:
        counts = np.zeros(self.num_dst + 1, np.int64)
        step = min(max(self._rows, _FEWEST), _PART)
        for begin in range(0, self.num_edges, step):
            dst = self._read(self._paths[1], self.dtype, begin, min(step, self.num_edges - begin))
            compiled("graph.convert").add_counts(dst, counts[1:])
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
        dtypes = [self.dtype, self.dtype, self.index_dtype]
        for path, dtype in zip(targets, dtypes, strict=True):
            reserve(path, self.num_edges * dtype.itemsize)
        files = [path.open("r+b", buffering=0) for path in targets]
        try:
            yield first_row
            begins = range(first_row, self.num_edges, self._rows)
            for begin, starts, columns in self._in_order(lambda begin: self._by_range(begin, bounds), begins):
                for number in np.flatnonzero(np.diff(starts)).tolist():
                    part = slice(int(starts[number]), int(starts[number + 1]))
                    for file, column in zip(files, columns, strict=True):
                        _write_at(file, cursors[number] * column.itemsize, column[part])
                    cursors[number] += part.stop - part.start
                count = len(columns[0])
                state.reached(f"{step} dealt", (begin + count, list(cursors)))
                yield count
        finally:
            for file in files:
                file.close()

    def _by_range(self, begin: int, bounds: np.ndarray) -> tuple[int, np.ndarray, tuple[np.ndarray, ...]]:
        """Return edges from ``begin`` on in the order of their ranges, and where each range starts among them."""
        count = min(self._rows, self.num_edges - begin)
        src, dst = (self._read(path, self.dtype, begin, count) for path in self._paths)
        convert = compiled("graph.convert")
        ids = np.arange(begin, begin + count, dtype=self.index_dtype)
        ranges, threads = convert.find_ranges(dst, bounds), self._threads()
        sorted_columns = [convert.sort_rows(ranges, len(bounds) - 1, column, threads) for column in (src, dst, ids)]
        starts = sorted_columns[0][0]
        return begin, starts, tuple(column for _, column in sorted_columns)

    def _parts(self, indptr: np.ndarray, bounds: np.ndarray, first_range: int) -> Iterator[_Part]:
        """Yield what is sorted at a time, from a range on; a node with more edges than fit takes several parts."""
        for number in range(first_range, len(bounds) - 1):
            first, last = int(bounds[number]), int(bounds[number + 1])
            begin, end = int(indptr[first]), int(indptr[last])
            step = self._rows if last == first + 1 else max(end - begin, 1)
            for at in range(begin, end, step):
                yield _Part(number, first, last, at, min(step, end - at), at + step >= end)

    def _sorted(self, paths: list[Any], part: _Part) -> tuple[np.ndarray, np.ndarray]:
        """Return the sources and edge ids of a part, by destination; the edges of one node are in order already."""
        src, dst = (self._read(path, self.dtype, part.begin, part.num_edges) for path in paths[:2])
        if paths[2] is None:
            ids = np.arange(part.begin, part.begin + part.num_edges, dtype=self.index_dtype)
        else:
            ids = self._read(paths[2], self.index_dtype, part.begin, part.num_edges)
        if part.last > part.first + 1:
            rows, threads = dst - dst.dtype.type(part.first), self._threads()
            sort, num_rows = compiled("graph.convert").sort_rows, part.last - part.first
            src, ids = (sort(rows, num_rows, column, threads)[1] for column in (src, ids))
        return src.astype(self.index_dtype, copy=False), ids

    def _threads(self) -> int:
        """Return the threads of one kernel: one where several workers sort."""
        return 1 if self._workers > 1 else active.num_threads()

    def _in_order(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield results in the order of ``items``, while workers compute the next ones."""
        if self._workers < 2:
            yield from map(function, items)
            return
        with ThreadPoolExecutor(self._workers, "dglite-sort") as pool:
            upcoming: deque[Future[Result]] = deque()
            for item in items:
                if len(upcoming) == self._workers:
                    yield upcoming.popleft().result()
                upcoming.append(pool.submit(function, item))
            while upcoming:
                yield upcoming.popleft().result()

    def _read(self, path: Path, dtype: np.dtype, first: int, count: int) -> np.ndarray:
        array: np.ndarray = np.fromfile(path, dtype, count, offset=first * dtype.itemsize)
        if len(array) != count:
            raise DGLError(f"{path} was cut short while edges are sorted; start the conversion again")
        return array


class _Part(NamedTuple):
    """Edges that are sorted at a time: entries of destinations ``first`` to ``last``, the range of that number."""

    number: int
    first: int
    last: int
    begin: int
    num_edges: int
    is_last: bool


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
