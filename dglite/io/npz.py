"""Arrays by name in ``.npz`` files, without pickles, and without memory that the file does not account for."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from ..errors import DGLError
from .atomic import replacing

__all__ = ["MOST_UNPACKED", "read_npz", "write_npz"]

MOST_UNPACKED = 1100
"""How much larger than its archive an unpacked file may be. DEFLATE, of .zip and .gz, reaches 1032."""


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name, of any name, to a file that is replaced when the new one is complete."""
    with replacing(path) as part, zipfile.ZipFile(part, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, array, allow_pickle=False)


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of numbers in a file by name.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    DGLError
        It is damaged, holds something else than numbers, or says that more would be unpacked than 1100 times its size.
    """
    size = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if sum(member.compress_size for member in members) > size:
                raise ValueError("its members are said to be larger than the file")
            return {member.filename.removesuffix(".npy"): _array(archive, member) for member in members}
    except Exception as error:  # a damaged archive raises nearly anything: zlib.error, SyntaxError, struct.error ...
        raise DGLError(f"{path} is not read as .npz: {error or type(error).__name__}") from error


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """Read one array, after holding what its header says against the size of the member."""
    if member.file_size > MOST_UNPACKED * member.compress_size:
        raise ValueError(f"{member.filename} would be unpacked to more than {MOST_UNPACKED} times its size")
    with archive.open(member) as file:
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(npy.read_magic(file))
        if read is None:
            raise ValueError(f"{member.filename} is of a version of NumPy's format for other things than numbers")
        shape, by_column, dtype = read(file)
        content = file.read(member.file_size - file.tell())
    if dtype.kind not in "biufc":
        raise ValueError(f"{member.filename} holds {dtype}, not numbers")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(content):
        raise ValueError(f"{member.filename} has {len(content)} bytes for shape {shape} of {dtype}")
    values = np.frombuffer(content, dtype).reshape(shape, order="F" if by_column else "C")
    return values.astype(dtype.newbyteorder("="))
