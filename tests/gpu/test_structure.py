"""Graphs whose edges are on a real GPU, as on the CPU; the same is tested on tests/fake_device."""

from __future__ import annotations

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("no CUDA device, or a torch without CUDA", allow_module_level=True)

import dglite
from tests.fake_device.test_structure import (
    CONVS,
    NODES,
    OF_GRAPH,
    OF_TYPES,
    SAMPLERS,
    WIDTH,
    block_contents,
    contents,
    few,
    listed,
    make,
    on_host,
    types,
)


@pytest.mark.parametrize("moved", [False, True], ids=["made there", "moved there"])
@pytest.mark.parametrize("name", list(OF_GRAPH))
def test_structure_is_made_on_the_gpu(name, moved):
    want, actual = (contents(OF_GRAPH[name](make(device, moved=moved), device)) for device in ("cpu", "cuda"))
    torch.testing.assert_close(on_host(actual), on_host(want), rtol=0, atol=0)


@pytest.mark.parametrize("name", list(OF_TYPES))
def test_several_types(name):
    want, actual = (contents(OF_TYPES[name](types(device), device)) for device in ("cpu", "cuda"))
    torch.testing.assert_close(on_host(actual), on_host(want), rtol=0, atol=0)


@pytest.mark.parametrize("name", list(SAMPLERS))
def test_samples_stay_on_the_gpu(name):
    results = []
    for device in ("cpu", "cuda"):
        g, seeds = make(device), few(7, 3, 20)(device)
        dglite.seed(3)
        results.append([block_contents(x) for x in listed(SAMPLERS[name](g, seeds))])
    torch.testing.assert_close(on_host(results[1]), on_host(results[0]), rtol=0, atol=0)


@pytest.mark.parametrize("name", list(CONVS))
def test_a_first_step_on_edges_made_there_does_not_wait(name):
    results = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        layer, warm, g = CONVS[name]().double().to(device), make(device), make(device)
        x = torch.randn(NODES, WIDTH, dtype=torch.float64).to(device).requires_grad_()
        layer(warm, x).square().sum().backward()  # kernels are compiled and torch's libraries loaded
        if device == "cuda":
            torch.cuda.set_sync_debug_mode("error")
        try:
            out = layer(g, x)
            out.square().sum().backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        results.append((out.detach().cpu(), x.grad.cpu()))
    torch.testing.assert_close(results[1], results[0])
