"""From kernel source to a callable address, compiled once per machine.

Rendered source is written to the cache folder, to be read there, and its machine code is kept beside it. The files'
name is a digest of the source, of the modules it is compiled with and of the processor: a change in one compiles
afresh.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite
import numba
from llvmlite import binding

from ...config import cache_dir, debug_level
from . import elementary, lanes, machine, memory, philox, tiles, translate, translate_values, vec

__all__ = ["block_lanes", "compile_kernel", "compile_kernels", "load_source"]

_lock = threading.Lock()
_addresses: dict[str, dict[str, int]] = {}
_modules: dict[str, ModuleType] = {}


@cache
def block_lanes(dtype: str) -> int:
    """Return how many values one register block holds: half of the machine's vector registers, as accumulators."""
    features = binding.get_host_cpu_features()
    block_bytes = 512 if features.get("avx512f") else 256
    return block_bytes // (8 if dtype == "float64" else 4)


def compile_kernel(kind: str, source: str) -> int:
    """Return the address of ``kernel`` in ``source``, compiling it when it is not in the cache."""
    return compile_kernels(kind, source)["kernel"]


def compile_kernels(kind: str, source: str) -> dict[str, int]:
    """Return the address of every function in ``source``, compiling them when they are not in the cache."""
    name = f"{kind}_{_digest(source)}"
    with _lock:
        if name not in _addresses:
            _show(source)
            functions = re.findall(r"^def (\w+)\(", source, re.MULTILINE)
            code = _code(name, source)
            found = machine.load(code, [f"{name}.{function}" for function in functions])
            _addresses[name] = dict(zip(functions, found, strict=True))
        return _addresses[name]


def _code(name: str, source: str) -> bytes:
    """Return the object code of ``source``, from the cache folder or into it; it lies there after its digest."""
    path = _folder() / f"{name}.o"
    if path.is_file():
        content = path.read_bytes()
        if hashlib.sha256(content[32:]).digest() == content[:32]:
            return content[32:]
    _write(name, source)
    code = machine.assemble(translate.translate(source, f"{name}.", machine.triple(), machine.data_layout()))
    _replace(path, hashlib.sha256(code).digest() + code)
    return code


def load_source(kind: str, source: str) -> ModuleType:
    """Import ``source``, which calls functions that Numba compiles, as a module from the cache folder."""
    name = f"{kind}_{_digest(source)}"
    with _lock:
        module = _modules.get(name)
        if module is None:
            _show(source)
            module = _modules[name] = _import(name, _write(name, source))
    return module


def _show(source: str) -> None:
    if debug_level() >= 2:
        print(source, file=sys.stderr)


_TOOLCHAIN = (vec, memory, lanes, elementary, philox, tiles, translate, translate_values, machine)
"""The modules that rendered kernels are compiled with."""


@cache
def _toolchain() -> bytes:
    """Return what compiled code depends on besides its source."""
    parts = [Path(str(module.__file__)).read_bytes() for module in _TOOLCHAIN]
    versions = (numba.__version__, llvmlite.__version__, *machine.processor())
    return b"".join([*parts, *(version.encode() for version in versions)])


def _digest(source: str) -> str:
    return hashlib.sha256(source.encode() + _toolchain()).hexdigest()[:20]


@cache
def _folder() -> Path:
    folder = cache_dir() / "kernels"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix="dglite-kernels-"))
    return Path(tempfile.mkdtemp(prefix="dglite-kernels-"))


def _write(name: str, source: str) -> Path:
    path = _folder() / f"{name}.py"
    if not path.is_file() or path.read_text(encoding="utf-8") != source:
        _replace(path, source.encode())
    return path


def _replace(path: Path, content: bytes) -> None:
    """Write a file as one step, for other processes that look for it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.replace(temporary, path)


def _import(name: str, path: Path) -> ModuleType:
    spec: Any = importlib.util.spec_from_file_location(f"dglite_kernel_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
