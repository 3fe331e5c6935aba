"""Label propagation, layers in a row, and graphs of points: what the laws of layers do not say."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dglite
from dglite import nn
from dglite.errors import DGLError, DGLWarning
from tests.nn import dense

LABELS, MASK = torch.tensor([2, 0, 1, 1]), torch.tensor([True, False, True, False])


def propagated(layer: nn.LabelPropagation, g: Any, labels: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    given = labels * mask[:, None]
    into, out = (degrees.double().clamp(min=1) for degrees in (g.in_degrees(), g.out_degrees()))
    step = dense.matrix(g) / into[:, None]
    if layer.norm_type == "sym":
        step = dense.matrix(g) / (into[:, None] * out).sqrt()
    y = given
    for _ in range(layer.k):
        y = layer.alpha * step @ y + (1 - layer.alpha) * given
        if layer.clamp:
            y = y.clamp(0, 1)
        if layer.normalize:
            y = y / y.sum(1, keepdim=True).clamp(min=1e-12)
        if layer.reset:
            y = torch.where(mask[:, None], labels, y)
    return y


@pytest.mark.parametrize("graph", [dense.graph, dense.lonely_graph], ids=["graph", "lonely"])
@pytest.mark.parametrize("norm_type", ["sym", "row"])
@pytest.mark.parametrize(("clamp", "normalize", "reset"), [(True, False, False), (False, True, True)])
def test_labels_propagate(graph: Any, norm_type: str, clamp: bool, normalize: bool, reset: bool) -> None:
    layer, g = nn.LabelPropagation(3, 0.7, norm_type, clamp, normalize, reset), graph()
    one_hot = torch.nn.functional.one_hot(LABELS).double()
    expected = propagated(layer, g, one_hot, MASK)
    for labels in (LABELS, LABELS[:, None], one_hot):
        for mask in (MASK, MASK.nonzero()[:, 0]):
            torch.testing.assert_close(layer(g, labels, mask).double(), expected, rtol=1e-5, atol=1e-6)
    everyone = propagated(layer, g, one_hot, torch.ones(4, dtype=torch.bool))
    torch.testing.assert_close(layer(g, LABELS).double(), everyone, rtol=1e-5, atol=1e-6)
    assert not g.ndata and bool((one_hot.sum(1) == 1).all())


def test_labels_are_checked() -> None:
    with pytest.raises(ValueError, match="norm_type='left'"):
        nn.LabelPropagation(1, 0.5, "left")
    layer, g = nn.LabelPropagation(1, 0.5), dense.graph()
    with pytest.raises(DGLError, match="labels holds -1"):
        layer(g, torch.tensor([0, 1, -1, 0]))
    with pytest.raises(DGLError, match="for 4 nodes"):
        layer(g, LABELS[:3])
    with pytest.raises(DGLError, match=r"labels has shape \(4, 2, 2\)"):
        layer(g, torch.zeros(4, 2, 2))
    assert layer(dglite.graph(([], []), num_nodes=0), LABELS[:0]).shape == (0, 1)


class Pair(torch.nn.Module):
    """Takes and returns two features."""

    def forward(self, g: dglite.DGLGraph, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return y, x + g.num_edges()


def test_layers_in_a_row() -> None:
    g, x = dense.graph(), torch.randn(4, 3)
    first, second = nn.GraphConv(3, 4), nn.GraphConv(4, 2)
    torch.testing.assert_close(nn.Sequential(first, second)(g, x), second(g, first(g, x)))
    other = dglite.add_self_loop(dense.lonely_graph())
    torch.testing.assert_close(nn.Sequential(first, second)([g, other], x), second(other, first(g, x)))
    one, two = nn.Sequential(Pair(), Pair())(g, torch.zeros(1), torch.ones(1))
    assert (one.item(), two.item()) == (8, 9)
    assert list(nn.Sequential(first, second).state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    with pytest.raises(TypeError, match="first argument is a Tensor"):
        nn.Sequential(first)(x, g)
    with pytest.raises(DGLError, match="got 1 graphs for 2 layers"):
        nn.Sequential(first, second)([g], x)


def test_graphs_of_points() -> None:
    x = torch.tensor([[0.0, 0], [1, 0], [1, 1], [9, 9], [9, 8]])
    assert sorted(nn.KNNGraph(2)(x, exclude_self=True).edges()[1].tolist()) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    segments = nn.SegmentedKNNGraph(1)(x, [3, 2], exclude_self=True)
    assert segments.batch_num_nodes().tolist() == [3, 2] and segments.has_edges_between(3, 4)
    g, distances = nn.RadiusGraph(1.2)(x, get_distances=True)
    assert g.num_edges() == 6 and distances.flatten().tolist() == [1] * 6
    torch.testing.assert_close(nn.pairwise_squared_distance(x), torch.cdist(x, x) ** 2)


def test_arguments_are_checked() -> None:
    with pytest.raises(DGLError, match="mode='mean'"):
        nn.JumpingKnowledge("mean")
    with pytest.raises(DGLError, match=r"mode='lstm' needs both, got in_feats=3 and num_layers=None"):
        nn.JumpingKnowledge("lstm", 3)
    with pytest.raises(DGLError, match="shapes"):
        nn.JumpingKnowledge("max")([torch.ones(2, 3), torch.ones(2, 4)])
    with pytest.raises(DGLError, match="op='add'"):
        nn.EdgePredictor("add")
    with pytest.warns(DGLWarning, match="3 bases for 2 outputs"):
        nn.WeightBasis((2,), 3, 2)


def test_parameters_are_drawn_again() -> None:
    for layer in (
        nn.JumpingKnowledge("lstm", 2, 3),
        nn.EdgePredictor("cat", 2, 3, True),
        nn.TransE(2, 3),
        nn.TransR(2, 3, 2),
        nn.Set2Set(2, 1, 1),
    ):
        before = [x.clone() for x in layer.parameters()]
        layer.reset_parameters()
        assert not any(torch.equal(x, y) for x, y in zip(layer.parameters(), before, strict=True))
