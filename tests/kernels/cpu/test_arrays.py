"""Kernels that take arrays: what Python does with the same text, for every dtype, and for arrays of every kind."""

from __future__ import annotations

import threading
import time
from math import erf
from typing import Any, NamedTuple

import numpy as np
import pytest

from dglite.kernels.cpu.compile.written import Kernel
from dglite.kernels.cpu.lanes.arrays import ELEMENTS, address_of
from dglite.kernels.cpu.run import launch
from dglite.kernels.cpu.run.rows import run_rows
from tests.patience import PATIENCE

TWO, HALF = 2, 0.5


class Pair(NamedTuple):
    values: np.ndarray
    count: int


@Kernel
def _place_of(values: np.ndarray, expected: int) -> int:
    for i in range(len(values)):
        if values[i] == expected:
            return i
    return -1


@Kernel
def _twice(x: Any) -> float:
    return TWO * x


@Kernel
def elements(values: np.ndarray, out: np.ndarray) -> int:
    """Write twice each value, backwards."""
    count = len(values)
    for i in range(count):
        out[count - 1 - i] = values[i] + values[i]
    return count


@Kernel
def everything(pair: Pair, scale: float, flag: bool, out: np.ndarray, keys: np.ndarray | None) -> int:
    """Use each part of the language that arrays add."""
    values, spare = pair.values[1 : pair.count], np.empty(len(pair.values), np.int64)
    result, i = 0, 0
    while True:
        if i >= len(values):
            break
        if values[i] < 0:
            i += 1
            continue
        spare[result], out[i] = values[i], scale * values[i]
        result, i = result + 1, i + 1
    for j in range(result):
        out[j] += _twice(spare[j]) if flag else 0.25
        if spare[j] == 7:
            out[0] = _place_of(spare[:result], 7)
            break
    if keys is None:
        out[-1 + len(out)] = np.sqrt(scale) + erf(HALF)
    else:
        out[-1 + len(out)] = keys[0]
    return result


@Kernel
def remembers(count: int, out: np.ndarray) -> None:
    """Ask for memory again and again."""
    room = np.empty(1, out.dtype)
    for i in range(count):
        if i >= len(room) or i == 0:
            room = np.empty(2 * i + 1, out.dtype)
            for j in range(len(room)):
                room[j] = j
        out[i] = room[i] + i


@Kernel
def asks_for(count: int) -> int:
    """Ask for memory."""
    room = np.empty(count, np.int64)
    return len(room)


@Kernel
def distance(values: np.ndarray, i: int) -> int:
    """Return the bytes between two elements."""
    return address_of(values, i) - address_of(values, 0)


@Kernel
def share(values: np.ndarray, out: np.ndarray, first: int, last: int) -> None:
    """Write squares of a share."""
    room = np.empty(last - first, np.int64)
    for i in range(first, last):
        room[i - first] = values[i]
        out[i] = room[i - first] * values[i]


@Kernel
def waits(flag: np.ndarray, turns: int) -> int:
    """Count until another thread sets the flag."""
    count = 0
    while count < turns and flag[0] == 0:
        count += 1
    return count


@pytest.mark.parametrize("dtype", ELEMENTS)
def test_elements_of_every_dtype(dtype):
    kind = np.dtype(dtype)
    values = np.array([0, 1] if kind.kind in "bf" else [np.iinfo(kind).min, np.iinfo(kind).max, 3], kind)
    out, expected = np.zeros(len(values), kind), np.zeros(len(values), kind)
    assert elements(values, out) == len(values)
    with np.errstate(over="ignore"):
        expected[:] = (values + values)[::-1]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("keys", [None, np.array([4], np.int16)])
@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.int8])
def test_the_language_of_arrays(dtype, flag, keys):
    values = np.array([9, 3, -1, 7, 5, 5], dtype)
    result, want = np.zeros(8), np.zeros(8)
    assert everything(Pair(values, 5), 0.5, flag, result, keys) == everything_in_python(values, flag, want, keys)
    np.testing.assert_array_equal(result, want)


def everything_in_python(values, flag, out, keys):
    """Do what the kernel does, with Python's own functions."""
    chosen = values[1:5]
    spare = [x for x in chosen.tolist() if x >= 0]
    for i, x in enumerate(chosen.tolist()):
        if x >= 0:
            out[i] = 0.5 * x
    for j, x in enumerate(spare):
        out[j] += 2 * x if flag else 0.25
        if x == 7:
            out[0] = spare.index(7)
            break
    out[-1] = np.sqrt(0.5) + erf(0.5) if keys is None else keys[0]
    return len(spare)


def test_memory_that_is_asked_for_again_is_the_new_one():
    out = np.zeros(100, np.float32)
    remembers(100, out)
    np.testing.assert_array_equal(out, 2 * np.arange(100))


def test_no_memory_is_an_error_of_python():
    with pytest.raises(MemoryError):
        asks_for(1 << 60)
    assert asks_for(0) == 0 and asks_for(5) == 5


def test_addresses_are_those_of_the_elements():
    for dtype in ("int32", "int64", "uint8"):
        assert distance(np.zeros(9, dtype), 5) == 5 * np.dtype(dtype).itemsize


def test_arrays_that_lie_otherwise_are_read(tmp_path):
    values = np.arange(6)
    cases = [np.arange(12)[::2] // 2, values.astype(">i8"), values.view(np.dtype("q")), np.arange(6).astype("l")]
    mapped = np.memmap(tmp_path / "values", np.int64, "w+", shape=6)
    mapped[:] = values
    for case in [*cases, mapped]:
        out = np.zeros(6, np.int64)
        assert elements(case, out) == 6
        np.testing.assert_array_equal(out, 2 * values[::-1])
    elements(values, mapped)
    np.testing.assert_array_equal(mapped, 2 * values[::-1])


def test_what_cannot_be_written_to_is_an_error():
    with pytest.raises(TypeError, match="elements writes to an array that is not contiguous"):
        elements(np.arange(6), np.zeros(12, np.int64)[::2])


def test_wrong_arguments_are_errors():
    values = np.arange(4)
    elements(values, values.copy())
    with pytest.raises(TypeError, match="cannot take"):
        elements(values.reshape(2, 2), values)
    with pytest.raises(TypeError, match="elements takes 2 arguments, got 1"):
        elements(values)
    with pytest.raises(TypeError):
        remembers("3", values)
    with pytest.raises(TypeError):
        everything(3, 0.5, True, np.zeros(8), None)
    everything(Pair(values, 2), 0.5, True, np.zeros(8), None)
    with pytest.raises(TypeError):
        everything(3, 0.5, True, np.zeros(8), None)
    with pytest.raises(TypeError, match="real number"):
        everything(Pair(values, 2), "x", True, np.zeros(8), None)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("num_rows", [0, 1, 1000])
def test_shares_of_rows(monkeypatch, num_rows, threads):
    monkeypatch.setattr(launch, "PARALLEL_FROM", 0)
    values, out = np.arange(num_rows, dtype=np.int32), np.zeros(num_rows, np.int64)
    run_rows(share, num_rows, 1 << 20, threads, values, out)
    np.testing.assert_array_equal(out, values.astype(np.int64) ** 2)


def test_other_threads_run_meanwhile():
    flag = np.zeros(1, np.int64)
    waits(flag, 1)
    done = []
    thread = threading.Thread(target=lambda: done.append(waits(flag, 1 << 60)))
    thread.start()
    time.sleep(0.01)
    flag[0] = 1
    thread.join(PATIENCE)
    assert done
