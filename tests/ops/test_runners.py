"""Where operations run on devices whose kernels cannot be started."""

from __future__ import annotations

import torch

from dglite.ops import devices


def test_the_host_works_where_no_kernel_can_be_started(monkeypatch):
    monkeypatch.setattr(type(devices.RUNNERS["cuda"]), "why_unavailable", lambda self: "no driver")
    assert devices.device_on(torch.device("cuda:0")) is devices.HOST
    assert devices.device_on(torch.device("xpu:0")) is devices.HOST
    assert devices.device_on(torch.device("cpu")) is devices.HOST
