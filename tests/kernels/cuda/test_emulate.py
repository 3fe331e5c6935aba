"""The emulated GPU itself: threads really exchange and wait, and what a GPU leaves undefined is an error."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

from dglite.errors import DGLError
from dglite.kernels.cuda.run.emulate import Emulator
from dglite.kernels.cuda.run.program import BLOCK, make_program
from tests.kernels.cuda.emulated import GPU, needs_compiler

pytestmark = needs_compiler

KERNELS = {
    "turn": ("int* out", "out[blockIdx.x * BLOCK + threadIdx.x] = across(int(threadIdx.x), 5) + 1000 * blockIdx.y"),
    "reverse": (
        "int* out",
        "__shared__ int kept[BLOCK]; kept[threadIdx.x] = threadIdx.x; __syncthreads(); "
        "out[blockIdx.x * BLOCK + threadIdx.x] = kept[BLOCK - 1 - threadIdx.x]",
    ),
    "sum": ("int* out", "out[threadIdx.x] = sum_across<1, 32>(int(threadIdx.x)); atomicAdd(out + BLOCK, 1)"),
    "match": ("int* out", "out[threadIdx.x] = __popc(__match_any_sync(ALL_LANES, threadIdx.x % 3))"),
    "leave": ("int* out", "if (threadIdx.x % 2) out[threadIdx.x] = across(1, 1)"),
    "apart": ("int* out", "if (threadIdx.x % 2) across(1, 1); else any(true); out[0] = 1"),
    "stuck": ("int* out", "if (threadIdx.x == 3) __syncwarp(); __syncthreads(); out[0] = 1"),
    "rounds": (
        "unsigned* counter, int* out, long long rounds",
        "int* const shared = (int*)emulated::shared_of_block(64); for (int r = 1; r <= rounds; ++r) { "
        "if (threadIdx.x == 0) { shared[0] = blockIdx.x; atomicAdd(counter, 1u); "
        "while (*(volatile unsigned*)counter < r * gridDim.x) __nanosleep(20); } __syncthreads(); "
        "if (threadIdx.x == 9) out[blockIdx.x] += shared[0] + (*counter >= r * gridDim.x); __syncthreads(); }",
    ),
    "racing": ("int* out", "out[threadIdx.x] = 1; out[threadIdx.x] += out[(threadIdx.x + 1) % BLOCK]"),
    "skewed": ("const float* in, float* out", "out[0] = load<4>(in + 1).item[0]"),
    "narrow": (
        "const float* in, f16* half, bf16* brain, long long count",
        "for (int i = threadIdx.x; i < count; i += BLOCK) { half[i] = narrow<f16>(in[i]); "
        "brain[i] = narrow<bf16>(in[i]); }",
    ),
    "widen": (
        "const f16* half, const bf16* brain, float* out, long long count",
        "for (int i = threadIdx.x; i < count; i += BLOCK) { out[i] = widen(half[i]); "
        "out[count + i] = widen(brain[i]); }",
    ),
}
TEXT = "".join(
    f'extern "C" __global__ void __launch_bounds__(BLOCK) NAME_{name}({parameters}) {{ {body}; }}\n'
    for name, (parameters, body) in KERNELS.items()
)
PROGRAM = make_program("emulation", ("common",), f"namespace dg {{ namespace NAME {{\n{TEXT}}} }}\n", tuple(KERNELS))


def run(kernel: str, *words: int, grid: tuple[int, int] = (1, 1)) -> None:
    GPU.launch(PROGRAM, kernel, grid, words)


def test_lanes_exchange_values_in_every_block():
    out = np.zeros(2 * BLOCK, np.int32)
    run("turn", out.ctypes.data, grid=(2, 3))
    np.testing.assert_array_equal(out, np.tile(np.arange(BLOCK) ^ 5, 2) + 2000)


def test_a_barrier_is_waited_at_by_the_whole_block():
    out = np.zeros(2 * BLOCK, np.int32)
    run("reverse", out.ctypes.data, grid=(2, 1))
    np.testing.assert_array_equal(out, np.tile(np.arange(BLOCK)[::-1], 2))


def test_sums_matches_and_atomics():
    out = np.zeros(BLOCK + 1, np.int32)
    run("sum", out.ctypes.data)
    sums = np.arange(BLOCK).reshape(-1, 32).sum(1)
    np.testing.assert_array_equal(out, [*np.repeat(sums, 32), BLOCK])
    run("match", out.ctypes.data)
    kinds = (np.arange(BLOCK) % 3).reshape(-1, 32)
    want = [(row == kind).sum() for row in kinds for kind in row]
    np.testing.assert_array_equal(out[:BLOCK], want)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [("leave", "never come"), ("apart", "different exchanges"), ("stuck", "never come")],
)
def test_what_a_gpu_leaves_undefined_is_an_error(kernel, message):
    out = np.zeros(BLOCK, np.int32)
    with pytest.raises(DGLError, match=message):
        run(kernel, out.ctypes.data)
    run("turn", out.ctypes.data)  # and the GPU can be used again
    assert out[0] == 5


@pytest.mark.parametrize("backwards", [False, True])
def test_blocks_that_wait_for_each_other_run_at_once(backwards):
    counter, out = np.zeros(1, np.uint32), np.zeros(3, np.int32)
    gpu = Emulator(backwards=backwards)
    gpu.launch_together(PROGRAM, "rounds", 3, [counter.ctypes.data, out.ctypes.data, 2])
    np.testing.assert_array_equal(out, 2 * np.arange(3) + 2)
    with pytest.raises(DGLError, match="never come"):  # one after the other
        gpu.launch(PROGRAM, "rounds", (3, 1), [counter.ctypes.data, out.ctypes.data, 5])


def test_the_order_of_threads_shows_where_a_barrier_is_missing():
    results = []
    for backwards in (False, True):
        out = np.zeros(BLOCK, np.int32)
        Emulator(backwards=backwards).launch(PROGRAM, "racing", (1, 1), [out.ctypes.data])
        results.append(out)
    assert (results[0] != results[1]).any()


def test_wrong_arguments_are_errors():
    x = np.zeros(8, np.float32)
    with pytest.raises(DGLError, match="not aligned"):
        run("skewed", x.ctypes.data, x.ctypes.data)
    with pytest.raises(DGLError, match="number of arguments"):
        run("turn", x.ctypes.data, 1)


def test_16_bit_floats_are_rounded_as_torch_rounds_them():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 4000, dtype=np.uint64).astype(np.uint32)
    special = np.array([0, -0.0, 1, 65504, 65520, 1e-8, 6e-8, np.inf, -np.inf, np.nan, 3.3895e38], np.float32)
    values = np.concatenate([special, bits.view(np.float32), rng.normal(size=1000).astype(np.float32)])
    count = len(values)
    half, brain = np.zeros(count, np.uint16), np.zeros(count, np.uint16)
    run("narrow", values.ctypes.data, half.ctypes.data, brain.ctypes.data, count)
    wide = np.zeros(2 * count, np.float32)
    run("widen", half.ctypes.data, brain.ctypes.data, wide.ctypes.data, count)
    for actual, dtype in ((wide[:count], torch.float16), (wide[count:], torch.bfloat16)):
        np.testing.assert_array_equal(actual, torch.from_numpy(values).to(dtype).float().numpy())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_without_a_cache_folder_what_is_compiled_is_removed_at_exit(tmp_path):
    code = """
    import os, sys
    from dglite.kernels.cuda.run.emulate import _folder
    print(_folder(), flush=True)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        assert _folder().is_dir()
    """
    env = {**os.environ, "DGLITE_CACHE_DIR": "/proc/none", "TMPDIR": str(tmp_path), "DGLITE_BACKEND": "numpy"}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).parent == tmp_path and not list(tmp_path.iterdir())
    assert done.stderr.count("DGLITE_CACHE_DIR names a folder") == 1
