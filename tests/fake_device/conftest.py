"""Adds the fake device to torch, before anything has run backward; it stays, so its tests have their own process."""

from __future__ import annotations

import os
import sys

import pytest

if os.environ.get("DGLITE_FAKE_DEVICE") != "1":
    collect_ignore_glob = ["test_*.py"]
else:
    from tests.fake_device.device import install

    install()


_STATUS: list[int] = []


def pytest_runtest_setup() -> None:
    """Skip what is named by its file and so collected all the same."""
    if os.environ.get("DGLITE_FAKE_DEVICE") != "1":
        pytest.skip("has a process of its own: pytest tests/test_fake_device.py, or set DGLITE_FAKE_DEVICE=1")


def pytest_sessionfinish(exitstatus: int) -> None:
    _STATUS.append(int(exitstatus))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """End without Python's cleaning up: a thread of torch's for backward may wait for the interpreter's lock then."""
    if os.environ.get("DGLITE_FAKE_DEVICE") == "1" and _STATUS:
        sys.stdout.flush()
        os._exit(_STATUS[0])
