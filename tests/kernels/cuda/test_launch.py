"""What a runner hands to the driver: a stand-in for ``libcuda``, compiled here, writes down every call.

No GPU is needed to see a wrong word, stream, grid or context.
"""

from __future__ import annotations

import ctypes
import re
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dglite.errors import DGLError
from dglite.kernels.cuda.run import driver, launch
from dglite.kernels.cuda.run.program import BLOCK, packed
from tests.kernels.cuda.emulated import GPU, needs_compiler
from tests.kernels.cuda.programs import wide_sum

CONTEXT = f"{0x7000000000000000 + 100:x}"


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the stand-in for the driver's library."""
    path = tmp_path_factory.mktemp("driver") / "libcuda.so"
    source = Path(__file__).with_name("stub_driver.cpp")
    subprocess.run(["g++", "-shared", "-fPIC", source, "-o", path], check=True)
    return ctypes.CDLL(str(path))


class Compiler:
    """Stands for NVRTC: machine code is the options that it is made with."""

    version, architectures, compiled = (12, 8), (80, 90), 0

    def compile(self, text: str, name: str, options: list[str], real: bool) -> bytes:
        self.compiled += 1
        return options[-1].encode()

    def __str__(self) -> str:
        return "NVRTC 12.8"


@pytest.fixture
def gpu(library: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[SimpleNamespace]:
    """Let kernels go to the stand-in; the lines of calls come from ``calls()``, which forgets them."""
    monkeypatch.setenv("DGLITE_CACHE_DIR", str(tmp_path))
    library.stub_reset(12080, 3)
    library.stub_calls.restype = ctypes.c_char_p
    compiler, result = Compiler(), driver.Driver(library)
    monkeypatch.setattr(launch, "_libraries", lambda: (result, compiler))
    launch._device.cache_clear()

    def calls() -> list[str]:
        lines = library.stub_calls().decode().splitlines()
        library.stub_reset(12080, 3)
        return lines

    yield SimpleNamespace(library=library, compiler=compiler, calls=calls)
    launch._device.cache_clear()


pytestmark = needs_compiler


def started(way: str, program: Any, grid: str, stream: int) -> str:
    length = len(program.name("rows"))
    return f"{way} {length} grid {grid} block {BLOCK} 1 1 shared 0 stream {stream} in {CONTEXT}"


def test_arguments_reach_the_driver_as_they_are(gpu):
    program = wide_sum()
    runner = launch.StreamRunner(0, 77, GPU)
    assert gpu.calls() == ["init 0", "device 0", "retain 100"]
    runner.launch(program, "rows", (3, 2), [-5, 2**64 - 1, 0.5])
    module = f"of {0x7100000000000000:x}"
    half = struct.unpack("q", struct.pack("d", 0.5))[0]
    assert gpu.calls() == [
        f"load -arch=sm in {CONTEXT}",
        *(f"function {program.name(kernel)} {module}" for kernel in program.kernels),
        started("launch", program, "3 2 1", 77),
        *("word -5", "word -1", f"word {half}"),
    ]
    runner.launch(program, "rows", (0, 1), [1, 2, 3])
    assert not gpu.calls(), "a grid without blocks starts nothing"
    runner.launch(program, "rows", (1, 1), [1, 2, 3])
    assert gpu.calls() == [started("launch", program, "1 1 1", 77), "word 1", "word 2", "word 3"]


def test_blocks_that_wait_for_each_other_are_started_together(gpu):
    program, runner = wide_sum(), launch.StreamRunner(0, 77, GPU)
    assert runner.blocks == 132
    runner.launch_together(program, "rows", runner.blocks, [1, 2, 3])
    assert gpu.calls()[-4] == started("together", program, "132 1 1", 77)


def test_streams_share_what_is_loaded_on_their_device(gpu):
    program = wide_sum()
    for stream in (0, 7):
        launch.StreamRunner(0, stream, GPU).launch(program, "rows", (1, 1), [1, 2, 3])
    launch.StreamRunner(1, 7, GPU).launch(program, "rows", (1, 1), [1, 2, 3])
    lines = gpu.calls()
    assert sum(line.startswith("load") for line in lines) == 2 and gpu.compiler.compiled == 1
    assert [re.findall(r"stream (\d+) in (\w+)", line)[0] for line in lines if line.startswith("launch")] == [
        ("0", CONTEXT),
        ("7", CONTEXT),
        ("7", f"{0x7000000000000000 + 101:x}"),
    ]


def test_threads_load_a_program_once_and_leave_contexts_as_they_were(gpu):
    program, runner = wide_sum(), launch.StreamRunner(0, 7, GPU)
    threads = [threading.Thread(target=runner.launch, args=(program, "rows", (1, 1), [1, 2, 3])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(line.startswith("load") for line in gpu.calls()) == 1
    library, another = gpu.library, 0x7000000000000001
    library.cuCtxPushCurrent_v2(ctypes.c_void_p(another))
    runner.launch(program, "rows", (1, 1), [1, 2, 3])
    current = ctypes.c_void_p()
    library.cuCtxGetCurrent(ctypes.byref(current))
    assert current.value == another and library.stub_depth() == 1
    assert gpu.calls()[0] == started("launch", program, "1 1 1", 7)


def test_memory_is_copied_on_the_stream(gpu):
    runner, device = launch.StreamRunner(0, 77, GPU), np.zeros(2, np.int16)
    gpu.calls()
    runner.write(device.ctypes.data, np.array([1, 2], np.int16))
    assert device.tolist() == [1, 2]
    assert runner.download(device.ctypes.data, 2, "int16").tolist() == [1, 2]
    assert gpu.calls() == ["to device 4 stream 77", "to host 4 stream 77", "wait 77"]
    runner.write(device.ctypes.data, np.zeros(0, np.int16))
    assert not len(runner.download(device.ctypes.data, 0, "int16")) and gpu.calls() == ["wait 77"]


def test_a_driver_that_is_older_than_the_compiler(gpu):
    gpu.compiler.version = (13, 0)
    gpu.library.stub_fail(b"cuModuleLoadData", 222)
    runner = launch.StreamRunner(0, 7, GPU)
    message = (
        r"the driver, for CUDA 12.8, refuses code that NVRTC 12.8 made for sm_90: cuModuleLoadData: CUDA_ERROR_UNSUP.*"
        r"update the driver, or install a torch or an nvidia-cuda-nvrtc of CUDA 12.8 or older"
    )
    with pytest.raises(DGLError, match=message):
        runner.launch(wide_sum(), "rows", (1, 1), [1, 2, 3])
    assert gpu.library.stub_depth() == 0, "the thread is in the context that it was in"
    gpu.calls()
    runner.launch(wide_sum(), "rows", (1, 1), [1, 2, 3])  # and the failure left nothing behind


def test_errors_of_launches(gpu):
    runner = launch.StreamRunner(0, 7, GPU)
    gpu.library.stub_fail(b"cuLaunchKernel", 700)
    with pytest.raises(DGLError, match=r"cuLaunchKernel: CUDA_ERROR, what the driver says\. A kernel that was started"):
        runner.launch(wide_sum(), "rows", (1, 1), [1, 2, 3])
    gpu.library.stub_fail(b"cuLaunchKernel", 999)
    with pytest.raises(DGLError, match=r"cuLaunchKernel: CUDA_ERROR$"):
        runner.launch(wide_sum(), "rows", (1, 1), [1, 2, 3])


def test_why_there_is_no_driver(library, monkeypatch):
    monkeypatch.setattr(driver, "LIBRARY", "libno-such-driver.so.1")
    assert "no NVIDIA driver is installed (libno-such" in driver.find_driver.__wrapped__()
    library.stub_reset(12080, 3)
    library.stub_fail(b"cuInit", 100)
    monkeypatch.setattr(driver, "LIBRARY", library._name)
    assert "cannot be used (cuInit: CUDA_ERROR" in driver.find_driver.__wrapped__()
    library.stub_reset(12080, 3)
    assert driver.find_driver.__wrapped__().version == (12, 8)


def test_why_there_is_no_compiler(library, monkeypatch):
    library.stub_reset(12080, 3)
    monkeypatch.setattr(launch, "find_driver", lambda: driver.Driver(library))
    monkeypatch.setattr(launch, "find_nvrtc", lambda newest: None)
    launch._libraries.cache_clear()
    try:
        assert launch.why_unavailable().endswith("pip install nvidia-cuda-nvrtc-cu12")
        with pytest.raises(DGLError, match="kernels cannot be started on cuda:0: NVRTC"):
            launch.StreamRunner(0, 0, GPU)
    finally:
        launch._libraries.cache_clear()


def test_words_are_64_bits_each():
    assert packed([2**63, 1, -1]).tolist() == [-(2**63), 1, -1]
    assert np.frombuffer(packed([0.1, 2.5]), np.float64).tolist() == [0.1, 2.5]
