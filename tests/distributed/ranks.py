"""A process of several: run with its rank, their number, a folder to meet in, and the module of the checks.

Each check is called by all ranks at the same time; what it returns, or how it failed, is written to a file.
"""

from __future__ import annotations

import importlib
import pickle
import sys
import traceback
from datetime import timedelta
from pathlib import Path

from torch import distributed


def main() -> None:
    rank, size, folder, module = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=size, timeout=timedelta(seconds=60)
    )
    checks = importlib.import_module(module)
    found = {}
    for name in checks.NAMES:
        try:
            found[name] = True, getattr(checks, name)(folder)
        except Exception:
            found[name] = False, traceback.format_exc()
            break  # the others wait for exchanges that do not come
    (folder / f"found{rank}").write_bytes(pickle.dumps(found))
    if all(passed for passed, _ in found.values()):
        distributed.barrier()
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
