"""Replaces itself by the alias in a process that was spawned by one with the alias; see ``dglite.compat.spawned``.

Where dglite cannot be imported, ``import dgl`` raises. A worker of ``multiprocessing`` must not fail so early: a pool
would replace it for ever. It goes on with modules that raise once a task uses them, so that the parent is told.
"""

from __future__ import annotations

import importlib
import multiprocessing
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

_INSTALLATION = str(Path(__file__).resolve().parents[4])


def _is_preparing() -> bool:
    """Whether this is a child of ``multiprocessing`` that still imports its parent's main module."""
    return getattr(multiprocessing.current_process(), "_inheriting", False)


class _Unusable(ModuleType):
    """Stands for ``dgl``, or anything in it. Main modules can be imported with it; calls after that raise."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name)
        self.__dict__["__path__"] = []
        self._why = why

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Unusable(f"{self.__name__}.{name}", self._why)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _is_preparing():
            return self
        raise ImportError(self._why)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()


class _UnusableFinder(MetaPathFinder, Loader):
    """Finds modules in ``dgl`` that cannot be used."""

    def __init__(self, why: str) -> None:
        self._why = why

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.startswith("dgl.") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Unusable(spec.name, self._why)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module is complete."""


def _make_way() -> None:
    """Put the alias in this module's place."""
    del sys.modules["dgl"]
    if find_spec("dglite") is None:
        sys.path.append(_INSTALLATION)
    try:
        from dglite.compat import install  # not above: the failure of this import is what is told

        install()
        importlib.import_module("dgl")  # the alias
    except Exception as error:
        why = (
            f"this process was started by one in which dgl is dglite, but {sys.executable} cannot import dglite "
            f"({type(error).__name__}: {error}); for a Python with a DGL of its own, unset PYTHONPATH"
        )
        if not _is_preparing():
            raise ImportError(why) from error
        print(why, file=sys.stderr)
        sys.meta_path.insert(0, _UnusableFinder(why))
        sys.modules["dgl"] = _Unusable("dgl", why)


if __name__ == "dgl":  # not where tools import every module of dglite
    _make_way()
