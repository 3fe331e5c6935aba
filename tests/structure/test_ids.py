"""Ids come in many forms and leave as arrays, or as an error that names the bad one."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import dglite
from dglite.backend import active
from dglite.errors import DGLError
from dglite.structure import ALL, is_all
from dglite.structure.distinct import in_order_of_appearance
from dglite.structure.ids import as_ids, check_range, integer_array, largest_unsigned, positions_of


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (2, [2]),
        (np.int32(2), [2]),
        ([], []),
        ([3, 0, 3], [3, 0, 3]),
        ((1, 2), [1, 2]),
        (range(1, 3), [1, 2]),
        (iter([1, 2]), [1, 2]),
        (slice(None), [0, 1, 2, 3]),
        (slice(1, None, 2), [1, 3]),
        (ALL, [0, 1, 2, 3]),
        (torch.tensor(2), [2]),
        (torch.tensor([2, 1]), [2, 1]),
        (torch.tensor([2, 1], dtype=torch.int32), [2, 1]),
        (torch.tensor([]), []),
        (torch.tensor([True, False, False, True]), [0, 3]),
        (np.array([2, 1], np.uint8), [2, 1]),
        ([torch.tensor(1), torch.tensor(3)], [1, 3]),
    ],
)
def test_as_ids(given, expected):
    result = as_ids(given, 4)
    assert result.ndim == 1 and result.dtype.kind == "i" and result.tolist() == expected


FOREIGN = {
    "of the other byte order": lambda x: x.astype(x.dtype.newbyteorder()),
    "at an odd address": lambda x: np.frombuffer(b"???" + x.tobytes(), np.uint8)[3:].view(x.dtype),
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype),
    "backwards": lambda x: x[::-1].copy()[::-1],
    "a field of records": lambda x: np.rec.fromarrays([x, np.zeros(len(x), np.int8)])["f0"],
}


@pytest.mark.parametrize("dtype", ["int64", "int32", "float32", "complex128"])
@pytest.mark.parametrize("kind", FOREIGN)
def test_arrays_of_other_layouts_are_taken(kind, dtype):
    array = FOREIGN[kind](np.arange(5).astype(dtype))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tensor = active.asarray(array)
    assert tensor.tolist() == [0, 1, 2, 3, 4] and tensor.data_ptr() % array.dtype.itemsize == 0
    tensor[0] = 0
    if array.dtype.kind != "i":
        return
    ids = integer_array(array)
    assert ids.dtype.isnative and ids.flags.aligned
    g = dglite.graph((array, array))
    assert g.in_degrees(array).tolist() == [1] * 5 and g.find_edges(array)[1].tolist() == [0, 1, 2, 3, 4]
    assert dglite.node_subgraph(g, array).num_edges() == 5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (4, "node id 4 does not exist; ids run from 0 to 3"),
        (-1, "node id -1 is negative"),
        ([0, -7], "node id -7 is negative"),
        ([0, 9, 10], "node id 9 does not exist"),
        (list(range(100)), "node id 4 does not exist"),
        (torch.tensor([0.5]), "node ids must be integers, got dtype float32"),
        ([1.0], "must be integers, got dtype float64"),
        (torch.zeros(2, 2, dtype=torch.int64), "one-dimensional"),
        (torch.tensor([True]), "mask has 1 entries; expected one for each of the 4 nodes"),
        ("abc", "must be integers"),
        (None, "must be integers"),
        (object(), "must be integers"),
        ([[1], [2, 3]], "must be integers"),
    ],
)
def test_bad_ids(given, message):
    with pytest.raises(DGLError, match=message):
        as_ids(given, 4)


def test_no_ids_exist_in_an_empty_set():
    with pytest.raises(DGLError, match="node id 0 does not exist; there are no nodes"):
        as_ids(0, 0)
    assert as_ids([], 0).tolist() == []


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("size", [5, 100])
def test_one_pass_finds_negative_and_large_ids(dtype, size):
    ids = np.zeros(size, dtype)
    check_range(ids, 1)
    ids[3] = -5
    with pytest.raises(DGLError, match="-5 is negative"):
        check_range(ids, 1)
    assert largest_unsigned(ids) > np.iinfo(dtype).max
    assert largest_unsigned(np.arange(10, dtype=dtype)[::2]) == 8


def test_integer_array_shares_and_is_all():
    array = np.arange(3)
    assert integer_array(array) is array
    assert is_all("__ALL__") and not is_all(array) and not is_all("x")


def test_positions_of_ids():
    assert positions_of(np.array([5, 2, 9, 5]), np.array([2, 5, 7])).tolist() == [1, 0, -1, 1]
    assert positions_of(np.array([-1, 0]), np.array([], np.int64)).tolist() == [-1, -1]
    assert positions_of(np.array([], np.int64), np.array([3])).tolist() == []


@pytest.mark.parametrize("largest", [4, 1 << 40])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_distinct_ids_stay_where_they_come_first(dtype, largest):
    largest = min(largest, np.iinfo(dtype).max)
    ids = np.array([3, largest, 3, 0, largest, 2], dtype)
    result = in_order_of_appearance(ids)
    assert result.tolist() == [3, largest, 0, 2] and result.dtype == dtype
    assert in_order_of_appearance(ids[:0]).tolist() == []
