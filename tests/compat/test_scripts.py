"""Scripts as DGL's users write them run on dglite, unmodified."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dglite.config import data_dir

SCRIPTS = Path(__file__).parent / "scripts"


def _run(script: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "dglite.compat", str(SCRIPTS / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_convolution_of_ones_own_learns_cora() -> None:
    if not any((data_dir() / folder / "ind.cora.x").is_file() for folder in ("", "planetoid")):
        pytest.skip("the files of Cora are not at hand")
    assert float(_run("gcn.py", "--epochs", "60").split()[-1]) > 0.75


def test_a_layer_made_of_helpers() -> None:
    assert _run("attention_layer.py").splitlines() == [
        "refused: There are 0-in-degree nodes in the graph",
        "gradient True",
    ]


def test_a_data_set_of_ones_own(tmp_path: Path) -> None:
    assert _run("graph_classification.py", str(tmp_path)) == "accuracy 1.00\n"


def test_mini_batches(tmp_path: Path) -> None:
    assert float(_run("mini_batches.py", str(tmp_path)).split()[1]) > 0.8
