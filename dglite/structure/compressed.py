"""A compressed sparse matrix, and the stable counting sort that makes one."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from ..backend import active
from ..backend.memory import new_array
from ..errors import DGLError
from ..locks import new_lock
from .ids import check_range
from .sizes import require_room

SMALL = 512
"""Up to this many edges NumPy sorts as fast as a compiled kernel is called, and LLVM need not be imported."""

_LARGE = 1 << 22
"""From this many entries on, threads copy faster than one, and NumPy's temporaries (64 bits per index) are felt."""

_FEW = 1 << 16
"""Up to this many entries one call of NumPy's makes a copy; memory of the pool is for larger ones."""

_LAZY = 1 << 20
"""From this many edges on, they are sorted in several threads, and edge ids only when they are asked for."""


def kernels() -> ModuleType:
    """Return the compiled conversion kernels."""
    # Imported at the first graph above SMALL edges: importing LLVM takes 0.05 s, and `import dglite` must not pay it.
    from ..kernels.cpu.graph import convert

    return convert


class Compressed:
    """A matrix by rows. Entries inside a row are in edge-id order. Immutable.

    ``indptr`` (num_rows + 1,), ``indices`` (num_edges,) and ``edge_ids`` (num_edges,) share one integer dtype.

    Parameters
    ----------
    edge_ids
        the edge id of each entry; None when entry j is edge j, or when they are not made yet.
    unsorted_rows
        the row of each edge, in edge-id order, for edge ids that are made when they are first asked for. Few
        operations on a graph need them, and a graph of 200M edges saves 0.8 GB and a sort.

    Attributes
    ----------
    in_order
        whether the matrix was given by rows without edge ids, so that users get none back.
    """

    __slots__ = ("_addresses", "_edge_ids", "_lock", "_unsorted_rows", "in_order", "indices", "indptr")

    def __init__(
        self,
        indptr: np.ndarray,
        indices: np.ndarray,
        edge_ids: np.ndarray | None = None,
        unsorted_rows: np.ndarray | None = None,
    ) -> None:
        self.indptr, self.indices = indptr, indices
        self._edge_ids, self._unsorted_rows = edge_ids, unsorted_rows
        self._lock = None if unsorted_rows is None else new_lock()
        self._addresses: tuple[int, int, int] | None = None
        self.in_order = False

    def __reduce__(self) -> tuple[Any, ...]:
        # The rows are one end of the relation's edges, which a pickle of the relation holds once for both.
        rows = self._unsorted_rows  # first: whoever makes the ids drops the rows afterwards
        return Compressed, (self.indptr, self.indices, self._edge_ids, rows)

    def __repr__(self) -> str:
        return f"Compressed(num_rows={self.num_rows}, num_edges={self.num_edges}, dtype={self.indptr.dtype})"

    def damaged(self, why: str) -> DGLError:
        """Return the error for a structure that is not sound: it was mapped, and so not looked at."""
        return DGLError(f"the structure comes from a damaged file: {why}; load it without mmap to have all checked")

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """Number of entries."""
        return len(self.indices)

    @property
    def edge_ids(self) -> np.ndarray | None:
        """The edge id of each entry, None when entry j is edge j. Made when first asked for where there are many."""
        self.make_edge_ids()
        return self._edge_ids

    def make_edge_ids(self) -> None:
        """Make :attr:`edge_ids` now, in O(num_edges), unless they exist."""
        if self._unsorted_rows is None:
            return
        assert self._lock is not None
        with self._lock:  # made once: a kernel may read them by their address
            rows = self._unsorted_rows
            if rows is not None:
                self._edge_ids = kernels().sort_rows(rows, self.num_rows, None, active.num_threads())[1]
                self._unsorted_rows = None  # last: another thread that sees it gone finds the ids

    @property
    def has_edge_ids(self) -> bool:
        """Whether :attr:`edge_ids` costs nothing: they are made, or entry j is edge j."""
        return self._unsorted_rows is None

    @property
    def addresses(self) -> tuple[int, int, int]:
        """Addresses of ``indptr``, ``indices`` and ``edge_ids`` (0 for None)."""
        if self._addresses is None:
            ids = self.edge_ids
            self._addresses = (*self.row_addresses, 0 if ids is None else ids.ctypes.data)
        return self._addresses

    @property
    def row_addresses(self) -> tuple[int, int]:
        """Addresses of ``indptr`` and ``indices``."""
        return self.indptr.ctypes.data, self.indices.ctypes.data

    def rows(self) -> np.ndarray:
        """Return the row of each entry, ascending."""
        return np.repeat(np.arange(self.num_rows, dtype=self.indptr.dtype), np.diff(self.indptr))

    def is_in_edge_order(self) -> bool:
        """Whether entry j is edge j, also where :attr:`edge_ids` say so."""
        ids = self.edge_ids
        return ids is None or all(
            np.array_equal(ids[at : at + _LARGE], np.arange(at, min(at + _LARGE, len(ids))))
            for at in range(0, len(ids), _LARGE)
        )

    def edge_ids_of(self, entries: np.ndarray) -> np.ndarray:
        """Return the edge ids of some entries."""
        return entries if self.edge_ids is None else self.edge_ids[entries]

    def entry_edge_ids(self) -> np.ndarray:
        """Return the edge id of each entry."""
        return np.arange(self.num_edges, dtype=self.indptr.dtype) if self.edge_ids is None else self.edge_ids


