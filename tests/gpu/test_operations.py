"""Every public operation and every layer on a real GPU, with its gradients, as on the CPU."""

from __future__ import annotations

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("no CUDA device, or a torch without CUDA", allow_module_level=True)

from tests.fake_device.test_operations import (
    LAYERS,
    NAMES,
    OTHERS,
    compare_case,
    compare_layer,
    compare_operation,
    compare_sparse_features,
)


@pytest.mark.parametrize(("case", "name"), LAYERS, ids=str)
def test_layers(case, name):
    compare_case(case, name, "cuda")


@pytest.mark.parametrize("name", OTHERS)
def test_other_layers(name):
    compare_layer(name, "cuda")


@pytest.mark.parametrize("name", NAMES)
def test_operations(name, monkeypatch):
    compare_operation(name, "cuda", monkeypatch)


def test_sparse_features():
    compare_sparse_features("cuda")
