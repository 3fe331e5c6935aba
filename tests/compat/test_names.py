"""The page of DGL's names is what the code says, and the explanations in it are of names that are missing."""

from __future__ import annotations

import importlib
import operator
from pathlib import Path

import pytest

from dglite.compat import missing
from tests import forked

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_up_to_date() -> None:
    result = forked.run(forked.script, str(DOCS / "dgl_names.py"), "--check")
    assert result.returncode == 0, result.stderr


_WHOLE = ("dgl._ffi", "dgl.data", "dgl.distributed", "dgl.nn")
"""Modules that are there; what is said is about names in them that are not."""


@pytest.mark.parametrize("name", sorted({*missing._NOT_PLANNED, *missing._NOT_YET}.difference(_WHOLE)))
def test_what_is_said_to_be_missing_is_missing(dgl_is_dglite: None, name: str) -> None:
    import dgl

    with pytest.raises(ImportError):
        importlib.import_module(name)
    with pytest.raises(AttributeError):
        operator.attrgetter(name.removeprefix("dgl."))(dgl)


def test_reasons_reach_what_lies_inside() -> None:
    assert missing.lacking("dgl.distributed.DistGraph") == missing.lacking("dgl.distributed")
    assert missing.lacking("dgl.nothing") == missing.Lacking(True, "")
