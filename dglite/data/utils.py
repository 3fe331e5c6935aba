"""Helpers of data sets, by DGL's names: files and archives, splits, and saving."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ..config import data_dir
from ..errors import DGLError
from ..io import load_graphs, load_info, load_labels, load_tensors, save_graphs, save_info, save_tensors
from .network import Downloader
from .splits import (
    Subset,
    add_node_property_split,
    add_nodepred_split,
    generate_mask_tensor,
    idx2mask,
    mask_nodes_by_property,
    split_dataset,
)

__all__ = [
    "Subset",
    "add_node_property_split",
    "add_nodepred_split",
    "check_sha1",
    "download",
    "extract_archive",
    "generate_mask_tensor",
    "get_download_dir",
    "idx2mask",
    "load_graphs",
    "load_info",
    "load_labels",
    "load_tensors",
    "loadtxt",
    "makedirs",
    "mask_nodes_by_property",
    "save_graphs",
    "save_info",
    "save_tensors",
    "split_dataset",
]


def download(
    url: str,
    path: str | Path | None = None,
    overwrite: bool = True,
    sha1_hash: str | None = None,
    retries: int = 5,
    verify_ssl: bool = True,
    log: bool = True,
) -> str:
    """Download a file and return its path. What was there before stays until the new file is complete and checked.

    Parameters
    ----------
    path
        The file to write, or a folder for one of the url's own name; by default the working folder.
    overwrite
        Download even if the file exists. Without it, a file of another content than ``sha1_hash`` is replaced too.
    sha1_hash
        The content's hash, in hexadecimal digits.
    retries
        How often to try again.
    verify_ssl
        Check the server's certificate.
    log
        Show progress.

    Raises
    ------
    DGLError
        The url names no file, there is no connection, or the content is another one.
    """
    import pooch  # only a download needs it, and it imports an HTTP client

    name = url.rsplit("/", 1)[-1]
    target = Path.cwd() if path is None else Path(path).expanduser()
    target = target / name if target.is_dir() else target
    if not target.name or target.is_dir():
        raise DGLError(f"{url} names no file; give path=")
    known = target.is_file() and (sha1_hash is None or check_sha1(target, sha1_hash))
    if known and not overwrite:
        return str(target)
    part = f".{target.name}.part"
    source = pooch.create(
        target.parent,
        base_url="",
        registry={part: None if sha1_hash is None else f"sha1:{sha1_hash}"},
        urls={part: url},
        retry_if_failed=retries,
    )
    (target.parent / part).unlink(missing_ok=True)
    try:
        source.fetch(part, downloader=Downloader(log, verify_ssl))
    except (OSError, ValueError) as error:
        raise DGLError(
            f"{url} could not be downloaded: {error}. Put the file at {target}; data sets look for their files in "
            "raw_dir=, or in the folder that the environment variable DGLITE_DATA_DIR names"
        ) from error
    os.replace(target.parent / part, target)
    return str(target)


def check_sha1(filename: str | Path, sha1_hash: str) -> bool:
    """Whether a file's content has this SHA-1 hash."""
    with open(filename, "rb") as file:
        return hashlib.file_digest(file, "sha1").hexdigest() == sha1_hash.lower()


def extract_archive(file: str | Path, target_dir: str | Path, overwrite: bool = True) -> None:
    """Unpack a ``.zip``, ``.tar``, ``.tar.gz`` (``.tgz``), ``.tar.bz2``, ``.tar.xz`` or ``.gz`` file into a folder.

    Without ``overwrite``, nothing is done when the folder exists. Members that would land outside of it, links out of
    it and special files are refused.

    Raises
    ------
    DGLError
        The file is of another kind, damaged, or holds such a member.
    """
    file, target = Path(file), Path(target_dir)
    if target.exists() and not overwrite:
        return
    name = file.name.lower()
    target.mkdir(parents=True, exist_ok=True)
    try:
        if name.endswith((".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")):
            with tarfile.open(file) as archive:
                archive.extractall(target, filter="data")
        elif name.endswith(".zip"):
            with zipfile.ZipFile(file) as members:
                _refuse_escapes(members.namelist())
                members.extractall(target)
        elif name.endswith(".gz"):
            with gzip.open(file) as packed, open(target / file.stem, "wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)
        else:
            raise DGLError(f"{file} is no archive that is known; expected .zip, .tar, .tar.gz, .tgz or .gz")
    except (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError) as error:
        raise DGLError(f"{file} cannot be unpacked: {error}") from error


def _refuse_escapes(names: list[str]) -> None:
    """Raise for names that lead out of a folder, as ``tarfile`` does; ``zipfile`` would put them elsewhere in it."""
    for name in names:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise zipfile.BadZipFile(f"its member {name!r} would land outside of the folder")


def get_download_dir() -> str:
    """Return the folder into which data sets are downloaded; it is made if need be."""
    folder = data_dir()
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def makedirs(path: str | Path) -> None:
    """Make a folder and those above it, unless it is there."""
    Path(path).expanduser().mkdir(parents=True, exist_ok=True)


def loadtxt(path: str | Path, delimiter: str, dtype: Any = None) -> np.ndarray:
    """Return the numbers in a text file, (rows, columns): int64 if all are integers, float64 if not, or ``dtype``."""
    if dtype is not None:
        return np.loadtxt(path, dtype=dtype, delimiter=delimiter, ndmin=2)
    try:
        return np.loadtxt(path, dtype=np.int64, delimiter=delimiter, ndmin=2)
    except ValueError:
        return np.loadtxt(path, dtype=np.float64, delimiter=delimiter, ndmin=2)
