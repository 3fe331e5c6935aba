"""Tensors come back from files as they were."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dglite import DGLError
from dglite.compat import data
from dglite.data.utils import load_tensors, save_graphs, save_tensors
from tests.io.graphs import DTYPES


def test_tensors_come_back_as_arrays(tmp_path):
    save_tensors(tmp_path / "x", {"a": torch.tensor([1, 2])})
    (result,) = load_tensors(tmp_path / "x", return_dgl_ndarray=True).values()
    assert isinstance(result, np.ndarray) and result.tolist() == [1, 2]
    (result,) = data.load_tensors(tmp_path / "x", return_dgl_ndarray=True).values()
    assert result.asnumpy().tolist() == [1, 2] and result.shape == (2,)


def test_tensors_come_back(tmp_path):
    tensors = {name: torch.arange(6).reshape(2, 3).to(getattr(torch, name)) for name in DTYPES}
    tensors |= {"": torch.tensor(3.0), "__metadata__": torch.empty(0, 4), "turned": torch.rand(2, 3).T}
    tensors["part"] = tensors["float32"][1:]
    assert save_tensors(tmp_path / "t", tensors)
    result = load_tensors(tmp_path / "t")
    assert list(result) == list(tensors)
    for name, values in tensors.items():
        assert result[name].dtype == values.dtype
        assert torch.equal(result[name], values)
    assert save_tensors(tmp_path / "t", {})
    assert load_tensors(tmp_path / "t") == {}


@pytest.mark.parametrize("length", range(16))
def test_complex_tensors_are_at_addresses_that_torch_can_load(tmp_path, length):
    # The length moves where arrays begin in the file; the process ended where that was 8 bytes off.
    x = torch.complex(torch.rand(10, dtype=torch.float64), torch.rand(10, dtype=torch.float64))
    save_tensors(tmp_path / "t", {"n" * length: torch.ones(3), "x": x})
    result = load_tensors(tmp_path / "t")["x"]
    assert result.data_ptr() % 16 == 0 and torch.equal(result[torch.arange(10)], x)


def test_what_does_not_fit_is_named(tmp_path):
    for wrong in ({"a": [1]}, {1: torch.ones(1)}):
        with pytest.raises(DGLError, match="saved by name"):
            save_tensors(tmp_path / "t", wrong)
    save_graphs(tmp_path / "g", [])
    with pytest.raises(DGLError, match="not 'tensors'"):
        load_tensors(tmp_path / "g")
