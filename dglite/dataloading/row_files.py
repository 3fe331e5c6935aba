"""Files of rows: NumPy's, mapped to memory, or read past the page cache (direct I/O) by threads, several at a time."""

from __future__ import annotations

import logging
import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, final

import numpy as np

from ..errors import DGLError
from ..kernels import compiled
from ..locks import new_lock

_logger = logging.getLogger("dglite")

READERS = 32
"""Threads that wait for a file's pages. They wait most of the time, so that there may be more than cores."""
_BLOCKS = 512, 4096
"""Bytes of which offsets, lengths and addresses of reads are multiples: the least that the file takes."""
_BUFFER = 1 << 18
"""Bytes of a thread's buffer, at least, and so of the largest read."""


@final
class DirectRows:
    """A file that is open for direct I/O.

    Raises OSError: the system or the file system has no direct I/O.

    Attributes
    ----------
    block
        bytes of which offsets and lengths of reads are multiples.
    reads, bytes_read
        calls of ``pread`` so far, and the bytes that they read.
    """

    def __init__(self, path: Path, start: int, width: int) -> None:
        if not hasattr(os, "O_DIRECT") or not hasattr(os, "preadv"):
            raise OSError("the system has no O_DIRECT")
        self.path, self.start, self.width = path, start, width
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
        self._file = os.fdopen(descriptor, "rb", buffering=0)
        self.block = _block_of(descriptor)
        self._room = max(_BUFFER, -(-width // self.block) * self.block + 2 * self.block)
        self._buffers: list[mmap.mmap] = []
        self._lock = new_lock()
        self.reads = self.bytes_read = 0

    def read(self, rows: np.ndarray, places: np.ndarray, target: int, first: int, last: int) -> None:
        """Write row ``rows[i]`` to row ``places[i]`` at an address, for i from ``first`` up to ``last``.

        Rows ascend. Called from several threads, each with a share of the same rows.

        Raises ``DGLError``: the file is shorter than it was, or cannot be read.
        """
        buffer = self._buffer()
        address, done = np.frombuffer(buffer, np.uint8).ctypes.data, np.zeros(3, np.int64)
        place = self._file.fileno(), self.start, self.width, self.block, address, self._room
        _kernels().read_rows(*place, rows, places, target, done, first, last)
        with self._lock:
            self._buffers.append(buffer)
            self.reads += int(done[0])
            self.bytes_read += int(done[1])
        if done[2] >= 0:
            self._raise(int(rows[done[2]]))

    def __del__(self) -> None:
        """Close the file, which Python would do with a ``ResourceWarning``; there is none if it could not be opened."""
        with suppress(AttributeError):
            self._file.close()

    def _buffer(self) -> mmap.mmap:
        """Return memory that begins with a page and that no other thread uses."""
        with self._lock:
            if self._buffers:
                return self._buffers.pop()
        return mmap.mmap(-1, self._room)

    def _raise(self, row: int) -> None:
        size, needed = os.fstat(self._file.fileno()).st_size, self.start + (row + 1) * self.width
        if size < needed:
            raise DGLError(
                f"{self.path} was cut short while it is open: row {row} ends at byte {needed}, it has {size}; write it "
                "anew and open it again"
            )
        raise DGLError(f"row {row} of {self.path} cannot be read; does its disk have errors?")


def _block_of(descriptor: int) -> int:
    """Return the least block that a read takes; ``OSError`` if none does."""
    for block in _BLOCKS:
        buffer = mmap.mmap(-1, 2 * _BLOCKS[-1])
        try:
            os.preadv(descriptor, [memoryview(buffer)[block : 2 * block]], block)
        except OSError:
            if block == _BLOCKS[-1]:
                raise
        else:
            return block
    raise AssertionError


def open_direct(path: Path, start: int, width: int) -> DirectRows | None:
    """Return the file for direct I/O, or None, and log why, where that is refused: then pages of a map are read."""
    try:
        return DirectRows(path, start, width)
    except OSError as error:
        _logger.warning("%s is read by way of the page cache: direct I/O is refused (%s)", path, error)
        return None


def _kernels() -> ModuleType:
    # At the first read: importing LLVM takes 0.05 s, and `import dglite` must not pay it.
    return compiled("graph.read")


def sorted_rows(rows: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows in ascending order, and where each goes."""
    order: Any = None if (rows[1:] >= rows[:-1]).all() else np.argsort(rows, kind="stable")
    if order is None:
        return rows, places if len(places) else np.arange(len(rows))
    return rows[order], places[order] if len(places) else order


@final
class Readers:
    """Threads that are started when they are needed; a fork of the process starts its own."""

    def __init__(self) -> None:
        self._process = 0
        self._threads: ThreadPoolExecutor | None = None

    def here(self) -> ThreadPoolExecutor:
        """Return them."""
        if self._process != os.getpid() or self._threads is None:
            self._process, self._threads = os.getpid(), ThreadPoolExecutor(READERS, "dglite-reader")
        return self._threads


def mapped_rows(path: Path) -> tuple[np.ndarray, mmap.mmap | None, int]:
    """Return the array of a NumPy file, its map, None of no bytes, and its first byte; only used pages are read."""
    try:
        with open(path, "rb") as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, by_column, dtype = read(file)
            start, size = file.tell(), os.fstat(file.fileno()).st_size
            needed = start + int(np.prod(shape, dtype=np.float64)) * dtype.itemsize
            if dtype.hasobject or not dtype.isnative or len(shape) == 0 or (by_column and len(shape) > 1):
                raise DGLError(f"{path} holds {dtype} of shape {shape}, which is not mapped; write rows in C order")
            if size < needed:
                raise DGLError(f"{path} is cut short: {dtype} of shape {shape} needs {needed} bytes, it has {size}")
            if needed == start:
                return np.empty(shape, dtype), None, start
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise DGLError(f"File {path} does not exist.") from None
    except (OSError, ValueError) as error:
        raise DGLError(f"{path} is not read as a NumPy array file: {error}") from error
    if hasattr(mmap, "MADV_RANDOM"):  # not on Windows
        with suppress(OSError):  # advice that a file system may refuse
            memory.madvise(mmap.MADV_RANDOM)
    return np.frombuffer(memory, dtype, int(np.prod(shape, dtype=np.int64)), start).reshape(shape), memory, start
