"""Mapped arrays are those that the safetensors library reads, and nothing is read before it is used."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_tensors

from dglite.io.mapped import MappedFile, UnsoundFileError

ARRAYS = {
    "floats": np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4),
    "wide": np.array([1.5, -2.0]),
    "half": np.ones(3, np.float16),
    "ids": np.arange(5),
    "small": np.array([1, 255], np.uint8),
    "truths": np.array([True, False]),
    "empty": np.empty((0, 4), np.float32),
    "number": np.array(7, np.int32),
}


def test_arrays_are_mapped_and_private(tmp_path: Path) -> None:
    path = tmp_path / "arrays"
    save_file(ARRAYS, path)
    before, file = path.read_bytes(), MappedFile(path)
    for name, expected in ARRAYS.items():
        result = file.get_tensor(name)
        assert type(result) is np.ndarray and result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)
        result[...] = 0
    assert path.read_bytes() == before


def test_a_large_array_is_not_read_at_once(tmp_path: Path) -> None:
    path, size = tmp_path / "large", 1 << 24
    save_file({"x": np.ones(size, np.uint8)}, path)
    before = _resident()
    x = MappedFile(path).get_tensor("x")
    assert _resident() - before < size // 2
    assert x[size - 1] == 1


def _resident() -> int:
    """Return the bytes of this process that are in memory; 0 where the system does not tell."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * 4096 if statm.is_file() else 0


def test_rows_are_read_one_by_one(tmp_path: Path) -> None:
    path, values = tmp_path / "rows", np.arange(300_000, dtype=np.float32).reshape(-1, 3)
    save_file({"first": np.ones(5, np.uint8), "x": values}, path)
    rows = MappedFile(path).rows("x")
    assert (len(rows), rows.shape, rows.ndim, rows.dtype) == (100_000, (100_000, 3), 2, np.float32)
    for piece in (slice(0, 0), slice(7, 9), slice(99_990, None), slice(5, 90_000)):
        np.testing.assert_array_equal(rows[piece], values[piece])


def test_a_file_that_was_cut_short_meanwhile_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    save_file({"x": np.arange(100_000)}, path)
    rows = MappedFile(path).rows("x")
    path.write_bytes(path.read_bytes()[:-800])
    with pytest.raises(OSError, match="ends after"):
        rows[99_000:]


def header_of(content: bytes, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """Return the file with another header of the same length, or longer."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    text = json.dumps(change(header)).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def _with(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda header: header | {"x": header["x"] | changes}


UNSOUND: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a list": lambda header: [header],
    "no arrays": lambda header: {},
    "metadata of numbers": lambda header: header | {"__metadata__": {"a": 1}},
    "an array that is no object": lambda header: header | {"x": 3},
    "beyond the end": _with(data_offsets=[0, 48], shape=[6]),
    "a gap": _with(data_offsets=[8, 40], shape=[4]),
    "before the start": _with(data_offsets=[-8, 40]),
    "backwards": _with(data_offsets=[40, 0]),
    "too few bytes for the shape": _with(shape=[6]),
    "a shape of fractions": _with(shape=[5.0]),
    "a shape of truths": _with(shape=[5, True]),
    "a negative shape": _with(shape=[-5, -1]),
    "no shape": lambda header: header | {"x": {"dtype": "I64", "data_offsets": [0, 40]}},
    "a dtype that is no text": _with(dtype=["I64"]),
}


@pytest.mark.parametrize("change", UNSOUND.values(), ids=list(UNSOUND))
def test_unsound_headers_are_refused(tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = tmp_path / "x"
    save_file({"x": np.arange(5)}, path)
    path.write_bytes(header_of(path.read_bytes(), lambda header: header))
    np.testing.assert_array_equal(MappedFile(path).get_tensor("x"), np.arange(5))
    path.write_bytes(header_of(path.read_bytes(), change))
    with pytest.raises(UnsoundFileError, match="header is unsound"):
        MappedFile(path)


@pytest.mark.parametrize("content", [b"", b"1234", bytes(8), b"\xff" * 20, (30).to_bytes(8, "little") + b"{}"])
def test_what_has_no_header_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(UnsoundFileError):
        MappedFile(tmp_path / "x")


def test_what_numpy_lacks_is_said(tmp_path: Path) -> None:
    save_tensors({"x": torch.ones(2, dtype=torch.bfloat16)}, tmp_path / "x")
    with pytest.raises(TypeError, match="NumPy has no dtype for BF16"):
        MappedFile(tmp_path / "x").get_tensor("x")
