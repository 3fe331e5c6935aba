"""The digest of code changes with everything that is compiled into it."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from pathlib import Path

import pytest

from dglite.kernels import cpu
from dglite.kernels.cpu.compile import stamp

MODULES = [module.name for module in pkgutil.iter_modules(cpu.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_imports_are_found_as_python_finds_them(name):
    module = importlib.import_module(f"{cpu.__name__}.{name}")
    text, expected = Path(module.__file__).read_text(encoding="utf-8"), []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            expected.append(("." * node.level + (node.module or ""), [alias.name for alias in node.names]))
        elif isinstance(node, ast.Import):
            expected += [(alias.name, []) for alias in node.names]
    results = [(base, names) for base, names in stamp._imports(text) if names or base in sys.modules]
    for imported in expected:
        assert imported in results


@pytest.fixture
def package(monkeypatch, tmp_path):
    """Return a folder for modules ``dglite_test.NAME``, and a function that gives the stamp that one has at present."""
    monkeypatch.setattr(stamp, "_PACKAGE", "dglite_test")
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = tmp_path / "dglite_test"
    folder.mkdir()
    (folder / "__init__.py").write_text("")

    def stamp_of(name: str) -> bytes:
        for module in [module for module in sys.modules if module.partition(".")[0] == "dglite_test"]:
            del sys.modules[module]
        importlib.invalidate_caches()
        stamp._read.cache_clear()
        importlib.import_module(f"dglite_test.{name}")
        return stamp.module_stamp(f"dglite_test.{name}")

    yield folder, stamp_of
    stamp._read.cache_clear()


@pytest.mark.parametrize(
    "statement",
    [
        "from . import middle",
        "from .middle import VALUE",
        "from .middle import (\n    VALUE,  # of middle\n)",
        "from dglite_test.middle import VALUE as v",
        "import dglite_test.middle as m",
        "def f():\n    from . import middle\nf()",
    ],
)
def test_a_stamp_knows_what_is_imported_by_what_is_imported(package, statement):
    folder, stamp_of = package
    (folder / "first.py").write_text(f"{statement}\n")
    (folder / "middle.py").write_text("from .last import VALUE\n")
    (folder / "last.py").write_text("VALUE = 1\n")
    (folder / "other.py").write_text("")
    before = stamp_of("first")
    (folder / "other.py").write_text("VALUE = 3\n")
    assert stamp_of("first") == before
    (folder / "last.py").write_text("VALUE = 2\n")
    assert stamp_of("first") != before


def test_what_a_process_loads_again_is_not_taken_for_what_it_loaded_first(package):
    folder, stamp_of = package
    (folder / "first.py").write_text("from . import last")
    (folder / "last.py").write_text("VALUE = 1\n")
    before = stamp_of("first")
    assert stamp.module_stamp("dglite_test.first") == before
    importlib.reload(sys.modules["dglite_test.last"])
    assert stamp.module_stamp("dglite_test.first") not in (before, stamp.module_stamp("dglite_test.first"))


def test_source_has_the_stamp_of_what_it_imports(monkeypatch):
    source = "from dglite.kernels.cpu.lanes import simd\n"
    before = stamp.stamp(source)
    assert stamp.stamp(source) == before != stamp.stamp(source + "\n")
    read = stamp._read
    memory = sys.modules["dglite.kernels.cpu.lanes.memory"].__spec__
    edited = (memory, b"edited", [])
    monkeypatch.setattr(stamp, "_read", lambda name: edited if name == memory.name else read(name))
    assert stamp.stamp(source) != before


@pytest.mark.parametrize("library", ["llvmlite", "np"])
def test_versions_are_in_a_stamp(monkeypatch, library):
    before = stamp.stamp("")
    monkeypatch.setattr(getattr(stamp, library), "__version__", "0.1")
    stamp._versions.cache_clear()
    assert stamp.stamp("") != before
    monkeypatch.undo()
    stamp._versions.cache_clear()
    assert stamp.stamp("") == before
