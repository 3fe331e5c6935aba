"""``dgl`` is dglite while a test runs, whatever was imported before."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from dglite.compat import install, uninstall


@pytest.fixture
def dgl_is_dglite() -> Iterator[None]:
    before = {name: module for name, module in sys.modules.items() if name == "dgl" or name.startswith("dgl.")}
    for name in before:
        del sys.modules[name]
    install()
    yield
    uninstall()
    sys.modules.update(before)
