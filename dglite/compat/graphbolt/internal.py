"""``dgl.graphbolt.internal``: files of data sets, read, converted and compared."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...data.raw import npy_of, table_of
from ...errors import DGLError
from .base import numpy_save_aligned
from .errors import InputError
from .features import torch_file

HASHES = "dataset_hash_value.txt"
"""In the folder of preprocessed files: the hash of each file of the data set, by its path."""


def read_data(path: Any, fmt: str, in_memory: bool = True) -> torch.Tensor:
    """Return the tensor in a file, ``fmt`` "torch" or "numpy"; one of NumPy that is not in memory is mapped.

    Raises ``DGLError``: the file is missing or damaged, or the format has another name or cannot stay on disk.
    """
    if fmt == "torch" and in_memory:
        return torch_file(path)
    if fmt != "numpy":
        raise InputError(f"{path}: format {fmt!r} with in_memory={in_memory}; expected 'numpy', or 'torch' in memory")
    return torch.from_numpy(npy_of(path) if in_memory else np.load(path, mmap_mode="r+"))


def save_data(data: Any, path: Any, fmt: str) -> None:
    """Write a tensor or array to a file, ``fmt`` "torch" or "numpy", whose folder is made."""
    if fmt not in ("torch", "numpy"):
        raise InputError(f"{path}: format {fmt!r}; expected 'numpy' or 'torch'")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    if fmt == "torch":
        torch.save(torch.as_tensor(data).contiguous(), path)
    else:
        numpy_save_aligned(path, np.ascontiguousarray(data))


def get_npy_dim(npy_path: Any) -> int:
    """Return the number of dimensions of the array in a NumPy file, of which only the header is read."""
    return np.load(npy_path, mmap_mode="r").ndim


def copy_or_convert_data(
    input_path: Any,
    output_path: Any,
    input_format: str,
    output_format: str = "numpy",
    in_memory: bool = True,
    is_feature: bool = False,
    within_int32: bool = False,
) -> None:
    """Write a file's tensor to another file: a feature with two dimensions at least, ids as int32 if they fit."""
    if output_format != "numpy":
        raise InputError(f"{output_path}: format {output_format!r}; expected 'numpy'")
    values = read_data(input_path, input_format, in_memory)
    if is_feature and values.ndim == 1:
        values = values[:, None]
    if within_int32:
        values = values.int()
    save_data(values.numpy(), output_path, output_format)


def read_edges(dataset_dir: Any, edge_fmt: str, edge_path: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return sources and destinations in a file: "numpy" (2, num_edges), or "csv" of two columns without a header.

    Raises ``DGLError``: the file is missing or damaged, or has another shape or dtype.
    """
    path = Path(dataset_dir, edge_path)
    if edge_fmt not in ("numpy", "csv"):
        raise InputError(f"{path}: format {edge_fmt!r}; expected 'numpy' or 'csv'")
    ends = table_of(path, dtype=np.int64).T if edge_fmt == "csv" else npy_of(path)
    if ends.ndim != 2 or len(ends) != 2 or ends.dtype.kind not in "iu":
        raise DGLError(f"{path} has {ends.dtype} of shape {ends.shape}; expected ids of shape (2, num_edges)")
    return ends[0], ends[1]


def calculate_file_hash(file_path: Any, hash_algo: str = "md5") -> str:
    """Return the hash of a file, by an algorithm of ``hashlib``."""
    with open(file_path, "rb") as file:
        return hashlib.file_digest(file, hash_algo).hexdigest()


def calculate_dir_hash(
    dir_path: Any, hash_algo: str = "md5", ignore: str | Sequence[str] | None = None
) -> dict[str, str]:
    """Return the hashes of all files in a folder by path, but of those with a name of ``ignore``."""
    names = [ignore] if isinstance(ignore, str) else list(ignore or ())
    paths = [os.path.join(folder, name) for folder, _, files in os.walk(dir_path) for name in files]
    return {path: calculate_file_hash(path, hash_algo) for path in sorted(paths) if Path(path).name not in names}


def check_dataset_change(dataset_dir: Any, processed_dir: str) -> bool:
    """Return whether a file of a data set was changed, added or removed since it was preprocessed."""
    written = Path(dataset_dir, processed_dir, HASHES)
    if not written.is_file():
        return True
    return bool(json.loads(written.read_text(encoding="utf-8")) != calculate_dir_hash(dataset_dir, ignore=HASHES))
