"""Pairs that no edge joins."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import dglite
from dglite import DGLError
from dglite.sampling import global_uniform_negative_sampling, negative
from tests.sampling.graphs import assert_distributed, hetero, random_graph


@pytest.mark.parametrize("listed", [0, 1 << 16], ids=["by rejection", "from a list"])
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("redundancy", [None, 0.1])
def test_pairs_without_an_edge(monkeypatch, listed, replace, loops, redundancy):
    monkeypatch.setattr(negative, "_LISTED", listed)
    g = random_graph(idtype=torch.int32)
    u, v = global_uniform_negative_sampling(g, 200, not loops, replace, redundancy=redundancy)
    assert len(u) == len(v) == 200 and u.dtype == torch.int32
    assert not g.has_edges_between(u, v).any()
    assert loops or (u != v).all()
    assert replace or len({*zip(u.tolist(), v.tolist(), strict=True)}) == 200


@pytest.mark.parametrize("listed", [0, 1 << 16], ids=["by rejection", "from a list"])
@pytest.mark.parametrize("replace", [False, True])
def test_free_pairs_are_equally_likely(monkeypatch, listed, replace):
    monkeypatch.setattr(negative, "_LISTED", listed)
    dglite.seed(1)
    g = dglite.graph(([0, 0, 1, 9], [1, 1, 2, 0]), num_nodes=10)
    observed = np.zeros((10, 10))
    for _ in range(400):
        u, v = global_uniform_negative_sampling(g, 10, True, replace)
        np.add.at(observed, (u.numpy(), v.numpy()), 1)
    free = 1 - np.eye(10)
    free[[0, 1, 9], [1, 2, 0]] = 0
    if replace:
        assert_distributed(observed.ravel(), free.ravel())
    else:
        assert (observed[free == 0] == 0).all()
        counts = observed[free == 1]
        variance = counts.mean() * (1 - 10 / free.sum())
        assert abs(((counts - counts.mean()) ** 2).mean() / variance - 1) < 6 * np.sqrt(2 / free.sum())


def test_no_more_than_there_are():
    g = dglite.graph(([0, 0, 1, 1, 2, 2, 3], [1, 2, 0, 1, 2, 0, 0]))
    u, v = global_uniform_negative_sampling(g, 50)
    assert sorted(zip(u.tolist(), v.tolist(), strict=True)) == [(0, 3), (1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)]
    assert len(global_uniform_negative_sampling(g, 50, exclude_self_loops=False)[0]) == 9
    assert len(global_uniform_negative_sampling(g, 50, replace=True)[0]) == 50
    full = dglite.graph(([0, 0, 1, 1], [0, 1, 0, 1]))
    assert len(global_uniform_negative_sampling(full, 5, replace=True)[0]) == 0
    assert len(global_uniform_negative_sampling(dglite.graph(([], [])), 5)[0]) == 0
    assert len(global_uniform_negative_sampling(g, 0)[0]) == 0


def test_edge_types():
    u, v = global_uniform_negative_sampling(hetero(), 20, etype="plays")
    free = [(0, 2), (1, 0), (1, 2), (2, 1), (2, 2), (3, 0), (3, 1), (3, 2)]
    assert sorted(zip(u.tolist(), v.tolist(), strict=True)) == free
    with pytest.raises(DGLError, match="3 edge types"):
        global_uniform_negative_sampling(hetero(), 20)
    with pytest.raises(DGLError, match=">= 0"):
        global_uniform_negative_sampling(hetero(), -1, etype="plays")
