"""Kernels: arrays in, arrays out. They know no graphs and no frameworks.

``compiled(name)`` imports a module of compiled kernels when it is first needed, so that ``import dglite`` loads no
compiler.
"""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType

from ..garbage import no_collection


@cache
def compiled(name: str, target: str = "cpu") -> ModuleType:
    """Return ``dglite.kernels.<target>.<name>``; the target is ``cpu`` or ``cuda``."""
    with no_collection():
        return importlib.import_module(f".{target}.{name}", __name__)
