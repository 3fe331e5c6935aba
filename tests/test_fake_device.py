"""Runs ``tests/fake_device`` in a process of its own: ``DGLITE_FAKE_DEVICE=1 pytest tests/fake_device`` shows more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dglite.kernels.cuda.run.emulate import available
from tests.versions import has_torch

ROOT = Path(__file__).parents[1]
FILES = sorted((Path(__file__).with_name("fake_device")).glob("test_*.py"))
HALVES = FILES[::2], FILES[1::2]
"""A process each: starting one takes seconds, and two can run at a time."""


@pytest.mark.skipif(not has_torch("2.11"), reason="the device is written in C++ for torch 2.11 or newer")
@pytest.mark.skipif(not available() or sys.platform != "linux", reason="a C++ compiler of Linux makes the device")
@pytest.mark.parametrize("paths", HALVES, ids=lambda paths: ", ".join(path.stem for path in paths))
def test_on_the_fake_device(paths: list[Path], pytestconfig: pytest.Config) -> None:
    command = [sys.executable, "-m", "pytest", *map(str, paths), "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += ["--full"] if pytestconfig.getoption("--full") else []
    environment = os.environ | {"DGLITE_FAKE_DEVICE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout[-20000:] + done.stderr[-4000:]
