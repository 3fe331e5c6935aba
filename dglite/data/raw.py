"""Readers of raw files that may be damaged or malicious: each raises ``DGLError`` with the file's name."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import backend
from ..errors import DGLError
from ..io.npz import read_npz
from .dataset import text_of
from .numeric_pickle import CsrMatrix
from .splits import mask_at
from .utils import loadtxt


def float_tensor(values: Any) -> Any:
    """Return values as a tensor of float32."""
    return backend.active.from_numpy(np.ascontiguousarray(values, np.float32))


def long_tensor(values: Any) -> Any:
    """Return values as a tensor of int64."""
    return backend.active.from_numpy(np.ascontiguousarray(values, np.int64))


def npz_of(path: Path, names: Sequence[str]) -> list[np.ndarray]:
    """Return the arrays of numbers of these names; others in the file are not looked at."""
    arrays = read_npz(path, names)
    if lacks := [name for name in names if name not in arrays]:
        raise DGLError(f"{path} has no array {lacks[0]!r}; it is another file, or an older version")
    return [arrays[name] for name in names]


def npy_of(path: Path, num_rows: int | None = None, mapped: bool = False) -> np.ndarray:
    """Return the array of numbers in a ``.npy`` file; its header allocates nothing, and no pickle is read.

    With ``mapped`` its pages are read when they are used.
    """
    try:
        pages = np.lib.format.open_memmap(path, mode="r")  # mapped first: the file must be as long as it says
        array: np.ndarray = pages if mapped else np.array(pages)
    except OSError:
        raise
    except Exception as error:  # a damaged header raises nearly anything: SyntaxError, ValueError, TypeError ...
        raise DGLError(f"{path} is not read as .npy: {error or type(error).__name__}") from error
    if array.dtype.kind not in "biuf" or not array.ndim:
        raise DGLError(f"{path} holds {array.dtype} of shape {array.shape}, not rows of numbers")
    if num_rows is not None and len(array) != num_rows:
        raise DGLError(f"{path} has {len(array)} rows; expected {num_rows}")
    return array


def json_of(path: Path, keys: Sequence[str] = ()) -> dict[str, Any]:
    """Return the object in a JSON file, which must have ``keys``."""
    try:
        content = json.loads(text_of(path))
    except (ValueError, RecursionError) as error:
        raise DGLError(f"{path} is damaged, or no JSON: {error}") from error
    if not isinstance(content, dict) or any(key not in content for key in keys):
        raise DGLError(f"{path} is not an object with {', '.join(keys) or 'entries'}")
    return content


def yaml_of(path: Path, missing: str) -> dict[str, Any]:
    """Return the mapping in a YAML file.

    Raises ImportError: PyYAML is not installed; DGLError: there is no file, ``missing`` says what it would do; or it is
    damaged, or holds no mapping.
    """
    try:
        import yaml  # an extra, which the rest of the package does without
    except ImportError as error:
        raise ImportError(f"{path.name} is read with PyYAML: pip install pyyaml") from error
    if not path.is_file():
        raise DGLError(f"{path} does not exist; {missing}")
    try:
        content = yaml.safe_load(text_of(path))
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError of dates such as 2024-13-01
        raise DGLError(f"{path} is damaged, or no YAML: {error or type(error).__name__}") from error
    if not isinstance(content, dict):
        raise DGLError(f"{path} is not a mapping of names to values; got {content!r:.80}")
    return content


def edges_in(src: Any, dst: Any, num_nodes: int, where: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return ends of edges as int64, after checking that they are node numbers."""
    ends = [np.asarray(end) for end in (src, dst)]
    if any(end.ndim != 1 or (end.dtype.kind not in "iu" and len(end)) for end in ends) or len(ends[0]) != len(ends[1]):
        raise DGLError(f"{where} has edges that are not pairs of node numbers")
    for end in ends:
        outside = end[(end < 0) | (end >= num_nodes)] if len(end) else end
        if len(outside):
            raise DGLError(f"{where} names node {outside[0]}; there are {num_nodes} nodes, from 0 on")
    return ends[0].astype(np.int64), ends[1].astype(np.int64)


