"""Unpacking archives that may be damaged or malicious: only into the given folder, completely, and with size limits."""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import DGLError
from ..io.atomic import folder_beside
from ..io.npz import zip_members

_DEEPEST = 100
"""No member may lie in more folders than this."""
_RATIO, _FREE = 200, 64 << 20
"""An archive may be unpacked to 200 times its size and 64 MiB; tables of zeros and ones reach 100."""
_BLOCK = 1 << 16
"""Bytes that are unpacked at a time."""
_LARGEST_HEADER = 1 << 18
"""The most bytes of the headers of one member of a .tar file, without its content."""
_XZ_MEMORY = 66 << 20
"""Memory to unpack .xz files of the highest preset, -9; a file may ask for 4 GiB."""


def extract_archive(file: str | Path, target_dir: str | Path, overwrite: bool = True) -> None:
    """Unpack a ``.zip``, ``.tar``, ``.tar.gz`` (``.tgz``), ``.tar.bz2``, ``.tar.xz`` or ``.gz`` file into a folder.

    Without ``overwrite``, nothing is done when the folder exists. Files come into the folder when all of them are
    unpacked; where one cannot be moved there, and on an interrupt, the folder stays as it was. Members are written to
    the disk piece by piece, so that memory does not grow with what they unpack to; ``.xz`` files ask for up to 66 MiB,
    8 MiB as a rule. Refused are

    - archives that would take more disk than 200 times their size and 64 MiB,
    - members of a ``.zip`` that say to be larger than their packed bytes can hold, that share packed bytes, or that are
      packed by other means than DEFLATE,
    - members that would land outside of the folder, links out of it, and special files.

    Raises DGLError: the file is not there, of another kind, damaged, or refused; or the folder cannot be written to.
    """
    file, target = Path(file), Path(target_dir)
    if target.exists() and not overwrite:
        return
    unpack = next((unpack for endings, unpack in _KINDS.items() if file.name.lower().endswith(endings)), None)
    if unpack is None:
        raise DGLError(f"{file} is not a known archive; expected .zip, .tar, .tar.gz, .tgz or .gz")
    try:
        disk = _Disk(_RATIO * file.stat().st_size + _FREE)
        with folder_beside(target, parents=True) as folder:
            unpacked = folder / "unpacked"
            unpacked.mkdir()
            unpack(file, unpacked, disk)
            _move(unpacked, target, folder / "replaced")
    except Exception as error:  # a damaged archive raises nearly anything: zlib.error, EOFError, struct.error ...
        raise DGLError(f"{file} cannot be unpacked: {error or type(error).__name__}") from error


class _Disk:
    """The number of bytes that may still be unpacked."""

    def __init__(self, most: int) -> None:
        self.most = self._left = most

    def take(self, size: int, label: str) -> None:
        """Count ``size`` bytes more; raise ``DGLError`` where they are too many."""
        self._left -= size
        if self._left < 0:
            raise DGLError(
                f"with {label} it would be unpacked to more than {self.most} bytes, {_RATIO} times its size and "
                f"{_FREE >> 20} MiB; if you trust it, unpack it by other means"
            )

    def member(self, name: str, size: int) -> None:
        """Count a member of ``size`` bytes; raise ``DGLError`` also for a name that leads out of the folder."""
        parts = Path(name).parts
        if Path(name).is_absolute() or ".." in parts:
            raise DGLError(f"its member {name!r} would land outside of the folder")
        if len(parts) > _DEEPEST:
            raise DGLError(f"its member {name[:40]!r}... lies in {len(parts)} folders, more than {_DEEPEST}")
        self.take(size, f"its member {name[:60]!r}")


def _unpack_zip(file: Path, folder: Path, disk: _Disk) -> None:
    with zipfile.ZipFile(file) as archive:
        for member in zip_members(archive, file.stat().st_size):
            disk.member(member.filename, member.file_size)
        archive.extractall(folder)


def _unpack_tar(file: Path, folder: Path, disk: _Disk) -> None:
    stream = _Stream(_pieces(file))
    with tarfile.open(fileobj=stream, mode="r:") as archive:  # type: ignore[call-overload]
        while (member := archive.next()) is not None:
            disk.member(member.name, member.size + tarfile.BLOCKSIZE)
            if member.islnk() and not (folder / member.linkname).exists():
                raise DGLError(f"its member {member.name!r} is a link to {member.linkname!r}, which is not before it")
            stream.left = math.inf
            archive.extract(member, folder, set_attrs=not member.isdir(), filter="data")
            stream.left = _LARGEST_HEADER
            archive.members.clear()
            if sum(len(key) + len(value) for key, value in archive.pax_headers.items()) > _LARGEST_HEADER:
                raise DGLError(f"its headers for all members have more than {_LARGEST_HEADER} bytes")
    for piece in stream.rest():  # its checksum is in its last bytes
        disk.take(len(piece), "what follows its members")


