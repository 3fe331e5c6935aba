"""Unpacking archives that may be damaged or hostile: into the folder given, in whole, and within a bound."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..errors import DGLError
from ..io.atomic import folder_beside
from ..io.npz import MOST_UNPACKED

__all__ = ["extract_archive"]

_DEEPEST = 100
"""No member may lie in more folders than this."""


def extract_archive(file: str | Path, target_dir: str | Path, overwrite: bool = True) -> None:
    """Unpack a ``.zip``, ``.tar``, ``.tar.gz`` (``.tgz``), ``.tar.bz2``, ``.tar.xz`` or ``.gz`` file into a folder.

    Without ``overwrite``, nothing is done when the folder exists. Files come into the folder when all of them are
    unpacked. Members that would land outside of it, links out of it, special files, and archives that would be unpacked
    to more than 1100 times their size are refused.

    Raises
    ------
    DGLError
        The file is not there, of another kind, damaged, or refused; or the folder cannot be written to.
    """
    file, target = Path(file), Path(target_dir)
    if target.exists() and not overwrite:
        return
    unpack = next((unpack for endings, unpack in _KINDS.items() if file.name.lower().endswith(endings)), None)
    if unpack is None:
        raise DGLError(f"{file} is no archive that is known; expected .zip, .tar, .tar.gz, .tgz or .gz")
    try:
        most = MOST_UNPACKED * file.stat().st_size
        with folder_beside(target, parents=True) as folder:
            unpacked = folder / "unpacked"
            unpacked.mkdir()
            unpack(file, unpacked, most)
            _move(unpacked, target)
    except Exception as error:  # a damaged archive raises nearly anything: zlib.error, EOFError, struct.error ...
        raise DGLError(f"{file} cannot be unpacked: {error or type(error).__name__}") from error


def _unpack_zip(file: Path, folder: Path, most: int) -> None:
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        _check(((member.filename, member.file_size) for member in members), most)
        archive.extractall(folder)


def _unpack_tar(file: Path, folder: Path, most: int) -> None:
    with _opened(file) as packed, tarfile.open(fileobj=_Bounded(packed, most), mode="r:") as archive:  # type: ignore[call-overload]
        _check(((member.name, member.size) for member in archive), most)
        archive.extractall(folder, filter="data")


def _unpack_gz(file: Path, folder: Path, most: int) -> None:
    with gzip.open(file) as packed, open(folder / file.stem, "wb") as unpacked:
        shutil.copyfileobj(_Bounded(packed, most), unpacked)


_KINDS: dict[str | tuple[str, ...], Callable[[Path, Path, int], None]] = {
    (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz"): _unpack_tar,
    ".zip": _unpack_zip,
    ".gz": _unpack_gz,
}


def _opened(file: Path) -> Any:
    """Open an archive by how it begins, whatever its name says."""
    with open(file, "rb") as content:
        start = content.read(6)
    openers: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
    return next((opener for magic, opener in openers.items() if start.startswith(magic)), open)(file, "rb")


def _check(members: Iterable[tuple[str, int]], most: int) -> None:
    """Raise for names that lead out of a folder, and for members that are too large together."""
    total = 0
    for name, size in members:
        total += size
        parts = Path(name).parts
        if Path(name).is_absolute() or ".." in parts:
            raise DGLError(f"its member {name!r} would land outside of the folder")
        if len(parts) > _DEEPEST:
            raise DGLError(f"its member {name[:40]!r}... lies in {len(parts)} folders, more than {_DEEPEST}")
        if total > most:
            raise _too_large(most)


def _too_large(most: int) -> DGLError:
    return DGLError(f"it would be unpacked to more than {most} bytes, {MOST_UNPACKED} times its size")


class _Bounded:
    """An unpacked stream of no more than ``most`` bytes; reading on raises."""

    def __init__(self, stream: Any, most: int) -> None:
        self._stream, self._most = stream, most
        self.tell = stream.tell

    def read(self, size: int = -1) -> bytes:
        left = self._most - self._stream.tell() + 1
        content: bytes = self._stream.read(left if size < 0 else min(size, left))
        if len(content) == left:
            raise _too_large(self._most)
        return content

    def seek(self, place: int, whence: int = 0) -> int:
        if place > self._most:
            raise _too_large(self._most)
        return int(self._stream.seek(place, whence))


def _move(made: Path, target: Path) -> None:
    """Move a folder, or what is in it where the target is there already."""
    if not target.exists():
        made.replace(target)
        return
    for place in list(made.iterdir()):
        to = target / place.name
        if place.is_dir() and not place.is_symlink() and to.is_dir():
            _move(place, to)
        else:
            place.replace(to)
