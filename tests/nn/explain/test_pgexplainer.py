"""PGExplainer learns to score edges that the model reads above others."""

from __future__ import annotations

import pytest
import torch

import dglite
from dglite.errors import DGLError
from dglite.nn import HeteroPGExplainer, PGExplainer
from tests.nn.explain.models import (
    MarkedPairs,
    TypedMarkedPairs,
    in_triangle,
    marks,
    tree_with_triangle,
    typed_marks,
    users_and_games,
)


def train(explainer: torch.nn.Module, step: object, epochs: int = 60) -> None:
    """Minimise ``step(temperature)``, the temperature falling from 5 to 1."""
    optimizer = torch.optim.Adam(explainer.parameters(), lr=0.01)
    for epoch in range(epochs):
        optimizer.zero_grad()
        step(5.0 ** (1 - epoch / epochs)).backward()  # type: ignore[operator]
        optimizer.step()


def test_graphs() -> None:
    torch.manual_seed(0)
    g, other = tree_with_triangle(), dglite.add_reverse_edges(dglite.graph(([0, 1], [1, 2])))
    explainer = PGExplainer(MarkedPairs(bias=9.0), num_features=4, coff_budget=0.05)
    both, x = dglite.batch([g, other]), torch.cat([marks(g), torch.zeros(3, 4)])
    train(explainer, lambda temperature: explainer.train_step(both, x, temperature))
    probabilities, weight = explainer.explain_graph(both, x)
    assert probabilities.shape == (2, 2) and weight.shape == (26,)
    assert probabilities[0].argmax() == 1 and probabilities[1].argmax() == 0
    chosen = torch.cat([in_triangle(g), torch.zeros(4, dtype=torch.bool)])
    assert weight[chosen].min() > weight[~chosen].max()


def test_nodes() -> None:
    torch.manual_seed(0)
    g, x = tree_with_triangle().int(), marks(tree_with_triangle())
    explainer = PGExplainer(MarkedPairs(of_nodes=True, bias=1.0), 4, num_hops=1, explain_graph=False)
    train(explainer, lambda temperature: explainer.train_step_node(torch.arange(11), g, x, temperature))
    probabilities, weight, near, places = explainer.explain_node([9, 0], g, x)
    assert near.batch_size == 2 and near.ndata[dglite.NID].tolist() == [8, 9, 10, 0, 1, 2, 8]
    assert near.ndata[dglite.NID][places].tolist() == [9, 0] and places.tolist() == [1, 3]
    assert torch.equal(near.ndata["feat"], x[near.ndata[dglite.NID].long()])
    assert probabilities.shape == (7, 2) and probabilities[places].argmax(1).tolist() == [1, 0]
    chosen = in_triangle(g)[near.edata[dglite.EID].long()]
    assert chosen.sum() == 6 and weight[chosen].min() > weight[~chosen].max()


def test_typed_graph() -> None:
    torch.manual_seed(0)
    g = users_and_games()
    x = typed_marks(g)
    explainer = HeteroPGExplainer(TypedMarkedPairs(bias=3.0), 4, coff_budget=0.05)
    train(explainer, lambda temperature: explainer.train_step(g, x, temperature))
    probabilities, weight = explainer.explain_graph(g, x)
    assert probabilities.shape == (1, 2)
    assert {etype: mask.shape for etype, mask in weight.items()} == {
        etype: (g.num_edges(etype),) for etype in g.canonical_etypes
    }
    assert weight["user", "plays", "game"].argmax() == 6 == weight["game", "played by", "user"].argmax()
    torch.testing.assert_close(weight["user", "plays", "game"], weight["game", "played by", "user"])
    assert sorted(g.nodes["user"].data) == []


def test_typed_nodes() -> None:
    torch.manual_seed(0)
    g = users_and_games()
    x = typed_marks(g)
    explainer = HeteroPGExplainer(TypedMarkedPairs(of_nodes=True), 4, 1, explain_graph=False, coff_budget=0.05)
    nodes = {"user": torch.arange(5), "game": [3, 0]}
    train(explainer, lambda temperature: explainer.train_step_node(nodes, g, x, temperature))
    probabilities, weight, near, places = explainer.explain_node({"game": [3], "user": [0, 4]}, g, x)
    assert near.batch_size == 3
    assert {ntype: near.nodes[ntype].data[dglite.NID][ids].tolist() for ntype, ids in places.items()} == {
        "game": [3],
        "user": [0, 4],
    }
    assert probabilities["user"][places["user"]].argmax(1).tolist() == [0, 1]
    src, dst = near.edges(etype="plays")
    users, games = near.nodes["user"].data[dglite.NID][src], near.nodes["game"].data[dglite.NID][dst]
    chosen = (users == 4) & (games == 3)
    assert chosen.any() and weight["user", "plays", "game"][chosen].min() > 0.5
    assert weight["user", "plays", "game"][chosen].min() > weight["user", "plays", "game"][~chosen].max()


def test_types_that_no_edge_reaches_need_no_embeddings() -> None:
    """As layers do that compute nothing for types without edges."""

    class Reached(torch.nn.Module):
        def forward(self, graph, feat, embed=False, edge_weight=None):  # type: ignore[no-untyped-def]
            reached = {etype[2] for etype in graph.canonical_etypes if graph.num_edges(etype)}
            return {ntype: x for ntype, x in feat.items() if ntype in reached}

    g = dglite.heterograph(
        {("user", "likes", "user"): ([0, 1], [1, 0]), ("user", "plays", "game"): ([0], [0])}, {"user": 2, "game": 2}
    )
    x = {"user": torch.ones(2, 4), "game": torch.ones(2, 4)}
    explainer = HeteroPGExplainer(Reached(), 4, 1, explain_graph=False)
    probabilities, weight, near, _ = explainer.explain_node({"user": [1], "game": [1]}, g, x)
    assert list(probabilities) == ["user"] and near.batch_size == 2
    assert weight["user", "likes", "user"].shape == (2,) and weight["user", "plays", "game"].shape == (0,)
    with pytest.raises(DGLError, match=r"here of \['game', 'user'\]; got \['user'\]"):
        explainer.train_step_node({"user": [1], "game": [1]}, g, x, 1.0)


