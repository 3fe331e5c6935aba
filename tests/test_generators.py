"""Random graphs have the counts asked for, distinct edges, and repeat with the seed."""

from __future__ import annotations

import pytest
import torch

from dglite import random
from dglite.errors import DGLError
from dglite.generators import rand_bipartite, rand_graph


@pytest.mark.parametrize(("num_nodes", "num_edges"), [(0, 0), (5, 0), (5, 7), (5, 25), (1000, 3000)])
def test_rand_graph(num_nodes, num_edges):
    g = rand_graph(num_nodes, num_edges, idtype=torch.int32)
    assert (g.num_nodes(), g.num_edges()) == (num_nodes, num_edges) and g.idtype == torch.int32
    assert not g.is_multigraph


def test_rand_bipartite():
    g = rand_bipartite("user", "buys", "item", 4, 9, 36)
    assert g.canonical_etypes == [("user", "buys", "item")] and g.num_edges() == 36 and not g.is_multigraph
    assert g.in_degrees().tolist() == [4] * 9
    assert rand_bipartite("a", "b", "c", 0, 3, 0).num_nodes() == 3


def test_the_seed_repeats_a_graph():
    graphs = []
    for seed in (3, 3, 4):
        random.seed(seed)
        graphs.append(torch.stack(rand_graph(50, 60).edges()))
    assert graphs[0].equal(graphs[1]) and not graphs[0].equal(graphs[2])
    assert random.generator() is random.generator()


def test_impossible_counts():
    with pytest.raises(DGLError, match="3 x 3 nodes have 9 pairs; 10 distinct edges do not exist"):
        rand_graph(3, 10)
    with pytest.raises(DGLError, match="must not be negative"):
        rand_bipartite("a", "b", "c", -1, 3, 0)
