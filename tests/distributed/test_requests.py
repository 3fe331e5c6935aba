"""Requests of a script's own classes, which other ranks answer."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dglite.distributed import partition_graph
from tests.distributed import checks, requests
from tests.distributed.spawn import results

SIZES = [1, 2, *([4] if os.environ.get("DGLITE_TEST_FULL") == "1" else [])]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Any:
    @cache
    def run(size: int) -> list[dict[str, tuple[bool, Any]]]:
        folder: Path = tmp_path_factory.mktemp(f"ranks{size}")
        partition_graph(checks.reference("g"), "g", size, folder / "g", part_method="random")
        return results(folder, size, "tests.distributed.requests")

    return run


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", requests.NAMES)
def test_requests(outcomes, name, size) -> None:
    for rank, checked in enumerate(outcomes(size)):
        errors = [str(last) for passed, last in (list(of.values())[-1] for of in outcomes(size)) if not passed]
        assert name in checked, f"rank {rank} stopped before: {errors}"
        assert checked[name][0], f"rank {rank}: {errors}"
