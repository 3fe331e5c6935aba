"""Parameters cross from torch to NumPy in files, and give the same results there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import dglite
from dglite import nn
from dglite.errors import DGLError

PROGRAM = """
import sys, numpy as np, dglite
layer = dglite.nn.GraphConv(3, 2)
for path in sys.argv[1:]:
    layer.load_state_dict(dglite.nn.load_state_dict(path))
    out = layer(dglite.graph(([0, 1, 2], [1, 2, 0])), np.arange(9, dtype=np.float32).reshape(3, 3))
    print(*out.detach().numpy().ravel())
assert "torch" not in sys.modules
"""


def test_torch_trains_numpy_infers(tmp_path: Path) -> None:
    """Files that dglite, NumPy and safetensors write, each of another layer."""
    layers = {name: nn.GraphConv(3, 2) for name in ("ours.npz", "ours.safetensors", "numpys.npz", "its.safetensors")}
    paths = [tmp_path / name for name in layers]
    first, second, third, fourth = (layer.state_dict() for layer in layers.values())
    nn.save_state_dict(first, paths[0])
    nn.save_state_dict(second, paths[1])
    np.savez(paths[2], **{name: x.numpy() for name, x in third.items()})
    save_file(fourth, paths[3])
    environment = {**os.environ, "DGLITE_BACKEND": "numpy", "PYTHONPATH": str(Path(__file__).parents[2])}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, paths)], env=environment, capture_output=True, text=True, check=True
    )
    for (name, layer), line in zip(layers.items(), run.stdout.splitlines(), strict=True):
        expected = layer(dglite.graph(([0, 1, 2], [1, 2, 0])), torch.arange(9.0).reshape(3, 3)).detach().ravel()
        np.testing.assert_allclose(np.array(line.split(), np.float64), expected, rtol=1e-5, err_msg=name)


def test_there_and_back(tmp_path: Path) -> None:
    state = {"a.weight": torch.rand(2, 3).T, "b": torch.tensor([1, 2]), "c": torch.ones(1, dtype=torch.bfloat16)}
    nn.save_state_dict(state, tmp_path / "state.npz")
    result = nn.load_state_dict(tmp_path / "state.npz")
    assert result["c"].dtype is torch.float32 and result["b"].dtype is torch.int64
    torch.testing.assert_close(result["a.weight"], state["a.weight"])


def test_wrong_files_are_explained(tmp_path: Path) -> None:
    with pytest.raises(DGLError, match=r"ends in \.pt; expected \.npz or \.safetensors"):
        nn.load_state_dict("model.pt")
    with pytest.raises(DGLError, match="there is no file"):
        nn.load_state_dict(tmp_path / "none.npz")
    with pytest.raises(DGLError, match="'a' is a list"):
        nn.save_state_dict({"a": [1]}, tmp_path / "a.npz")
    with pytest.raises(DGLError, match="cannot be written"):
        nn.save_state_dict({"a": torch.ones(1)}, tmp_path / "folder" / "a.safetensors")
    for name in ("a.npz", "a.safetensors"):
        (tmp_path / name).write_bytes(b"not one")
        with pytest.raises(DGLError, match="is not read as"):
            nn.load_state_dict(tmp_path / name)


def test_any_name_and_shape_is_kept(tmp_path: Path) -> None:
    state = {"file": torch.ones(2), "a/b.c": torch.tensor(3), "": torch.empty(0, 2), "self": torch.ones(1)}
    for suffix in (".npz", ".safetensors"):
        nn.save_state_dict(state, tmp_path / f"s{suffix}")
        result = nn.load_state_dict(tmp_path / f"s{suffix}")
        assert result.keys() == state.keys()
        for name, x in state.items():
            assert result[name].shape == x.shape and torch.equal(result[name], x)
        result["file"][0] = 2.0


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_file_is_replaced_whole_or_not_at_all(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"s{suffix}"
    nn.save_state_dict({"a": torch.ones(2)}, path)
    before = path.read_bytes()

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        nn.save_state_dict({"a": torch.zeros(2)}, path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == [path.name]
