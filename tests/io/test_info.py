"""Facts about data sets come back from files as they were; what cannot be written is named."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dglite import DGLError
from dglite.data.utils import load_info, save_info

FACTS = {
    "num_classes": 7,
    "big": 2**80,
    "ratio": 0.1,
    "infinite": math.inf,
    "name": "Zürich \0",
    "nothing": None,
    "truth": True,
    "complex": 1 + 2j,
    "bytes": b"\x00\xff",
    "list": [1, [2, []], "x"],
    "tuple": (1, (2, ())),
    "set": {1, 2},
    "frozen": frozenset("ab"),
    3: {"nested": {(1, 2): "tuple key"}},
    "empty": {},
}
ARRAYS = {
    "float": np.arange(6.0).reshape(2, 3),
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "big-endian": np.array([1, 2], ">i4"),
    "bool": np.array([True, False]),
    "empty": np.empty((0, 4), np.int16),
    "complex": np.array([1 + 2j]),
    "names": np.array([["a", "longer"]]),
    "no axes": np.array(3.0),
}


def test_plain_values_come_back(tmp_path):
    save_info(tmp_path / "info.pkl", FACTS)
    result = load_info(tmp_path / "info.pkl")
    assert result == FACTS
    assert [type(x) for x in result.values()] == [type(x) for x in FACTS.values()]


def test_arrays_and_tensors_come_back(tmp_path):
    tensors = {name: torch.arange(3).to(getattr(torch, name)) for name in ("float32", "bfloat16", "bool", "complex128")}
    save_info(tmp_path / "i", {"arrays": ARRAYS, "tensors": tensors, "scalar": np.float32(0.5), "text": np.str_("x")})
    result = load_info(tmp_path / "i")
    for name, array in ARRAYS.items():
        assert isinstance(result["arrays"][name], np.ndarray)
        assert result["arrays"][name].shape == array.shape
        assert np.array_equal(result["arrays"][name], array)
        assert result["arrays"][name].dtype == array.dtype.newbyteorder("=")
    for name, tensor in tensors.items():
        assert torch.equal(result["tensors"][name], tensor)
        assert result["tensors"][name].dtype == tensor.dtype
    assert (result["scalar"], type(result["scalar"])) == (0.5, np.float32)
    assert result["text"] == "x"


@pytest.mark.parametrize(
    ("info", "where"),
    [
        ({"a": object()}, r"info\['a'\] is a object"),
        ({"a": [1, {"b": print}]}, r"info\['a'\]\[1\]\['b'\] is a builtin"),
        ({"a": np.array([None])}, "is a ndarray"),
        ({object(): 1}, "a key of info"),
    ],
)
def test_what_cannot_be_written_is_named(tmp_path, info, where):
    with pytest.raises(DGLError, match=where):
        save_info(tmp_path / "i", info)
    assert not (tmp_path / "i").exists()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DGLError, match="does not exist"):
        load_info(tmp_path / "absent")


@pytest.mark.parametrize("shape", [(2, 2), (0, 3), ()])
def test_strings_come_back_in_the_room_that_the_file_has(tmp_path, shape):
    texts = np.array(["", "a", "\U0001f600", "b" * 1000])
    texts = np.array("\u00e9") if shape == () else texts[: math.prod(shape)].reshape(shape)
    for given in (texts, texts.astype(texts.dtype.newbyteorder(">")), texts.T):
        save_info(tmp_path / "i", {"x": given})
        result = load_info(tmp_path / "i")["x"]
        assert result.shape == given.shape and (result == given).all()
        assert result.nbytes < (tmp_path / "i").stat().st_size


def test_strings_of_which_one_is_long_come_back(tmp_path):
    texts = np.array(["a"] * 300 + ["b" * 30_000])
    save_info(tmp_path / "i", {"x": texts})
    assert (load_info(tmp_path / "i")["x"] == texts).all()
