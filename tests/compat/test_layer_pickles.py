"""Whole layers that DGL 2.1 saved by ``torch.save(layer)`` load under the alias, and return what DGL's layers do.

``pickles/2.1_layers.pt`` was written by ``python tests/compat/dgl_layers.py FILE NAME ...`` with DGL; where DGL is
installed, all layers are written anew.
"""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from dglite.nn import GATConv
from tests.compat.dgl_layers import CASES
from tests.patience import PATIENCE
from tests.versions import has_torch

HERE = Path(__file__).parent
COMMITTED = torch.load(HERE / "pickles" / "2.1_layers.pt", weights_only=has_torch("2.5"))
SPEC = importlib.util.find_spec("dgl")
HAS_DGL = (
    SPEC is not None and (Path(SPEC.origin or "").parent / "_ffi").is_dir()
)  # else it is the distribution in shim/


class Derived(GATConv):
    """A layer of a user's."""


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return a.shape == b.shape and torch.allclose(a.double(), b.double(), atol=1e-5, rtol=1e-4)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def load(content: bytes) -> Any:
    return torch.load(io.BytesIO(content), weights_only=False)


def saved(layer: Any) -> bytes:
    file = io.BytesIO()
    torch.save(layer, file)
    return file.getvalue()


def check(name: str, content: bytes, expected: Any) -> None:
    import dgl

    _, call = CASES[name](dgl.nn.pytorch, dgl)
    layer = load(content)
    with torch.no_grad():
        assert same(call(layer), expected)
        assert same(call(load(saved(layer))), expected)
    assert type(layer).__name__ in repr(layer) or "object at" in repr(layer)


@pytest.mark.usefixtures("dgl_is_dglite")
@pytest.mark.parametrize("name", COMMITTED)
def test_layers_in_a_file_of_dgl(name: str) -> None:
    check(name, *COMMITTED[name])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Return what DGL itself writes of all layers, in a process of its own."""
    path = tmp_path_factory.mktemp("layers") / "layers.pt"
    environment = os.environ | {"DGLBACKEND": "pytorch", "PYTHONPATH": ""}
    command = [sys.executable, "-W", "ignore", str(HERE / "dgl_layers.py"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment)
    assert done.returncode == 0, done.stderr
    yield torch.load(path, weights_only=True)


@pytest.mark.skipif(not HAS_DGL, reason="needs DGL 2.1 itself: pip install --no-deps dgl==2.1.0")
@pytest.mark.usefixtures("dgl_is_dglite")
@pytest.mark.parametrize("name", CASES)
def test_layers_that_dgl_writes(name: str, written: dict[str, Any]) -> None:
    check(name, *written[name])


@pytest.mark.usefixtures("dgl_is_dglite")
def test_a_layer_is_trained_on_after_loading() -> None:
    import dgl

    g = dgl.add_self_loop(dgl.rand_graph(20, 60))
    layer = load(COMMITTED["CFConv"][0]).train()
    before = {name: x.clone() for name, x in layer.named_parameters()}
    layer(g, torch.rand(20, 4), torch.rand(60 + 20, 3)).square().sum().backward()
    torch.optim.SGD(layer.parameters(), 0.1).step()
    assert all(not torch.equal(x, before[name]) for name, x in layer.named_parameters() if x.grad.abs().sum() > 0)
    assert any(x.grad.abs().sum() > 0 for x in layer.parameters())


@pytest.mark.usefixtures("dgl_is_dglite")
def test_layers_that_users_derived() -> None:
    import dgl

    layer = load(saved(Derived(4, 3, 2)))
    assert layer(dgl.graph(([0, 1], [1, 0])), torch.ones(2, 4)).shape == (2, 2, 3)


def test_names_of_parts_are_not_given_to_star_imports(dgl_is_dglite: None) -> None:
    names: dict[str, Any] = {}
    exec("from dgl.nn.pytorch.conv.twirlsconv import *; from dgl.nn.pytorch.glob import *", names)
    assert {"TWIRLSConv", "GlobalAttentionPooling"} <= names.keys()
    assert not {"MLP", "Attention", "Tensor", "nn"} & names.keys()
