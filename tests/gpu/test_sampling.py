"""Sampling on a real GPU: the CPU's draws for the same seed; the same is tested on tests/fake_device."""

from __future__ import annotations

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("no CUDA device, or a torch without CUDA", allow_module_level=True)

from tests.fake_device.test_sampling import (
    BY_TIME,
    KINDS,
    LOADERS,
    OF_GRAPH,
    OF_TYPES,
    WALKS,
    compare,
    compare_loader,
    compare_metapath,
    compare_times,
    compare_types,
    compare_walks,
)


@pytest.mark.parametrize(
    ("moved", "dtype"), [(False, torch.int64), (True, torch.int32)], ids=["made there", "moved there"]
)
@pytest.mark.parametrize("name", list(OF_GRAPH))
def test_draws_are_the_cpus(name, moved, dtype):
    compare(name, "cuda", moved, dtype)


@pytest.mark.parametrize("name", list(OF_TYPES))
def test_relations_of_several_types(name):
    compare_types(name, "cuda")


@pytest.mark.parametrize("exclude", [False, True], ids=["all edges", "without some"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", list(BY_TIME))
def test_samples_by_time_are_the_cpus(name, kind, exclude):
    compare_times(name, kind, exclude, "cuda")


@pytest.mark.parametrize("name", list(LOADERS))
def test_batches_are_the_cpus(name):
    compare_loader(name, "cuda")


@pytest.mark.parametrize("name", list(WALKS))
def test_walks_are_the_cpus(name):
    compare_walks(name, "cuda", torch.int64)


def test_walks_along_several_types():
    compare_metapath("cuda")
