"""Layers on the fake device give what they give on the CPU, and so do their gradients: by kernels, and without any."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dglite
from dglite import nn
from dglite.ops import devices, fallback
from tests.fake_device.device import DEVICE, KIND

WIDTH = 8
LAYERS: dict[str, tuple[Callable[[], torch.nn.Module], bool]] = {
    "GraphConv": (lambda: nn.GraphConv(WIDTH, 4), False),
    "GraphConv weighted": (lambda: nn.GraphConv(WIDTH, 4, norm="none"), True),
    "SAGEConv mean": (lambda: nn.SAGEConv(WIDTH, 4, "mean"), False),
    "SAGEConv pool": (lambda: nn.SAGEConv(WIDTH, 4, "pool"), False),
    "GATConv": (lambda: nn.GATConv(WIDTH, 4, 2), False),
    "GATv2Conv": (lambda: nn.GATv2Conv(WIDTH, 4, 2), False),
    "DotGatConv": (lambda: nn.DotGatConv(WIDTH, 4, 2), False),
    "GINConv max": (lambda: nn.GINConv(torch.nn.Linear(WIDTH, 4), "max"), False),
    "SGConv": (lambda: nn.SGConv(WIDTH, 4, k=2), False),
    "APPNPConv": (lambda: nn.APPNPConv(3, 0.2), False),
    "TAGConv": (lambda: nn.TAGConv(WIDTH, 4), False),
    "ChebConv": (lambda: nn.ChebConv(WIDTH, 4, 3), False),
    "EdgeConv": (lambda: nn.EdgeConv(WIDTH, 4), False),
    "AGNNConv": (lambda: nn.AGNNConv(), False),
    "PNAConv": (lambda: nn.PNAConv(WIDTH, 4, ["mean", "max", "std"], ["identity"], 2.5), False),
    "GCN2Conv": (lambda: nn.GCN2Conv(WIDTH, 1), False),
}


def graph() -> dglite.DGLGraph:
    """Return a graph whose nodes all have in-edges; some have many, some no other out-edge."""
    generator = torch.Generator().manual_seed(3)
    src, dst = torch.randint(20, (60,), generator=generator), torch.randint(40, (60,), generator=generator)
    return dglite.add_self_loop(dglite.graph((src, dst % 30), num_nodes=30))


def run(layer: torch.nn.Module, g: dglite.DGLGraph, weighted: bool, device: str) -> list[torch.Tensor]:
    """Return the result and the gradients of the features and the parameters, on the host."""
    torch.manual_seed(1)
    x, weight = torch.randn(g.num_nodes(), WIDTH), torch.rand(g.num_edges(), 1)
    x = x.to(device).requires_grad_()
    more: dict[str, Any] = {"edge_weight": weight.to(device)} if weighted else {}
    args = (x, x) if isinstance(layer, nn.GCN2Conv) else (x,)
    out = layer.to(device)(g.to(device), *args, **more)
    assert out.device == x.device
    out.square().sum().backward()
    return [out.detach().cpu(), x.grad.cpu(), *(p.grad.cpu() for p in layer.parameters() if p.grad is not None)]


def compare(name: str) -> None:
    make, weighted = LAYERS[name]
    torch.manual_seed(0)
    here, g = make(), graph()
    there = copy.deepcopy(here)
    for actual, want in zip(run(there, g, weighted, DEVICE), run(here, g, weighted, "cpu"), strict=True):
        torch.testing.assert_close(actual, want, rtol=1e-4, atol=1e-4)


NAMES = list(LAYERS) if os.environ.get("DGLITE_TEST_FULL") == "1" else list(LAYERS)[::2]
"""All with --full."""


@pytest.mark.parametrize("name", NAMES)
def test_a_layer_is_that_of_the_cpu(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # kernels are lacking
        compare(name)


@pytest.fixture
def no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the device be one that dglite has no kernels for, as MPS or XPU."""
    monkeypatch.delitem(devices.RUNNERS, KIND)
    monkeypatch.setattr(fallback, "_WARNED", [])


@pytest.mark.filterwarnings("ignore:dglite has no kernels")
@pytest.mark.parametrize("name", NAMES)
def test_a_layer_on_a_device_without_kernels(no_kernels, name):
    compare(name)
