"""Arrays of a safetensors file: small ones and single rows are read, large ones are mapped.

To map a page and to touch it takes longer than to read it, so one small graph of many is read: 0.2 ms, and 0.7 mapped.
"""

from __future__ import annotations

import json
import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import active, native

_DTYPES = {
    "BOOL": "bool",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "U8": "uint8",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
}

_SIZES = {name: np.dtype(dtype).itemsize for name, dtype in _DTYPES.items()}

DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
"""What the file calls NumPy's dtypes."""


_READ = 1 << 16
"""Bytes above which an array is mapped."""

_HEADER_AT_ONCE, _LARGEST_HEADER = 4096, 100_000_000


class UnsoundFileError(ValueError):
    """A file that is no safetensors file, or is damaged; ``start`` are its first bytes."""

    def __init__(self, message: str, start: bytes) -> None:
        """Say what is wrong with it."""
        super().__init__(message)
        self.start = start


class ArrayRows:
    """An array of a file of which slices of rows are read, each when it is asked for."""

    def __init__(self, file: MappedFile, dtype: np.dtype, shape: tuple[int, ...], first: int) -> None:
        """Describe an array of a file that begins at byte ``first``."""
        self._file, self._first = file, first
        self.dtype, self.shape, self.ndim = dtype, shape, len(shape)
        self._row = dtype.itemsize * math.prod(shape[1:])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Return the rows of a slice of step 1."""
        start, stop, _ = rows.indices(len(self))
        count = max(stop - start, 0)
        shape = (count, *self.shape[1:])
        return self._file.array(self.dtype, shape, self._first + start * self._row, count * self._row)


class MappedFile:
    """A safetensors file with a sound header: its arrays lie one after the other, without gaps, up to the file's end.

    Attributes
    ----------
    size
        Length of the file in bytes.
    metadata
        What the writer said: text by name.
    names
        Names of the arrays.
    """

    def __init__(self, path: Path) -> None:
        """Open a file.

        Raises UnsoundFileError: it is no safetensors file, or is damaged; OSError: it cannot be read.
        """
        self._path, self._file = path, open(path, "rb", buffering=0)  # noqa: SIM115 (it is kept)
        self._map: np.ndarray | None = None
        self.size = os.fstat(self._file.fileno()).st_size
        text = self._file.read(_HEADER_AT_ONCE)
        start, length = text[:8], int.from_bytes(text[:8], "little")
        if not 0 < length <= min(self.size - 8, _LARGEST_HEADER):
            raise UnsoundFileError("its first 8 bytes are not the length of its header", start)
        self._start = 8 + length
        text = text[8 : self._start] if self._start <= len(text) else self._bytes(8, length).tobytes()
        try:
            self._header: dict[str, Any] = json.loads(text)
            self.metadata: dict[str, str] = self._header.pop("__metadata__", None) or {}
            self._check()
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise UnsoundFileError(f"its header is unsound: {error!r:.200}", start) from error
        self.names = frozenset(self._header)

    def __del__(self) -> None:
        """Close the file, which Python would do with a ``ResourceWarning``; there is none if it could not be opened."""
        with suppress(AttributeError):
            self._file.close()

    def _check(self) -> None:
        """Raise ``ValueError``, or what other types raise, unless arrays fill the file from the header on."""
        if not all(isinstance(text, str) for text in self.metadata.values()):
            raise ValueError("metadata are not text")
        end = 0
        for name, about in sorted(self._header.items(), key=lambda item: item[1]["data_offsets"]):
            (first, last), shape, dtype = about["data_offsets"], about["shape"], about["dtype"]
            if not all(type(count) is int and count >= 0 for count in (first, last, *shape)):
                raise ValueError(f"shape or place of array {name!r:.60} are not numbers")
            # What NumPy has no dtype for is read, and checked, by the library.
            size = _SIZES[dtype] * math.prod(shape) if dtype in _SIZES else last - first
            if first != end or first + size != last:
                raise ValueError(f"array {name!r:.60} does not fill the bytes behind the one before it")
            end = last
        if self._start + end != self.size:
            raise ValueError(f"{end} bytes of arrays in {self.size - self._start}")

    def is_in_numpy(self, name: str) -> bool:
        """Whether NumPy has the dtype of an array."""
        return self._header[name]["dtype"] in _DTYPES

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array."""
        return tuple(self._header[name]["shape"])

    def get_tensor(self, name: str) -> np.ndarray:
        """Return an array. Of a large one pages are read when they are used. Writing to it changes no file.

        Raises TypeError: NumPy lacks its dtype; OSError: the file cannot be read, or is shorter than it was.
        """
        dtype, shape, first, size = self._place(name)
        return self.array(dtype, shape, first, size)

    def rows(self, name: str) -> ArrayRows:
        """Return an array, of a first axis, whose rows are read when they are asked for; errors as get_tensor's."""
        return ArrayRows(self, *self._place(name)[:3])

    def _place(self, name: str) -> tuple[np.dtype, tuple[int, ...], int, int]:
        """Return dtype, shape, position in the file and bytes of an array."""
        about = self._header[name]
        if about["dtype"] not in _DTYPES:
            raise TypeError(f"NumPy has no dtype for {about['dtype']}; the torch backend may have one")
        first, last = about["data_offsets"]
        dtype = np.dtype(_DTYPES[about["dtype"]]).newbyteorder("<")
        return dtype, tuple(about["shape"]), self._start + first, last - first

    def array(self, dtype: np.dtype, shape: tuple[int, ...], first: int, size: int) -> np.ndarray:
        """Return ``size`` bytes of the file from byte ``first`` on as an array; ``OSError`` as :meth:`get_tensor`."""
        if size < _READ:
            content = self._bytes(first, size)
        else:
            if self._map is None:
                self._map = active.map_file(self._path, self.size)
            content = self._map[first : first + size]
        return native(content.view(dtype).reshape(shape))

    def _bytes(self, first: int, size: int) -> np.ndarray:
        """Read bytes of the file."""
        array, done = np.empty(size, np.uint8), 0
        self._file.seek(first)
        while done < size:
            count = self._file.readinto(memoryview(array.data)[done:])
            if not count:
                raise OSError(f"{self._path} ends after {first + done} bytes")
            done += count
        return array
