"""Graphs of eight shapes."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pytest
import torch

import dglite
from dglite import DGLError
from dglite.data import MiniGCDataset


def _simple(g: Any) -> nx.Graph:
    return nx.Graph(dglite.to_networkx(dglite.remove_self_loop(g)))


def test_every_class_has_its_shape() -> None:
    data = MiniGCDataset(17, 6, 13)
    assert len(data) == 17 and data.num_classes == 8
    assert [int(label) for _, label in data] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 7]
    expected = [
        *(nx.cycle_graph(n) for n in range(6, 13)),
        *(nx.star_graph(n - 1) for n in range(6, 13)),
        *(nx.wheel_graph(n) for n in range(6, 13)),
        *(nx.lollipop_graph(n - tail, tail) for n in range(6, 13) for tail in range(2, n // 2)),
        *(nx.hypercube_graph(n) for n in (2, 3)),
        *(nx.grid_graph([rows, n // rows]) for n in range(6, 13) for rows in range(2, n // 2)),
        *(nx.complete_graph(n) for n in range(6, 13)),
        *(nx.circular_ladder_graph(n) for n in range(3, 7)),
    ]
    for g, label in data:
        assert label.dtype is torch.int64 and int(torch.bincount(torch.stack(g.edges())[0])[0]) > 1
        assert g.num_edges() == 2 * _simple(g).number_of_edges() + g.num_nodes()
        assert any(nx.is_isomorphic(_simple(g), shape) for shape in expected)


def test_seeds_reproduce() -> None:
    first, again, other = (
        [tuple(map(tuple, (ends.tolist() for ends in g.edges()))) for g, _ in MiniGCDataset(16, 8, 40, seed=seed)]
        for seed in (1, 1, 2)
    )
    assert first == again != other


def test_a_transform_gets_the_graph() -> None:
    assert MiniGCDataset(1, 8, 9, transform=lambda g: g.num_nodes())[0][0] == 8


@pytest.mark.parametrize("sizes", [(5, 9), (8, 8)])
def test_sizes_that_cannot_be(sizes: tuple[int, int]) -> None:
    with pytest.raises(DGLError, match="expected at least 6"):
        MiniGCDataset(8, *sizes)
