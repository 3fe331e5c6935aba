"""Kernels for lesser CPUs than this one give its results: those DGLITE_CPU_NAME names, without F16C, FMA or AVX."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import numpy as np
import pytest
import torch

import dglite
from dglite import ops
from dglite.kernels.cpu.compile.jit import compile_kernel
from dglite.kernels.cpu.lanes.target import converts_halves, cpu
from dglite.kernels.cpu.run.launch import launch
from tests import forked
from tests.kernels.cpu.test_agreement import adjacency, operands

FULL = os.environ.get("DGLITE_TEST_FULL") == "1"
X86 = platform.machine() in ("x86_64", "AMD64")
CPUS = [("goldmont-plus", ""), ("sandybridge", ""), ("x86-64-v2", ""), ("generic", "+f16c"), ("generic", "+f16c,-avx")]
CPUS += [("haswell", ""), ("x86-64-v4", "-avx512f"), ("nehalem", None)]
"""(DGLITE_CPU_NAME, DGLITE_CPU_FEATURES or None) that say which instructions there are by a name, a list or both."""
SOURCE = """
from dglite.kernels.cpu.lanes import simd
from dglite.kernels.cpu.lanes.simd import word
{intrinsics}

def kernel(args, task, num_tasks):
    for i in range(0, word(args, 2), {lanes}):
        _store(word(args, 1) + i * {out_bytes}, _load(word(args, 0) + i * {bytes}))
"""


def converted(values: np.ndarray, given: str, expected: str, lanes: int) -> np.ndarray:
    """Return the bits of values that a kernel loads as one dtype and stores as another."""
    bits = {"float32": np.uint32, "float16": np.uint16, "bfloat16": np.uint16}[expected]
    out = np.empty(len(values), bits)
    intrinsics = f'_load, _store = simd.loader("{given}", {lanes}), simd.storer("{expected}", {lanes})'
    sizes = {"lanes": lanes, "bytes": values.itemsize, "out_bytes": out.itemsize}
    kernel = compile_kernel("convert", SOURCE.format(intrinsics=intrinsics, **sizes))
    launch(kernel, [values.ctypes.data, out.ctypes.data, len(values)])
    return out


def floats_around(dtype: torch.dtype) -> np.ndarray:
    """Return each number of a 16-bit dtype as float32, the midpoints between neighbours, and the floats beside all."""
    halves = torch.arange(1 << 16).to(torch.uint16).view(dtype)
    numbers = np.unique(halves[halves.isfinite()].double().numpy())
    largest = 2 * numbers[-1] - numbers[-2]  # where infinity would lie
    numbers = np.concatenate([[-largest], numbers, [largest]])
    with np.errstate(over="ignore"):
        points = np.concatenate([numbers, (numbers[1:] + numbers[:-1]) / 2]).astype(np.float32)
    sides = [np.nextafter(points, np.float32(side)) for side in (np.inf, -np.inf)]
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 1e-45, -1e-45, 3e38], np.float32)
    payloads = np.array([0x7F800001, 0x7F80F000, 0xFFC12345, 0x7FFFFFFF], np.uint32).view(np.float32)
    result = np.concatenate([points, *sides, special, payloads])
    return np.concatenate([result, np.zeros(-len(result) % 8, np.float32)])


def conversions() -> dict[str, np.ndarray]:
    """Return what all 16-bit floats become as float32, and the floats around them as 16-bit floats."""
    results: dict[str, np.ndarray] = {}
    numbers = np.arange(1 << 16, dtype=np.uint16)
    for name in ("float16", "bfloat16"):
        floats = floats_around(getattr(torch, name))
        for lanes in (1, 8):
            results[f"{name} widened, {lanes}"] = converted(numbers, name, "float32", lanes)
            results[f"{name} narrowed, {lanes}"] = converted(floats, "float32", name, lanes)
    return results


def messages() -> dict[str, np.ndarray]:
    """Return results and gradients on a graph."""
    results: dict[str, np.ndarray] = {}
    adj = adjacency()
    g = dglite.graph(adj.endpoints(), num_nodes=20)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x, y = (rows.requires_grad_() for rows in operands(9, dtype)[:2])
        outs = [ops.u_mul_e_sum(g, y, x), ops.copy_u_max(g, y), ops.copy_e_mean(g, x), ops.u_dot_v(g, y, y * 2)]
        outs += [ops.edge_softmax(g, x), torch.sigmoid(ops.u_add_v(g, y, y))]
        grads = torch.autograd.grad(sum(out.float().square().sum() for out in outs), (x, y))
        results |= {f"{dtype} {i}": out.detach().float().numpy() for i, out in enumerate((*outs, *grads))}
    return results


def test_16_bit_floats_are_converted_as_the_tensor_library_does():
    numbers = torch.arange(1 << 16).to(torch.uint16)
    for name in ("float16", "bfloat16"):
        dtype = getattr(torch, name)
        floats = floats_around(dtype)
        for lanes in (1, 8):
            wide = torch.from_numpy(converted(numbers.numpy(), name, "float32", lanes).view(np.float32))
            torch.testing.assert_close(wide, numbers.view(dtype).float(), rtol=0, atol=0, equal_nan=True)
            narrow = torch.from_numpy(converted(floats, "float32", name, lanes)).view(dtype)
            torch.testing.assert_close(narrow, torch.from_numpy(floats).to(dtype), rtol=0, atol=0, equal_nan=True)


def save(folder: Path, with_messages: bool) -> None:
    """Write results to a file; print the CPU that they are compiled for, and if it has an instruction for float16."""
    np.savez(folder / "found.npz", **conversions(), **(messages() if with_messages else {}))
    print(cpu()[0], converts_halves())


def run_for(
    name: str, features: str | None, with_messages: bool, folder: Path, **more: str
) -> tuple[dict[str, np.ndarray], bool]:
    """Return results of a process that compiles for another CPU, and if that converts float16 by an instruction."""
    cpu_of = {"DGLITE_CPU_NAME": name, "DGLITE_CPU_FEATURES": features}
    done = forked.run(save, folder, with_messages, **cpu_of, OMP_NUM_THREADS="2", **more)
    assert done.returncode == 0, done.stderr
    compiled_for, native = done.stdout.split()
    assert compiled_for == name
    return dict(np.load(folder / "found.npz")), native == "True"


@pytest.mark.skipif(not X86, reason="names of x86 CPUs")
@pytest.mark.parametrize(("name", "features"), CPUS)
def test_every_cpu_converts_to_the_same_bits(name, features, tmp_path):
    result, native = run_for(name, features, False, tmp_path)
    assert native == (
        features == "+f16c" or name in ("haswell", "x86-64-v4") or (features is None and converts_halves())
    )
    for key, bits in conversions().items():
        np.testing.assert_array_equal(result[key], bits, err_msg=key)


@pytest.mark.skipif(not X86, reason="names of x86 CPUs")
@pytest.mark.parametrize(("name", "features"), [("generic", None), *([("nehalem", "")] if FULL else [])])
def test_kernels_for_lesser_cpus_give_the_same(name, features, tmp_path):
    result, native = run_for(name, features, True, tmp_path)
    assert not native
    for key, bits in conversions().items():
        np.testing.assert_array_equal(result[key], bits, err_msg=key)
    for key, x in messages().items():
        # Without FMA a product is rounded before it is added.
        bound = 1e-5 if "float32" in key else 1e-2 if "bfloat16" in key else 2e-3
        np.testing.assert_allclose(result[key], x, rtol=bound, atol=bound, err_msg=key)
