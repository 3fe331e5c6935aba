"""Turning, adding and removing edges: what is there afterwards, in which order, with which features."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings

import dglite
from dglite import DGLError
from dglite.graph import DGLGraph
from tests.transforms.graphs import FOLLOWS, PLAYS, multigraphs, pairs, typed_graphs


@settings(max_examples=40, deadline=None)
@given(multigraphs())
def test_each_does_what_it_says(g: DGLGraph) -> None:
    before = pairs(g)
    assert pairs(dglite.reverse(g)) == [(v, u) for u, v in before]
    both = sorted({*before, *((v, u) for u, v in before)})
    bidirected = dglite.to_bidirected(g, copy_ndata=True)
    assert pairs(bidirected) == both and bidirected.ndata["name"] is g.ndata["name"] and bidirected.idtype == g.idtype
    proper = [(v, u) for u, v in before if u != v]
    doubled = dglite.add_reverse_edges(g, copy_edata=True)
    assert pairs(doubled) == before + proper
    names = [*range(len(before)), *(i for i, (u, v) in enumerate(before) if u != v)]
    assert doubled.edata["name"].tolist() == names == doubled.edata[dglite.EID].tolist()
    assert pairs(dglite.add_reverse_edges(g, exclude_self=False)) == before + [(v, u) for u, v in before]
    looped = g.add_self_loop(fill_data=-1)
    assert pairs(looped) == before + [(i, i) for i in range(g.num_nodes())]
    assert looped.edata["name"].tolist() == [*range(len(before)), *[-1] * g.num_nodes()]
    bare = looped.remove_self_loop()
    assert pairs(bare) == [(u, v) for u, v in before if u != v]
    assert bare.edata["name"].tolist() == [i for i, (u, v) in enumerate(before) if u != v]
    assert pairs(g) == before and bare.idtype == looped.idtype == g.idtype


@settings(max_examples=30, deadline=None)
@given(typed_graphs())
def test_types_are_kept(g: DGLGraph) -> None:
    turned = dglite.reverse(g, copy_edata=True)
    assert set(turned.canonical_etypes) == {(v, e, u) for u, e, v in g.canonical_etypes}
    for u, e, v in g.canonical_etypes:
        assert pairs(turned, (v, e, u)) == [(b, a) for a, b in pairs(g, (u, e, v))]
        assert turned.edges[v, e, u].data["w"] is g.edges[u, e, v].data["w"]
    doubled = dglite.add_reverse_edges(g, ignore_bipartite=True)
    assert pairs(doubled, PLAYS) == pairs(g, PLAYS) and dict(doubled.edata) == {}
    assert pairs(doubled, FOLLOWS) == pairs(g, FOLLOWS) + [(v, u) for u, v in pairs(g, FOLLOWS) if u != v]
    looped = dglite.add_self_loop(g, etype="follows")
    assert looped.num_edges("follows") == g.num_edges("follows") + g.num_nodes("user")
    assert looped.num_edges("plays") == g.num_edges("plays") and "w" in looped.edges["plays"].data


@pytest.mark.parametrize("fill", ["sum", "mean", "max", "min"])
def test_loops_take_what_in_edges_say(fill: str) -> None:
    g = dglite.graph(([0, 0, 2, 1], [2, 1, 0, 0]))
    w = torch.tensor([[0.0], [1.0], [2.0], [6.0]], dtype=torch.float64, requires_grad=True)
    g.edata["w"], g.edata["other"] = w, torch.ones(4)
    looped = g.add_self_loop(["w"], fill)
    first = {"sum": 8, "mean": 4, "max": 6, "min": 2}[fill]
    assert looped.edata["w"].flatten().tolist() == [0, 1, 2, 6, first, 1, 0]
    assert looped.edata["other"].tolist() == [1, 1, 1, 1, 0, 0, 0]
    looped.edata["w"].sum().backward()
    assert w.grad is not None and w.grad.sum() > 4


def test_verbs_work_on_a_copy() -> None:
    g = dglite.graph(([0, 1], [1, 2]))
    g.edata["w"] = torch.ones(2)
    assert dglite.add_nodes(g, 2).num_nodes() == 5
    assert dglite.add_edges(g, [2], [0], {"w": torch.zeros(1)}).edata["w"].tolist() == [1, 1, 0]
    assert pairs(dglite.remove_edges(g, [0], store_ids=True)) == [(1, 2)]
    assert dglite.remove_nodes(g, [0]).num_edges() == 1
    assert (g.num_nodes(), g.num_edges()) == (3, 2) and list(g.edata) == ["w"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: dglite.to_bidirected(g), "to_bidirected: edge type .* joins different node sets"),
        (lambda g: dglite.add_reverse_edges(g), "pass ignore_bipartite=True"),
        (lambda g: dglite.add_self_loop(g), "joins different node sets"),
        (lambda g: dglite.remove_self_loop(g), "joins different node sets"),
        (
            lambda g: dglite.add_self_loop(dglite.graph(([0], [1])), ["w"]),
            "no edge feature 'w'; there are none",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(call: Any, message: str) -> None:
    with pytest.raises(DGLError, match=message):
        call(dglite.heterograph({PLAYS: ([0], [0])}))


@pytest.mark.parametrize("fill", ["median", [1.0, 2.0], {"w": 1.0}, None, torch.ones(2)], ids=repr)
def test_an_unknown_fill_is_refused(fill: Any) -> None:
    g = dglite.graph(([0], [1]))
    g.edata["w"] = torch.ones(1)
    with pytest.raises(DGLError, match=r"fill_data=.*; expected a number, 'sum'"):
        g.add_self_loop(fill_data=fill)


def test_a_scalar_tensor_is_a_fill() -> None:
    g = dglite.graph(([0], [1]))
    g.edata["w"] = torch.ones(1)
    assert dglite.add_self_loop(g, fill_data=torch.tensor(3.0)).edata["w"].tolist() == [1, 3, 3]
