"""Random calls of DGL's functions return the same under the alias as with DGL 2.1: values, dtypes, ids and orders."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.compat.random_calls import CALLS
from tests.patience import PATIENCE

SPEC = importlib.util.find_spec("dgl")
HAS_DGL = SPEC is not None and (Path(SPEC.origin or "").parent / "_ffi").is_dir()  # else it is the one in shim/
SCRIPT = Path(__file__).with_name("random_calls.py")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return the results of both libraries, each in a process of its own."""
    results_of = {}
    for library in ("dglite", "dgl"):
        path = tmp_path_factory.mktemp("calls") / f"{library}.pt"
        environment = os.environ | {
            "DGLBACKEND": "pytorch",
            "PYTHONPATH": os.pathsep.join(map(str, SCRIPT.parents[2:3])),
        }
        command = [sys.executable, "-W", "ignore", str(SCRIPT), library, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment)
        assert done.returncode == 0, done.stderr
        results_of[library] = torch.load(path, weights_only=False)
    return results_of


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        return torch.allclose(a, b, rtol=1e-4, atol=1e-5) if a.is_floating_point() else torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


@pytest.mark.skipif(not HAS_DGL, reason="needs DGL 2.1 itself: pip install --no-deps dgl==2.1.0")
@pytest.mark.parametrize("name", CALLS)
def test_calls_return_what_dgl_returns(name: str, results: dict[str, dict[str, Any]]) -> None:
    cases = [case for case in results["dgl"] if case.split()[0] == name]
    assert cases
    assert [case for case in cases if not same(results["dglite"][case], results["dgl"][case])] == []
