"""The alias reaches the processes that a program starts, however they are started."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from dglite.compat import install, uninstall
from tests import forked

POOL = """
    import multiprocessing
    import os
    import sys
    import dgl
    import dgl.function as fn
    from dgl.data import DGLDataset

    MESSAGE = fn.copy_u("h", "m")

    class Empty(DGLDataset):
        pass

    def count(n):
        return dgl.rand_graph(n, 2 * n).num_edges(), dgl.__name__

    if __name__ == "__main__":
        os.environ.update(pair.split("=") for pair in sys.argv[2:])
        with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
            print(pool.map(count, [3]))
"""


def _run(*arguments: str, **environment: str) -> forked.Done:
    return forked.run(forked.module, "dglite.compat", *arguments, **environment)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(POOL))
    return path


@pytest.fixture
def real_dgl(tmp_path: Path) -> str:
    """A folder with a package ``dgl`` that is not the alias, as an installed DGL is."""
    package = tmp_path / "site" / "dgl"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('the wrong dgl')")
    return str(package.parent)


METHODS = ["spawn", *(["forkserver"] if os.environ.get("DGLITE_TEST_FULL") == "1" else [])]


@pytest.mark.parametrize("method", METHODS)
def test_workers_of_a_pool(script: Path, real_dgl: str, method: str) -> None:
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), real_dgl)))
    done = _run(str(script), method, PYTHONPATH=path)
    assert done.stdout == "[(6, 'dgl')]\n", done.stderr


def test_a_worker_that_cannot_import_tells_the_parent(script: Path) -> None:
    done = _run(str(script), "spawn", "DGLITE_BACKEND=none_such")
    assert done.returncode == 1
    assert "ImportError: this process was started by one in which dgl is dglite" in done.stderr.splitlines()[-1]
    assert done.stderr.count("\nthis process was started") + done.stderr.startswith("this process was started") == 1


def test_workers_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "train.py").write_text(textwrap.dedent(POOL))
    monkeypatch.chdir(tmp_path)
    done = _run("-m", "package.train", "spawn", PYTHONPATH=os.pathsep.join(map(str, filter(None, sys.path))))
    assert done.stdout == "[(6, 'dgl')]\n", done.stderr


def test_processes_and_loader_workers_of_torch(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import dgl
            import torch

            class Rings(torch.utils.data.Dataset):
                def __len__(self):
                    return 2

                def __getitem__(self, i):
                    return dgl.graph((torch.arange(3 + i), (torch.arange(3 + i) + 1) % (3 + i)))

            def work(rank, g):
                print("rank", rank, dgl.add_self_loop(g).num_edges(), flush=True)

            if __name__ == "__main__":
                torch.multiprocessing.spawn(work, (Rings()[0],), nprocs=1)
                loader = torch.utils.data.DataLoader(
                    Rings(), 2, collate_fn=dgl.batch, num_workers=1, multiprocessing_context="spawn"
                )
                print([g.num_edges() for g in loader])
            """
        )
    )
    done = _run(str(script))
    assert done.stdout == "rank 0 6\n[7]\n", done.stderr


def test_commands(tmp_path: Path, real_dgl: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import dgl.nn.pytorch as nn, dgl; print(nn.GraphConv.__module__[:6], dgl.graph(([0], [1])).num_nodes())"
    monkeypatch.setenv("PYTHONPATH", real_dgl)
    install()
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    finally:
        uninstall()
    assert done.stdout == "dglite 2\n", done.stderr
    assert os.environ["PYTHONPATH"] == real_dgl


def test_a_command_that_cannot_import_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DGLITE_BACKEND", "none_such")
    install()
    try:
        done = subprocess.run([sys.executable, "-c", "import dgl"], capture_output=True, text=True, check=False)
    finally:
        uninstall()
    assert "ImportError: this process was started by one in which dgl is dglite, but" in done.stderr
    assert "none_such" in done.stderr


@pytest.mark.parametrize("before", [None, "", "somewhere"])
def test_the_path_is_given_back(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if before:
        monkeypatch.setenv("PYTHONPATH", before)
    path = list(sys.path)
    install()
    install()
    assert sys.path[0] == path[0] and len(sys.path) == len(path) + 1
    uninstall()
    assert sys.path == path and os.environ.get("PYTHONPATH") == (before or None)