def csr_in(arrays: Mapping[str, np.ndarray], prefix: str, where: Path) -> CsrMatrix:
    """Return the CSR matrix that arrays ``<prefix>data``, ``indices``, ``indptr`` and ``shape`` of a file make."""
    try:
        values, indices, indptr = (arrays[prefix + part] for part in ("data", "indices", "indptr"))
        num_rows, num_columns = arrays[f"{prefix}shape"].tolist()
        return CsrMatrix.from_parts(values, indices, indptr, (num_rows, num_columns))
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise DGLError(f"{where} has no CSR matrix {prefix}*: {error}") from error


def sparse_edges_of(path: Path) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the entries of a square matrix, CSR or COO, of ``scipy.sparse.save_npz`` as edges, and its size."""
    parts = read_npz(path, ("row", "col", "indices", "indptr", "shape", "data"))
    shape = parts.get("shape", np.zeros(0)).tolist()
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 0:
        raise DGLError(f"{path} has a matrix of shape {shape}; expected a square one")
    if {"row", "col"} <= parts.keys():
        return *edges_in(parts["row"], parts["col"], shape[0], path), shape[0]
    if _format_of(path) != "csr":
        raise DGLError(f"{path} has no matrix in CSR or COO format, as scipy.sparse.save_npz writes them")
    matrix = csr_in({"data": parts.get("indices", np.zeros(0)), **parts}, "", path)
    src = np.repeat(np.arange(shape[0]), np.diff(matrix.indptr))
    return *edges_in(src, matrix.indices, shape[0], path), shape[0]


def _format_of(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        if "format.npy" not in archive.namelist():
            return ""
        with archive.open("format.npy") as file:
            return file.read(256)[-16:].replace(b"\0", b"").decode("latin1")[-3:]


def mask_of(ids: Any, num_nodes: int, where: Path) -> Any:
    """Return a boolean tensor that is true at the node numbers ``ids``."""
    nodes, _ = edges_in(ids, ids, num_nodes, where)
    return mask_at(nodes, num_nodes)


# -- text --------------------------------------------------------------------------------------------------------------
def lines_of(path: Path, header: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the lines of a text file below its header, and where each is, in words."""
    for number, line in enumerate(text_of(path).splitlines()[header:], 1 + header):
        yield line, f"line {number} of {path}"


def table_of(path: Path, num_rows: int | None = None, dtype: Any = None) -> np.ndarray:
    """Return the numbers in a text file, separated by commas, (rows, columns); raise ``DGLError`` for other lengths."""
    rows = loadtxt(path, ",", dtype)
    if num_rows is not None and len(rows) != num_rows:
        raise DGLError(f"{path} has {len(rows)} lines; expected {num_rows}")
    return rows


# -- Matlab ------------------------------------------------------------------------------------------------------------
def mat_of(path: Path, arrays: Sequence[str], matrices: Sequence[str] = ()) -> dict[str, Any]:
    """Return the arrays of a ``.mat`` file by name, and its sparse matrices in COO format, checked."""
    from scipy.io import loadmat  # takes a tenth of a second, and few data sets need it

    names = (*arrays, *matrices)
    try:
        content = loadmat(path, variable_names=names)
        for name in matrices:
            content[name].check_format(full_check=True)
            content[name] = content[name].tocoo()
        return {name: content[name] if name in matrices else np.asarray(content[name]) for name in names}
    except Exception as error:  # a damaged file raises nearly anything: zlib.error, struct.error, KeyError ...
        sparse = f", and sparse {', '.join(matrices)}" if matrices else ""
        raise DGLError(f"{path} is not read as a .mat file with {', '.join(arrays)}{sparse}: {error!r}") from error
