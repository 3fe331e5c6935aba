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
    sys.path[0] = ""  # the folder that it is started in, as for ``python -m``: projects have a layers.py of their own
    sys.modules.update({name: _Empty(name) for name in options.without})
    if options.library == "dglite":
        importlib.import_module("dglite.compat").install()
    else:
        sys.modules["dgl.graphbolt"] = _Empty("dgl.graphbolt")
        _name_as_before(importlib.import_module("dgl"))
    exec(options.first, {})
    sys.argv = [options.module, *options.arguments]
    runpy.run_module(options.module, run_name="__main__", alter_sys=True)


def _name_as_before(dgl: Any) -> None:
    """Give DGL 2.1 names that it has dropped, and that projects use: those of DGL 0.4 to 0.9."""
    dgl.transform = sys.modules["dgl.transform"] = dgl.transforms
    for old, new in {"copy_src": "copy_u", "copy_edge": "copy_e", "src_mul_edge": "u_mul_e"}.items():
        setattr(dgl.function, old, _renamed(getattr(dgl.function, new)))
    dgl.DGLHeteroGraph = dgl.heterograph.DGLHeteroGraph = dgl.DGLGraph
    dgl.DGLGraph.adjacency_matrix_scipy = lambda g, return_edge_ids=True: g.adj_external(scipy_fmt="csr")
    dgl.DGLGraph.adjacency_matrix = lambda g, return_edge_ids=True, scipy_fmt=None: g.adj_external(scipy_fmt=scipy_fmt)
    for kind in ("Node", "Edge"):
        setattr(dgl.dataloading, f"{kind}DataLoader", dgl.dataloading.DataLoader)


def _renamed(function: Any) -> Any:
    """Return a built-in function that takes the old names of its parameters too."""
    new = {"src": "u", "edge": "e"}
    return lambda *fields, **named: function(*fields, **{new.get(name, name): field for name, field in named.items()})


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
