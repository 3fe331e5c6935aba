"""Which backend is chosen."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from dglite import backend
from dglite.backend import Backend
from dglite.backend.array import ArrayBackend
from dglite.backend.numpy import NumpyBackend
from dglite.backend.torch import TorchBackend

ROOT = Path(__file__).parents[2]


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {key: value for key, value in os.environ.items() if key not in ("DGLITE_BACKEND", "DGLBACKEND")}
    environment = {**inherited, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)


def test_numpy_does_without_torch() -> None:
    code = """
import sys
sys.modules["torch"] = None  # importing it fails from here on
import dglite, dglite.nn, dglite.data
print(dglite.backend.name, dglite.graph(([0], [1])).nodes())
"""
    result = run(code, DGLBACKEND="numpy")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "numpy tensor([0, 1])\n"


def test_numpy_is_on_no_gpu() -> None:
    code = """
import dglite
g = dglite.graph(([0], [1]))
for make in (lambda d: g.to(d), lambda d: dglite.graph(([0], [1]), device=d), lambda d: g.adj().to(d)):
    assert make("cpu").device == g.device
    for device in ("cuda", "gpu", "cuda:1", 0):
        try:
            make(device)
        except dglite.DGLError as error:
            assert f"for {device} set DGLITE_BACKEND to cupy or torch" in str(error), error
        else:
            raise AssertionError(device)
print("refused")
"""
    assert run(code, DGLITE_BACKEND="numpy").stdout == "refused\n"


def test_the_configuration_file_chooses(tmp_path: Path) -> None:
    (tmp_path / ".dglite").mkdir()
    (tmp_path / ".dglite" / "config.json").write_text('{"backend": "numpy"}')
    code = "from dglite import backend; print(backend.name)"
    assert run(code, HOME=str(tmp_path)).stdout == "numpy\n"
    assert run(code, HOME=str(tmp_path), DGLBACKEND="pytorch").stdout == "torch\n"


def test_the_page_on_backends_runs_without_torch(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "backends.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE))
    (tmp_path / "page.py").write_text(f"import sys\nsys.modules['torch'] = None\n{code}\nprint(loss.item() < 0.69)\n")
    result = run(f"import os, runpy; os.chdir({str(tmp_path)!r}); runpy.run_path('page.py')", DGLITE_BACKEND="numpy")
    assert result.stdout == "True\n", result.stderr


@pytest.mark.parametrize(("name", "problem"), [("jaxx", "unknown backend 'jaxx'"), ("cupy", "'cupy' cannot be loaded")])
def test_what_is_not_there_is_explained(name: str, problem: str) -> None:
    code = "import sys; sys.modules['cupy'] = None\nimport dglite"
    result = run(code, DGLITE_BACKEND=name)
    assert result.returncode != 0 and problem in result.stderr
    assert "expected one of torch, numpy, cupy. Installed: torch, numpy" in result.stderr
    assert "DGLITE_BACKEND, DGLBACKEND or ~/.dglite/config.json" in result.stderr


@pytest.mark.parametrize("kind", [TorchBackend, NumpyBackend, ArrayBackend])
def test_the_contract_is_kept(kind: type[Backend]) -> None:
    lacking = kind.__abstractmethods__
    assert lacking == (frozenset(("address",)) if kind is ArrayBackend else frozenset())
    for name in ("framework", "functions", "modules", "tensor_type"):
        assert getattr(kind, name)


def test_whose_tensor_it_is() -> None:
    assert backend.backend_of(torch.ones(1)) is backend.active and backend.backend_of([1]) is None
    assert backend.backend_of(np.ones(1)) is None and backend.name == "torch" and backend.framework is torch
