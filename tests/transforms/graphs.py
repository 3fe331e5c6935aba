"""Random graphs that the tests of transforms share."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

import dglite
from dglite.graph import DGLGraph

FOLLOWS, PLAYS, LIKES = ("user", "follows", "user"), ("user", "plays", "game"), ("game", "likes", "user")


@st.composite
def multigraphs(draw: st.DrawFn, min_nodes: int = 1, max_nodes: int = 7, max_edges: int = 16) -> DGLGraph:
    """Draw a graph with parallel edges and self-loops whose features name its nodes and edges."""
    n = draw(st.integers(min_nodes, max_nodes))
    ids = st.integers(0, max(n - 1, 0))
    ends = draw(st.lists(st.tuples(ids, ids), max_size=max_edges)) if n else []
    idtype = draw(st.sampled_from([torch.int32, torch.int64]))
    g = dglite.graph(([u for u, _ in ends], [v for _, v in ends]), num_nodes=n, idtype=idtype)
    g.ndata["name"], g.edata["name"] = torch.arange(n), torch.arange(len(ends))
    return g


@st.composite
def typed_graphs(draw: st.DrawFn) -> DGLGraph:
    """Draw a graph of two node types and three edge types."""
    users, games = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    u, v = st.integers(0, users - 1), st.integers(0, games - 1)
    ends = {
        FOLLOWS: draw(st.lists(st.tuples(u, u), min_size=1, max_size=6)),
        PLAYS: draw(st.lists(st.tuples(u, v), min_size=1, max_size=6)),
        LIKES: draw(st.lists(st.tuples(v, u), min_size=1, max_size=6)),
    }
    g = dglite.heterograph(ends, {"user": users, "game": games})
    g.ndata["h"] = {"user": torch.rand(users, 2), "game": torch.rand(games, 2)}
    g.edata["w"] = {etype: torch.rand(len(pairs)) for etype, pairs in ends.items()}
    return g


def pairs(g: DGLGraph, etype: object = None) -> list[tuple[int, int]]:
    """Return the edges in the order of their ids."""
    u, v = g.edges(etype=etype)
    return list(zip(u.tolist(), v.tolist(), strict=True))
