"""Several processes on this machine, which run checks together."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def results(folder: Path, size: int, module: str) -> list[dict[str, tuple[bool, Any]]]:
    """Return for each rank what it found, by the checks' names."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.distributed.ranks", str(rank), str(size), str(folder), module],
            cwd=ROOT,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    said = [process.communicate(timeout=240)[1] for process in started]
    found = []
    for rank, text in enumerate(said):
        path = folder / f"found{rank}"
        assert path.exists(), f"rank {rank} ended without results: {text}"
        found.append(pickle.loads(path.read_bytes()))
    return found
