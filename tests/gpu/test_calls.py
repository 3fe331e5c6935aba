"""Repeated calls on a real GPU; the same is tested on tests/fake_device."""

from __future__ import annotations

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("no CUDA device, or a torch without CUDA", allow_module_level=True)

from tests.fake_device.test_calls import CALLS, repeat


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("hub", [0, 700])
@pytest.mark.parametrize("name", CALLS)
def test_later_calls_go_straight_to_their_kernel(name, hub, recorded, monkeypatch):
    repeat(name, hub, recorded, "cuda", monkeypatch)
