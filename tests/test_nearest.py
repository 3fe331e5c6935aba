"""Which tests ``make test-fast`` runs first, and that it stops when its time is over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import nearest

FILES = {
    "dglite/ops/softmax.py": "def edge_softmax(x): return x",
    "dglite/nn/layer.py": "from ..ops.softmax import edge_softmax\nclass Layer: pass",
    "tests/ops/test_softmax.py": "import dglite",
    "tests/ops/test_public.py": "from dglite import ops\nops.edge_softmax(1)",
    "tests/nn/cases/__init__.py": "from .layers import CASES",
    "tests/nn/cases/layers.py": "from dglite import nn\nnn.Layer()",
    "tests/nn/test_layer_laws.py": "from tests.nn.cases import CASES",
    "tests/io/test_files.py": "def test_save(): pass",
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(nearest, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("dglite/ops/softmax.py", ["ops/test_softmax.py", "ops/test_public.py", "nn/test_layer_laws.py"]),
        ("dglite/nn/layer.py", ["nn/test_layer_laws.py"]),
        ("tests/nn/cases/layers.py", ["nn/test_layer_laws.py"]),
        ("tests/io/test_files.py", ["io/test_files.py"]),
    ],
)
def test_tests_are_ranked_by_how_they_use_what_changed(root: Path, changed: str, expected: list[str]) -> None:
    files = nearest.ranked([root / changed])
    assert [file.relative_to(root / "tests").as_posix() for file in files] == expected


def test_changes_are_those_of_the_branch_and_of_the_folder(root: Path) -> None:
    def git(*words: str) -> None:
        settings = "-c", "user.name=x", "-c", "user.email=x@example.org"
        subprocess.run(["git", *settings, *words], cwd=root, check=True, capture_output=True)

    git("init", "-b", "main")
    git("add", "tests", "dglite/ops")
    git("commit", "-m", "first")
    git("checkout", "-b", "change")
    (root / "dglite/ops/softmax.py").write_text("def other(): pass")
    git("commit", "-am", "second")
    (root / "tests/io/test_files.py").write_text("def test_load(): pass")
    names = {path.relative_to(root).as_posix() for path in nearest.changed("main")}
    assert names == {"dglite/ops/softmax.py", "tests/io/test_files.py", "dglite/nn/layer.py"}
    with pytest.raises(SystemExit, match="no_such_branch"):
        nearest.changed("no_such_branch")


@pytest.mark.parametrize(("minutes", "runs"), [("0", "1 passed"), ("1", "1 failed, 1 passed")])
def test_the_rest_is_left_and_named_when_time_is_over(tmp_path: Path, minutes: str, runs: str) -> None:
    (tmp_path / "test_two.py").write_text("def test_first(): pass\ndef test_second(): assert False")
    code = f"""
import pytest
from tests.nearest import Limit
limit = Limit({minutes})
pytest.main([{str(tmp_path)!r}, "-q", "--rootdir", {str(tmp_path)!r}, "-p", "no:cacheprovider"], plugins=[limit])
print("over", limit.over)
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=nearest.ROOT, capture_output=True, text=True)
    assert runs in run.stdout
    assert ("0 minutes are over; 1 further tests were not run" in run.stdout) == (minutes == "0")
    assert f"over {minutes == '0'}" in run.stdout
