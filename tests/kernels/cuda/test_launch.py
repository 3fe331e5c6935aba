"""What a runner hands to the driver, with a stand-in for CuPy: no GPU is needed to see a wrong word."""

from __future__ import annotations

import ctypes
import struct
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from dglite.kernels.cuda.run import launch
from dglite.kernels.cuda.run.program import BLOCK, packed
from tests.kernels.cuda.emulated import GPU
from tests.kernels.cuda.programs import wide_sum


class Device(nullcontext):
    compute_capability, attributes = "90", {"MultiProcessorCount": 132}

    def __init__(self, number: int) -> None:
        super().__init__()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list:
    """Return the list of kernels that are launched: function, grid, stream, arguments."""
    started: list = []

    def launch_kernel(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra):
        pointers = (ctypes.c_int64 * 3).from_address(parameters)
        values = [ctypes.c_int64.from_address(pointer).value for pointer in pointers]
        started.append((function, (gx, gy, gz), (bx, by, bz), shared, stream, values))

    loaded: list = []

    def module():
        return SimpleNamespace(load=loaded.append, get_function=lambda name: SimpleNamespace(ptr=len(name)))

    def launch_together(*arguments):
        launch_kernel(*arguments, "together")

    def copy(to, source, size, kind, stream):
        started.append(("copied", to, ctypes.string_at(source, size), kind, stream))

    driver = SimpleNamespace(launchKernel=launch_kernel, launchCooperativeKernel=launch_together)
    runtime = SimpleNamespace(memcpyAsync=copy, memcpyHostToDevice=1)
    function = SimpleNamespace(Module=module)
    cuda = SimpleNamespace(Device=Device, driver=driver, runtime=runtime, nvrtc=None, function=function)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(launch, "binary", lambda nvrtc, program, arch: f"{program.prefix}_{arch}")
    started.append(loaded)
    return started


def test_arguments_reach_the_driver_as_they_are(calls):
    program = wide_sum()
    runner = launch.StreamRunner(0, 77, GPU)
    runner.launch(program, "rows", (3, 2), [-5, 2**64 - 1, 0.5])
    runner.launch(program, "rows", (0, 1), [1, 2, 3])
    runner.launch(program, "rows", (1, 1), [1, 2, 3])
    loaded, first, second = calls
    assert loaded == [f"{program.prefix}_90"]
    half = struct.unpack("q", struct.pack("d", 0.5))[0]
    assert first == (len(program.name("rows")), (3, 2, 1), (BLOCK, 1, 1), 0, 77, [-5, -1, half])
    assert second[-1] == [1, 2, 3]


def test_blocks_that_wait_for_each_other_are_started_together(calls):
    program, runner = wide_sum(), launch.StreamRunner(0, 77, GPU)
    assert runner.blocks == 132
    runner.launch_together(program, "rows", runner.blocks, [1, 2, 3])
    assert calls[1] == (len(program.name("rows")), (132, 1, 1), (BLOCK, 1, 1), 0, 77, [1, 2, 3])


def test_memory_is_written_on_the_stream(calls):
    launch.StreamRunner(0, 77, GPU).write(1234, np.array([1, 2], np.int16))
    assert calls[1] == ("copied", 1234, b"\1\0\2\0", 1, 77)


def test_words_are_64_bits_each():
    assert packed([2**63, 1, -1]).tolist() == [-(2**63), 1, -1]
    assert np.frombuffer(packed([0.1, 2.5]), np.float64).tolist() == [0.1, 2.5]
