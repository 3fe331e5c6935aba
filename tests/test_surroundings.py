"""The tests pass however they are started: what tests/conftest.py does about the state of the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FORKED = """
import multiprocessing, os, tempfile
from tests.conftest import _shorten_temporary_folder

_shorten_temporary_folder()
for _ in range(2):
    child = multiprocessing.get_context("fork").Process(target=tempfile.gettempdir)
    child.start()
    child.join()
    assert os.path.isdir(tempfile.gettempdir()), "a forked process removed it"
print(tempfile.gettempdir())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")
def test_a_short_name_of_the_temporary_folder_outlives_forked_processes(tmp_path: Path) -> None:
    long = tmp_path / ("long" * 20)
    long.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", FORKED],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "TMPDIR": str(long)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    link = Path(done.stdout.strip())
    assert len(str(link)) < 40 and not link.parent.exists(), "it is removed when the process ends"
