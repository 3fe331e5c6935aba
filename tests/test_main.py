"""``python -m dglite``: what it prints, and its exit status."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dglite import __main__ as command
from dglite import __version__, backend


def test_report(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/one").write_bytes(bytes(3 << 20))
    monkeypatch.setattr(command.config, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(command, "CHECKS", {})
    monkeypatch.setenv("DGLITE_POOL", "3G")
    assert command.main() == 0
    message = capsys.readouterr().out
    for part in (
        f"dglite    {__version__}, ",
        f"python    {sys.version.split()[0]}, ",
        "llvmlite ",
        "cupy ",
        f"backend   {backend.name}, {backend.active.num_threads()} threads\n",
        f"kernels   {tmp_path} (1 files, 3.0 of ",
        "memory    pool of 3.0 GB at most",
        "self-check ok",
    ):
        assert part in message


def test_packages_that_are_not_installed_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_PACKAGES", {"some": ("no-such", "numpy"), "other": ("no-such",)})
    assert dict(command._facts())["packages"] == f"some {np.__version__}, other not installed"


@pytest.mark.parametrize("name", command.CHECKS)
def test_checks_find_what_is_wrong(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command._passes(name, command.CHECKS[name])

    class Wrong(command._Sample):
        """The graph has one edge that the arrays do not have."""

        def graph(self) -> Any:
            result = super().graph()
            result.add_edges(59, 0, {"w": backend.active.from_numpy(self.w[:1])})
            result.add_edges(59, 59, {"w": backend.active.from_numpy(self.w[:1])})
            return result

    monkeypatch.setattr(command, "_Sample", Wrong)
    monkeypatch.setattr(command, "CHECKS", {name: command.CHECKS[name]})
    capsys.readouterr()
    assert command.main() == 1
    message = capsys.readouterr().out
    assert f"{name:24}FAILED: " in message
    assert f"self-check failed: {name}" in message


@pytest.mark.skipif(backend.name != "torch", reason="GPUs are torch's")
@pytest.mark.parametrize(("missing", "devices"), [("", ["cpu", "cuda"]), ("NVRTC is missing", ["cpu"])])
def test_a_gpu_is_named_and_checked(monkeypatch: pytest.MonkeyPatch, missing: str, devices: list[str]) -> None:
    cuda = backend.framework.cuda
    monkeypatch.setattr(cuda, "is_available", lambda: True)
    monkeypatch.setattr(cuda, "get_device_name", lambda: "Some GPU")
    monkeypatch.setattr(cuda, "get_device_properties", lambda: SimpleNamespace(total_memory=80 << 30))
    monkeypatch.setattr(command, "why_no_kernels", lambda device: missing)
    assert command._devices() == devices
    assert re.fullmatch(rf"Some GPU, 80 GB, CUDA .*(, but {missing}|g\.to\('cuda'\) .*)", command._gpu())
    monkeypatch.setattr(cuda, "is_available", lambda: False)
    assert command._devices() == ["cpu"] and command._gpu().startswith("none: torch ")


def test_as_a_command() -> None:
    environment = {**os.environ, "DGLITE_BACKEND": "numpy"}
    done = subprocess.run([sys.executable, "-m", "dglite"], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "backend   numpy" in done.stdout
