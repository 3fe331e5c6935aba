"""Helpers of data sets under DGL's names: files and archives, splits, and saving."""

from __future__ import annotations

import hashlib
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from ..config import data_dir
from ..errors import DGLError
from ..io import load_graphs, load_info, load_labels, load_tensors, save_graphs, save_info, save_tensors
from ..io.atomic import folder_beside
from .archives import extract_archive
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

    Raises DGLError: the url names no file, there is no connection, or the content does not match.

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
    """
    import pooch  # only a download needs it, and it imports an HTTP client

    name = url.rsplit("/", 1)[-1]
    target = Path.cwd() if path is None else Path(path).expanduser()
    target = target / name if target.is_dir() else target
    if not target.name or target.is_dir():
        raise DGLError(f"{url} names no file; give path=")
    is_complete = target.is_file() and (sha1_hash is None or check_sha1(target, sha1_hash))
    if is_complete and not overwrite:
        return str(target)
    known_hash = None if sha1_hash is None else f"sha1:{sha1_hash}"
    try:
        with folder_beside(target, parents=True) as folder:
            source = pooch.create(
                folder, base_url="", registry={"part": known_hash}, urls={"part": url}, retry_if_failed=retries
            )
            source.fetch("part", downloader=Downloader(log, verify_ssl))
            os.replace(folder / "part", target)
    except (OSError, ValueError) as error:
        raise DGLError(
            f"{url} could not be downloaded: {error}. Put the file at {target}; data sets look for their files in "
            "raw_dir=, or in the folder that the environment variable DGLITE_DATA_DIR names"
        ) from error
    return str(target)


def check_sha1(filename: str | Path, sha1_hash: str) -> bool:
    """Whether a file's content has this SHA-1 hash."""
    with open(filename, "rb") as file:
        return hashlib.file_digest(file, "sha1").hexdigest() == sha1_hash.lower()


def get_download_dir() -> str:
    """Return the folder into which data sets are downloaded; it is made if need be."""
    folder = data_dir()
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def makedirs(path: str | Path) -> None:
    """Make a folder and those above it, unless it is there."""
    Path(path).expanduser().mkdir(parents=True, exist_ok=True)


def read_numbers(source: Any, dtype: Any, **options: Any) -> np.ndarray:
    """Return what ``numpy.loadtxt`` reads; raise ``ValueError`` for fractions where integers are wanted."""
    with warnings.catch_warnings():  # older versions of NumPy cut them, with a warning
        warnings.filterwarnings("error", r"loadtxt\(\): Parsing an integer via a float", DeprecationWarning)
        try:
            return np.loadtxt(source, dtype, **options)
        except DeprecationWarning as error:
            raise ValueError(str(error)) from None


def loadtxt(path: str | Path, delimiter: str, dtype: Any = None) -> np.ndarray:
    """Return the numbers in a text file, (rows, columns): int64 if all are integers, float64 if not, or ``dtype``.

    Raises DGLError: something in it is no number, or rows have different lengths.
    """
    for kind in (np.int64, np.float64) if dtype is None else (dtype,):
        try:
            return read_numbers(path, kind, delimiter=delimiter, ndmin=2)
        except (ValueError, OverflowError) as error:
            fault = error
    raise DGLError(f"{path} is not a table of numbers separated by {delimiter!r}: {fault}") from fault
