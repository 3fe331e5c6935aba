"""How much of Core ATen is described, and that the page which says so is current."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

from tests.tofu.samples import core

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tofu_operators", DOCS / "tofu_operators.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nine_of_ten_operators_of_core_aten_are_split(page: ModuleType) -> None:
    by_target = page.described()
    split = [target in by_target or page.is_recorded_otherwise(target) for target in core()]
    assert sum(split) >= 0.9 * len(core())


def test_the_page_is_current(page: ModuleType) -> None:
    text = (DOCS / "tofu_operators.md").read_text(encoding="utf-8")
    if f"torch {torch.__version__.split('+')[0]};" not in text:
        pytest.skip("the page was made with another torch, whose Core ATen is another")
    assert text == page.table(), "run python docs/tofu_operators.py"
