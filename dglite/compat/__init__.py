"""Run code written for DGL: under the alias ``import dgl`` imports dglite.

``install()`` makes ``dgl`` and its submodules importable; ``python -m dglite.compat script.py`` runs a script so. A
name that dglite lacks raises an error that says so where it is used, and what to use instead, not somewhere later.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ..graph import DGLGraph
from . import spawned
from .homes import homes
from .missing import explanation
from .pickled import read_state

__all__ = ["install", "uninstall"]

_ROOT = "dgl"
_NOTHING = object()


class _Alias(ModuleType):
    """A module of DGL that reads everything from its counterparts here."""

    def __init__(self, name: str, targets: Sequence[ModuleType]) -> None:
        super().__init__(name, targets[0].__doc__)
        self.__dict__["__path__"] = []
        self.__dict__["_targets"] = targets

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return self._listed()
        value = self._value(name)
        if value is not _NOTHING and not isinstance(value, ModuleType):
            return value
        if name.startswith("__"):
            raise AttributeError(name)
        try:  # before a module of others that a counterpart has imported: dgl.multiprocessing is not torch's
            return importlib.import_module(f"{self.__name__}.{name}")
        except ImportError as error:
            if value is not _NOTHING and not _is_ours(value):
                return value
            raise AttributeError(str(error)) from error

    def __setattr__(self, name: str, value: Any) -> None:
        # An import binds a submodule to its package. Some, such as dgl.batch, have a function's name, which stays.
        if not (isinstance(value, _Alias) and self._is_shadowed(name)):
            super().__setattr__(name, value)

    def _is_shadowed(self, name: str) -> bool:
        value = self._value(name)
        return value is not _NOTHING and not isinstance(value, ModuleType)

    def __dir__(self) -> list[str]:
        return sorted({name for target in self.__dict__["_targets"] for name in dir(target)})

    def _value(self, name: str) -> Any:
        """Return what the first counterpart that has a name calls so, else ``_NOTHING``."""
        for target in self.__dict__["_targets"]:
            value = getattr(target, name, _NOTHING)
            if value is not _NOTHING:
                return value
        return _NOTHING

    def _listed(self) -> list[str]:
        public = [getattr(target, "__all__", _public(target)) for target in self.__dict__["_targets"]]
        return list(dict.fromkeys(name for names in public for name in names))


def _is_ours(value: Any) -> bool:
    return isinstance(value, ModuleType) and value.__name__.partition(".")[0] == "dglite"


def _public(module: ModuleType) -> list[str]:
    """Return the names that a module without ``__all__`` defines, not those that it imports."""
    names = [name for name in vars(module) if not name.startswith("_")]
    return [name for name in names if _defining_module(vars(module)[name]) in (module.__name__, None)]


def _defining_module(value: Any) -> str | None:
    return value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)


class _Finder(MetaPathFinder, Loader):
    """Finds ``dgl`` and everything below it."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != _ROOT and not name.startswith(f"{_ROOT}."):
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        try:
            return _Alias(spec.name, [importlib.import_module(home) for home in homes(spec.name)])
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("dglite"):
                raise  # something that the counterpart needs is not installed
            # Named after the counterpart: for an error about dgl.x, `from dgl import x` puts one that explains nothing.
            raise ModuleNotFoundError(explanation(spec.name), name=error.name) from None

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the counterparts have been imported."""


_finder = _Finder()


def install() -> None:
    """Make ``import dgl`` give dglite from now on, in this process and in those that it starts.

    Started ones find the alias through ``sys.path`` and the environment variable ``PYTHONPATH``, both of which change.

    Raises ImportError: DGL itself has been imported already: objects of both would mix.
    """
    loaded = sys.modules.get(_ROOT)
    if loaded is not None and not isinstance(loaded, _Alias):
        raise ImportError("dgl is imported already; call dglite.compat.install() before")
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    DGLGraph.read_state = staticmethod(read_state)
    spawned.reach()


def uninstall() -> None:
    """Undo :func:`install`."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    DGLGraph.read_state = None
    spawned.forget()
    for name, module in list(sys.modules.items()):
        if isinstance(module, _Alias):
            del sys.modules[name]
