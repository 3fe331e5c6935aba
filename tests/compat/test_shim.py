"""The distribution named dgl in shim/: ``import dgl`` without a runner, and requirements on dgl that are met."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dglite

ROOT = Path(dglite.__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the shim installed, its metadata included."""
    pytest.importorskip("setuptools", reason="builds a wheel without isolation")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*command, "--target", folder, ROOT / "shim"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def run(code: str, *folders: Path, flags: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run code with only the folders, dglite and its requirements on the path: a DGL beside it is not seen."""
    hide = (
        "import importlib.metadata as m, sys; from pathlib import Path; found = m.distributions\n"
        f"m.distributions = lambda **k: [d for d in found(**k) if str(d.locate_file('')).startswith({str(folders[0].parent)!r})]\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*folders, ROOT)))}
    return subprocess.run(
        [sys.executable, *flags, "-c", hide + code], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("statement", ["import dgl", "import dgl.nn.pytorch", "from dgl.nn import GraphConv; import dgl"])
def test_import_dgl_gives_dglite(site: Path, statement: str) -> None:
    done = run(f"{statement}\nprint(dgl.graph.__module__, dgl.nn.pytorch.GraphConv.__module__)", site)
    assert done.stdout.split() == ["dglite.convert.edges", "dglite.nn.conv.graphconv"], done.stderr


def test_the_version_meets_requirements(site: Path) -> None:
    done = run("print(m.version('dgl')); print(m.requires('dgl')); print('dgl' in sys.modules, 'torch' in sys.modules)", site)
    version, requires, loaded = done.stdout.splitlines()
    assert (2, 1, 0) <= tuple(map(int, version.split("."))) <= (2, 4), done.stderr
    assert requires == "['dglite']"
    assert loaded == "False False"


def test_spawned_processes_see_it(site: Path, tmp_path: Path) -> None:
    script = tmp_path / "work.py"
    script.write_text(
        "import multiprocessing, dgl\n"
        "def work(i): return dgl.graph(([0], [i])).num_nodes()\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool: print(pool.map(work, [4]))\n"
    )
    (site / "dglite_hidden.py").write_text("")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (site, ROOT)))}
    code = f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    if _dgl_is_installed():
        pytest.skip("DGL itself is installed in this environment, and refused")
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "[5]\n", (code, done.stderr)


def _dgl_is_installed() -> bool:
    return any((Path(folder) / "dgl" / "libdgl.so").exists() for folder in sys.path)


@pytest.mark.parametrize("beside", [True, False])
def test_a_real_dgl_is_not_shadowed(site: Path, tmp_path: Path, beside: bool) -> None:
    """One that lies in another folder of the path, and one in whose folder the shim was unpacked."""
    other = tmp_path / "other"
    (other / "dgl").mkdir(parents=True)
    (other / "dgl" / "libdgl.so").write_bytes(b"")
    if beside:
        (other / "dgl-2.1.0.dist-info").mkdir()
        (other / "dgl-2.1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: dgl\nVersion: 2.1.0\n")
        (other / "dgl-2.1.0.dist-info" / "RECORD").write_text("dgl/libdgl.so,,\n")
        done = run("import dgl", site, other)
        done = subprocess.run(
            [sys.executable, "-c", "import dgl"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (site, other, ROOT)))},
            capture_output=True,
            text=True,
            check=False,
        )
    else:
        (other / "dgl" / "__init__.py").write_bytes((site / "dgl" / "__init__.py").read_bytes())
        done = run("import dgl", other)
    assert "two packages are named dgl" in done.stderr
    assert "libdgl.so" in done.stderr
