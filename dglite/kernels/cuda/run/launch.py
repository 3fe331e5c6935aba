"""Compiles programs with NVRTC, caches the binaries on disk, and launches kernels through CuPy.

CuPy is imported when the first tensor on a GPU comes. Tensors are given by their addresses, not by DLPack: see
docs/decisions/0043-gpu-kernels-take-tensor-addresses.md.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from array import array
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any, Protocol, final

import numpy as np

from ....config import debug_level
from ....errors import DGLError
from ... import store
from .program import BLOCK, CudaProgram, Memory, packed

__all__ = ["StreamRunner", "binary", "have_cupy"]

OPTIONS = ("-std=c++17", "-default-device", "-lineinfo")


class Allocator(Protocol):
    """Where a runner's memory comes from."""

    def empty(self, num_bytes: int) -> Memory:
        """Return uninitialised memory."""

    def upload(self, array: np.ndarray) -> Memory:
        """Return a copy of an array; it is there when this returns."""


@cache
def have_cupy() -> bool:
    """Whether CuPy is installed; it is not imported."""
    return importlib.util.find_spec("cupy") is not None


@final
class StreamRunner:
    """Starts kernels on one stream (its handle) of one device, the device's current context."""

    def __init__(self, device: int, stream: int, allocator: Allocator) -> None:
        import cupy

        self._cupy, self._allocator, self._stream = cupy, allocator, stream
        self._device = cupy.cuda.Device(device)
        self._arch = int(self._device.compute_capability)
        self._functions: dict[tuple[str, str], Any] = {}

    def launch(self, program: CudaProgram, kernel: str, grid: tuple[int, int], words: Sequence[int | float]) -> None:
        """Start ``kernel``; see :class:`~.program.Runner`."""
        if grid[0] * grid[1]:
            self._start(self._cupy.cuda.driver.launchKernel, program, kernel, grid, words, 0)

    @cached_property
    def blocks(self) -> int:
        """How many blocks run at once, if no more than one fits on a multiprocessor."""
        return int(self._device.attributes["MultiProcessorCount"])

    def launch_together(self, program: CudaProgram, kernel: str, blocks: int, words: Sequence[int | float]) -> None:
        """Start a kernel whose blocks wait for each other; the driver refuses more than can run at once."""
        self._start(self._cupy.cuda.driver.launchCooperativeKernel, program, kernel, (blocks, 1), words)

    def _start(
        self,
        start: Any,
        program: CudaProgram,
        kernel: str,
        grid: tuple[int, int],
        words: Sequence[int | float],
        *more: int,
    ) -> None:
        arguments = packed(words)
        first = arguments.buffer_info()[0]
        pointers = array("q", range(first, first + 8 * len(arguments), 8))
        with self._device:
            function = self._functions.get((program.prefix, kernel))
            if function is None:
                function = self._functions[program.prefix, kernel] = self._loaded(program, kernel)
            # The driver copies the arguments before it returns.
            start(*(function.ptr, *grid, 1, BLOCK, 1, 1, 0, self._stream, pointers.buffer_info()[0], *more))

    def _loaded(self, program: CudaProgram, kernel: str) -> Any:
        # From memory: a file could be another one by the time that the driver reads it.
        module = self._cupy.cuda.function.Module()
        module.load(binary(self._cupy.cuda.nvrtc, program, self._arch))
        return module.get_function(program.name(kernel))

    def write(self, address: int, array: np.ndarray) -> None:
        """Copy an array to the device when what was started before has run."""
        runtime = self._cupy.cuda.runtime
        with self._device:
            to_device = runtime.memcpyHostToDevice
            runtime.memcpyAsync(address, array.ctypes.data, array.nbytes, to_device, self._stream)

    def empty(self, num_bytes: int) -> Memory:
        """Return uninitialised memory."""
        return self._allocator.empty(num_bytes)

    def upload(self, array: np.ndarray) -> Memory:
        """Return a copy of ``array`` on the device."""
        return self._allocator.upload(array)

    def download(self, address: int, count: int, dtype: str) -> np.ndarray:
        """Return a copy of ``count`` values, when all that was started on the stream has run."""
        result = np.empty(count, dtype)
        runtime = self._cupy.cuda.runtime
        with self._device:
            to_host = runtime.memcpyDeviceToHost
            runtime.memcpyAsync(result.ctypes.data, address, result.nbytes, to_host, self._stream)
            runtime.streamSynchronize(self._stream)
        return result


def binary(nvrtc: Any, program: CudaProgram, arch: int) -> bytes:
    """Return the machine code of ``program`` for compute capability ``arch`` (90 for 9.0).

    Compiled when it is not in the cache. For a GPU newer than the compiler it is PTX, which the driver translates.
    """
    supported = [number for number in nvrtc.getSupportedArchs() if number <= arch]
    if not supported:
        raise DGLError(f"this NVRTC has no support for compute capability {arch / 10}; use a newer GPU or older CuPy")
    real = max(supported) == arch
    options = (*OPTIONS, f"-arch={'sm' if real else 'compute'}_{max(supported)}")
    key = hashlib.sha256("\n".join([program.text, *options, str(nvrtc.getVersion())]).encode()).digest()
    name = store.file_name(program.prefix, key, ".cubin" if real else ".ptx")
    code = store.read("cuda", name, key)
    if code is None:
        if debug_level() >= 2:
            print(program.body, file=sys.stderr)
        code = _compiled(nvrtc, program, options, real)
        store.write("cuda", name, key, code)
    return code


def _compiled(nvrtc: Any, program: CudaProgram, options: Sequence[str], real: bool) -> bytes:
    unit = nvrtc.createProgram(program.text, f"{program.prefix}.cu", [], [])
    try:
        nvrtc.compileProgram(unit, list(options))
        result = nvrtc.getCUBIN(unit) if real else nvrtc.getPTX(unit)
        return result if isinstance(result, bytes) else str(result).encode()
    except nvrtc.NVRTCError as error:
        raise DGLError(f"NVRTC does not take {program.prefix}: {error}\n{nvrtc.getProgramLog(unit)}") from error
    finally:
        nvrtc.destroyProgram(unit)
