"""Rule 5: attention written with two functions, as in DGL's tutorial, is one kernel, and nothing else is."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import dglite
from tests.recorder.common import ForReal


def scored(edges):
    return {"z": edges.src["z"], "e": F.leaky_relu(edges.src["l"] + edges.dst["r"], 0.2)}


def plain_scores(edges):
    return {"z": edges.src["z"], "e": edges.dst["r"] + edges.src["l"]}


def edge_scores(edges):
    return {"z": edges.src["z"], "e": edges.src["l"] + edges.data["w"]}


def three_terms(edges):
    return {"z": edges.src["z"], "e": F.leaky_relu(edges.data["w"] + (edges.dst["r"] + edges.src["l"]), 0.1)}


def two_of_one_side(edges):
    return {"z": edges.src["z"], "e": edges.src["l"] + edges.dst["r"] + edges.src["l"]}


def weighted_sum(nodes):
    alpha = F.softmax(nodes.mailbox["e"], dim=1)
    return {"h": torch.sum(alpha * nodes.mailbox["z"], dim=1)}


def mirrored(nodes):
    return {"h": (nodes.mailbox["z"] * nodes.mailbox["e"].softmax(1)).sum(1)}


def scaled(nodes):
    return {"h": (nodes.mailbox["e"].softmax(1) * (2 * nodes.mailbox["z"])).sum(1)}


def graph_with(feat):
    """Return a graph with a node that receives nothing, parallel edges and a self-loop, and its columns."""
    torch.manual_seed(0)
    g = dglite.graph(([0, 0, 1, 2, 2, 3, 3, 1], [1, 1, 2, 2, 3, 3, 1, 2]))
    score = (*feat[:-1], 1)
    columns = {"z": torch.randn(4, *feat), "l": torch.randn(4, *score), "r": torch.randn(4, *score)}
    columns = {name: x.double().requires_grad_() for name, x in columns.items()}
    g.ndata.update(columns)
    columns["w"] = g.edata["w"] = torch.randn(8, *score).double().requires_grad_()
    return g, columns


@pytest.mark.parametrize("feat", [(5,), (2, 3)])
@pytest.mark.parametrize(
    ("message", "reduce", "fused"),
    [
        (scored, weighted_sum, True),
        (scored, mirrored, True),
        (plain_scores, weighted_sum, True),
        (three_terms, weighted_sum, True),
        (edge_scores, weighted_sum, False),
        (two_of_one_side, weighted_sum, False),
        (scored, scaled, False),
    ],
)
def test_attention_is_seen_where_it_is(message, reduce, fused, feat):
    g, columns = graph_with(feat)
    assert ("attention of" in str(dglite.explain(g, message, reduce))) == fused
    results = []
    for functions in ((message, reduce), (ForReal(message), ForReal(reduce))):
        g.update_all(*functions)
        out = g.ndata["h"]
        results.append((out, *torch.autograd.grad((out**2).sum(), list(columns.values()), allow_unused=True)))
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected)


def test_a_score_with_as_many_numbers_as_the_feature_is_no_attention():
    g, columns = graph_with((5,))
    g.ndata["l"], g.ndata["r"] = columns["z"], columns["z"] * 2
    assert "attention of" not in str(dglite.explain(g, scored, weighted_sum))
    g.update_all(scored, weighted_sum)
    fused = g.ndata["h"]
    g.update_all(ForReal(scored), ForReal(weighted_sum))
    torch.testing.assert_close(fused, g.ndata["h"])