def _unpack_gz(file: Path, folder: Path, disk: _Disk) -> None:
    with gzip.open(file) as packed, open(folder / file.stem, "wb") as unpacked:
        for piece in _read(packed):
            disk.take(len(piece), "all of its content")
            unpacked.write(piece)


_KINDS: dict[str | tuple[str, ...], Callable[[Path, Path, _Disk], None]] = {
    (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz"): _unpack_tar,
    ".zip": _unpack_zip,
    ".gz": _unpack_gz,
}


def _pieces(file: Path) -> Iterator[bytes]:
    """Yield what a file unpacks to, a block at a time; how it is packed is seen from how it begins, whatever its name.

    A file that is not packed is yielded as it is.
    """
    with open(file, "rb") as content:
        start = content.read(6)
        content.seek(0)
        if start == b"\xfd7zXZ\x00":
            yield from _xz_pieces(content)
            return
        openers: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open}
        opener = next((opener for magic, opener in openers.items() if start.startswith(magic)), None)
        with content if opener is None else opener(content) as unpacked:
            yield from _read(unpacked)


def _read(file: Any) -> Iterator[bytes]:
    return iter(partial(file.read, _BLOCK), b"")


def _xz_pieces(packed: Any) -> Iterator[bytes]:
    """Yield what an .xz file of one or more streams unpacks to; ``lzma.open`` has no limit for memory."""
    content = packed.read(_BLOCK)
    while content:
        unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
        while not unpacker.eof:
            yield unpacker.decompress(content, _BLOCK)
            content = packed.read(_BLOCK) if unpacker.needs_input else b""
            if unpacker.needs_input and not content:
                raise EOFError("it is cut short")
        content = unpacker.unused_data.lstrip(b"\0") or packed.read(_BLOCK).lstrip(b"\0")


class _Stream:
    """A stream as ``tarfile`` reads one, forward only; without a limit, a header would be read that fills the memory.

    Attributes
    ----------
    left
        Bytes that may still be read.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._waiting, self._place = pieces, b"", 0
        self.left: float = _LARGEST_HEADER

    def tell(self) -> int:
        return self._place

    def read(self, size: int) -> bytes:
        self.left -= size
        if self.left < 0:
            raise DGLError(f"the headers of a member have more than {_LARGEST_HEADER} bytes")
        return b"".join(self._blocks(size))

    def seek(self, place: int) -> None:
        for _ in self._blocks(place - self._place):
            pass

    def rest(self) -> Iterator[bytes]:
        """Yield what has not been read."""
        yield self._waiting
        yield from self._pieces

    def _blocks(self, size: int) -> Iterator[bytes]:
        while size > 0:
            self._waiting = self._waiting or next(self._pieces, b"")
            if not self._waiting:
                return
            piece, self._waiting = self._waiting[:size], self._waiting[size:]
            self._place += len(piece)
            size -= len(piece)
            yield piece


def _move(source: Path, target: Path, replaced: Path) -> None:
    """Move a folder, or its content if the target exists: all of it, or nothing.

    Files that it takes the place of lie in the folder ``replaced`` meanwhile.
    """
    if not target.exists():
        source.replace(target)
        return
    replaced.mkdir()
    begun: list[tuple[Path, Path, Path]] = []
    try:
        for place, to in list(_moves(source, target)):
            aside = replaced / str(len(begun))
            begun.append((place, to, aside))
            if not _is_folder(place) and os.path.lexists(to) and not _is_folder(to):
                to.replace(aside)
            place.replace(to)
    except BaseException:  # an interrupt too
        for place, to, aside in reversed(begun):
            if not os.path.lexists(place):
                to.replace(place)
            if os.path.lexists(aside):
                aside.replace(to)
        raise


def _moves(source: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    """Yield each source and its target."""
    for place in source.iterdir():
        to = target / place.name
        if _is_folder(place) and to.is_dir():
            yield from _moves(place, to)
        else:
            yield place, to


def _is_folder(place: Path) -> bool:
    return place.is_dir() and not place.is_symlink()
