"""Kernels: arrays in, arrays out. They know no graphs and no frameworks.

``compiled(name)`` imports a module of compiled kernels when it is first needed, so that ``import dglite`` loads no
compiler.
"""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType

__all__ = ["compiled"]


@cache
def compiled(name: str) -> ModuleType:
    """Return ``dglite.kernels.cpu.<name>``."""
    return importlib.import_module(f".cpu.{name}", __name__)
