"""The cache of compiled code on disk. It is optional: if the disk fails, a warning says so and code is compiled again.

A file begins with a checksum of its key and its content: a damaged file, or one under another file's name, is not
loaded. Loaded code is run, so a folder that another user can write to is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ..config import cache_dir, cache_limit
from ..errors import DGLWarning

KINDS = ("cuda", "emulated", "kernels")
_ENTRY = re.compile(r"(\w.*_)?[0-9a-f]{16,20}(\.\w+)?|tmp\w+\.tmp")
"""Names of what dglite puts into these folders; nothing else is removed from them."""
_DAY = 24 * 60 * 60
_faults: list[str] = []
_grown: dict[Path, int] = {}


def file_name(label: str, key: bytes, suffix: str) -> str:
    """Return the name of the file for a key: a label for people, and the beginning of the key."""
    return f"{label}_{key.hex()[:20]}{suffix}"


def read(kind: str, name: str, key: bytes) -> bytes | None:
    """Return what was written under a name and a key, or None."""
    place = folder(kind)
    if place is None:
        return None
    path = place / name
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            data = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        _fault(f"{path} cannot be read: {error}")
        return None
    if not _is_trusted(status):
        _fault(f"other users can write to {path}")
        return None
    if data[:32] != _checksum(key, data[32:]):
        _fault(f"{path} is damaged")
        return None
    if time.time() - status.st_mtime > _DAY:
        used(path)
    return data[32:]


def write(kind: str, name: str, key: bytes, content: bytes) -> None:
    """Keep content under a name and a key, if that is possible."""
    _put(kind, name, _checksum(key, content) + content)


def write_text(kind: str, name: str, text: str) -> Path | None:
    """Keep text for people to read; return where it lies, or None where that is not possible."""
    place, data = folder(kind), text.encode()
    with contextlib.suppress(OSError):
        if place is not None and (place / name).read_bytes() == data:
            return place / name
    return _put(kind, name, data)


def folder(kind: str) -> Path | None:
    """Return a folder of the cache; None where it cannot be made, or other users may write to it."""
    return _checked(cache_dir().absolute(), kind)


@cache
def _checked(parent: Path, kind: str) -> Path | None:
    path = parent / kind
    try:
        for place in (parent, path):
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not _is_trusted(place.stat()):
                _fault(f"other users can write to {place}; own it, and chmod it to 700")
                return None
    except OSError as error:
        _fault(f"{path} cannot be used: {error}")
        return None
    return path


def _is_trusted(status: os.stat_result) -> bool:
    """Whether only this user and root may write to a file or folder, as far as the system tells."""
    if os.name != "posix":
        return True
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _fault(problem: str) -> None:
    """Warn of what is wrong with the cache, once in a process."""
    if not _faults:
        _faults.append(problem)
        warnings.warn(
            f"{problem}. What the kernel cache lacks is compiled in memory, in every process again; "
            "DGLITE_CACHE_DIR names a folder for it.",
            DGLWarning,
            stacklevel=2,
        )


def _checksum(key: bytes, content: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(key).digest() + content).digest()


def _put(kind: str, name: str, data: bytes) -> Path | None:
    """Write a file as one step, for other processes that look for it."""
    place = folder(kind)
    if place is None or len(data) > cache_limit():
        return None
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=place, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, place / name)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        _fault(f"{place / name} cannot be written: {error}")
        return None
    trim(kind, len(data))
    return place / name


def used(path: Path) -> None:
    """Note that a file is in use, so that others are removed before it."""
    with contextlib.suppress(OSError):
        os.utime(path)


def trim(kind: str, grown: int) -> None:
    """Remove what was not used for longest where the cache, ``grown`` bytes larger now, is beyond its limit.

    It is looked through with the first file that a process adds, and again after each eighth of the limit.
    """
    place, limit = folder(kind), cache_limit()
    if place is None:
        return
    parent = place.parent
    _grown[parent] = _grown.get(parent, limit) + grown
    if _grown[parent] < limit // 8:
        return
    _grown[parent] = 0
    entries = sorted(_entries(parent))
    total = sum(size for _, size, _ in entries)
    for _, size, path in entries:
        if total <= limit:
            break
        with contextlib.suppress(OSError):
            _remove(path)
        total -= size


def _remove(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def _entries(parent: Path) -> Iterator[tuple[float, int, str]]:
    """Give (last use, bytes, path) of the files of the cache, and of folders within its folders as a whole."""
    for kind in KINDS:
        with contextlib.suppress(OSError), os.scandir(parent / kind) as listed:
            for entry in filter(lambda entry: _ENTRY.fullmatch(entry.name), listed):
                with contextlib.suppress(OSError):
                    files = list(os.scandir(entry)) if entry.is_dir(follow_symlinks=False) else [entry]
                    statuses = [file.stat(follow_symlinks=False) for file in files]
                    last = max((status.st_mtime for status in statuses), default=0.0)
                    yield last, sum(status.st_size for status in statuses), entry.path
