"""Run a module that imports ``dgl``, with dglite or with DGL: ``python project_run.py dglite pytest -q tests``.

Names of modules after ``--without`` are replaced by empty ones, whose every name is a class without members: what a
project imports but the tests do not need.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.machinery
import runpy
import sys
import types
from typing import Any


class _Empty(types.ModuleType):
    """A module in which every name is a class."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__spec__ = importlib.machinery.ModuleSpec(name, None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def main() -> None:
    """Make ``dgl`` the library that the command line names, and run the module that it names."""
    options = _options()
    sys.modules.update({name: _Empty(name) for name in options.without})
    if options.library == "dglite":
        importlib.import_module("dglite.compat").install()
    else:
        sys.modules["dgl.graphbolt"] = _Empty("dgl.graphbolt")
        dgl: Any = importlib.import_module("dgl")
        dgl.transform = sys.modules["dgl.transform"] = dgl.transforms  # its name until DGL 0.8
    exec(options.first, {})
    sys.argv = [options.module, *options.arguments]
    runpy.run_module(options.module, run_name="__main__", alter_sys=True)


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("library", choices=["dglite", "dgl"])
    options.add_argument("--without", nargs="*", default=[], metavar="MODULE")
    options.add_argument("--first", default="", metavar="CODE", help="statements to run before the module")
    options.add_argument("module")
    options.add_argument("arguments", nargs=argparse.REMAINDER)
    return options.parse_args()


if __name__ == "__main__":
    main()
