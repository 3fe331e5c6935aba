"""Repeated calls on the fake device go straight to their kernel, and give what the CPU gives; tests/gpu, on a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dglite
from dglite import ops
from dglite.ops import sparse
from tests.fake_device.device import DEVICE

NODES, WIDTH = 40, 8
CALLS: dict[str, Any] = {
    "sum": lambda g, x, w: ops.copy_u_sum(g, x),
    "weighted mean": ops.u_mul_e_mean,
    "max": lambda g, x, w: ops.copy_u_max(g, x),
}


def edges(hub: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random edges, ``hub`` of which go to node 3: beyond 256 its row is cut."""
    generator = torch.Generator().manual_seed(0)
    src, dst = (torch.randint(NODES - 1, (200 + hub,), generator=generator) for _ in range(2))
    dst[:hub] = 3
    return src, dst


def unaligned(x: torch.Tensor, device: str) -> torch.Tensor:
    """Return the same rows where no load of 16 bytes may begin."""
    return torch.cat([x.new_zeros(1), x.flatten()]).to(device)[1:].view(x.shape)


def repeat(name: str, hub: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    src, dst = edges(hub)
    g, here = (dglite.graph((src, dst), num_nodes=NODES).to(place) for place in (device, "cpu"))
    torch.manual_seed(0)
    hits, cached = list[bool](), sparse.run_cached
    for number in range(4):
        x, w = torch.randn(NODES, WIDTH), torch.rand(len(src), 1)
        there = unaligned(x, device) if number == 3 else x.to(device)
        want = CALLS[name](here, x, w)
        with monkeypatch.context() as patch:
            patch.setattr(sparse, "run_cached", lambda *args: _noted(hits, cached(*args)))
            actual = CALLS[name](g, there, w.to(device))
        torch.testing.assert_close(actual.cpu(), want, rtol=2e-5, atol=1e-5)
    assert hits == [False, True, True, True]


def _noted(hits: list[bool], result: Any) -> Any:
    hits.append(result is not None)
    return result


@pytest.mark.parametrize("hub", [0, 700])
@pytest.mark.parametrize("name", CALLS)
def test_later_calls_go_straight_to_their_kernel(name, hub, monkeypatch):
    repeat(name, hub, DEVICE, monkeypatch)
