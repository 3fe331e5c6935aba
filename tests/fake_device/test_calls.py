"""Repeated calls on the fake device go straight to their kernel, and give what the CPU gives; tests/gpu, on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import dglite
from dglite import ops
from dglite.ops import attention, call_cache, segments
from tests.fake_device.device import DEVICE

NODES, WIDTH, HEADS = 40, 8, 2
CALLS: dict[str, Callable[..., torch.Tensor]] = {
    "sum": lambda g, x, w: ops.copy_u_sum(g, x),
    "weighted mean": ops.u_mul_e_mean,
    "max": lambda g, x, w: ops.copy_u_max(g, x),
    "largest product": ops.u_mul_e_max,
    "dot product": lambda g, x, w: ops.u_dot_v(g, x, x * 2),
    "sum of ends": lambda g, x, w: ops.u_add_v(g, x, x * 2),
    "edge softmax": lambda g, x, w: ops.edge_softmax(g, w),
    "segments": lambda g, x, w: ops.segment_reduce(torch.full((4,), NODES // 4), x),
    "additive attention": lambda g, x, w: ops.gat_attention(g, x[:, :HEADS] * 1, x[:, HEADS:4] * 1, by_head(x)),
    "with dropout": lambda g, x, w: ops.gat_attention(
        g, x[:, :HEADS] * 1, x[:, HEADS:4] * 1, by_head(x), dropout=0.4, edge_weight=w[:, 0] * 1, seed=5
    ),
    "dot attention": lambda g, x, w: ops.dot_attention(g, by_head(x), by_head(x * 2)),
    "GATv2's attention": lambda g, x, w: ops.gatv2_attention(g, by_head(x), by_head(x * 2), by_head(x)[0] * 1),
}


def by_head(x: torch.Tensor) -> torch.Tensor:
    """Return rows with an axis of heads, in memory of their own."""
    return x.reshape(len(x), HEADS, -1) * 1


def edges(hub: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random edges, ``hub`` of which go to node 3: beyond 256 its row is cut."""
    generator = torch.Generator().manual_seed(0)
    src, dst = (torch.randint(NODES - 1, (200 + hub,), generator=generator) for _ in range(2))
    dst[:hub] = 3
    return src, dst


def unaligned(x: torch.Tensor, device: str) -> torch.Tensor:
    """Return the same rows where no load of 16 bytes may begin."""
    return torch.cat([x.new_zeros(1), x.flatten()]).to(device)[1:].view(x.shape)


def repeat(name: str, hub: int, recorded: bool, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    src, dst = edges(hub)
    g, here = (dglite.graph((src, dst), num_nodes=NODES).to(place) for place in (device, "cpu"))
    torch.manual_seed(0)
    chosen, stored = list[str](), call_cache.store
    segments._few_segments.cache_clear()
    for module in (call_cache, attention):
        monkeypatch.setattr(module, "store", lambda *args: chosen.append(name) or stored(*args))
    for number in range(4):
        x, w = torch.randn(NODES, WIDTH), torch.rand(len(src), 1)
        there = [unaligned(x, device) if number == 3 else x.to(device), w.to(device)]
        results = []
        for graph, tensors in ((here, [x, w]), (g, there)):
            chosen.clear()
            tensors = [y.requires_grad_(recorded) for y in tensors]
            out = CALLS[name](graph, *tensors)
            results.append([out.detach(), *(gradients(out, tensors) if recorded else [])])
        assert bool(chosen) == (number == 0), "a kernel is chosen once"
        for actual, want in zip(results[1], results[0], strict=True):
            torch.testing.assert_close(actual.cpu(), want, rtol=5e-5, atol=2e-5)


def gradients(out: torch.Tensor, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the gradients of those tensors that the result depends on."""
    grad = torch.arange(out.numel(), dtype=out.dtype).sin().reshape(out.shape).to(out.device)
    return [y for y in torch.autograd.grad(out, tensors, grad, allow_unused=True) if y is not None]


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("hub", [0, 700])
@pytest.mark.parametrize("name", CALLS)
def test_later_calls_go_straight_to_their_kernel(name, hub, recorded, monkeypatch):
    repeat(name, hub, recorded, DEVICE, monkeypatch)
