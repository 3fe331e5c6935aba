"""The same programs under every backend, and with any tensors, give the same values and gradients."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dglite import nn
from tests.backend.layers import CASES as LAYERS
from tests.backend.layers import ELSEWHERE, NEEDS_TORCH
from tests.backend.product import CASES, needs_layers, to_array

BACKENDS = [name for name in ("numpy", "cupy") if importlib.util.find_spec(name) is not None]
OWN = [(name, name) for name in BACKENDS]
GUESTS = [("torch", "numpy"), ("numpy", "torch")]
"""The backend, and whose the tensors are."""


def title(pair: tuple[str, str]) -> str:
    return f"{pair[1]} under {pair[0]}"


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what one process under another backend gives for the cases that were asked for."""
    path = tmp_path_factory.mktemp("product") / "results.npz"
    root = Path(__file__).parents[2]
    backend, tensors = request.param
    parameters = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    names = {params["name"] for params in parameters if params.get("results") == request.param}
    environment = {**os.environ, "DGLITE_BACKEND": backend, "PRODUCT_TENSORS": tensors, "PYTHONPATH": str(root)}
    run = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("product.py")), str(path), *sorted(names)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    with np.load(path) as file:
        return {**file, "backend": backend}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("results", OWN, indirect=True, ids=title)
def test_another_backend_gives_the_same(name: str, results: dict[str, Any]) -> None:
    assert_same(name, results)


@pytest.mark.parametrize("name", [name for name in CASES if not needs_layers(name)])
@pytest.mark.parametrize("results", GUESTS, indirect=True, ids=title)
def test_tensors_of_another_library_give_the_same(name: str, results: dict[str, Any]) -> None:
    assert_same(name, results)


def assert_same(name: str, results: dict[str, Any]) -> None:
    expected = {f"{name}/{key}": to_array(value) for key, value in CASES[name]().items()}
    outputs = {key: value for key, value in results.items() if key.startswith(f"{name}/")}
    assert f"{name}/error" not in outputs, outputs[f"{name}/error"]
    assert expected.keys() == outputs.keys()
    for key, value in expected.items():
        assert outputs[key].dtype == value.dtype, key
        if value.dtype.kind == "U":
            assert outputs[key] == value
            continue
        tolerance = {"rtol": 1e-5, "atol": 1e-6} if value.dtype == np.float32 else {"rtol": 1e-9, "atol": 1e-12}
        np.testing.assert_allclose(outputs[key], value, err_msg=key, **tolerance)


@pytest.mark.parametrize("name", NEEDS_TORCH)
@pytest.mark.parametrize("results", OWN, indirect=True, ids=title)
def test_a_layer_of_torch_alone_says_so(name: str, results: dict[str, Any]) -> None:
    NEEDS_TORCH[name]()
    message = str(results.get(f"refused {name}"))
    assert message.startswith(f"{name} needs torch, but the backend is {results['backend']}; set DGLITE_BACKEND=torch")


def test_every_layer_is_compared_or_refused() -> None:
    results = [name for name in nn.__all__ if isinstance(getattr(nn, name), type)]
    named = {name for name in results if issubclass(getattr(nn, name), nn.base.nn.Module)}
    compared = {name.split()[0] for name in LAYERS}
    assert not compared & NEEDS_TORCH.keys()
    assert named <= compared | NEEDS_TORCH.keys() | ELSEWHERE
