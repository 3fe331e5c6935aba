"""Reads OGB's files: compressed tables without a header, one ``.npz`` for large graphs, and ``.pt`` splits."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ... import backend
from ...errors import DGLError
from ..numeric_pickle import read_numeric_pt
from ..utils import read_numbers

_RATIO, _FREE = 200, 256 << 20
"""A table may unpack to 200 times its size and 256 MiB. A column of one number, which there is, packs 1000 times."""
_BLOCK = 1 << 20


def table(path: Path, num_rows: int | None = None) -> np.ndarray:
    """Return the numbers in a packed table, (rows, columns): int64 if all are integers, else float32, empty cells NaN.

    Raises ``DGLError``: there is no such file, it is damaged, unpacks to too much, is no table of numbers, or has other
    than ``num_rows`` rows.
    """
    empty = _check(path)
    rows = np.empty((0, 1), np.int64) if empty else _numbers(path)
    if num_rows is not None and len(rows) != num_rows:
        raise DGLError(f"{path} has {len(rows)} lines; expected {num_rows}")
    return rows


def _check(path: Path) -> bool:
    """Unpack a file once to see that it can be, without keeping it; return whether it is empty."""
    try:
        most = _RATIO * path.stat().st_size + _FREE
        with gzip.open(path) as file:
            size = 0
            while block := file.read(_BLOCK):
                size += len(block)
                if size > most:
                    raise DGLError(f"{path} unpacks to more than {most} bytes, {_RATIO} times its size and more")
    except FileNotFoundError:
        raise DGLError(f"{path} is missing; unpack the published archive again") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DGLError(f"{path} is damaged: {error}; unpack the published archive again") from error
    return size == 0


def _numbers(path: Path) -> np.ndarray:
    fault: Exception | None = None
    for source, kind in ((path, np.int64), (path, np.float32), (None, np.float32)):
        try:
            lines = _filled(path) if source is None else source
            return read_numbers(lines, kind, delimiter=",", ndmin=2, comments=None, encoding="utf-8")
        except (ValueError, OverflowError) as error:
            fault = error
    raise DGLError(f"{path} is not a table of numbers: {fault}") from fault


def _filled(path: Path) -> Iterator[str]:
    """Yield lines with ``nan`` for the cells that are empty."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield ",".join(cell or "nan" for cell in line.rstrip("\r\n").split(","))


def words(path: Path, separator: str = ",") -> list[list[str]]:
    """Return the cells of a packed table of words, a list for each line; errors are those of :func:`table`."""
    _check(path)
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return [line.rstrip("\r\n").strip('"').split(separator) for line in file]
    except UnicodeDecodeError as error:
        raise DGLError(f"{path} is no text: {error}") from error


def flags(path: Path) -> list[str]:
    """Return the node types in the header of a table that the line below says ``True`` of, such as which have labels.

    Raises ``DGLError``: as :func:`table`; or there are not two lines of as many cells, or nothing is true.
    """
    lines = words(path)
    if len(lines) != 2 or len(lines[0]) != len(lines[1]):
        raise DGLError(f"{path} is not a line of node types and a line of True and False")
    names = [name for name, flag in zip(*lines, strict=True) if flag.strip() == "True"]
    if not names:
        raise DGLError(f"{path} says True of no node type")
    return names


def checked_ids(path: Path, count: int) -> Any:
    """Return the one column of a table as a tensor of numbers from 0 to ``count`` - 1."""
    ids = table(path)
    if ids.shape[1] != 1 or ids.dtype.kind != "i":
        raise DGLError(f"{path} is not one integer a line")
    if len(ids) and not 0 <= ids.min() <= ids.max() < count:
        raise DGLError(f"{path} names numbers from {ids.min()} to {ids.max()}; expected 0 to {count - 1}")
    return backend.active.from_numpy(ids[:, 0].copy())


def read_pt(path: Path) -> Any:
    """Return the object that ``torch.save`` wrote, arrays as tensors: dicts, lists, numbers, strings, arrays.

    Raises ``DGLError``: there is no such file, it is damaged, or it holds something else.
    """
    try:
        return tensors(read_numeric_pt(path))
    except FileNotFoundError:
        raise DGLError(f"{path} is missing; unpack the published archive again") from None


def tensors(content: Any) -> Any:
    """Return dicts and lists with their arrays made tensors."""
    if isinstance(content, dict):
        return {key: tensors(value) for key, value in content.items()}
    return backend.active.from_numpy(content) if isinstance(content, np.ndarray) else content
