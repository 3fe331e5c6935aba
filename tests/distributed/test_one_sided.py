"""Reads of rows that other ranks do not take part in."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import dglite
from dglite.distributed import partition_graph
from tests.distributed import checks, one_sided
from tests.distributed.spawn import results

SIZES = [1, 2, *([4] if os.environ.get("DGLITE_TEST_FULL") == "1" else [])]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Any:
    @cache
    def run(size: int) -> list[dict[str, tuple[bool, Any]]]:
        folder: Path = tmp_path_factory.mktemp(f"ranks{size}")
        dglite.seed(size)
        for name in ("g", "h"):
            partition_graph(checks.reference(name), name, size, folder / name, part_method="random")
            partition_graph(checks.reference(name), name, 1, folder / f"{name} in one", part_method="random")
        return results(folder, size, "tests.distributed.one_sided")

    return run


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", one_sided.NAMES)
def test_one_sided(outcomes, name, size) -> None:
    for rank, checked in enumerate(outcomes(size)):
        errors = [str(last) for passed, last in (list(of.values())[-1] for of in outcomes(size)) if not passed]
        assert name in checked, f"rank {rank} stopped before: {errors}"
        assert checked[name][0], f"rank {rank}: {errors}"
