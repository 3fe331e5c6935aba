"""The example of mini-batches learns what there is to learn, as well as on the whole graph."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import dglite
from examples import minibatch_sage
from tests.examples.conftest import Run


class Planted:
    """A graph in which most edges join nodes of a class, and features that say little about it."""

    num_classes = 2

    def __init__(self, raw_dir: str | None = None) -> None:
        generator = torch.Generator().manual_seed(0)
        label = torch.arange(200) % 2
        src = torch.randint(200, (1600,), generator=generator)
        step = 2 * torch.randint(100, (1600,), generator=generator) + (torch.rand(1600, generator=generator) < 0.1)
        g = self.graph = dglite.graph((src, (src + step) % 200), num_nodes=200)
        g.ndata["label"] = label
        g.ndata["feat"] = torch.randn(200, 8, generator=generator) + 0.4 * (2 * label[:, None] - 1)
        part = torch.arange(200) % 10
        g.ndata["train_mask"], g.ndata["val_mask"], g.ndata["test_mask"] = part < 3, part == 3, part > 3

    def __getitem__(self, _: int) -> dglite.DGLGraph:
        return self.graph


@pytest.mark.parametrize("model", ["sage", "gat"])
def test_mini_batches_are_as_good_as_the_whole_graph(model: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minibatch_sage, "DATASETS", {"cora": Planted})
    options = ["--model", model, "--epochs", 10, "--batch-size", 16, "--seeds", 2]
    printed = run(minibatch_sage, *options, "--expect", 0.85, "--within", 0.05)
    assert printed.count("whole graph: test accuracy") == 2
    with pytest.raises(SystemExit, match=r"expected a .* of at least"):
        run(SimpleNamespace(__name__="minibatch_sage", main=minibatch_sage.main), *options, "--expect", 1.01)
