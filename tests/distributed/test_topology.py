"""A structure in parts: batches that ranks draw for each other are those of the whole structure."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import dglite
from dglite.distributed import partition_graph
from tests.distributed import checks_topology as checks
from tests.distributed.spawn import results

SIZES = [1, 2, *([4] if os.environ.get("DGLITE_TEST_FULL") == "1" else [])]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Any:
    @cache
    def run(size: int) -> list[dict[str, tuple[bool, Any]]]:
        folder: Path = tmp_path_factory.mktemp(f"topology{size}")
        dglite.seed(size)
        for name in ("g", "int", "empty", "h"):
            # All items are the last part's.
            by_type = {"user": [i % size for i in range(13)], "item": [size - 1] * 9}
            method = by_type if name == "h" else "random"
            partition_graph(checks.reference(name), name, size, folder / name, part_method=method, num_hops=0)
        return results(folder, size, "tests.distributed.checks_topology")

    return run


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", checks.NAMES)
def test_together(outcomes, name, size) -> None:
    for rank, of in enumerate(outcomes(size)):
        assert name in of, f"rank {rank} failed before: {list(of.values())[-1][1]}"
        passed, message = of[name]
        assert passed, f"rank {rank}: {message}"


def test_shared_batches_are_the_same_for_any_number_of_ranks(outcomes) -> None:
    by_size = []
    for size in SIZES:
        batches = {}
        for of in outcomes(size):
            batches.update(of["shared_batches"][1])
        by_size.append(batches)
    assert len(by_size[0]) == 27 and all(batches == by_size[0] for batches in by_size)
