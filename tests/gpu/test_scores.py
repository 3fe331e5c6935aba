"""Attention written in steps on a real GPU: nothing shows that its scores wait, and the result is the CPU's."""

from __future__ import annotations

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("no CUDA device, or a torch without CUDA", allow_module_level=True)

from tests.fake_device.test_scores import ON_DEVICES, attend, waits_unnoticed


@pytest.mark.parametrize("case", ON_DEVICES, ids=lambda case: case.__name__)
def test_waiting_is_not_noticed(case, monkeypatch):
    waits_unnoticed(case, "cuda", monkeypatch)


@pytest.mark.parametrize("p", [0.0, 0.4])
def test_the_steps_are_those_of_the_cpu(p):
    torch.testing.assert_close(attend("cuda", p), attend("cpu", p))
