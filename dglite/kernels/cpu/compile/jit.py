"""From kernel source to a callable address, compiled once per machine.

Rendered source is written to the cache folder, to be read there, and its machine code is kept beside it, under a digest
of the source, of the modules it is compiled with and of the CPU: a change in one compiles afresh.
"""

from __future__ import annotations

import hashlib
import importlib.abc
import importlib.util
import logging
import re
import sys
import time
import warnings
from functools import cache
from types import ModuleType
from typing import Any

import llvmlite

from ....config import compiler, debug_level
from ....errors import DGLWarning
from ... import store
from ..lanes import philox, simd, tiles
from ..lanes.target import has_avx512, triple
from . import by_numba, entry, machine, translate
from .cached import compile_lock
from .notice import noticed
from .stamp import module_stamp, stamp

_logger = logging.getLogger("dglite")
_addresses: dict[str, dict[str, int]] = {}
_modules: dict[str, ModuleType] = {}
_refused: list[str] = []
_COMPILED_WITH = b"".join(module_stamp(part.__name__) for part in (translate, entry, machine, simd, philox, tiles))
"""What rendered kernels are compiled by, and what they import, as it was loaded."""


@cache
def block_lanes(dtype: str) -> int:
    """Return how many values one register block holds: half of the machine's vector registers, as accumulators."""
    block_bytes = 512 if has_avx512() else 256
    return block_bytes // (8 if dtype == "float64" else 4)


def compile_kernel(kind: str, source: str) -> int:
    """Return the address of ``kernel`` in ``source``, compiling it when it is not in the cache."""
    return compile_kernels(kind, source)["kernel"]


def compile_kernels(kind: str, source: str) -> dict[str, int]:
    """Return the address of every function in ``source`` whose name has no leading underscore, compiling them when
    they are not in the cache."""
    name = _name(kind, source)
    with compile_lock:
        if name not in _addresses:
            _show(source)
            functions = re.findall(r"^def ([a-z]\w*)\(", source, re.MULTILINE)
            _addresses[name] = compiled_addresses(name, source, functions)
        return _addresses[name]


def _name(kind: str, source: str) -> str:
    """Return a name that no other source has."""
    return f"{kind}_{hashlib.sha256(source.encode()).hexdigest()[:16]}"


def compiled_addresses(name: str, source: str, functions: list[str]) -> dict[str, int]:
    """Return the addresses of ``functions``, compiled by LLVM directly, or by Numba where asked for or needed."""
    choice = compiler()
    if choice != "numba":
        try:
            code = _code(name, source)
            return dict(zip(functions, machine.load(code, [f"{name}.{each}" for each in functions]), strict=True))
        except Exception as error:  # whatever another LLVM refuses, and however: Numba knows its own
            if choice == "llvm":
                raise
            _tell(error)
    name = f"{name}_numba"
    with noticed():
        return by_numba.compile_functions(_import(name, by_numba.rewritten(source)), functions)


def _tell(error: Exception) -> None:
    """Warn, the first time, that kernels are compiled by Numba."""
    if not _refused:
        warnings.warn(
            f"a kernel could not be translated ({type(error).__name__}: {error}) by llvmlite "
            f"{llvmlite.__version__}; Numba compiles such kernels, which takes five times as long",
            DGLWarning,
            stacklevel=2,
        )
        _refused.append(str(error))


def compile_entry(kind: str, source: str, kinds: tuple, way: str) -> int | None:
    """Return the address of what calls the last function in ``source`` with arguments of some kinds, for ``way`` see
    :mod:`.entry`; None where Numba is to compile it."""
    if compiler() == "numba" or not entry.can_read_arrays():
        return None
    source = f"{source}\n# For {way}: {kinds}\n"
    name = _name(kind, source)

    def finish(module: Any, function: Any) -> None:
        entry.WAYS[way](module, f"{name}.entry", function.callee(list(map(entry.type_of, kinds)), True))

    with compile_lock:
        if name not in _addresses:
            _show(source)
            try:
                code = _code(name, source, finish)
                _addresses[name] = dict(zip(["entry"], machine.load(code, [f"{name}.entry"]), strict=True))
            except Exception as error:  # as above
                if compiler() == "llvm":
                    raise
                _tell(error)
                return None
        return _addresses[name]["entry"]


def numba_entry(name: str, source: str) -> Any:
    """Return the last function in ``source``, as Numba compiles it where it is called."""
    return getattr(_import(f"{_name(name, source)}_numba", by_numba.rewritten(source, ())), name)


def numba_address(name: str, source: str) -> int:
    """Return the address of the last function in ``source``, of integers, as Numba compiles it."""
    module = _import(f"{_name(name, source)}_numba_address", by_numba.rewritten(source, (name,)))
    return by_numba.compile_functions(module, [name])[name]


def numba_tasks(name: str, source: str, arguments: tuple) -> int:
    """Return the address of what calls the last function in ``source`` for the rows of a task, by Numba."""
    module = numba_entry(name, source).py_func.__module__
    return int(load_source("rows", by_numba.tasks_source(module, name, arguments)).kernel.address)


def _code(name: str, source: str, finish: Any = None) -> bytes:
    """Return the object code of ``source``, from the cache or into it."""
    key = hashlib.sha256(_COMPILED_WITH + stamp(source) + name.encode()).digest()
    file = store.file_name(name, key, ".o")
    code = store.read("kernels", file, key)
    if code is None:
        store.write_text("kernels", f"{name}.py", source)
        start = time.perf_counter()
        with noticed():
            code = machine.assemble(translate.translate(source, f"{name}.", triple(), machine.data_layout(), finish))
        _logger.debug("compiled %s in %.2f s", name, time.perf_counter() - start)
        store.write("kernels", file, key, code)
    return code


def load_source(kind: str, source: str) -> ModuleType:
    """Import ``source``, which calls functions that Numba compiles, as a module."""
    name = _name(kind, source)
    with compile_lock:
        module = _modules.get(name)
        if module is None:
            _show(source)
            module = _modules[name] = _import(name, source)
    return module


def _show(source: str) -> None:
    if debug_level() >= 2:
        print(source, file=sys.stderr)


class _Rendered(importlib.abc.ExecutionLoader):
    """Loads source that need not lie in a file; Python's tracebacks and :mod:`.stamp` ask for it."""

    def __init__(self, source: str, path: str) -> None:
        self._source, self._path = source, path

    def get_source(self, fullname: str) -> str:
        return self._source

    def get_filename(self, fullname: str) -> str:
        return self._path


def _import(name: str, source: str) -> ModuleType:
    path = store.write_text("kernels", f"{name}.py", source) or f"{name}.py"
    spec: Any = importlib.util.spec_from_loader(f"dglite_kernel_{name}", _Rendered(source, str(path)))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
