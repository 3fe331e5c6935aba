"""Mapped arrays are those that the safetensors library reads, and nothing is read before it is used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_tensors

from dglite.io.container import MappedFile

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
    x = MappedFile(path).get_tensor("x")
    assert isinstance(x.base, np.memmap) and x[size - 1] == 1


def test_what_numpy_lacks_is_said(tmp_path: Path) -> None:
    save_tensors({"x": torch.ones(2, dtype=torch.bfloat16)}, tmp_path / "x")
    with pytest.raises(TypeError, match="NumPy has no dtype for BF16"):
        MappedFile(tmp_path / "x").get_tensor("x")
