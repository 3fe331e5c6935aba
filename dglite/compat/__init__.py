"""Run code that was written for DGL: ``import dgl`` gives dglite.

``install()`` makes ``dgl`` and its submodules importable; ``python -m dglite.compat script.py`` runs a script so. A
name that dglite lacks raises an error that says so where it is used, not somewhere later.
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

__all__ = ["install", "uninstall"]

_ROOT = "dgl"
_ELSEWHERE = {
    "dgl.base": "dglite.compat.base",
    "dgl.nn.pytorch.conv": "dglite.nn",
    "dgl.nn.pytorch.softmax": "dglite.nn.pytorch",
    "dgl.nn.functional": "dglite.nn.functional",
    "dgl.heterograph": "dglite.graph",
    "dgl.transform": "dglite.transforms",
}
"""Modules of DGL that have another place here. All others have the same name."""


class _Alias(ModuleType):
    """A module of DGL that reads everything from its counterpart."""

    def __init__(self, name: str, target: ModuleType) -> None:
        super().__init__(name, target.__doc__)
        self.__dict__["__path__"] = []
        self.__dict__["_target"] = target

    def __getattr__(self, name: str) -> Any:
        target: ModuleType = self.__dict__["_target"]
        if hasattr(target, name):
            return getattr(target, name)
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"dglite has no {self.__name__}.{name} (looked in {target.__name__}); what it has is listed by "
            f"dir({target.__name__})"
        )

    def __dir__(self) -> list[str]:
        return dir(self.__dict__["_target"])


class _Finder(MetaPathFinder, Loader):
    """Finds ``dgl`` and everything below it."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != _ROOT and not name.startswith(f"{_ROOT}."):
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        counterpart = _ELSEWHERE.get(spec.name, f"dglite{spec.name.removeprefix(_ROOT)}")
        try:
            return _Alias(spec.name, importlib.import_module(counterpart))
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("dglite"):
                raise  # something that the counterpart needs is not installed
            raise ModuleNotFoundError(f"dglite has no counterpart of {spec.name}", name=spec.name) from None

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the counterpart has been imported."""


_finder = _Finder()


def install() -> None:
    """Make ``import dgl`` give dglite from now on, in this process.

    Raises
    ------
    ImportError
        DGL itself has been imported already: objects of both would mix.
    """
    loaded = sys.modules.get(_ROOT)
    if loaded is not None and not isinstance(loaded, _Alias):
        raise ImportError("dgl is imported already; call dglite.compat.install() before")
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def uninstall() -> None:
    """Undo :func:`install`."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name, module in list(sys.modules.items()):
        if isinstance(module, _Alias):
            del sys.modules[name]
