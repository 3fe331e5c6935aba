"""The distribution named dgl in shim/: ``import dgl`` without a runner, and requirements on dgl that are met."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dglite
from tests import forked

ROOT = Path(dglite.__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the shim installed, its metadata included."""
    pytest.importorskip("setuptools", minversion="77", reason="builds a wheel without isolation")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*command, "--target", folder, ROOT / "shim"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def run(code: str, *folders: Path) -> subprocess.CompletedProcess[str]:
    """Run code with the folders before all others, where no distributions are seen but theirs: none of DGL's own."""
    return python(["-c", first(folders[0]) + code], *folders)


def first(folder: Path) -> str:
    """Return code that puts a folder before all others, and hides the distributions that are not beside it."""
    return f"""
import importlib.metadata as m, sys
sys.path.insert(0, {str(folder)!r})
everywhere, folder = m.distributions, {str(folder.parent)!r}
m.distributions = lambda **k: [d for d in everywhere(**k) if str(d.locate_file("")).startswith(folder)]
"""


def python(arguments: list[str], *folders: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with the folders, and that of dglite, before all others of the path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*folders, ROOT)))}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)


SHOW = "print(dgl.graph.__module__, dgl.nn.pytorch.GraphConv.__module__)"


def test_import_dgl_gives_dglite(site: Path) -> None:
    done = run(f"import dgl\n{SHOW}", site)
    assert done.stdout.split() == ["dglite.convert.edges", "dglite.nn.conv.graphconv"], done.stderr


@pytest.mark.parametrize("statement", ["import dgl.nn.pytorch", "from dgl.nn import GraphConv; import dgl"])
def test_a_part_of_dgl_is_imported_first(site: Path, statement: str) -> None:
    """Where dglite itself has been imported."""
    done = forked.run(forked.code, f"{first(site)}\n{statement}\n{SHOW}")
    assert done.stdout.split() == ["dglite.convert.edges", "dglite.nn.conv.graphconv"], done.stderr


def test_the_version_meets_requirements(site: Path) -> None:
    shown = "m.version('dgl'), m.requires('dgl'), ('dgl' in sys.modules, 'torch' in sys.modules)"
    done = run(f"print(*({shown}), sep='\\n')", site)
    version, requires, loaded = done.stdout.splitlines()
    assert (2, 1, 0) <= tuple(map(int, version.split("."))) <= (2, 4), done.stderr
    assert requires == f"['dglite>={dglite.__version__}']"
    assert loaded == "(False, False)"


@pytest.mark.skipif(
    any((Path(folder) / "dgl" / "libdgl.so").exists() for folder in sys.path), reason="DGL itself is installed here"
)
def test_spawned_processes_see_it(site: Path, tmp_path: Path) -> None:
    script = tmp_path / "work.py"
    script.write_text(
        "import multiprocessing, dgl\n"
        "def work(i): return dgl.graph(([0], [i])).num_nodes()\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool: print(pool.map(work, [4]))\n"
    )
    done = python([str(script)], site)
    assert done.stdout == "[5]\n", done.stderr


def test_a_dgl_in_another_folder_is_not_shadowed(site: Path, tmp_path: Path) -> None:
    (tmp_path / "dgl").mkdir()
    (tmp_path / "dgl" / "libdgl.so").write_bytes(b"")
    info = tmp_path / "dgl-2.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dgl\nVersion: 2.1.0\n")
    (info / "RECORD").write_text("dgl/libdgl.so,,\n")
    done = python(["-c", "import dgl"], site, tmp_path)
    assert "two packages are named dgl" in done.stderr
    assert "libdgl.so" in done.stderr


def test_a_dgl_in_the_same_folder_is_not_shadowed(site: Path, tmp_path: Path) -> None:
    (tmp_path / "dgl").mkdir()
    (tmp_path / "dgl" / "libdgl.so").write_bytes(b"")
    (tmp_path / "dgl" / "__init__.py").write_bytes((site / "dgl" / "__init__.py").read_bytes())
    assert "two packages are named dgl" in run("import dgl", tmp_path).stderr
