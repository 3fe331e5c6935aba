"""What holds for all explainers."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import dglite
from dglite import nn, progress
from dglite.errors import DGLError
from tests.nn.explain.models import (
    MarkedPairs,
    TypedMarkedPairs,
    Weightless,
    marks,
    tree_with_triangle,
    typed_marks,
    users_and_games,
)

GRAPH, TYPED = tree_with_triangle(), users_and_games()
Call = Callable[[torch.nn.Module, Any, Any], Any]
CALLS: dict[str, Call] = {
    "GNNExplainer": lambda model, g, x: nn.GNNExplainer(model, 1, num_epochs=3, log=False).explain_graph(g, x),
    "HeteroGNNExplainer": lambda model, g, x: nn.HeteroGNNExplainer(model, 1, num_epochs=3, log=False).explain_graph(
        g, x
    ),
    "SubgraphX": lambda model, g, x: nn.SubgraphX(model, 2, num_rollouts=2, shapley_steps=3).explain_graph(g, x, 1),
    "HeteroSubgraphX": lambda model, g, x: nn.HeteroSubgraphX(model, 2, num_rollouts=2, shapley_steps=3).explain_graph(
        g, x, 1
    ),
    "PGExplainer": lambda model, g, x: nn.PGExplainer(model, 4).explain_graph(g, x, training=True),
    "HeteroPGExplainer": lambda model, g, x: nn.HeteroPGExplainer(model, 4).explain_graph(g, x, training=True),
}
BOTH = pytest.mark.parametrize("name", list(CALLS))


def given(name: str, **options: Any) -> tuple[Any, Any, Any]:
    """Return a model, a graph and features."""
    if name.startswith("Hetero"):
        return TypedMarkedPairs(**options), TYPED, typed_marks(TYPED)
    return MarkedPairs(**options), GRAPH, marks(GRAPH)


@BOTH
def test_the_seed_decides(name: str) -> None:
    results = []
    for _ in range(2):
        torch.manual_seed(0)
        results.append(CALLS[name](*given(name)))
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=0)


@BOTH
def test_the_model_is_left_as_it_was(name: str) -> None:
    model, g, x = given(name)
    model.frozen = torch.nn.Parameter(torch.ones(1), requires_grad=False)
    model.dropout, model.norm = torch.nn.Dropout(), torch.nn.BatchNorm1d(1).eval()
    columns = [sorted(g.nodes[ntype].data) for ntype in g.ntypes]
    CALLS[name](model, g, x)
    assert model.training and model.dropout.training and not model.norm.training
    assert model.scale.requires_grad and not model.frozen.requires_grad
    assert all(parameter.grad is None for parameter in model.parameters())
    assert [sorted(g.nodes[ntype].data) for ntype in g.ntypes] == columns


@BOTH
def test_the_model_is_left_as_it_was_when_it_fails(name: str) -> None:
    model, g, x = given(name)
    model.register_forward_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        CALLS[name](model, g, x)
    assert model.training and model.scale.requires_grad


@BOTH
def test_features_that_do_not_fit(name: str) -> None:
    model, g, x = given(name)
    short = {**x, "user": x["user"][1:]} if isinstance(x, dict) else x[1:]
    with pytest.raises(DGLError, match=r"features of node type .* are shape \(\d+, 4\); expected a dense tensor"):
        CALLS[name](model, g, short)
    sparse = nn.SparseFeatures(torch.eye(4).to_sparse())
    with pytest.raises(DGLError, match="are SparseFeatures; expected a dense tensor"):
        CALLS[name](model, g, {"user": sparse} if isinstance(x, dict) else sparse)


@BOTH
def test_the_other_kind_of_graph(name: str) -> None:
    if name.startswith("Hetero"):
        with pytest.raises(DGLError, match=r"feat must be a dictionary by node type.*got Tensor"):
            CALLS[name](TypedMarkedPairs(), TYPED, marks(GRAPH))
        with pytest.raises(DGLError, match=r"of \['game', 'user'\]; got \['shop'\]"):
            CALLS[name](TypedMarkedPairs(), TYPED, {"shop": marks(GRAPH)})
    else:
        with pytest.raises(DGLError, match=f"use Hetero{name}"):
            CALLS[name](MarkedPairs(), TYPED, typed_marks(TYPED))


def test_another_backend_is_refused() -> None:
    program = """
import sys, dglite
for name in sys.argv[1:]:
    try:
        getattr(dglite.nn, name)(None, 1)
    except dglite.DGLError as error:
        print(error)
assert "torch" not in sys.modules
"""
    root = Path(__file__).parents[3]
    environment = {**os.environ, "DGLITE_BACKEND": "numpy", "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", program, *CALLS]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    lines = printed.splitlines()
    assert [line.partition(" needs torch, but the backend is numpy")[0] for line in lines] == list(CALLS)


def test_progress_is_shown_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    nn.GNNExplainer(MarkedPairs(), 1, num_epochs=2, log=True).explain_graph(GRAPH, marks(GRAPH))
    assert "Explain graph" in terminal.getvalue()
    nn.SubgraphX(MarkedPairs(), 1, num_rollouts=2, shapley_steps=2, log=True).explain_graph(GRAPH, marks(GRAPH), 1)
    assert "rollouts" in terminal.getvalue()
    terminal.seek(0), terminal.truncate()
    CALLS["GNNExplainer"](*given("GNNExplainer"))
    CALLS["SubgraphX"](*given("SubgraphX"))
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("of_nodes", [False, True])
def test_a_model_that_ignores_the_weights_of_edges_is_refused(of_nodes: bool) -> None:
    g = dglite.graph(([0, 1, 2, 2], [1, 2, 0, 1]))
    typed = dglite.heterograph({("a", "r", "a"): ([0, 1, 2, 2], [1, 2, 0, 1])})
    x, model, by_type = torch.rand(3, 2), Weightless(of_nodes, False), Weightless(of_nodes, True)
    learner, typed_learner = nn.GNNExplainer(model, 1, log=False), nn.HeteroGNNExplainer(by_type, 1, log=False)
    scorer = nn.PGExplainer(model, 2, num_hops=1, explain_graph=not of_nodes)
    typed_scorer = nn.HeteroPGExplainer(by_type, 2, num_hops=1, explain_graph=not of_nodes)
    if of_nodes:
        calls = {
            "eweight": (
                lambda: learner.explain_node(0, g, x),
                lambda: typed_learner.explain_node("a", 0, typed, {"a": x}),
            ),
            "edge_weight": (
                lambda: scorer.train_step_node([0], g, x, 1.0),
                lambda: typed_scorer.train_step_node({"a": [0]}, typed, {"a": x}, 1.0),
            ),
        }
    else:
        calls = {
            "eweight": (lambda: learner.explain_graph(g, x), lambda: typed_learner.explain_graph(typed, {"a": x})),
            "edge_weight": (
                lambda: scorer.train_step(g, x, 1.0),
                lambda: typed_scorer.train_step(typed, {"a": x}, 1.0),
            ),
        }
    for argument, several in calls.items():
        for call in several:
            with pytest.raises(DGLError, match=f"output does not depend on {argument}"):
                call()
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_without_edges_there_is_nothing_to_ignore() -> None:
    g = dglite.graph(([], []), num_nodes=3)
    features, edges = nn.GNNExplainer(Weightless(False, False), 1, num_epochs=2, log=False).explain_graph(
        g, torch.rand(3, 2)
    )
    assert features.shape == (2,) and edges.shape == (0,)
