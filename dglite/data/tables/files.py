"""Arrays that are written row after row, and the state of a conversion that may be interrupted."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from ...errors import DGLError
from ...io.atomic import replacing

_HEADER = 128
"""Bytes of a NumPy file before its array."""


class RowFile:
    """A ``.npy`` file that grows: rows are appended, and the header is written when all are there.

    Parameters
    ----------
    path
        the file; its folder is made.
    dtype, shape
        of the array, ``shape`` of one row.
    rows
        how many rows a run before has written; what follows them is cut off.
    """

    def __init__(self, path: Path, dtype: Any, shape: Sequence[int] = (), rows: int = 0) -> None:
        self.path, self.dtype, self.shape, self.rows = path, np.dtype(dtype), tuple(shape), rows
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("r+b" if rows and path.exists() else "wb", buffering=0)
        self._write_header()
        self._row_bytes = self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))
        end = _HEADER + rows * self._row_bytes
        self._file.truncate(end)
        self._file.seek(end)

    def append(self, rows: np.ndarray) -> None:
        """Write rows; ``OSError`` if the disk is full."""
        write_all(self._file, np.ascontiguousarray(rows, self.dtype))
        self.rows += len(rows)

    def finish(self) -> None:
        """Write the header and close the file."""
        self._write_header()
        self._file.close()

    def _write_header(self) -> None:
        shape = f"({self.rows},{','.join(map(str, self.shape))})"
        text = f"{{'descr': {np.lib.format.dtype_to_descr(self.dtype)!r}, 'fortran_order': False, 'shape': {shape}, }}"
        self._file.seek(0)
        self._file.write(b"\x93NUMPY\x01\x00" + (_HEADER - 10).to_bytes(2, "little"))
        self._file.write(text.encode().ljust(_HEADER - 11) + b"\n")


class ConversionState:
    """What a conversion has done, in a file that is replaced after each step.

    Attributes
    ----------
    steps
        what each step has reached, by its name.
    """

    def __init__(self, path: Path, fingerprint: Any) -> None:
        self._path, self._fingerprint = path, json.loads(json.dumps(fingerprint))
        self.steps: dict[str, Any] = {}
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError):
            content = {}
        self.is_continued = isinstance(content, dict) and content.get("fingerprint") == self._fingerprint
        if self.is_continued:
            self.steps = content["steps"]

    def reached(self, step: str, value: Any) -> None:
        """Write what a step has reached."""
        self.steps[step] = value
        with replacing(self._path) as part:
            part.write_text(json.dumps({"fingerprint": self._fingerprint, "steps": self.steps}))


def write_all(file: Any, array: np.ndarray) -> None:
    """Write the bytes of a contiguous array to an unbuffered file, which may take them in parts."""
    content = memoryview(array.reshape(-1).view(np.uint8).data)
    while len(content):
        content = content[file.write(content) :]


def file_name(key: str | tuple[str, ...]) -> str:
    """Return the name of a type's folder or of a feature's file, in which every character is safe."""
    return quote(key, safe=" ") if isinstance(key, str) else ".".join(quote(part, safe=" ") for part in key)


def require_place(target: Path) -> Path:
    """Return the folder above ``target`` that is there, in which the folders on the way to it can be made.

    Raises ``DGLError``: a file is in the way, or no file can have such a name.
    """
    try:
        os.lstat(target.parent / f"{target.name}.converting")
    except (OSError, ValueError) as error:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise DGLError(f"{str(target)!r:.200} is no name of a folder: {error!s:.200}") from error
    place = target.absolute().parent
    while not os.path.lexists(place):
        place = place.parent
    if not place.is_dir():
        raise DGLError(f"{target} cannot be made, since {place} is no folder; give a path in a folder")
    return place
