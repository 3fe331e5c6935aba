"""Embeddings of random walks: losses against the definition, samples against the law, training."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

import dglite
from dglite.errors import DGLError
from dglite.nn import DeepWalk, MetaPath2Vec


def cycle(n: int = 8) -> dglite.DGLGraph:
    return dglite.graph((torch.arange(n), (torch.arange(n) + 1) % n))


def filled(layer: torch.nn.Module) -> torch.nn.Module:
    torch.manual_seed(0)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    return layer.double()


def test_deepwalk_without_negatives_is_the_skip_gram_loss() -> None:
    layer = filled(DeepWalk(cycle(), 4, walk_length=5, window_size=2, neg_weight=0, sparse=False))
    walks = layer.sample(torch.tensor([0, 6]))
    assert walks.tolist() == [[0, 1, 2, 3, 4], [6, 7, 0, 1, 2]]
    losses = [
        -F.logsigmoid((layer.node_embed.weight[walk[i]] @ layer.context_embed.weight[walk[j]]).clamp(-6, 6))
        for walk in walks
        for i in range(5)
        for j in range(5)
        if 0 < abs(i - j) <= 2
    ]
    loss, expected = layer(walks), torch.stack(losses).mean()
    torch.testing.assert_close(loss, expected)
    ours, theirs = (torch.autograd.grad(x, layer.parameters()) for x in (loss, expected))
    for x, y in zip(ours, theirs, strict=True):
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize("fast_neg", [True, False])
def test_negative_samples_count(fast_neg: bool) -> None:
    """With contexts of one vector, a negative's product does not depend on what is drawn."""
    kwargs = {"walk_length": 4, "window_size": 1, "negative_size": 3, "fast_neg": fast_neg, "sparse": False}
    layer = filled(DeepWalk(cycle(), 4, neg_weight=0.5, **kwargs))
    with torch.no_grad():
        layer.context_embed.weight.copy_(layer.context_embed.weight[:1].clone().expand(8, 4))
    walks = layer.sample(torch.tensor([0, 3, 5]))
    products = (layer.node_embed.weight @ layer.context_embed.weight[0]).clamp(-6, 6)[walks]
    pairs = torch.tensor([1.0, 2, 2, 1], dtype=torch.float64)  # pairs that each place of a walk stands in
    near = -(F.logsigmoid(products) * pairs).sum() / (3 * 6)
    far = -(F.logsigmoid(-products) * pairs).sum() / (3 * 6) * 3 * 0.5
    loss = layer(walks)
    torch.testing.assert_close(loss, near + far)
    loss.backward()
    assert layer.node_embed.weight.grad.any() and layer.context_embed.weight.grad.any()


def test_deepwalk_learns_a_cycle() -> None:
    torch.manual_seed(0)
    dglite.seed(0)
    g = dglite.to_bidirected(cycle(12))
    layer = DeepWalk(g, 8, walk_length=6, window_size=1)
    optimizer = torch.optim.SparseAdam(list(layer.parameters()), lr=0.05)
    losses = []
    for _ in range(60):
        loss = layer(layer.sample(torch.arange(12)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert layer.node_embed.weight.grad.is_sparse and sum(losses[-5:]) < 0.8 * sum(losses[:5])
    near = (layer.node_embed.weight @ layer.context_embed.weight.T).detach()
    assert near[g.edges()[0], g.edges()[1]].mean() > near.mean() + 1


def test_deepwalk_is_dgls() -> None:
    layer = DeepWalk(cycle(), 5, sparse=False)
    assert {name: tuple(x.shape) for name, x in layer.state_dict().items()} == {
        "node_embed.weight": (8, 5),
        "context_embed.weight": (8, 5),
    }
    assert 0.19 < layer.node_embed.weight.abs().max() <= 0.2 and not layer.context_embed.weight.any()
    assert copy.deepcopy(layer).sample([0]).shape == (1, 40)
    with pytest.raises(DGLError, match="walk_length=5 is not more than window_size=5"):
        DeepWalk(cycle(), walk_length=5)
    with pytest.raises(DGLError, match=r"batch_walk has shape \(2, 3\); expected \(walks, 40\)"):
        layer(torch.zeros(2, 3, dtype=torch.int64))
    line = DeepWalk(dglite.graph(([0], [1])), 4, walk_length=3, window_size=1)
    with pytest.raises(DGLError, match="has ended at a node without out-edges"):
        line(line.sample([0]))
    with pytest.raises(DGLError, match="the graph has no edges"):
        DeepWalk(dglite.graph(([], []), num_nodes=2), fast_neg=False)


def companies() -> dglite.DGLGraph:
    edges = {("user", "buys", "item"): ([0, 1, 2], [1, 1, 0]), ("item", "bought", "user"): ([1, 0], [2, 0])}
    return dglite.heterograph(edges, {"user": 3, "item": 2})


def test_pairs_of_a_metapath() -> None:
    """The only walks are user 0 - item 1 - user 2 and the like; items are numbered 0 and 1, users from 2 on."""
    layer = MetaPath2Vec(companies(), ["buys", "bought"], window_size=2, emb_dim=4, negative_size=3)
    assert layer.local_to_global_nid == {"item": [0, 1], "user": [2, 3, 4]}
    assert layer.node_metapath == ["user", "item", "user"]
    u, v, negative = layer.sample(torch.tensor([0]))
    # Two steps before a node, one step behind it.
    assert sorted(zip(u.tolist(), v.tolist(), strict=True)) == [(1, 2), (1, 4), (2, 1), (4, 1), (4, 2)]
    assert negative.shape == (5, 3) and negative.min() >= 0 and negative.max() < 5
    # Walks: 2-1-4, 3-1-4, 4-0-2.
    met = torch.tensor([1.0, 2, 2, 1, 3]) ** 0.75
    torch.testing.assert_close(layer.neg_prob, met / met.sum())
    assert {name: tuple(x.shape) for name, x in layer.state_dict().items()} == {
        "node_embed.weight": (5, 4),
        "context_embed.weight": (5, 4),
    }


def test_walks_that_end_are_in_no_pair() -> None:
    g = dglite.heterograph({("a", "to", "b"): ([0], [0]), ("b", "back", "a"): ([], [])}, {"a": 2, "b": 1})
    layer = MetaPath2Vec(g, ["to", "back"], window_size=2, emb_dim=4)
    u, v, negative = layer.sample(torch.tensor([0, 1]))
    assert sorted(zip(u.tolist(), v.tolist(), strict=True)) == [(0, 2), (2, 0)] and negative.shape == (2, 5)


def test_metapath_loss() -> None:
    layer = filled(MetaPath2Vec(companies(), ["buys", "bought"], 2, 4, 3, sparse=False))
    u, v, negative = layer.sample(torch.arange(3))
    node, context = layer.node_embed.weight, layer.context_embed.weight
    expected = torch.stack(
        [
            -F.logsigmoid((node[a] @ context[b]).clamp(-10, 10))
            - sum(F.logsigmoid(-(node[a] @ context[c]).clamp(-10, 10)) for c in drawn)
            for a, b, drawn in zip(u, v, negative, strict=True)
        ]
    ).mean()
    torch.testing.assert_close(layer(u, v, negative), expected)
    layer(u[:1], v[:1], negative[:1, :1]).backward()
    with pytest.raises(DGLError, match="window_size=4 is more than the 3 nodes"):
        MetaPath2Vec(companies(), ["buys", "bought"], 4)