def test_the_prediction_trains_the_network_alone() -> None:
    torch.manual_seed(0)
    g, model = tree_with_triangle(), MarkedPairs(bias=9.0)
    explainer = PGExplainer(model, 4, coff_budget=0.0, coff_connect=0.0)
    explainer.train_step(g, marks(g), 1.0).backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in explainer.parameters())
    assert model.scale.grad is None and model.scale.requires_grad


def test_the_loss() -> None:
    explainer = PGExplainer(MarkedPairs(), 4, coff_budget=0.5, coff_connect=2.0)
    explainer.sparse_mask_values, explainer.edge_mask = torch.tensor([0.5, 1.0]), torch.tensor([0.5, 0.5])
    prob = torch.tensor([[0.25, 0.75], [0.5, 0.5]])
    result = explainer.loss(prob, torch.tensor([0, 1]))
    expected = -torch.log(torch.tensor([0.25, 0.5])).mean() + 0.5 * (1.5 - 0.5) + 2 * torch.log(torch.tensor(2.0))
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)


def test_an_edge_and_its_reverse_share_a_weight() -> None:
    torch.manual_seed(0)
    ends = [(0, 1), (0, 1), (1, 2), (1, 0), (2, 2), (1, 0), (0, 2)]  # parallel ones, a loop, two without reverse
    x = torch.randn(3, 4)
    explainer = PGExplainer(MarkedPairs(), 4)
    _, weight = explainer.explain_graph(dglite.graph(ends), x)
    assert not weight.requires_grad and explainer.edge_mask is None
    src, dst = torch.tensor(ends).T
    own = explainer.elayers(torch.cat([x[src], x[dst]], 1)).sigmoid().reshape(-1)
    pairs = {0: 3, 1: 5, 3: 0, 5: 1}
    expected = torch.stack([(own[i] + own[pairs.get(i, i)]) / 2 for i in range(7)])
    torch.testing.assert_close(weight, expected.detach())


def test_a_graph_without_edges() -> None:
    g = dglite.graph(([], []), num_nodes=2)
    explainer = PGExplainer(MarkedPairs(), 4)
    assert explainer.train_step(g, torch.ones(2, 4), 1.0).isfinite()
    assert explainer.explain_graph(g, torch.ones(2, 4))[1].shape == (0,)


def test_samples_are_sharp_at_low_temperature_and_shifted_by_scores() -> None:
    torch.manual_seed(0)
    explainer, w = PGExplainer(MarkedPairs(), 4, sample_bias=0.1), torch.full((2000,), 1.0)
    sharp = explainer.concrete_sample(w, beta=0.01)
    assert ((sharp < 0.01) | (sharp > 0.99)).float().mean() > 0.95
    torch.testing.assert_close(sharp.mean(), ((w[0].sigmoid() - 0.1) / 0.8), atol=0.05, rtol=0)
    assert torch.equal(explainer.concrete_sample(w, training=False), w.sigmoid())


def test_masks_are_kept_and_forgotten() -> None:
    explainer, g = PGExplainer(MarkedPairs(), 4), tree_with_triangle()
    explainer.set_masks(g)
    assert explainer.edge_mask.shape == (g.num_edges(),)
    explainer.set_masks(g, torch.ones(22))
    assert torch.equal(explainer.edge_mask, torch.ones(22))
    explainer.clear_masks()
    assert explainer.edge_mask is None


def test_refused() -> None:
    g = tree_with_triangle()
    of_graphs, of_nodes = PGExplainer(MarkedPairs(), 4), PGExplainer(MarkedPairs(of_nodes=True), 4, 1, False)
    with pytest.raises(DGLError, match="explain_graph=True; construct it with explain_graph=False to explain nodes"):
        of_graphs.explain_node([0], g, marks(g))
    with pytest.raises(DGLError, match="explain_graph=False; construct it with explain_graph=True"):
        of_nodes.train_step(g, marks(g), 1.0)
    with pytest.raises(DGLError, match="needs num_hops"):
        PGExplainer(MarkedPairs(of_nodes=True), 4, explain_graph=False).explain_node([0], g, marks(g))
    with pytest.raises(DGLError, match="no node to explain"):
        of_nodes.explain_node([], g, marks(g))
    with pytest.raises(DGLError, match=r"embeddings \(11, 7\).* got \(11, 4\)"):
        PGExplainer(MarkedPairs(), 7).explain_graph(g, marks(g))
    typed = users_and_games()
    with pytest.raises(DGLError, match=r"no features of node types \['game'\]"):
        HeteroPGExplainer(TypedMarkedPairs(of_nodes=True), 4, 1, False).explain_node(
            {"user": [0]}, typed, {"user": typed_marks(typed)["user"]}
        )


def test_the_loss_has_the_gradient_of_the_prediction() -> None:
    torch.manual_seed(0)
    g = tree_with_triangle()
    explainer = PGExplainer(MarkedPairs(bias=9.0), num_features=4, coff_budget=0.0, coff_connect=0.0)
    explainer.train_step(g, marks(g), 2.0).backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in explainer.parameters())
    assert all(parameter.grad is None for parameter in explainer.model.parameters())
