"""Several processes on this machine, which run checks together."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from tests.distributed.ranks import check
from tests.forked import Started


def results(folder: Path, size: int, module: str, *names: str) -> list[dict[str, tuple[bool, Any]]]:
    """Return for each rank the results of a module's checks, all or the named ones, by name."""
    given = size, folder, module, names
    started = [Started(folder, f"rank{rank}", check, rank, *given, OMP_NUM_THREADS="1") for rank in range(size)]
    messages = [process.wait().stderr for process in started]
    results = []
    for rank, text in enumerate(messages):
        path = folder / f"found{rank}"
        assert path.exists(), f"rank {rank} ended without results: {text}"
        results.append(pickle.loads(path.read_bytes()))
    return results
