"""``dglite.explain`` of vertex functions, of lazy tensors, and of propagations that are programs."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dglite
from dglite import DGLError, dynamic
from tests.dynamic.programs import BinaryTreeLSTM, Chain, ChildSumTreeLSTM, Gated

TREE = dglite.graph(([0, 1, 2, 3, 5], [2, 2, 4, 4, 6]))


def test_stages_levels_and_products_of_a_vertex_program() -> None:
    program = BinaryTreeLSTM(8, 16)
    explanation = dglite.explain(program, TREE, torch.randn(7, 8))
    assert not explanation.by_torch and {line.direction for line in explanation.stages} == {"forward", "backward"}
    inner = [s for s in explanation.stages if s.vertices == "with children" and s.direction == "forward"]
    (product,) = [s for s in inner if s.phase == "each level" and s.products]
    assert (product.rows, product.products, product.runs_by) == (3, 3 * 32 * 80, "kernel")
    assert [(line.vertices, line.rows) for line in explanation.levels][-1] == ("with children", 1)
    assert sum(line.rows for line in explanation.levels) == 7
    assert sum(line.products for line in explanation.levels) == product.products
    assert sum(line.bytes for line in explanation.levels) == sum(s.bytes for s in inner if s.phase == "each level")
    assert "product 32 -> 80" in str(explanation) and "<table" in explanation._repr_html_()
    with torch.no_grad():
        assert {line.direction for line in dglite.explain(program, [TREE], torch.randn(7, 8)).stages} == {"forward"}


def test_what_leaves_the_kernels_is_named() -> None:
    explanation = dglite.explain(Gated(8, 16), TREE, torch.randn(7, 8))
    assert {s.reason for s in explanation.by_torch} == {
        f"no kernel for {prefix}{name}" for name in ("native_layer_norm", "_softmax") for prefix in ("", "gradient of ")
    }
    assert all(s.runs_by == "torch" for s in explanation.by_torch) and "no kernel for _softmax" in str(explanation)


def test_many_rows_are_a_gemm_and_many_levels_are_shortened() -> None:
    star = dglite.graph((torch.arange(600), torch.full((600,), 600)))
    explanation = dglite.explain(ChildSumTreeLSTM(4, 4), star, torch.randn(601, 4))
    assert {s.runs_by for s in explanation.stages if s.products and s.rows > 512} == {"GEMM"}
    chain = dglite.graph((torch.arange(99), torch.arange(1, 100)))
    explanation = dglite.explain(Chain(4, 4), chain, torch.randn(100, 4))
    assert len(explanation.levels) == 100 and "... 76 more" in str(explanation)


def test_kinds_and_missing_inputs_are_classes_of_their_own() -> None:
    by_kind = dynamic.ByKind(BinaryTreeLSTM(3, 4), BinaryTreeLSTM(3, 4))
    part = dynamic.Partial(torch.tensor([0, 1]), torch.randn(2, 3))
    explanation = dglite.explain(by_kind, TREE, part, kinds=torch.tensor([0, 1, 0, 1, 1, 0, 1]))
    assert "kind 1, with children, without input 0" in {s.vertices for s in explanation.stages}


def test_batches_of_a_session() -> None:
    layer, norm = nn.Linear(4, 3), nn.LayerNorm(3)
    losses = [F.cross_entropy(norm(layer(dynamic.lazy(torch.randn(4)))), dynamic.lazy(i)) for i in range(3)]
    explanation = dglite.explain(losses)
    assert [line.operations for line in explanation.batches] == [3, 3, 3]
    assert [line.products for line in explanation.batches] == [36, 0, 0]
    assert "torch" in explanation.batches[1].runs_by and "9 operations in 3 batches (agenda)" in str(explanation)
    assert len(dglite.explain(losses, strategy="none").batches) == 9
    assert "<table" in explanation._repr_html_()
    dynamic.backward(losses)  # nothing was computed, and the session goes on
    assert [name for name, _ in dynamic.last_run().batches] == [line.name for line in explanation.batches]


def test_a_propagation_shows_its_program() -> None:
    g = dglite.graph(([0, 1], [2, 2]))
    g.ndata["h"] = torch.ones(3, 4)
    message, reduce = (lambda edges: {"m": edges.src["h"]}), (lambda nodes: {"h": nodes.mailbox["m"].sum(1)})
    explanation = dglite.explain(g, message, reduce, order="topo")
    assert explanation.is_program and explanation.program.levels and "each level" in str(explanation)


def test_a_warning_names_what_leaves_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(7, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Gated(8, 16)(TREE, x)
    monkeypatch.setenv("DGLITE_DEBUG", "1")
    program = Gated(8, 16)
    with pytest.warns(dglite.DGLWarning, match="native_layer_norm"):
        program(TREE, x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program(TREE, x.requires_grad_())  # another script of the same trace
        BinaryTreeLSTM(8, 16)(TREE, x)


def test_what_cannot_be_explained() -> None:
    with pytest.raises(DGLError, match="got no graph"):
        dglite.explain(Chain(2, 2))
    with pytest.raises(DGLError, match="expected a tensor with a row"):
        dglite.explain(Chain(2, 2), TREE, torch.ones(3, 2))
    with pytest.raises(DGLError):
        dglite.explain([1, 2])
