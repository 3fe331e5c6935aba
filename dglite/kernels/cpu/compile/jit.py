"""From kernel source to a callable address, compiled once per machine.

Rendered source is written to the cache folder, to be read there, and its machine code is kept beside it, under a digest
of the source, of the modules it is compiled with and of the CPU: a change in one compiles afresh.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
import threading
import time
from functools import cache
from typing import Any

import llvmlite
from llvmlite.binding import ffi

from ....config import debug_level
from ... import store
from ..lanes import philox, simd, tiles
from ..lanes.target import has_avx512, triple
from . import entry, machine, translate
from .notice import noticed
from .stamp import module_stamp, stamp

_logger = logging.getLogger("dglite")
_addresses: dict[str, dict[str, int]] = {}
compile_lock = threading.RLock()
"""Held while kernels are compiled; taken before LLVM's own lock."""
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
    """Return the addresses of ``functions``, from the cache or compiled into it."""
    return dict(
        zip(functions, machine.load(_code(name, source), [f"{name}.{each}" for each in functions]), strict=True)
    )


def compile_entry(kind: str, source: str, kinds: tuple, way: str) -> int:
    """Return the address of what calls the last function in ``source`` with arguments of some kinds, for ``way`` see
    :mod:`.entry`."""
    source = f"{source}\n# For {way}: {kinds}\n"
    name = _name(kind, source)

    def finish(module: Any, function: Any) -> None:
        entry.WAYS[way](module, f"{name}.entry", function.callee(list(map(entry.type_of, kinds)), True))

    with compile_lock:
        if name not in _addresses:
            _show(source)
            _addresses[name] = {"entry": machine.load(_code(name, source, finish), [f"{name}.entry"])[0]}
        return _addresses[name]["entry"]


def _code(name: str, source: str, finish: Any = None) -> bytes:
    """Return the object code of ``source``, from the cache or into it."""
    key = hashlib.sha256(_COMPILED_WITH + stamp(source) + name.encode()).digest()
    file = store.file_name(name, key, ".o")
    code = store.read("kernels", file, key)
    if code is None:
        store.write_text("kernels", f"{name}.py", source)
        start = time.perf_counter()
        with noticed():
            assembly = translate.translate(source, f"{name}.", triple(), machine.data_layout(), finish)
            try:
                code = machine.assemble(assembly)
            except RuntimeError as error:
                error.add_note(f"llvmlite {llvmlite.__version__} refused what dglite wrote for it; another may take it")
                raise
        _logger.debug("compiled %s in %.2f s", name, time.perf_counter() - start)
        store.write("kernels", file, key, code)
    return code


def _show(source: str) -> None:
    if debug_level() >= 2:
        print(source, file=sys.stderr)


def _hold() -> None:
    for lock in _LOCKS:
        lock.__enter__()


def _release() -> None:
    for lock in reversed(_LOCKS):
        lock.__exit__(None, None, None)


# A fork waits until no other thread compiles: the child has no such thread, and would wait for its locks forever.
_LOCKS = (compile_lock, ffi.lib._lock)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_release)
