"""``python -m dglite.compat script.py arguments``: run a script in which ``dgl`` is dglite."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from . import install


def main() -> None:
    """Run the script named on the command line as if Python had been given it."""
    if len(sys.argv) < 2:
        sys.exit("usage: python -m dglite.compat script.py [arguments]")
    script = sys.argv[1]
    if not Path(script).is_file():
        sys.exit(f"python -m dglite.compat: there is no file {script}")
    install()
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(script).resolve().parent))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
