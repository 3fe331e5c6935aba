"""NVIDIA's run-time compiler, called through ``ctypes``: torch for CUDA brings the library, so nothing is installed.

Only the library is looked for in several places; whichever is taken, it is called in one way.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import final

from ....errors import DGLError

_PATTERN = "nvrtc64_*.dll" if sys.platform == "win32" else "libnvrtc*.so*"
_BELOW = ("lib", "*/lib", "*/bin")
_NAME = re.compile(r"(?:nvrtc64_|libnvrtc(?:-\w+)?\.so\.)(?P<major>\d\d)[^/\\]*$")
"""A library's file name, with the major version; variants like ``libnvrtc.alt.so.13`` have other names."""


@final
class Nvrtc:
    """One NVRTC library."""

    def __init__(self, path: str) -> None:
        self.path, self._library = path, ctypes.CDLL(path)

    @cached_property
    def version(self) -> tuple[int, int]:
        """The CUDA version that it belongs to."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    @cached_property
    def architectures(self) -> tuple[int, ...]:
        """The compute capabilities that it compiles for; 90 is 9.0."""
        count = ctypes.c_int()
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        numbers = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", numbers)
        return tuple(numbers)

    def compile(self, text: str, name: str, options: Sequence[str], real: bool) -> bytes:
        """Return machine code, or PTX unless ``real``. ``DGLError`` has the compiler's log."""
        return self.compile_with_log(text, name, options, real)[0]

    def compile_with_log(self, text: str, name: str, options: Sequence[str], real: bool) -> tuple[bytes, str]:
        """Return the code and the compiler's log, which ``--ptxas-options=-v`` adds each kernel's registers to."""
        unit = ctypes.c_void_p()
        self._call("nvrtcCreateProgram", ctypes.byref(unit), text.encode(), name.encode(), 0, None, None)
        try:
            encoded = [option.encode() for option in options]
            words = (ctypes.c_char_p * len(encoded))(*encoded)
            status = self._library.nvrtcCompileProgram(unit, len(encoded), words)
            log = self._read(unit, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            if status:
                raise DGLError(f"NVRTC does not take {name}: {self._error(status)} ({self})\n{log}")
            return self._read(unit, "CUBIN" if real else "PTX"), log
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(unit))

    def _read(self, unit: ctypes.c_void_p, result: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{result}Size", unit, ctypes.byref(size))
        content = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{result}", unit, content)
        return content.raw

    def _call(self, function: str, *arguments: object) -> None:
        status = getattr(self._library, function)(*arguments)
        if status:
            raise DGLError(f"{function}: {self._error(status)} ({self})")

    def _error(self, status: int) -> str:
        describe = self._library.nvrtcGetErrorString
        describe.restype = ctypes.c_char_p
        return (describe(status) or b"").decode() or f"error {status}"

    def __str__(self) -> str:
        return f"NVRTC {'.'.join(map(str, self.version))}, {self.path}"


def find_nvrtc(newest: int) -> Nvrtc | None:
    """Return the NVRTC to compile with, or None.

    That is the first of: the one that this process has loaded, those of torch and of the ``nvidia`` packages, newest
    first, those that ``cuda.pathfinder`` and the system find, CuPy's. One of a CUDA version above ``newest``, the
    driver's, is taken only if there is no other: the driver may refuse its code.
    """
    too_new = None
    for path in _candidates():
        with suppress(OSError, DGLError):
            compiler = Nvrtc(path)
            if compiler.version[0] <= newest:
                return compiler
            too_new = too_new or compiler
    return too_new


def _newest_first(paths: Iterable[str]) -> list[str]:
    """Return those paths that are NVRTC's, the newest major version first."""
    versions = {path: int(match["major"]) for path in paths if (match := _NAME.search(path)) and "builtins" not in path}
    return sorted(versions, key=lambda path: (-versions[path], path))


def _candidates() -> Iterator[str]:
    """Give paths and names of libraries. What is imported to find one is imported when those before it were no good."""
    for source in SOURCES:
        yield from source()


def _loaded() -> list[str]:
    """Return the libraries that this process has loaded already: torch loads one when it first compiles."""
    with suppress(OSError):  # there is no such file but in Linux
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
        return _newest_first({line.split(maxsplit=5)[-1] for line in lines if "nvrtc" in line})
    return []


def _packaged() -> list[str]:
    """Return the libraries in torch's folder and in the folders of the ``nvidia`` packages, newest first."""
    torch, nvidia = importlib.util.find_spec("torch"), importlib.util.find_spec("nvidia")
    folders = [Path(torch.origin).parent] if torch is not None and torch.origin else []
    folders += [Path(folder) for folder in (nvidia and nvidia.submodule_search_locations) or ()]
    return _newest_first({str(path) for at in folders for below in _BELOW for path in at.glob(f"{below}/{_PATTERN}")})


def _by_pathfinder() -> list[str]:
    """Return the library that NVIDIA's own Python packages use: it comes with ``cuda.core``."""
    with suppress(ImportError, RuntimeError):
        pathfinder = importlib.import_module("cuda.pathfinder")
        return [pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path]
    return []


def _of_system() -> list[str]:
    """Return the library of a CUDA toolkit: of ``CUDA_HOME``, else the one that the system's loader finds."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    paths = _newest_first({str(path) for path in Path(home).glob(f"*/{_PATTERN}")}) if home else []
    library = ctypes.util.find_library("nvrtc")
    return [*paths, library] if library else paths


def _of_cupy() -> list[str]:
    """Return the library that CuPy loads."""
    with suppress(ImportError, RuntimeError):
        importlib.import_module("cupy.cuda").nvrtc.getVersion()
    return _loaded()


SOURCES: tuple[Callable[[], list[str]], ...] = (_loaded, _packaged, _by_pathfinder, _of_system, _of_cupy)
"""Where libraries are looked for, in this order."""
