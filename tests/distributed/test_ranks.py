"""Several processes on one machine: what each reads, writes and samples is what one process would."""

from __future__ import annotations

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

SIZES = [1, 2, 4]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    @cache
    def run(size: int) -> list[dict[str, tuple[bool, Any]]]:
        folder: Path = tmp_path_factory.mktemp(f"ranks{size}")
        dglite.seed(size)
        for name in ("g", "h"):
            partition_graph(checks.reference(name), name, size, folder / name, part_method="random")
        partition_graph(checks.reference(), "g", size, folder / "again", part_method="locality", num_hops=2)
        partition_graph(checks.reference(), "g", 3, folder / "three", part_method="random")
        return results(folder, size, "tests.distributed.checks")

    return run


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", checks.NAMES)
def test_together(found, name, size) -> None:
    for rank, of in enumerate(found(size)):
        assert name in of, f"rank {rank} failed before: {list(of.values())[-1][1]}"
        passed, said = of[name]
        assert passed, f"rank {rank}: {said}"


def test_shared_batches_are_the_same_for_any_number_of_ranks(found) -> None:
    by_size = []
    for size in SIZES:
        batches = {}
        for of in found(size):
            batches.update(of["shared_batches"][1])
        by_size.append(batches)
    assert len(by_size[0]) == 18 and by_size[0][0, 0] != by_size[0][1, 0]
    assert by_size[0] == by_size[1] == by_size[2]


@pytest.mark.parametrize("network", NETWORKS)
def test_losses_and_gradients_are_those_of_one_process(found, network) -> None:
    (alone,) = found(1)
    for size in SIZES[1:]:
        for of in found(size):
            for (loss, grads), (expected, others) in zip(
                of["gradients_of_networks"][1][network], alone["gradients_of_networks"][1][network], strict=True
            ):
                np.testing.assert_allclose(loss, expected, rtol=1e-9)
                assert grads.keys() == others.keys() and (network != "RGCN" or "module.inputs.item.weight" in grads)
                for key, grad in grads.items():
                    np.testing.assert_allclose(grad, others[key], rtol=1e-6, atol=1e-12)
