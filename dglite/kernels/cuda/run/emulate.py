"""Runs GPU kernels on the CPU by compiling their source with g++, for tests and for debugging.

Nothing is fast here. Blocks run one after the other, or all at once where they wait for each other; threads are fibers
(``emulation.h``). A load that is not aligned, an exchange that a lane misses, a barrier that is never reached raises.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, final

import numpy as np

from ....errors import DGLError
from ... import store
from .program import BLOCK, SOURCE, CudaProgram, library, packed

_FLAGS = ("-std=c++17", "-O1", "-fPIC", "-w", "-U_FORTIFY_SOURCE")


def available() -> bool:
    """Whether there is a compiler to emulate with."""
    return shutil.which(_compiler()) is not None


def _compiler() -> str:
    return os.environ.get("CXX", "g++")


@dataclass(eq=False)
class HostMemory:
    """Memory that stands for the device's."""

    array: np.ndarray

    @property
    def address(self) -> int:
        """Address of the first byte."""
        return int(self.array.ctypes.data)


@final
class Emulator:
    """A runner without a GPU: addresses are the host's.

    ``blocks`` are what it says fit at once. Each goes as far as it can before the next one does; threads take turns.
    That goes from the first on, or ``backwards``; a result that depends on it comes from a barrier that is missing.
    """

    def __init__(self, blocks: int = 2, backwards: bool = False) -> None:
        self.blocks, self.backwards = blocks, backwards
        self._functions: dict[str, Any] = {}

    def prepare(self, programs: Iterable[CudaProgram]) -> None:
        """Compile programs that will be launched, all at once: each compilation costs more than many kernels do."""
        missing = {
            program.prefix: program for program in programs if program.name(program.kernels[0]) not in self._functions
        }
        if not missing:
            return
        library_path = _compile([missing[prefix] for prefix in sorted(missing)])
        loaded = ctypes.CDLL(str(library_path))
        for program in missing.values():
            for kernel in program.kernels:
                function = getattr(loaded, f"emulate_{program.name(kernel)}")
                function.restype = ctypes.c_char_p
                function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
                self._functions[program.name(kernel)] = function

    def launch(self, program: CudaProgram, kernel: str, grid: tuple[int, int], words: Sequence[int | float]) -> None:
        """Run the kernel to its end. :class:`DGLError` tells what would have gone wrong on a GPU."""
        if grid[0] * grid[1]:
            self._run(program, kernel, (*grid, BLOCK, 0, self.backwards), words)

    def bind(self, program: CudaProgram, kernel: str, grid: tuple[int, int], count: int) -> Callable[[array], None]:
        """Return what runs the kernel to its end."""
        return lambda arguments: self.launch(program, kernel, grid, arguments)

    def launch_together(self, program: CudaProgram, kernel: str, blocks: int, words: Sequence[int | float]) -> None:
        """Run a kernel whose blocks wait for each other to its end."""
        self._run(program, kernel, (blocks, 1, BLOCK, 1, self.backwards), words)

    def _run(self, program: CudaProgram, kernel: str, shape: Sequence[int], words: Sequence[int | float]) -> None:
        self.prepare([program])
        arguments, sizes = packed(words), array("q", shape)
        wrong = self._functions[program.name(kernel)](
            sizes.buffer_info()[0], arguments.buffer_info()[0], len(arguments)
        )
        if wrong:
            raise DGLError(f"{program.name(kernel)}: {wrong.decode()}")

    def empty(self, num_bytes: int) -> HostMemory:
        """Return memory full of NaN: what is read before it is written shows."""
        return HostMemory(np.full(num_bytes, 0xFF, np.uint8))

    def upload(self, array: np.ndarray) -> HostMemory:
        """Return a copy."""
        return HostMemory(np.array(array, order="C"))

    def write(self, address: int, array: np.ndarray) -> None:
        """Copy an array to an address."""
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def download(self, address: int, count: int, dtype: str) -> np.ndarray:
        """Return a copy of ``count`` values."""
        size = count * np.dtype(dtype).itemsize
        return np.frombuffer(ctypes.string_at(address, size), dtype).copy()


def _compile(programs: list[CudaProgram]) -> Path:
    """Return the shared library with all programs, from the cache where it is."""
    parts = tuple(dict.fromkeys(part for program in programs for part in program.parts))
    exports = [
        f"DG_EMULATE({program.prefix}, {program.name(kernel)})\n" for program in programs for kernel in program.kernels
    ]
    header = _header()
    text = "".join([f'#include "{header.name}"\n', library(parts), *[program.body for program in programs], *exports])
    path = _folder() / f"{_digest(header.parent.name + text)}.so"
    if path.is_file():
        store.used(path)
    else:
        _run_compiler(text, path, ["-shared", f"-I{header.parent}"], "kernels.cpp")
    return path


def _header() -> Path:
    """Return the emulation's header, compiled ahead: most of the time would go into what it includes."""
    text = (SOURCE / "emulation.h").read_text(encoding="utf-8")
    folder = _folder() / f"header_{_digest(text + _compiler_version())}"
    header, compiled = folder / "emulation.h", folder / "emulation.h.gch"
    if compiled.is_file() and header.is_file():
        store.used(compiled)
    else:
        folder.mkdir(exist_ok=True)
        header.write_text(text, encoding="utf-8")
        _run_compiler(text, compiled, ["-x", "c++-header"], "emulation.h")
    return header


@cache
def _compiler_version() -> str:
    """Return what compiles, and how."""
    command = [_compiler(), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "\n".join([*command, done.stdout, platform.machine(), *_FLAGS])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _folder() -> Path:
    return store.folder("emulated") or _temporary_folder()


@cache
def _temporary_folder() -> Path:
    """Return a folder that is removed when the process that made it ends."""
    folder, owner = tempfile.mkdtemp(prefix="dglite-emulated-"), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return Path(folder)


def _run_compiler(text: str, path: Path, options: list[str], name: str) -> None:
    """Compile ``text``, in a file called ``name``, to ``path``, which appears when it is complete."""
    with tempfile.TemporaryDirectory(dir=_folder()) as work:
        source, result = Path(work) / name, Path(work) / "result"
        source.write_text(text, encoding="utf-8")
        command = [_compiler(), *_FLAGS, *options, str(source), "-o", str(result)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DGLError(f"{_compiler()} does not take the rendered kernels:\n{done.stderr[:4000]}")
        os.replace(result, path)
    store.trim("emulated", path.stat().st_size)
