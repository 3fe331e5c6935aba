"""``make gpu`` without a GPU: every part that needs one says that it is skipped, and why, and nothing fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
PARTS = ("tests", "steps")
"""Those that import most between them; each takes seconds of imports."""


def run(tmp_path: Path, *parts: str, minutes: float = 9) -> subprocess.CompletedProcess[str]:
    settings = {
        "PYTHON": sys.executable,
        "OUT": f"{tmp_path / 'out'}",
        "MINUTES": f"{minutes}",
        "WHEELS": f"{tmp_path}",
    }
    command = [ROOT / ".ci" / "gpu", *parts]
    return subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="measures for minutes where there is a GPU")
def test_parts_are_skipped_without_a_gpu(tmp_path: Path) -> None:
    done = run(tmp_path, *PARTS)
    assert done.returncode == 0, done.stderr
    outcomes = [line.split()[:2] for line in (tmp_path / "out" / "summary.txt").read_text().splitlines()]
    assert outcomes == [[part, "skipped"] for part in PARTS], done.stdout
    assert done.stdout.count("no CUDA device") >= len(PARTS)


def test_a_part_is_cut_off_at_its_limit(tmp_path: Path) -> None:
    done = run(tmp_path, "scaling", minutes=0.02)
    assert "cut off" in (tmp_path / "out" / "summary.txt").read_text(), done.stdout


def test_an_unknown_part_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "speed")
    assert done.returncode == 2 and "there are tests kernels" in done.stderr
