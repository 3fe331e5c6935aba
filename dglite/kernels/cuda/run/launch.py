"""Compiles programs, caches the binaries on disk, and starts kernels on a stream of the tensor library.

The compiler and the driver are NVIDIA's libraries, called through ``ctypes``: see
docs/decisions/0253-gpu-kernels-need-torch-alone.md. Tensors are given by their addresses, not by DLPack: see
docs/decisions/0043-gpu-kernels-take-tensor-addresses.md.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from typing import Protocol, final

import numpy as np

from ....config import debug_level
from ....errors import DGLError
from ... import store
from .driver import CudaDevice, Driver, find_driver
from .nvrtc import Nvrtc, find_nvrtc
from .program import CudaProgram, Memory, packed

OPTIONS = ("-std=c++17", "-default-device", "-lineinfo")


class Allocator(Protocol):
    """Where a runner's memory comes from."""

    def empty(self, num_bytes: int) -> Memory:
        """Return uninitialised memory."""

    def upload(self, array: np.ndarray) -> Memory:
        """Return a copy of an array; it is there when this returns."""


class Compiler(Protocol):
    """What :func:`binary` needs of :class:`~.nvrtc.Nvrtc`."""

    @property
    def version(self) -> tuple[int, int]:
        """The CUDA version that it belongs to."""

    @property
    def architectures(self) -> Sequence[int]:
        """The compute capabilities that it compiles for."""

    def compile(self, text: str, name: str, options: Sequence[str], real: bool) -> bytes:
        """Return machine code, or PTX unless ``real``."""


@cache
def _libraries() -> tuple[Driver, Nvrtc] | str:
    """Return the driver and the compiler, looked for once, or what is missing."""
    driver = find_driver()
    if isinstance(driver, str):
        return driver
    compiler = find_nvrtc(driver.version[0])
    if compiler is None:
        return f"NVRTC, which torch for CUDA brings, is not there: pip install nvidia-cuda-nvrtc-cu{driver.version[0]}"
    return driver, compiler


def why_unavailable() -> str:
    """Return why no kernel can be compiled or started on a GPU here; nothing where they can."""
    libraries = _libraries()
    return libraries if isinstance(libraries, str) else ""


@cache
def _device(driver: Driver, number: int) -> CudaDevice:
    return CudaDevice(driver, number)


@final
class StreamRunner:
    """Starts kernels on one stream (its handle) of one device."""

    def __init__(self, device: int, stream: int, allocator: Allocator) -> None:
        libraries = _libraries()
        if isinstance(libraries, str):
            raise DGLError(f"kernels cannot be started on cuda:{device}: {libraries}")
        driver, self._compiler = libraries
        self._device, self._allocator, self._stream = _device(driver, device), allocator, stream

    def launch(self, program: CudaProgram, kernel: str, grid: tuple[int, int], words: Sequence[int | float]) -> None:
        """Start ``kernel``; see :class:`~.program.Runner`."""
        arguments = packed(words)
        self.bind(program, kernel, grid, len(arguments))(arguments)

    def bind(self, program: CudaProgram, kernel: str, grid: tuple[int, int], count: int) -> Callable[[array], None]:
        """Return what starts ``kernel``; see :class:`~.program.Runner`."""
        if not grid[0] * grid[1]:
            return lambda arguments: None
        return self._device.bind(self._function(program, kernel), grid, self._stream, count)

    @property
    def blocks(self) -> int:
        """How many blocks run at once, if no more than one fits on a multiprocessor."""
        return self._device.multiprocessors

    def launch_together(self, program: CudaProgram, kernel: str, blocks: int, words: Sequence[int | float]) -> None:
        """Start a kernel whose blocks wait for each other; the driver refuses more than can run at once."""
        self._device.launch_together(self._function(program, kernel), blocks, self._stream, packed(words))

    def _function(self, program: CudaProgram, kernel: str) -> int:
        device, compiler, name = self._device, self._compiler, program.name(kernel)
        if name not in device.functions:
            names = [program.name(each) for each in program.kernels]
            device.load(names, lambda: binary(compiler, program, device.arch), compiler)
        return device.functions[name]

    def write(self, address: int, array: np.ndarray) -> None:
        """Copy an array to the device when what was started before has run."""
        self._device.copy_to_device(address, array.ctypes.data, array.nbytes, self._stream)

    def empty(self, num_bytes: int) -> Memory:
        """Return uninitialised memory."""
        return self._allocator.empty(num_bytes)

    def upload(self, array: np.ndarray) -> Memory:
        """Return a copy of ``array`` on the device."""
        return self._allocator.upload(array)

    def download(self, address: int, count: int, dtype: str) -> np.ndarray:
        """Return a copy of ``count`` values, when all that was started on the stream has run."""
        result = np.empty(count, dtype)
        self._device.copy_to_host(result.ctypes.data, address, result.nbytes, self._stream)
        return result


def binary(compiler: Compiler, program: CudaProgram, arch: int) -> bytes:
    """Return the machine code of ``program`` for compute capability ``arch`` (90 for 9.0).

    Compiled when it is not in the cache. For a GPU newer than the compiler it is PTX, which the driver translates.
    """
    supported = [number for number in compiler.architectures if number <= arch]
    if not supported:
        raise DGLError(
            f"{compiler} no longer compiles for GPUs of compute capability {arch / 10}, only from "
            f"{min(compiler.architectures) / 10} on: install a torch for an older CUDA version, or use a newer GPU"
        )
    real = max(supported) == arch
    options = (*OPTIONS, f"-arch={'sm' if real else 'compute'}_{max(supported)}")
    key = hashlib.sha256("\n".join([program.text, *options, str(compiler.version)]).encode()).digest()
    name = store.file_name(program.prefix, key, ".cubin" if real else ".ptx")
    code = store.read("cuda", name, key)
    if code is None:
        if debug_level() >= 2:
            print(program.body, file=sys.stderr)
        code = compiler.compile(program.text, f"{program.prefix}.cu", options, real)
        store.write("cuda", name, key, code)
    return code
