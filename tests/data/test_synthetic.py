"""Graphs with motifs attached."""

from __future__ import annotations

from collections import Counter
from typing import Any

import networkx as nx
import pytest
import torch

import dglite
from dglite import DGLError
from dglite.data import BA2MotifDataset, BACommunityDataset, BAShapeDataset, TreeCycleDataset, TreeGridDataset


def _edges(g: Any) -> list[tuple[int, int]]:
    src, dst = g.edges()
    return list(zip(src.tolist(), dst.tolist(), strict=True))


def _motifs(g: Any) -> list[nx.Graph]:
    """Return what is left as connected parts without the nodes of the base, those of label 0."""
    kept = dglite.node_subgraph(g, g.ndata["label"] != 0)
    simple = nx.Graph(dglite.to_networkx(kept))
    return [simple.subgraph(nodes) for nodes in nx.connected_components(simple)]


def _house() -> nx.Graph:
    house = nx.cycle_graph(4)
    house.add_edges_from([(4, 0), (4, 1)])
    return house


@pytest.mark.parametrize(
    ("data", "base", "motif", "links"),
    [
        (BAShapeDataset(30, 2, 6, perturb_ratio=0), nx.barabasi_albert_graph(30, 2), _house(), 0),
        (TreeCycleDataset(3, 4, cycle_size=5, perturb_ratio=0), nx.balanced_tree(2, 3), nx.cycle_graph(5), 4),
        (TreeGridDataset(3, 4, grid_size=3, perturb_ratio=0), nx.balanced_tree(2, 3), nx.grid_graph([3, 3]), 0),
    ],
)
def test_motifs_are_linked_to_a_base(data: Any, base: nx.Graph, motif: nx.Graph, links: int) -> None:
    g = data[0]
    label, motifs = g.ndata["label"], _motifs(g)
    assert all(nx.is_isomorphic(part, motif) for part in motifs)
    assert g.num_nodes() == len(base) + len(motifs) * len(motif)
    plain = base.number_of_edges() + len(motifs) * (motif.number_of_edges() + 1)
    assert plain <= g.num_edges() <= plain + links
    rest = nx.Graph(dglite.to_networkx(dglite.node_subgraph(g, label == 0)))
    assert rest.number_of_edges() == base.number_of_edges() and (links or nx.is_connected(rest))
    assert label.dtype is torch.int64 and torch.equal(g.ndata["feat"], torch.ones(g.num_nodes(), 1))


def test_houses_have_a_middle_a_bottom_and_a_top() -> None:
    data = BAShapeDataset(20, 2, 5, perturb_ratio=0)
    g = data[0]
    assert Counter(g.ndata["label"].tolist()) == {0: 20, 1: 10, 2: 10, 3: 5} and data.num_classes == 4
    inside = dglite.node_subgraph(g, g.ndata["label"] != 0)
    both = dglite.to_bidirected(inside, copy_ndata=True)
    assert all(both.in_degrees()[i] == {1: 3, 2: 2, 3: 2}[int(x)] for i, x in enumerate(both.ndata["label"]))


@pytest.mark.parametrize("kind", [BAShapeDataset, TreeCycleDataset, TreeGridDataset])
def test_random_edges_are_new_and_no_loops(kind: Any) -> None:
    g = kind(seed=2, perturb_ratio=0.3)[0]
    without = kind(seed=2, perturb_ratio=0)[0].num_edges()
    assert g.num_edges() == without + int(0.3 * without)
    assert len(set(_edges(g))) == g.num_edges() and all(u != v for u, v in _edges(g))
    with pytest.raises(DGLError, match="no place"):
        kind(perturb_ratio=1e4)


@pytest.mark.parametrize("kind", [BAShapeDataset, TreeCycleDataset, TreeGridDataset, BACommunityDataset])
def test_seeds_reproduce(kind: Any) -> None:
    first, again, other = (kind(seed=seed)[0] for seed in (1, 1, 2))
    assert _edges(first) == _edges(again) != _edges(other)
    assert torch.equal(first.ndata["feat"], again.ndata["feat"])


def test_two_communities() -> None:
    data = BACommunityDataset(100, 2, 20, num_inter_edges=30, seed=1)
    g, feat = data[0], data[0].ndata["feat"]
    second = g.ndata["label"] >= 4
    assert data.num_classes == 8 and int(second.sum()) == 200 == g.num_nodes() - int(second.sum())
    src, dst = g.edges()
    assert int((second[src] != second[dst]).sum()) == 30 and not second[src[second[src] != second[dst]]].any()
    assert feat.shape == (400, 10) and feat.dtype is torch.float64
    assert (feat[~second].mean(0)[:2] < -0.8).all() and (feat[second].mean(0)[:2] > 0.8).all()
    assert (feat.mean(0).abs() < 0.3).all() and 0.4 < feat[second][:, :2].var() < 0.6 < feat[:, 2:].var() < 1.2


def test_cycles_have_a_least_size() -> None:
    with pytest.raises(DGLError, match="cycle_size is 3"):
        TreeCycleDataset(cycle_size=3)


def test_graphs_with_a_house_or_a_cycle() -> None:
    data = BA2MotifDataset()
    assert len(data) == 1000 and data.num_classes == 2
    assert Counter(int(label) for _, label in data) == {0: 500, 1: 500}
    for index, edges in ((0, 52), (999, 50)):
        g, label = data[index]
        assert (g.num_nodes(), g.num_edges(), label.dtype) == (25, edges, torch.int64)
        assert torch.equal(g.ndata["feat"], torch.full((25, 10), 0.1))
        motif = nx.Graph(dglite.to_networkx(dglite.node_subgraph(g, range(20, 25))))
        assert nx.is_isomorphic(motif, nx.cycle_graph(5) if label else _house())
        assert set(_edges(g)) == {(v, u) for u, v in _edges(g)}
