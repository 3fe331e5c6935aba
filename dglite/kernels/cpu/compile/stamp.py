"""A hash of what compiled code depends on: source, imported modules of dglite, the compilers, the CPU."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import resolve_name
from typing import Any

import llvmlite
import numpy as np

from ..lanes.target import cpu

_PACKAGE = __name__.partition(".")[0]
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|.*)|import[ \t]+(.*))$", re.MULTILINE)


def stamp(source: str) -> bytes:
    """Return the digest of source that is not a module; what it imports of dglite is imported here."""
    for base, names in _imports(source):
        if _ours(base):
            __import__(base, fromlist=names)
    return _digest([source.encode()], _modules(source, ""))


def module_stamp(module: str) -> bytes:
    """Return the digest of a module and of all modules of dglite that it imports, directly or not.

    Text is read once in a process, when code of the module is about to be defined: what changes on disk while it runs
    is not taken for what it runs. What uses a module that was loaded again has a digest like no other.
    """
    return _digest([], [module])


def _digest(parts: list[bytes], modules: list[str]) -> bytes:
    digests: dict[str, bytes] = {}
    todo = list(modules)
    while todo:
        module = todo.pop()
        if module not in digests:
            spec, digests[module], imported = _read(module)
            if sys.modules[module].__spec__ is not spec:
                digests[module] = os.urandom(32)
            todo += imported
    parts = [*_versions(), *parts, *(part for module in sorted(digests) for part in (module.encode(), digests[module]))]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()


@cache
def _versions() -> list[bytes]:
    """Return what compiles, and for which CPU."""
    libraries = (llvmlite.__version__, np.__version__)
    return [version.encode() for version in (*libraries, platform.python_version(), *cpu())]


@cache
def _read(module: str) -> tuple[Any, bytes, list[str]]:
    """Return how a module was loaded, the digest of its text, and the modules of dglite that it imports."""
    spec: Any = sys.modules[module].__spec__
    text = spec.loader.get_source(module)
    if text is None:
        # Installed without source: no other process is known to have the same.
        return spec, os.urandom(32), []
    return spec, hashlib.sha256(text.encode()).digest(), _modules(text, spec.parent)


def _modules(text: str, package: str) -> list[str]:
    """Return the modules of dglite that text imports, by statements anywhere in it, of those that are loaded."""
    imported = []
    for base, names in _imports(text):
        base = resolve_name(base, package) if package else base
        if _ours(base):
            parts = [f"{base}.{name}" for name in names]
            loaded = [part for part in parts if part in sys.modules]
            # A package of which only modules are imported adds nothing itself.
            imported += loaded if parts and len(loaded) == len(parts) else [*loaded, base]
    return [module for module in imported if module in sys.modules]


def _imports(text: str) -> Iterator[tuple[str, list[str]]]:
    for base, names, plain in _IMPORT.findall(text):
        if base:
            yield base, re.findall(r"(\w+)(?:\s+as\s+\w+)?", re.sub(r"#.*", "", names))
        for name in re.findall(r"([.\w]+)(?:\s+as\s+\w+)?", re.sub(r"#.*", "", plain)):
            yield name, []


def _ours(module: str) -> bool:
    return module.partition(".")[0] == _PACKAGE
