"""``python -m dglite`` on a real GPU."""

from __future__ import annotations

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("no CUDA device, or a torch without CUDA", allow_module_level=True)

from dglite import __main__ as command
from tests.fake_device.test_self_check import check_there


@pytest.mark.parametrize("name", command.CHECKS)
def test_kernels_are_checked(name, monkeypatch):
    check_there(name, "cuda", monkeypatch)


def test_the_command_checks_the_gpu(capsys):
    assert command.main() == 0
    message = capsys.readouterr().out
    assert torch.cuda.get_device_name() in message
    assert all(f"{name:24}ok\n" in message and f"{name:24}ok on cuda\n" in message for name in command.CHECKS)
