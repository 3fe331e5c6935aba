"""The recipe for a CPU kernel, followed literally: its two files are what docs/contributing.md shows."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from dglite import DGLError

PAGE = Path(__file__).parents[1] / "docs" / "contributing.md"


@pytest.fixture(scope="module")
def segment_quantile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., torch.Tensor]]:
    """Import the files of the recipe under the names that they would have."""
    files = re.findall(r"^`(dglite/\S+\.py)`:\n\n```py\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    names = [path.removesuffix(".py").replace("/", ".") for path, _ in files]
    assert len(files) == 2 and not set(names) & sys.modules.keys()
    for name, (_, text) in zip(names, files, strict=True):
        importlib.import_module(name.rpartition(".")[0])
        path = tmp_path_factory.mktemp("recipe") / "quantile.py"
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    yield module.segment_quantile
    for name in names:
        del sys.modules[name]


def _quantile(lengths: np.ndarray, x: torch.Tensor, q: float) -> torch.Tensor:
    parts = x.split(lengths.tolist())
    zeros = torch.zeros(x.shape[1:], dtype=x.dtype)
    return torch.stack([torch.quantile(p, q, 0, interpolation="nearest") if len(p) else zeros for p in parts])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("q", [0, 0.25, 0.5, 1])
def test_values(segment_quantile: Callable[..., torch.Tensor], q: float, dtype: torch.dtype) -> None:
    lengths, x = np.array([3, 0, 5, 1]), torch.randint(-2, 3, (9, 2, 3)).to(dtype)
    assert torch.equal(segment_quantile(lengths, x, q), _quantile(lengths, x, q))


def test_in_threads(segment_quantile: Callable[..., torch.Tensor]) -> None:
    lengths = np.full(5000, 10)
    x = torch.randn(50_000, 3)
    assert torch.equal(segment_quantile(lengths, x, 0.5), _quantile(lengths, x, 0.5))


def test_gradients(segment_quantile: Callable[..., torch.Tensor]) -> None:
    lengths, x = np.array([3, 0, 5, 1]), torch.randn(9, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: segment_quantile(lengths, x, 0.5), x)
    assert torch.autograd.gradgradcheck(lambda x: segment_quantile(lengths, x, 0.5) ** 2, x)


def test_errors(segment_quantile: Callable[..., torch.Tensor]) -> None:
    with pytest.raises(DGLError, match=r"q must be in \[0, 1\], got 2"):
        segment_quantile(np.array([1]), torch.ones(1), 2)
    with pytest.raises(DGLError, match="float32 or float64"):
        segment_quantile(np.array([1]), torch.ones(1, dtype=torch.float16), 0.5)
