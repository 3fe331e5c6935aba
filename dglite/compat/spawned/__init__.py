"""The ``dgl`` alias in spawned processes: they find the package ``dgl`` in this folder, which installs the alias.

A process that is forked inherits the alias. One that is spawned, or started as a command, imports ``dgl`` anew: through
``sys.path``, which ``multiprocessing`` hands to its children, or through ``PYTHONPATH``, which all commands inherit.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_FOLDER = str(Path(__file__).resolve().parent)


def reach() -> None:
    """Let processes that are started from now on find the alias, before a DGL that is installed."""
    if _FOLDER not in sys.path:
        sys.path.insert(1, _FOLDER)  # the first entry is the script's own folder, which scripts read
    _set_inherited([_FOLDER, *_inherited()])


def forget() -> None:
    """Undo :func:`reach`."""
    if _FOLDER in sys.path:
        sys.path.remove(_FOLDER)
    _set_inherited(_inherited())


def _inherited() -> list[str]:
    """Return the folders in ``PYTHONPATH`` without ours."""
    folders = os.environ.get("PYTHONPATH")
    return [folder for folder in folders.split(os.pathsep) if folder != _FOLDER] if folders else []


def _set_inherited(folders: list[str]) -> None:
    if folders:
        os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    else:
        os.environ.pop("PYTHONPATH", None)
