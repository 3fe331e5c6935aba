"""Nearest neighbours and neighbours within a radius, against all distances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dglite
from dglite import DGLError
from dglite.transforms import neighbours
from tests.transforms.graphs import pairs


def distances(x: torch.Tensor, dist: str) -> np.ndarray:
    if dist == "cosine":
        x = torch.nn.functional.normalize(x, dim=1)
    return torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist").numpy()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(3, 12), min_size=1, max_size=3),
    st.integers(1, 3),
    st.sampled_from([2, 3, 20]),
    st.sampled_from(["euclidean", "cosine"]),
    st.booleans(),
    st.integers(0, 99),
)
def test_predecessors_are_the_nearest(
    sizes: list[int], k: int, width: int, dist: str, exclude_self: bool, seed: int
) -> None:
    k = min(k, min(sizes) - exclude_self)
    x = torch.from_numpy(np.random.default_rng(seed).normal(size=(sum(sizes), width)))
    g = dglite.segmented_knn_graph(x, k, sizes, dist=dist, exclude_self=exclude_self)
    assert g.batch_num_nodes().tolist() == sizes and g.batch_num_edges().tolist() == [k * size for size in sizes]
    for start, part in zip(np.cumsum(sizes) - sizes, dglite.unbatch(g), strict=True):
        apart = distances(x[start : start + part.num_nodes()], dist)
        if exclude_self:
            np.fill_diagonal(apart, np.inf)
        nearest = np.argsort(apart, axis=1, kind="stable")[:, :k]
        assert pairs(part) == [(u, v) for v in range(part.num_nodes()) for u in nearest[v]]


def test_blocks_of_distances_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(50, 16)
    whole = pairs(dglite.knn_graph(x, 5))
    monkeypatch.setattr(neighbours, "_BLOCK", 120)
    assert pairs(dglite.knn_graph(x, 5)) == whole
    monkeypatch.setattr(neighbours, "_TREE_DIMENSIONS", 16)
    assert pairs(dglite.knn_graph(x, 5)) == whole


def test_sets_of_points_become_a_batch() -> None:
    x = torch.randn(3, 5, 2)
    g = dglite.knn_graph(x, 2)
    assert g.batch_size == 3 and pairs(dglite.unbatch(g)[1]) == pairs(dglite.knn_graph(x[1], 2))
    assert dglite.knn_graph(x[0], 2).batch_size == 1


@pytest.mark.parametrize("width", [2, 16])
def test_points_that_coincide_are_their_own_neighbours(width: int) -> None:
    x = torch.zeros(9, width)
    with_self, without = dglite.knn_graph(x, 3), dglite.knn_graph(x, 3, exclude_self=True)
    assert with_self.in_degrees().tolist() == [3] * 9 == without.in_degrees().tolist()
    assert all((v, v) in pairs(with_self) and (v, v) not in pairs(without) for v in range(9))
    assert len(set(pairs(without))) == 27


def test_too_many_neighbours_are_cut_with_a_warning() -> None:
    with pytest.warns(dglite.DGLWarning, match="k = 9, but the smallest set has 3 neighbours"):
        assert dglite.knn_graph(torch.randn(4, 2), 9, exclude_self=True).num_edges() == 12


@pytest.mark.parametrize("exclude_self", [False, True])
def test_the_smallest_set_limits_all_sets(exclude_self: bool) -> None:
    x, most = torch.randn(8, 3), 2 if exclude_self else 3
    with pytest.warns(dglite.DGLWarning, match=f"k = 5, .* every node gets {most}, in all sets"):
        g = dglite.segmented_knn_graph(x, 5, [3, 5], exclude_self=exclude_self)
    assert g.in_degrees().tolist() == [most] * 8 and g.batch_num_edges().tolist() == [3 * most, 5 * most]
    assert pairs(dglite.unbatch(g)[1]) == pairs(dglite.knn_graph(x[3:], most, exclude_self=exclude_self))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 9),
    st.sampled_from([1, 1.5, 2, 3, float("inf")]),
    st.booleans(),
    st.floats(0.1, 2),
    st.integers(0, 99),
)
def test_radius_graphs_join_what_is_close(n: int, p: float, self_loop: bool, r: float, seed: int) -> None:
    x = torch.from_numpy(np.random.default_rng(seed).normal(size=(n, 3))).requires_grad_()
    g, apart = dglite.radius_graph(x, r, p, self_loop, get_distances=True)
    every = torch.cdist(x, x, p)
    close = (every <= r).fill_diagonal_(self_loop)
    assert pairs(g) == [tuple(pair) for pair in close.nonzero().tolist()]
    torch.testing.assert_close(apart, every[close][:, None])
    apart.sum().backward()
    assert x.grad is not None and torch.isfinite(x.grad).all()


def test_distances_have_gradients() -> None:
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda y: dglite.radius_graph(y, 1.5, get_distances=True)[1], x, fast_mode=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: dglite.knn_graph(x, 0), "k must be an integer >= 1"),
        (lambda x: dglite.knn_graph(x, 1, "ball-tree"), "algorithm='ball-tree' is not understood"),
        (lambda x: dglite.knn_graph(x, 1, dist="manhattan"), "dist='manhattan' is not understood"),
        (lambda x: dglite.knn_graph(x[0], 1), "points must be"),
        (lambda x: dglite.knn_graph(x[:0], 1), "a set of points is empty"),
        (lambda x: dglite.knn_graph(x / 0, 1), "points must be finite"),
        (lambda x: dglite.segmented_knn_graph(x, 1, [2, 1]), "do not sum to the 4 points"),
        (lambda x: dglite.radius_graph(x, 1, 0.5), "p must be a number from 1"),
        (lambda x: dglite.radius_graph(x, 1, compute_mode="mm"), "compute_mode='mm' is not understood"),
    ],
)
def test_what_is_not_understood_is_refused(call: Any, message: str) -> None:
    with pytest.raises(DGLError, match=message):
        call(torch.zeros(4, 2))
