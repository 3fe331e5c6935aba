"""Processes that begin with torch and dglite imported, which takes seconds: forked from one that has done nothing else.

Only for what does not depend on how Python starts: the environment that is read on import is this process's.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import pickle
import runpy
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.patience import PATIENCE

_METHODS = multiprocessing.get_all_start_methods()
CONTEXT = multiprocessing.get_context("forkserver" if "forkserver" in _METHODS else "spawn")
if CONTEXT.get_start_method() == "forkserver":
    CONTEXT.set_forkserver_preload(["torch.distributed", "dglite", "dglite.distributed"])


class Done(NamedTuple):
    """How a process ended, and what it wrote."""

    returncode: int | None
    stdout: str
    stderr: str


class Started:
    """A process that calls a function, which can be pickled, with its output in files of a folder.

    Of the environment, from which None removes a name, torch is told ``OMP_NUM_THREADS`` again.
    """

    def __init__(self, folder: Path, name: str, work: Callable[..., Any], *args: Any, **names: str | None) -> None:
        self._files = [folder / f"{name}.{stream}" for stream in ("out", "err")]
        environment = {name: value for name, value in {**os.environ, **names}.items() if value is not None}
        call = pickle.dumps((work, args))  # its module is imported when the environment is the process's
        files = [str(file) for file in self._files]
        self._process = CONTEXT.Process(target=_begin, args=(files, os.getcwd(), environment, call), daemon=False)
        self._process.start()

    def wait(self) -> Done:
        """Return how the process ended; one that hangs is made to write where, and killed."""
        self._process.join(PATIENCE)
        if self._process.exitcode is None:
            os.kill(self._process.pid, signal.SIGABRT)
            self._process.join(10)
            self._process.kill()
            self._process.join()
        return Done(self._process.exitcode, *(file.read_text() if file.exists() else "" for file in self._files))


def run(work: Callable[..., Any], *args: Any, **environment: str | None) -> Done:
    """Call a function in a process of its own; return how that ended."""
    with tempfile.TemporaryDirectory() as folder:
        return Started(Path(folder), work.__name__, work, *args, **environment).wait()


def script(path: str, *arguments: str) -> None:
    """Run a file as ``python path arguments`` does."""
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(path))
    runpy.run_path(path, run_name="__main__")


def module(name: str, *arguments: str) -> None:
    """Run a module as ``python -m name arguments`` does."""
    sys.argv = [name, *arguments]
    sys.path.insert(0, os.getcwd())
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def code(text: str) -> None:
    """Run code as ``python -c`` does."""
    exec(compile(text, "<code>", "exec"), {"__name__": "__main__"})


def _begin(files: list[str], folder: str, environment: dict[str, str], call: bytes) -> None:
    faulthandler.enable()
    for stream, path in enumerate(files, 1):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, stream)
        os.close(opened)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if "OMP_NUM_THREADS" in environment:
        import torch

        torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))
    try:
        work, args = pickle.loads(call)
        work(*args)
    except Exception:
        traceback.print_exc()
        sys.exit(1)
