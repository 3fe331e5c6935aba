"""What a process of several does: checks that all ranks call at the same time."""

from __future__ import annotations

import importlib
import pickle
import traceback
from datetime import timedelta
from pathlib import Path

from torch import distributed

from tests.patience import PATIENCE


def check(rank: int, size: int, folder: Path, module: str, names: tuple[str, ...]) -> None:
    """Call a module's checks, all or the named ones, in order; write what each returns, or how it failed, to a file."""
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=size, timeout=timedelta(seconds=PATIENCE)
    )
    checks = importlib.import_module(module)
    results = {}
    for name in names or checks.NAMES:
        try:
            results[name] = True, getattr(checks, name)(folder)
        except BaseException:  # also what pytest raises for what does not raise
            results[name] = False, traceback.format_exc()
            break  # the others wait for exchanges that do not come
    (folder / f"found{rank}").write_bytes(pickle.dumps(results))
    if all(passed for passed, _ in results.values()):
        distributed.barrier()
        distributed.destroy_process_group()
