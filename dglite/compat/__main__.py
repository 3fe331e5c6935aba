"""``python -m dglite.compat script.py arguments``: run a program in which ``dgl`` is dglite.

The program is a script, ``-m module``, ``-c code`` or the name of an installed command, such as ``pytest``.
"""

from __future__ import annotations

import runpy
import sys
from importlib.metadata import entry_points
from pathlib import Path

from . import install

_USAGE = """\
usage: python -m dglite.compat script.py [arguments]
       python -m dglite.compat -m module [arguments]
       python -m dglite.compat -c code [arguments]
       python -m dglite.compat command [arguments]      pytest, torchrun: an installed command written in Python"""


def main() -> None:
    """Run what the command line names as if Python had been given it."""
    arguments = sys.argv[1:]
    if not arguments or arguments in (["-m"], ["-c"]):
        sys.exit(_USAGE)
    program = arguments[0]
    if program in ("-m", "-c"):
        install()
        sys.argv = arguments[1:] if program == "-m" else ["-c", *arguments[2:]]
        if program == "-m":
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            exec(compile(arguments[1], "<string>", "exec"), sys.modules["__main__"].__dict__ | {"__name__": "__main__"})
    elif Path(program).is_file():
        install()
        sys.argv = arguments
        sys.path.insert(0, str(Path(program).resolve().parent))
        runpy.run_path(program, run_name="__main__")
    else:
        _run_command(arguments)


def _run_command(arguments: list[str]) -> None:
    commands = entry_points(group="console_scripts", name=arguments[0])
    if not commands:
        sys.exit(f"python -m dglite.compat: there is no file and no installed Python command {arguments[0]}")
    install()
    sys.argv = arguments
    sys.exit(next(iter(commands)).load()())


if __name__ == "__main__":
    main()
