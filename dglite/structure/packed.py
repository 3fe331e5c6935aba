"""A compressed sparse matrix whose indices are packed: fewer bytes on a disk, decoded by the kernels that sample."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..backend import active
from ..errors import DGLError
from ..kernels import compiled
from ..locks import new_lock
from .compressed import Compressed

BLOCK = 64
"""Indices of a block."""
_AT_ONCE = 1 << 16
"""Blocks that are packed together: 17 MB of indices."""
_MOST = 1 << 32
"""Indices are below that."""


class PackedIndices(NamedTuple):
    """Integers in blocks of 64: see ``kernels/cpu/rows/packing.py``.

    Attributes
    ----------
    words
        uint32: the blocks, one after the other, and one word.
    heads
        int64: for each block its first word, shifted left by 6, and the bits of a code; the last one is the end.
    path
        the file that they come from, for errors.
    """

    words: np.ndarray
    heads: np.ndarray
    path: Any = None

    def damaged(self, why: str) -> DGLError:
        """Return the error that names the file."""
        return DGLError(f"{self.path} is damaged: {why}")

    def check(self, bad: np.ndarray) -> None:
        """Raise ``DGLError`` if a kernel has found an entry that is not sound."""
        if bad[0] >= 0:
            raise self.damaged(f"entry {bad[0]} of its compressed structure cannot be decoded")

    def unpacked(self, count: int, bound: int, dtype: Any) -> np.ndarray:
        """Return the ``count`` integers, all below ``bound``.

        Raises ``DGLError``: they are not, the file is damaged.
        """
        out, bad = np.empty(count, dtype), np.full(1, -1, np.int64)
        run, kernel = compiled("run.rows").run_rows, compiled("rows.packing").unpack_blocks
        run(kernel, num_blocks(count), count, active.num_threads(), self.words, self.heads, bound, bad, out)
        self.check(bad)
        return out

    def fit(self, count: int) -> bool:
        """Whether the lengths are those of ``count`` integers."""
        words, heads = self.words, self.heads
        if len(heads) != num_blocks(count) + 1 or not len(words):
            return False
        return bool(heads[0] >> 6 == 0 and heads[-1] == (len(words) - 1) << 6)


def num_blocks(count: int) -> int:
    """Return the number of blocks of ``count`` integers."""
    return -(-count // BLOCK)


def pack_indices(values: np.ndarray, bound: int, scratch: Path | None = None) -> PackedIndices:
    """Pack integers from 0 up to below ``bound``, which need not be in memory.

    ``words`` are in memory, or in a file that is made in the folder ``scratch`` and mapped.

    Raises DGLError: ``bound`` is above 2**32; OSError: the disk of ``scratch`` is full.
    """
    if bound > _MOST:
        raise DGLError(f"there are {bound:,} nodes; ids below 2**32 are compressed, so write without compress")
    total = num_blocks(len(values))
    heads, parts = np.zeros(total + 1, np.int64), _Parts(scratch)
    for first in range(0, total, _AT_ONCE):
        last = min(first + _AT_ONCE, total)
        words = _packed(values[first * BLOCK : last * BLOCK], heads[first:last])
        heads[first:last] += parts.length << 6
        parts.append(words)
    heads[total] = parts.length << 6
    parts.append(np.zeros(1, np.uint32))
    return PackedIndices(parts.whole(), heads)


def _packed(values: np.ndarray, heads: np.ndarray) -> np.ndarray:
    """Return the words of some blocks, and set their heads."""
    kernels, run = compiled("rows.packing"), compiled("run.rows").run_rows
    count, bases, work, threads = len(heads), np.empty(len(heads), np.int64), 16 * len(values), active.num_threads()
    run(kernels.measure_blocks, count, work, threads, values, bases, heads)
    sizes = heads >> 6
    ends = np.cumsum(sizes)
    heads &= 63
    heads |= (ends - sizes) << 6
    words = np.empty(ends[-1], np.uint32)
    run(kernels.pack_blocks, count, work, threads, values, bases, heads, words)
    return words


class _Parts:
    """An array of uint32 that is made part after part, in memory or in a file."""

    def __init__(self, folder: Path | None) -> None:
        self._path, self._parts, self.length = None if folder is None else folder / "words", list[np.ndarray](), 0
        if self._path is not None:
            self._path.write_bytes(b"")

    def append(self, part: np.ndarray) -> None:
        """Add a part; ``OSError`` where the disk is full: a map of a file would end the process then."""
        self.length += len(part)
        if self._path is None:
            self._parts.append(part)
            return
        with self._path.open("ab") as file:
            file.write(part.data)  # tofile's errors do not say that the disk is full

    def whole(self) -> np.ndarray:
        """Return the array; of a file, mapped, which then has no name any more."""
        if self._path is None:
            return np.concatenate(self._parts)
        words = np.memmap(self._path, np.uint32, "r")
        if os.name == "posix":  # elsewhere a mapped file cannot be removed
            self._path.unlink()
        return np.asarray(words)


class PackedRows(Compressed):
    """A matrix by rows with packed indices, those of a mapped file.

    Samplers decode the indices that they draw. Whatever else reads :attr:`indices` has all of them decoded, once.

    Parameters
    ----------
    packed
        the indices, whose lengths have been checked.
    num_edges, num_cols
        entries of the matrix, and the bound of their indices.
    """

    __slots__ = ("_decoded", "_decoding", "_num_edges", "num_cols", "packed")

    def __init__(
        self, indptr: np.ndarray, packed: PackedIndices, edge_ids: np.ndarray | None, num_edges: int, num_cols: int
    ) -> None:
        self.indptr, self.packed, self.num_cols, self._num_edges = indptr, packed, num_cols, num_edges
        self._edge_ids, self._unsorted_rows, self._lock = edge_ids, None, None
        self._addresses, self.in_order = None, False
        self._decoded: np.ndarray | None = None
        self._decoding = new_lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedRows, (self.indptr, self.packed, self._edge_ids, self._num_edges, self.num_cols)

    @property
    def num_edges(self) -> int:
        """Number of entries."""
        return self._num_edges

    @property
    def indices(self) -> np.ndarray:  # type: ignore[override]
        """The column of each entry: (num_edges,), decoded when first asked for, and kept.

        Raises ``DGLError``: the file is damaged.
        """
        with self._decoding:
            if self._decoded is None:
                self._decoded = self.packed.unpacked(self._num_edges, self.num_cols, self.indptr.dtype)
        return self._decoded

    def damaged(self, why: str) -> DGLError:
        """Return the error that names the file."""
        return self.packed.damaged(why)
