"""Several processes on one machine: what each reads, writes and samples is what one process would."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dglite
from dglite.distributed import partition_graph
from tests.distributed import checks
from tests.distributed.networks import NETWORKS
from tests.distributed.spawn import results

SIZES = [1, 2, *([4] if os.environ.get("DGLITE_TEST_FULL") == "1" else [])]
CHECKPOINT = "a_checkpoint_is_gone_on_from"
"""The only check of more ranks than ``SIZES`` has."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Any:
    @cache
    def run(size: int) -> list[dict[str, tuple[bool, Any]]]:
        folder: Path = tmp_path_factory.mktemp(f"ranks{size}")
        dglite.seed(size)
        for name in ("g", "h"):
            partition_graph(checks.reference(name), name, size, folder / name, part_method="random")
        partition_graph(checks.reference(), "g", size, folder / "again", part_method="locality", num_hops=2)
        partition_graph(checks.reference(), "g", 3, folder / "three", part_method="random")
        if size > 1:  # each goes on from where half as many ranks have stopped
            own = run(size // 2)[0][CHECKPOINT]
            assert own[0], own[1]
            shutil.copytree(folders[size // 2] / "own", folder / "given")
        folders[size] = folder
        names = () if size in SIZES else (CHECKPOINT,)
        return results(folder, size, "tests.distributed.checks", *names)

    folders: dict[int, Path] = {}

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
    assert len(by_size[0]) == 18 and by_size[0][0, 0] != by_size[0][1, 0]
    assert all(batches == by_size[0] for batches in by_size)


@pytest.mark.parametrize("network", NETWORKS)
def test_losses_and_gradients_are_those_of_one_process(outcomes, network) -> None:
    (alone,) = outcomes(1)
    for size in SIZES[1:]:
        for of in outcomes(size):
            for (loss, grads), (expected, others) in zip(
                of["gradients_of_networks"][1][network], alone["gradients_of_networks"][1][network], strict=True
            ):
                np.testing.assert_allclose(loss, expected, rtol=1e-9)
                assert grads.keys() == others.keys() and (network != "RGCN" or "module.inputs.item.weight" in grads)
                for key, grad in grads.items():
                    np.testing.assert_allclose(grad, others[key], rtol=1e-6, atol=1e-12)


def test_losses_go_on_from_checkpoints_of_other_numbers_of_ranks(outcomes) -> None:
    (alone,) = outcomes(1)
    whole = alone[CHECKPOINT][1]
    assert sorted(whole) == list(range(8)) and len(set(whole.values())) == 8
    for size, first in ((2, 2), (4, 4)):
        for of in outcomes(size):
            losses = of[CHECKPOINT][1]
            assert losses == pytest.approx({step: whole[step] for step in range(first, first + 4)}, rel=1e-6)
