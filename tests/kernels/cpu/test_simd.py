"""The vector type: exponential, 16-bit rounding."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dglite.kernels.cpu.compile.machine import data_layout
from dglite.kernels.cpu.compile.translate import translate
from dglite.kernels.cpu.lanes import simd
from dglite.kernels.cpu.lanes.target import triple
from tests.kernels.cpu.calls import SIMD, compiled
from tests.kernels.walls import at_a_wall


def apply_exp(values: np.ndarray, lanes: int) -> np.ndarray:
    dtype = str(values.dtype)
    source = f"""load, store = simd.loader("{dtype}", {lanes}), simd.storer("{dtype}", {lanes})
exp = simd.exp


def kernel(source, out, count):
    for i in range(0, count, {lanes}):
        store(out + i * {values.itemsize}, exp(load(source + i * {values.itemsize})))
"""
    out = np.empty_like(values)
    compiled(source, 3)(values.ctypes.data, out.ctypes.data, len(values))
    return out


@pytest.mark.parametrize(("dtype", "low", "ulps"), [("float32", -103.0, 2.5), ("float64", -744.0, 2.5)])
@pytest.mark.parametrize("lanes", [1, 8])
def test_exp_is_within_a_few_units_in_the_last_place(dtype, low, ulps, lanes):
    high = 88.7 if dtype == "float32" else 709.7
    values = np.linspace(low, high, 40_000).astype(dtype)
    want = np.exp(values.astype(np.longdouble))
    error = np.abs(apply_exp(values, lanes).astype(np.longdouble) - want) / np.spacing(want.astype(dtype))
    assert error.max() < ulps


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exp_of_extremes(dtype):
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e9, -1e9, 1.0], dtype)
    with np.errstate(over="ignore"):
        want = np.exp(values)
    np.testing.assert_allclose(apply_exp(values, 8), want, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("lanes", [1, 4])
def test_16_bit_floats_round_as_torch_does(dtype, lanes):
    kind = getattr(torch, dtype)
    values = torch.cat([torch.randn(996) * 100, torch.tensor([float("inf"), float("-inf"), float("nan"), 0.0])])
    source = f"""load, store = simd.loader("float32", {lanes}), simd.storer("{dtype}", {lanes})
read, write = simd.loader("{dtype}", {lanes}), simd.storer("float32", {lanes})


def kernel(source, narrow, back, count):
    for i in range(0, count, {lanes}):
        store(narrow + i * 2, load(source + i * 4))
        write(back + i * 4, read(narrow + i * 2))
"""
    narrow, back = torch.empty(1000, dtype=kind), torch.empty(1000)
    compiled(source, 4)(values.data_ptr(), narrow.data_ptr(), back.data_ptr(), 1000)
    assert torch.equal(torch.nan_to_num(narrow), torch.nan_to_num(values.to(kind)))
    assert torch.equal(torch.nan_to_num(back), torch.nan_to_num(values.to(kind).float()))
    assert narrow[998].isnan() and back[998].isnan()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lanes", [4, 16])
def test_parts_of_vectors_end_where_memory_does(dtype, lanes):
    other = -1.0
    source = f"""load, store = simd.part_loader("{dtype}", {lanes}, {other}), simd.part_storer("{dtype}", {lanes})
whole = simd.storer("{dtype}", {lanes})


def kernel(source, part, full, count):
    store(part, load(source, count), count)
    whole(full, load(source, count))
"""
    kernel = compiled(source, 4)
    for count in range(lanes + 3):
        size = min(count, lanes)
        values = at_a_wall(np.arange(1, size + 1, dtype=dtype))
        at, full = values.ctypes.data, np.zeros(lanes, dtype)
        kernel(at, at, full.ctypes.data, count)
        np.testing.assert_array_equal(full, [*range(1, size + 1), *[other] * (lanes - size)])
        np.testing.assert_array_equal(values, np.arange(size) + 1)


@pytest.mark.parametrize(("ask", "locality"), [("prefetch", 3), ("prefetch_l2", 2)])
def test_prefetching_names_the_cache(ask, locality):
    source = f"{SIMD}ask = simd.{ask}\n\n\ndef kernel(address):\n    ask(address)\n"
    assert f"i32 0, i32 {locality}, i32 1)" in translate(source, "", triple(), data_layout())


def test_python_cannot_call_an_intrinsic():
    with pytest.raises(TypeError, match="in kernel source only"):
        simd.word(0, 0)
