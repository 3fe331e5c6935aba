"""Random graphs have the counts asked for, distinct edges, and repeat with the seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dglite import generators, random
from dglite.errors import DGLError
from dglite.generators import rand_bipartite, rand_graph, rand_power_law_graph


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
    with pytest.raises(DGLError, match="must be an integer >= 0"):
        rand_bipartite("a", "b", "c", -1, 3, 0)


# -- power law ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("num_nodes", "num_edges"), [(0, 0), (5, 0), (1, 7), (5, 7), (1000, 30_000)])
def test_power_law_counts(num_nodes, num_edges):
    g = rand_power_law_graph(num_nodes, num_edges, idtype=torch.int32)
    assert (g.num_nodes(), g.num_edges()) == (num_nodes, num_edges) and g.idtype == torch.int32
    dst = g.edges()[1]
    assert (dst[1:] >= dst[:-1]).all()
    assert g.adjacencies[0].csc().edge_ids is None and g.adjacencies[0].csc().indices.dtype == np.int32


@pytest.mark.parametrize("exponent", [2.5, 3.0, 4.0])
def test_degrees_follow_the_power_law(exponent):
    random.seed(0)
    num_nodes, num_edges = 20_000, 2_000_000
    g = rand_power_law_graph(num_nodes, num_edges, exponent)
    # The share of the first k ranks is (k / n) ** ((exponent - 2) / (exponent - 1)).
    for degrees in (g.in_degrees(), g.out_degrees()):
        sums = degrees.sort(descending=True).values.double().cumsum(0) / num_edges
        for k in (1, 10, 100, 1000):
            expected = (k / num_nodes) ** ((exponent - 2) / (exponent - 1))
            assert sums[k - 1] == pytest.approx(expected, rel=0.05)
    hubs = [set(x.topk(20).indices.tolist()) for x in (g.in_degrees(), g.out_degrees())]
    assert len(hubs[0] & hubs[1]) > 15


@pytest.mark.parametrize(("homophily", "inside"), [(0.0, 0.1), (0.6, 0.64), (1.0, 1.0)])
def test_edges_stay_in_communities(homophily, inside):
    random.seed(0)
    g = rand_power_law_graph(1003, 100_000, num_communities=10, homophily=homophily)
    src, dst = g.edges()
    assert (src % 10 == dst % 10).double().mean() == pytest.approx(inside, abs=0.01)
    assert int(src.max()) < 1003


def test_a_power_law_graph_repeats_with_the_seed_whatever_the_threads(monkeypatch):
    monkeypatch.setattr(generators, "_CHUNK", 100)
    results = []
    for seed, threads in ((3, 1), (3, 4), (4, 4)):
        random.seed(seed)
        monkeypatch.setattr(type(generators.active), "num_threads", lambda self, threads=threads: threads)
        results.append(torch.stack(rand_power_law_graph(50, 1000, num_communities=5, homophily=0.5).edges()))
    assert results[0].equal(results[1]) and not results[0].equal(results[2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_nodes": 0}, "0 nodes cannot have 10 edges"),
        ({"num_edges": -1}, "num_edges must be an integer >= 0"),
        ({"exponent": 2}, "must be above 2"),
        ({"homophily": 1.5}, "a probability, must be a number from 0 to 1, got 1.5"),
        ({"num_communities": 6}, "5 nodes cannot form 6 communities"),
        ({"num_communities": 0}, "num_communities must be an integer >= 1"),
    ],
)
def test_what_no_power_law_graph_has(arguments, message):
    with pytest.raises(DGLError, match=message):
        rand_power_law_graph(**{"num_nodes": 5, "num_edges": 10, **arguments})
