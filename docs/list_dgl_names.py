"""Write ``dgl_names.txt``: DGL's public names, with the parameters and defaults of what can be called.

Facts about DGL 2.1, read from an installation of it: ``python docs/list_dgl_names.py``. One name a line, in the syntax
of Python, with ``...`` for a default that has no short literal. ``dgl_names.py`` holds dglite against the list.
"""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "benchmarks"))

import torch  # noqa: E402
from common import load_dgl  # noqa: E402

LISTED = (
    "dgl.transforms dgl.function dgl.ops dgl.nn.pytorch dgl.nn.functional dgl.dataloading dgl.sampling dgl.sparse "
    "dgl.data dgl.backend dgl.base dgl.utils dgl.frame dgl.init dgl.random dgl.ndarray dgl.udf dgl.view "
    "dgl.core dgl.optim dgl.geometry dgl.multiprocessing dgl.storages"
).split()
"""Modules whose names are listed one by one, after ``dgl`` itself."""

WHOLE_CLASSES = ("dgl.DGLGraph", "dgl.sparse.SparseMatrix", "dgl.udf.EdgeBatch", "dgl.udf.NodeBatch", "dgl.frame.Frame")
"""Classes whose public methods and attributes are listed, too."""

SHORT = (bool, int, float, str, type(None))


def main() -> None:
    """Write the list."""
    dgl = load_dgl()
    if dgl is None:
        sys.exit("DGL is not installed here")
    lines = [f"# DGL {dgl.__version__}", *sorted(set(_modules(dgl)))]
    visited: set[str] = set()
    # dgl.sparse wants a library compiled for this torch; its names can be read without.
    with mock.patch("os.path.exists", return_value=True), mock.patch.object(torch.classes, "load_library"):
        for name in ("dgl", "dgl.data.utils", *LISTED):
            lines += ["", f"[{name}]", *_module_lines(_imported(name), name, visited)]
    (HERE / "dgl_names.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _modules(dgl: ModuleType) -> Iterator[str]:
    for info in pkgutil.walk_packages(dgl.__path__, "dgl.", onerror=lambda name: None):
        if not any(part.startswith("_") for part in info.name.split(".")) and "mxnet" not in info.name:
            yield f"import {info.name}"


def _imported(name: str) -> ModuleType:
    __import__(name)
    return sys.modules[name]


def _module_lines(module: ModuleType, name: str, visited: set[str]) -> list[str]:
    lines = []
    for attribute, value in sorted(_public(module, name)):
        origin = str(getattr(value, "__module__", ""))
        if name == "dgl" and inspect.isclass(value) and origin.startswith("dgl.transforms"):
            continue
        if name in ("dgl.transforms", "dgl.data") and attribute in visited:
            continue
        if name in ("dgl", "dgl.data.utils"):
            visited.add(attribute)
        lines += _lines_of(f"{name}.{attribute}", value)
    return lines


def _public(module: ModuleType, module_name: str) -> Iterator[tuple[str, Any]]:
    """Yield what a module defines or lists, not what it has imported for itself."""
    collects = module_name in ("dgl", "dgl.base", "dgl.backend")
    for name, value in vars(module).items():
        if name.startswith("_") or isinstance(value, ModuleType):
            continue
        origin = str(getattr(value, "__module__", ""))
        prefix = origin.startswith("dgl" if collects else module_name)
        plain = collects and isinstance(value, str | torch.dtype)
        if prefix or plain or name in getattr(module, "__all__", ()):
            yield name, value


def _lines_of(name: str, value: Any) -> Iterator[str]:
    if not inspect.isclass(value):
        yield name + (_parameters(value) if callable(value) else "")
        return
    yield name + _parameters(value)
    if issubclass(value, torch.nn.Module):
        yield f"{name}.forward{_parameters(value.forward, method=True)}"
    if name in WHOLE_CLASSES:
        for attribute in sorted(vars(value)):
            if not attribute.startswith("_"):
                member = inspect.getattr_static(value, attribute)
                is_call = inspect.isroutine(member)
                yield f"{name}.{attribute}" + (_parameters(member, method=True) if is_call else "")


def _parameters(value: Any, method: bool = False) -> str:
    try:
        parameters = list(inspect.signature(value).parameters.values())[method:]
    except (TypeError, ValueError):
        return "(...)"
    shown = [
        p.replace(annotation=p.empty, default=p.default if _is_short(p.default) else ...)
        if p.default is not p.empty
        else p.replace(annotation=p.empty)
        for p in parameters
    ]
    return str(inspect.Signature(shown)).replace("Ellipsis", "...")


def _is_short(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_short, value))
    return type(value) in SHORT


if __name__ == "__main__":
    main()
