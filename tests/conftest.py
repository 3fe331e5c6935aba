"""Options and settings shared by every test."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from multiprocessing.util import Finalize
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full",
        action="store_true",
        help="run the whole product of operators, reducers and dtypes instead of a choice in which every pair occurs",
    )


_LONGEST = 64
"""Bytes of TMPDIR that leave 40 for the names of multiprocessing's sockets; a socket's path has 104 or 108 at most."""


def pytest_configure(config: pytest.Config) -> None:
    """Pass ``--full`` on as ``DGLITE_TEST_FULL=1``, which test modules read while they are collected.

    OpenMP's threads wait without spinning, also in the processes that tests start: workers share the cores, and a
    thread that spins for its team takes the core that the team waits for. It is read when torch is loaded.

    Garbage is collected less often than by Python's thresholds, with which it takes a seventh of the time.
    """
    gc.set_threshold(50_000)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if config.getoption("--full"):
        os.environ["DGLITE_TEST_FULL"] = "1"
    if os.name == "posix" and len(os.fsencode(tempfile.gettempdir())) > _LONGEST:
        _shorten_temporary_folder()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let the garbage collector pass over the collected tests: they live to the end, and there are thousands."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave out the summary of Hypothesis where no test used it: it would import it, a second."""
    if "hypothesis" not in sys.modules:
        plugin = session.config.pluginmanager.get_plugin("hypothesispytest")
        if plugin is not None:
            session.config.pluginmanager.unregister(plugin)


def _shorten_temporary_folder() -> None:
    """Use a short link to the folder for temporary files, also in the processes that tests start."""
    place = tempfile.mkdtemp(prefix="dglite-", dir="/tmp")  # a TemporaryDirectory would be removed by a forked process
    Finalize(None, shutil.rmtree, (place,), exitpriority=-200)  # after multiprocessing's own folder there, -100
    link = Path(place) / "tmp"
    link.symlink_to(tempfile.gettempdir())
    os.environ["TMPDIR"], tempfile.tempdir = str(link), None


@pytest.fixture
def one_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the second tensor library that another test may have brought: each backend call asks both then."""
    from dglite.backend import active  # loads torch, which must find the settings above

    for name in list(vars(active)):
        monkeypatch.delattr(active, name)


@pytest.fixture
def records_on_few_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record users' functions on few edges, too, where calling them as written takes less time."""
    for limits in ("FEW_EDGES", "FEW_OF_SOME"):
        monkeypatch.setattr(f"dglite.scheduler.record.{limits}", dict.fromkeys((False, True), 0))
