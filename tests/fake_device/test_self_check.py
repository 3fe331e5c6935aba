"""The self-check of ``python -m dglite`` on the fake device; tests/gpu, on a GPU."""

from __future__ import annotations

from typing import Any

import pytest

from dglite import __main__ as command
from dglite.backend import active
from tests.fake_device.device import DEVICE


def check_there(name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a check on a device, then one that must fail there; assert that the results are the device's."""
    places, same = set(), command._same
    monkeypatch.setattr(command, "_same", lambda x, expected: places.add(active.device(x).type) or same(x, expected))
    assert command._passes(name, command.CHECKS[name], device)
    assert places == {device.partition(":")[0]}

    class Wrong(command._Sample):
        """The graph's features and edges do not match the arrays."""

        def graph(self) -> Any:
            self.src, self.dst = self.src[::-1].copy(), (self.dst + 1) % 50
            result = super().graph()
            self.x, self.w, self.dst = 2 * self.x, 2 * self.w + 1, self.dst[::-1].copy()
            return result

    monkeypatch.setattr(command, "_Sample", Wrong)
    assert not command._passes(name, command.CHECKS[name], device)


@pytest.mark.parametrize("name", command.CHECKS)
def test_kernels_are_checked(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    check_there(name, DEVICE, monkeypatch)
    assert f"{name:24}ok on {DEVICE}\n{name:24}FAILED on {DEVICE}: " in capsys.readouterr().out
