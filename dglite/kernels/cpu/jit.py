"""From kernel source to a callable address, compiled once per machine.

Rendered source is written to the cache folder and imported from there, so a debugger shows it and Numba keeps the
machine code beside it. The file's name is a digest of the source and of the modules it is compiled with: a change in
either compiles afresh.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
from llvmlite import binding

from ...config import cache_dir, debug_level
from . import driver, elementary, lanes, memory, philox, tiles, vec

__all__ = ["block_lanes", "compile_kernel", "load_source"]

_lock = threading.Lock()
_modules: dict[str, ModuleType] = {}


@cache
def block_lanes(dtype: str) -> int:
    """Return how many values one register block holds: half of the machine's vector registers, as accumulators."""
    features = binding.get_host_cpu_features()
    block_bytes = 512 if features.get("avx512f") else 256
    return block_bytes // (8 if dtype == "float64" else 4)


def compile_kernel(kind: str, source: str) -> int:
    """Return the address of ``kernel`` in ``source``, compiling it when it is not in the cache."""
    address: int = load_source(kind, source).kernel.address
    return address


def load_source(kind: str, source: str) -> ModuleType:
    """Import ``source`` as a module from the cache folder."""
    name = f"{kind}_{_digest(source)}"
    with _lock:
        module = _modules.get(name)
        if module is None:
            if debug_level() >= 2:
                print(source, file=sys.stderr)
            module = _modules[name] = _import(name, _write(name, source))
    return module


_TOOLCHAIN = (vec, memory, lanes, elementary, philox, tiles, driver)
"""The modules that rendered kernels are compiled with."""


@cache
def _toolchain() -> bytes:
    """Return what compiled code depends on besides its source."""
    parts = [Path(str(module.__file__)).read_bytes() for module in _TOOLCHAIN]
    return b"".join([*parts, numba.__version__.encode()])


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
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(source)
        os.replace(temporary, path)
    return path


def _import(name: str, path: Path) -> ModuleType:
    spec: Any = importlib.util.spec_from_file_location(f"dglite_kernel_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
