"""Atomic file writes: under a temporary name in the same folder, then renamed."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_IN_USE_STAYS = os.name == "nt"
"""Whether a file that is open or mapped cannot be replaced."""


@contextmanager
def replacing(path: Path, parents: bool = False) -> Iterator[Path]:
    """Yield the name of a temporary file, which is renamed to ``path`` when the block ends without an error.

    ``parents`` and errors are those of :func:`folder_beside`. On Windows ``PermissionError`` is also raised for a
    ``path`` that is in use: open, or mapped to memory.
    """
    with folder_beside(path, parents) as folder:
        part = folder / path.name
        part.touch()
        mode = part.stat().st_mode
        yield part
        part.chmod(mode)  # some libraries make files that only their owner may read
        try:
            part.replace(path)
        except PermissionError as error:
            if not _IN_USE_STAYS or not path.exists():
                raise
            reason = "it is in use, perhaps by a graph that was loaded from it: delete that, or use another name"
            raise PermissionError(error.errno, reason, str(path)) from error


@contextmanager
def folder_beside(path: Path, parents: bool = False) -> Iterator[Path]:
    """Yield a temporary folder beside ``path``, which is removed after the block.

    So are those that processes of this machine left behind for the same ``path`` when they were killed. With
    ``parents`` the folders on the way are made; those made for a block that raises are removed again.

    Raises ``OSError``: the folder of ``path`` is not there or may not be written to.
    """
    new_folders = _make_folders(path.parent) if parents else []
    prefix = _prefix(path)
    for left in path.parent.glob(f"{prefix}*.part"):
        if not _is_running(left.name.removeprefix(prefix).partition("-")[0]):
            shutil.rmtree(left, ignore_errors=True)
    folder = path.parent / f"{prefix}{os.getpid()}-{secrets.token_hex(4)}.part"
    try:
        folder.mkdir()
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        for place in reversed(new_folders):
            with suppress(OSError):  # somebody else's files may be in it by now
                place.rmdir()
        raise
    shutil.rmtree(folder, ignore_errors=True)  # where the disk fails, the file is in its place all the same


def _prefix(path: Path) -> str:
    """Return the prefix of temporary parts of ``path`` on this machine; short, whatever the length of its name."""
    place = hashlib.sha1(f"{socket.gethostname()}/{path.name}".encode(errors="surrogateescape")).hexdigest()[:16]
    return f".dglite-{place}-"


def _is_running(process: str) -> bool:
    if os.name != "posix" or not process.isdecimal():
        return True  # elsewhere the question itself could end the process
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _make_folders(folder: Path) -> list[Path]:
    """Make a folder and those above it, and return those that were not there, outermost first."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()][::-1]
    folder.mkdir(parents=True, exist_ok=True)
    return missing