def copy_as(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return a copy of ``array`` as ``dtype``; of many numbers in memory of the pool, made by several threads."""
    if len(array) <= _FEW:
        return array.astype(dtype)
    copy = new_array(array.shape, dtype)
    if len(array) < _LARGE:
        np.copyto(copy, array, casting="unsafe")
    else:
        kernels().cast(array, copy, active.num_threads())
    return copy


def compress(rows: np.ndarray, cols: np.ndarray, num_rows: int) -> Compressed:
    """Return the entries sorted by row, stably, in O(num_edges + num_rows); ``DGLError`` where memory is too small."""
    require_room(num_rows, rows.itemsize + 8 * (len(rows) <= SMALL), len(rows))
    if len(rows) >= _LAZY:
        return _compress_many(rows, cols, num_rows)
    if len(rows) > SMALL:
        return Compressed(*kernels().compress(rows, cols, num_rows))
    indptr = np.zeros(num_rows + 1, rows.dtype)
    np.add.accumulate(np.bincount(rows, minlength=num_rows), out=indptr[1:], dtype=rows.dtype)
    order = rows.argsort(kind="stable")
    return Compressed(indptr, cols[order], order.astype(rows.dtype))


def _compress_many(rows: np.ndarray, cols: np.ndarray, num_rows: int) -> Compressed:
    convert, threads = kernels(), active.num_threads()
    if not convert.ascending(rows):
        indptr, indices = convert.sort_rows(rows, num_rows, cols, threads)
        return Compressed(indptr, indices, unsorted_rows=rows)
    indptr = np.zeros(num_rows + 1, rows.dtype)
    np.add.accumulate(convert.count_rows(rows, num_rows, threads), out=indptr[1:], dtype=rows.dtype)
    return Compressed(indptr, cols)


def count_ids(ids: np.ndarray, count: int) -> np.ndarray:
    """Return how often each of 0 .. count - 1 occurs, int64; ``DGLError`` where there is no memory for that."""
    require_room(count, 8, len(ids))
    if len(ids) < _LARGE:
        return np.bincount(ids, minlength=count)
    counts: np.ndarray = kernels().count_rows(ids, count, active.num_threads())
    return counts


def expand_ranges(first: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return ``first[0], first[0] + 1, ...`` (``counts[0]`` numbers), then the same for each further range."""
    ends = counts.cumsum(dtype=np.int64)
    return (first - ends + counts).repeat(counts) + np.arange(ends[-1] if len(ends) else 0)


def scattered(values: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return the array whose entry ``positions[i]`` is ``values[i]``; positions are a permutation."""
    if len(values) >= _LARGE:
        placed: np.ndarray = kernels().scatter(values, positions, active.num_threads())
        return placed
    result = np.empty_like(values)
    result[positions] = values
    return result


def check_indptr(indptr: np.ndarray, num_rows: int, num_edges: int) -> None:
    """Raise :class:`DGLError` unless ``indptr`` has ``num_rows + 1`` ascending entries from 0 to ``num_edges``."""
    if len(indptr) != num_rows + 1:
        raise DGLError(f"indptr has {len(indptr)} entries; expected {num_rows + 1} for {num_rows} rows")
    if indptr[0] != 0 or indptr[-1] != num_edges:
        raise DGLError(
            f"indptr runs from {indptr[0]} to {indptr[-1]}; expected 0 to {num_edges}, the number of indices"
        )
    falls = (indptr[1:] < indptr[:-1]).nonzero()[0]
    if len(falls):
        row = falls[0]
        raise DGLError(f"indptr falls from {indptr[row]} to {indptr[row + 1]} at row {row}; it must ascend")


def check_permutation(edge_ids: np.ndarray, num_edges: int) -> None:
    """Raise :class:`DGLError` unless ``edge_ids`` is a permutation of 0 .. num_edges - 1."""
    if len(edge_ids) != num_edges:
        raise DGLError(f"{len(edge_ids)} edge ids for {num_edges} entries; expected one for each")
    check_range(edge_ids, num_edges, "edge")
    is_present = np.zeros(num_edges, np.bool_)
    for first in range(0, num_edges, _LARGE):
        is_present[edge_ids[first : first + _LARGE]] = True
    if not is_present.all():
        counts = count_ids(edge_ids, num_edges)
        raise DGLError(
            f"edge id {counts.argmax()} is given {counts.max()} times; expected each of 0 .. {num_edges - 1} once"
        )
