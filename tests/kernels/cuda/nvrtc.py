"""NVRTC by ctypes, with the functions of ``cupy.cuda.nvrtc``: it needs neither a GPU nor CuPy."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import shutil
from functools import cache
from pathlib import Path

__all__ = ["NVRTCError", "Nvrtc", "find"]


class NVRTCError(RuntimeError):
    """A call that NVRTC answered with an error."""


@cache
def find() -> Nvrtc | None:
    """Return the NVRTC of the ``nvidia-cuda-nvrtc`` package, or of a toolkit on this machine."""
    for path in _candidates():
        try:
            return Nvrtc(ctypes.CDLL(str(path)))
        except OSError:
            continue
    return None


def _candidates() -> list[Path | str]:
    found: list[Path | str] = []
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations if spec and spec.submodule_search_locations else ():
        found += sorted(Path(folder).glob("*/lib/libnvrtc.so.1[0-9]"))
    nvcc = shutil.which("nvcc")
    if nvcc:
        found += sorted(Path(nvcc).resolve().parents[1].glob("**/libnvrtc.so"))
    library = ctypes.util.find_library("nvrtc")
    return [*found, library] if library else found


class Nvrtc:
    """The functions of ``cupy.cuda.nvrtc`` that dglite calls."""

    NVRTCError = NVRTCError

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise NVRTCError(f"{name} gave {status}")

    def getVersion(self) -> tuple[int, int]:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    def getSupportedArchs(self) -> list[int]:
        count = ctypes.c_int()
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        found = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", found)
        return list(found)

    def createProgram(self, text: str, name: str, headers: list, names: list) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        source, title = text.encode(), name.encode()
        self._call("nvrtcCreateProgram", ctypes.byref(made), source, title, 0, None, None)
        return made

    def compileProgram(self, made: ctypes.c_void_p, options: list[str]) -> None:
        given = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        self._call("nvrtcCompileProgram", made, len(options), given)

    def getCUBIN(self, made: ctypes.c_void_p) -> bytes:
        return self._read(made, "nvrtcGetCUBIN")

    def getPTX(self, made: ctypes.c_void_p) -> str:
        return self._read(made, "nvrtcGetPTX").rstrip(b"\0").decode()

    def getProgramLog(self, made: ctypes.c_void_p) -> str:
        return self._read(made, "nvrtcGetProgramLog").rstrip(b"\0").decode()

    def _read(self, made: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"{what}Size", made, ctypes.byref(size))
        content = ctypes.create_string_buffer(size.value)
        self._call(what, made, content)
        return content.raw

    def destroyProgram(self, made: ctypes.c_void_p) -> None:
        self._call("nvrtcDestroyProgram", ctypes.byref(made))
