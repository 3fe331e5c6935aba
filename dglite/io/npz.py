"""Arrays by name in ``.npz`` files, without pickles, with memory bounded by the file's size."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from ..errors import DGLError
from .atomic import replacing

_DENSEST = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1032}
"""The most bytes that one packed byte expands to. bzip2 and LZMA, which .zip files may also have, have no bound."""


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name, of any name, to a file that is replaced when the new one is complete."""
    with replacing(path) as part, zipfile.ZipFile(part, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, array, allow_pickle=False)


def read_npz(path: Path, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """Return the arrays of numbers in a file by name: all, or those of ``names`` that there are.

    They take twice the file's size at most, and twice what they unpack to where they are compressed; what the file says
    about them allocates nothing.

    Raises FileNotFoundError: there is no such file; DGLError: it is damaged, holds something else than numbers, or says
    that its arrays are larger than their packed bytes can hold.
    """
    size = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            members = zip_members(archive, size)
            by_name = {member.filename.removesuffix(".npy"): member for member in members}
            requested = by_name.keys() if names is None else [name for name in by_name if name in names]
            return {name: _array(archive, by_name[name]) for name in requested}
    except Exception as error:  # a damaged archive raises nearly anything: zlib.error, SyntaxError, struct.error ...
        raise DGLError(f"{path} is not read as .npz: {error or type(error).__name__}") from error


def zip_members(archive: zipfile.ZipFile, size: int) -> list[zipfile.ZipInfo]:
    """Return the members of an archive of ``size`` bytes.

    Raises ``ValueError``: they are said to be larger than their packed bytes can hold, or these larger than the file;
    or they are packed by other means than DEFLATE.
    """
    members = archive.infolist()
    for member in members:
        densest = _DENSEST.get(member.compress_type)
        if densest is None:
            raise ValueError(f"{member.filename[:60]!r} is packed by method {member.compress_type}, not by DEFLATE")
        # DEFLATE's bound is for long runs; a block has a few bytes of its own.
        if member.file_size > densest * (member.compress_size + 8 * (densest > 1)):
            raise ValueError(
                f"{member.filename[:60]!r} is said to have {member.file_size} bytes, more than its "
                f"{member.compress_size} packed ones can hold"
            )
    if sum(member.compress_size for member in members) > size:
        raise ValueError("its members are said to be larger than the file")
    return members


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """Read one array, after holding what its header says against the size of the member."""
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
