"""The explanation of a paper's field is one: what it keeps gives the prediction, the rest does not."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import torch

import dglite
from examples import explain
from tests.examples.conftest import Run

FOLDERS = [Path(os.environ.get("DGLITE_DATA_DIR", "")) / part for part in ("", "planetoid")]


@pytest.mark.skipif(
    not any((folder / "ind.cora.graph").is_file() for folder in FOLDERS),
    reason="DGLITE_DATA_DIR names no folder with ind.cora.graph",
)
def test_a_paper_of_cora(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "reasons.png"
    printed = run(explain, "--epochs", 60, "--steps", 100, "--picture", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "paper 10 is put into field 0 (its label: 0) from 7 papers and 19 citations" in printed
    chances = dict(re.findall(r"^  (.*): (0\.\d+)$", printed, flags=re.MULTILINE))
    whole, alone, others, drawn = (float(chance) for chance in chances.values())
    assert list(chances) == ["all citations", "the explanation only", "all others only", "as many at random"]
    assert abs(alone - whole) < 0.15, "what is kept explains the prediction"
    assert max(others, drawn) < alone - 0.05, "and nothing else does"


def test_a_probability_is_that_of_the_whole_graph() -> None:
    """At the border of a subgraph papers have fewer citations, which GraphConv's norm sees."""
    torch.manual_seed(0)
    graph = dglite.add_self_loop(dglite.rand_graph(60, 300))
    graph.ndata["feat"] = torch.randn(60, 5)
    model = explain.GCN(5, 4, 3).eval()
    near, (paper,) = dglite.khop_in_subgraph(graph, 7, explain.NUM_HOPS)
    assert near.num_nodes() < graph.num_nodes() and near.ndata[dglite.NID][paper] == 7
    every = torch.ones(near.num_edges(), dtype=torch.bool)
    expected = model(graph, graph.ndata["feat"])[7].softmax(-1)[1]
    assert explain.probability(model, graph, near, 7, 1, every) == pytest.approx(float(expected))
    without = dglite.graph(([], []), num_nodes=60)
    bias = model(dglite.add_self_loop(without), torch.zeros(60, 5))[7].softmax(-1)[1]
    assert explain.probability(model, graph, near, 7, 1, ~every) == pytest.approx(float(bias))
