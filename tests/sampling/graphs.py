"""Graphs that the tests of sampling share, and what they ask of every sample."""

from __future__ import annotations

import numpy as np
import scipy.stats
import torch

import dglite


def random_graph(num_nodes=60, num_edges=400, seed=0, idtype=torch.int64):
    """Return a graph with parallel edges, self-loops and nodes without edges; half its edges go to three nodes."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, num_nodes - 5, num_edges), rng.integers(0, num_nodes - 5, num_edges)
    dst[::2] = rng.integers(0, 3, len(dst[::2]))
    graph = dglite.graph((torch.tensor(src), torch.tensor(dst)), num_nodes=num_nodes, idtype=idtype)
    graph.ndata["x"], graph.edata["f"] = torch.randn(num_nodes, 2), torch.randn(num_edges, 3)
    return graph


def star(degree):
    """Return a graph with ``degree`` edges into node 0, from nodes 1, 2, ..."""
    return dglite.graph((torch.arange(1, degree + 1), torch.zeros(degree, dtype=torch.int64)))


def hetero(idtype=torch.int64):
    """Return users that follow each other and play games, and games that users know; one user and game are idle."""
    edges = {
        ("user", "follows", "user"): ([0, 1, 2, 2], [1, 2, 0, 1]),
        ("user", "plays", "game"): ([0, 0, 1, 2], [0, 1, 1, 0]),
        ("game", "known", "user"): ([0, 1, 1], [0, 0, 2]),
    }
    return dglite.heterograph(edges, {"user": 4, "game": 3}, idtype=idtype)


def check_subgraph(g, sample, etype=None):
    """Assert that each edge of ``sample`` is the edge of ``g`` whose id it carries."""
    src, dst = g.find_edges(sample.edges[etype].data[dglite.EID] if etype else sample.edata[dglite.EID], etype)
    u, v = sample.edges(etype=etype)
    assert torch.equal(u, src) and torch.equal(v, dst)
    assert u.dtype == g.idtype


def assert_distributed(observed, expected):
    """Assert that counts agree with expected ones, by a chi-square test that a right sampler fails once in 10,000."""
    observed, expected = np.asarray(observed, float), np.asarray(expected, float)
    assert (observed[expected == 0] == 0).all()
    kept = expected > 0
    observed, expected = observed[kept], expected[kept]
    result = scipy.stats.chisquare(observed, expected * observed.sum() / expected.sum())
    assert result.pvalue > 1e-4, f"p = {result.pvalue:.2g}: {observed} against {expected}"
