"""Memory-mapped arrays of a safetensors file: the library maps for torch only, and copies for NumPy."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import native

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

DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
"""What the file calls NumPy's dtypes."""


class MappedFile:
    """A file that the safetensors library has opened, and so found to be sound."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            self._header: dict[str, Any] = json.loads(file.read(length))
        self._start = 8 + length

    def get_tensor(self, name: str) -> np.ndarray:
        """Return an array whose pages are read when they are used. Writing to it changes no file.

        Raises
        ------
        TypeError
            NumPy lacks its dtype.
        """
        about = self._header[name]
        if about["dtype"] not in _DTYPES:
            raise TypeError(f"NumPy has no dtype for {about['dtype']}; the torch backend may have one")
        dtype, shape = np.dtype(_DTYPES[about["dtype"]]).newbyteorder("<"), tuple(about["shape"])
        if not math.prod(shape):
            return np.empty(shape, dtype)
        offset = self._start + about["data_offsets"][0]
        # A plain array: subclasses of ndarray are kept by arithmetic, and pickles of a map are copies anyway.
        return native(np.asarray(np.memmap(self._path, dtype, "c", offset, shape)))
