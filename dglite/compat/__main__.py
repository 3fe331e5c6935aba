"""``python -m dglite.compat script.py arguments``: run a script, or ``-m module``, in which ``dgl`` is dglite."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from . import install

_USAGE = "usage: python -m dglite.compat script.py [arguments], or python -m dglite.compat -m module [arguments]"


def main() -> None:
    """Run what the command line names as if Python had been given it."""
    arguments = sys.argv[1:]
    if not arguments or arguments == ["-m"]:
        sys.exit(_USAGE)
    if arguments[0] == "-m":
        install()
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    script = arguments[0]
    if not Path(script).is_file():
        sys.exit(f"python -m dglite.compat: there is no file {script}")
    install()
    sys.argv = arguments
    sys.path.insert(0, str(Path(script).resolve().parent))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
