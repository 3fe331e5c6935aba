"""The installation: what a script imports, wherever it lies."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from tests.patience import PATIENCE


def test_a_script_beside_the_clone_imports_the_package(tmp_path: Path) -> None:
    """A folder named dglite beside a script, as a clone is, must not be taken for the (empty) package."""
    try:
        version("dglite")
    except PackageNotFoundError:
        pytest.skip("dglite is on the path, but not installed")
    (tmp_path / "dglite" / "docs").mkdir(parents=True)
    script = tmp_path / "script.py"
    script.write_text("import dglite; print(dglite.graph(([0], [1])).num_nodes())")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert result.stdout == "2\n", result.stderr
