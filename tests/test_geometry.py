"""Sampling of far points against the definition, and the laws of matchings."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import dglite
from dglite.errors import DGLError
from dglite.geometry import farthest_point_sampler, neighbor_matching


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_each_point_is_the_furthest_from_those_before(dtype: torch.dtype) -> None:
    points = torch.randint(-9, 9, (3, 20, 2), generator=torch.Generator().manual_seed(0)).to(dtype)
    for start in (None, 4):
        chosen = farthest_point_sampler(points, 7, start)
        assert chosen.shape == (3, 7) and chosen.dtype == torch.int64
        assert start is None or bool((chosen[:, 0] == start).all())
        for own, ids in zip(points.double(), chosen.tolist(), strict=True):
            for i in range(1, 7):
                nearest = torch.cdist(own, own[ids[:i]]).min(1).values
                assert ids[i] == int(nearest.argmax())


def test_starts_are_drawn_from_all_points() -> None:
    dglite.seed(0)
    assert set(farthest_point_sampler(torch.zeros(50, 2, 1), 1).flatten().tolist()) == {0, 1}
    assert farthest_point_sampler(torch.zeros(2, 1, 3), 1).tolist() == [[0], [0]]
    assert farthest_point_sampler(torch.zeros(2, 3, 3), 0).shape == (2, 0)
    assert farthest_point_sampler(torch.zeros(0, 3, 3), 2).shape == (0, 2)


def test_wrong_points_are_explained() -> None:
    with pytest.raises(DGLError, match=r"pos has shape \(3, 2\)"):
        farthest_point_sampler(torch.zeros(3, 2), 1)
    with pytest.raises(DGLError, match=r"npoints=4.*3 points"):
        farthest_point_sampler(torch.zeros(1, 3, 2), 4)
    with pytest.raises(DGLError, match="start_idx=3"):
        farthest_point_sampler(torch.zeros(1, 3, 2), 2, 3)


def both_ways(src: list[int], dst: list[int], num_nodes: int) -> dglite.DGLGraph:
    return dglite.graph((src + dst, dst + src), num_nodes=num_nodes)


def test_a_matching_is_of_neighbours_and_cannot_grow() -> None:
    rng = np.random.default_rng(0)
    src, dst = rng.integers(30, size=(2, 40))
    g = both_ways(src.tolist(), dst.tolist(), 32)
    for seed in range(5):
        dglite.seed(seed)
        clusters = neighbor_matching(g, relabel_idx=False)
        assert clusters.dtype == g.idtype
        alone = []
        for low in clusters.unique().tolist():
            members = (clusters == low).nonzero()[:, 0].tolist()
            assert len(members) <= 2 and min(members) == low
            assert len(members) == 1 or bool(g.has_edges_between(*members))
            alone += members if len(members) == 1 else []
        assert not any(u != v and g.has_edges_between(u, v) for u in alone for v in alone)
        dglite.seed(seed)
        relabelled = neighbor_matching(g)
        assert torch.equal(relabelled, clusters.unique(return_inverse=True)[1])
    assert not g.edata


def test_the_heaviest_edge_is_taken() -> None:
    g = both_ways([0, 0, 0, 1, 1, 2, 0], [1, 2, 3, 2, 3, 3, 0], 4)  # every node with every other, and a self-loop
    weights = torch.tensor([9.0, 1, 2, 2, 1, 9, 99] * 2)
    for seed in range(5):
        dglite.seed(seed)
        for given in (weights, weights[:, None]):
            assert neighbor_matching(g, given, relabel_idx=False).tolist() == [0, 0, 2, 2]
            assert neighbor_matching(g, given).tolist() == [0, 0, 1, 1]


def test_any_free_neighbour_is_taken() -> None:
    g = dglite.graph(([0, 0, 0, 0], [0, 1, 2, 3]), num_nodes=4)
    dglite.seed(0)
    results = {tuple(neighbor_matching(g, relabel_idx=False).tolist()) for _ in range(60)}
    assert results == {(0, 0, 2, 3), (0, 1, 0, 3), (0, 1, 2, 0), (0, 1, 2, 3)}


def test_wrong_graphs_are_explained() -> None:
    with pytest.raises(DGLError, match="got 2 weights for 1 edges"):
        neighbor_matching(dglite.graph(([0], [1])), torch.ones(2))
    with pytest.raises(DGLError, match="needs a homogeneous graph"):
        neighbor_matching(dglite.heterograph({("a", "to", "b"): ([0], [0])}))
    assert neighbor_matching(dglite.graph(([], []), num_nodes=0)).shape == (0,)
    assert neighbor_matching(dglite.graph(([], []), num_nodes=3)).tolist() == [0, 1, 2]
