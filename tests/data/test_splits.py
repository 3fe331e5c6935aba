"""Training, validation and test parts have the sizes asked for, do not overlap and can be repeated."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import torch

import dglite
from dglite.data import splits
from dglite.errors import DGLError


@pytest.mark.parametrize(
    "count, fractions, sizes",
    [(10, None, [8, 1, 1]), (7, [0.5, 0.25, 0.25], [3, 1, 3]), (0, None, [0, 0, 0]), (5, [1.0], [5])],
)
@pytest.mark.parametrize("shuffle", [False, True])
def test_data_sets_are_split(count: int, fractions: list[float] | None, sizes: list[int], shuffle: bool) -> None:
    dataset = [f"graph {i}" for i in range(count)]
    parts = splits.split_dataset(dataset, fractions, shuffle, random_state=0)
    assert [len(part) for part in parts] == sizes
    results = [part[i] for part in parts for i in range(len(part))]
    assert sorted(results) == sorted(dataset) and (shuffle or results == dataset)
    again = splits.split_dataset(dataset, fractions, shuffle, random_state=0)
    assert [list(part.indices) for part in again] == [list(part.indices) for part in parts]


@pytest.mark.parametrize("fractions", [[0.5, 0.4], [1.5, -0.5], [[1.0]]])
def test_wrong_fractions(fractions: list[float]) -> None:
    with pytest.raises(DGLError):
        splits.split_dataset([1, 2], fractions)


def test_masks() -> None:
    mask = splits.idx2mask([0, 2], 4)
    assert mask.tolist() == [1, 0, 1, 0]
    assert splits.generate_mask_tensor(mask).tolist() == [True, False, True, False]


def test_nodes_are_split() -> None:
    g = dglite.heterograph({("a", "r", "b"): ([0], [0])}, {"a": 1, "b": 11})
    np.random.seed(0)
    splits.add_nodepred_split([g], [0.5, 0.2, 0.3], ntype="b")
    data = g.nodes["b"].data
    masks = torch.stack([data["train_mask"], data["val_mask"], data["test_mask"]])
    assert masks.sum(1).tolist() == [5, 2, 4] and masks.sum(0).tolist() == [1] * 11 and masks.dtype is torch.bool
    np.random.seed(0)
    splits.add_nodepred_split([g], [0.5, 0.2, 0.3], ntype="b")
    assert data["train_mask"].tolist() == masks[0].tolist() and "train_mask" not in g.nodes["a"].data
    with pytest.raises(DGLError, match="3 ratios"):
        splits.add_nodepred_split([g], [0.5, 0.5], ntype="b")


def test_nodes_are_split_by_a_property() -> None:
    values = np.random.default_rng(0).permutation(20)
    ratios = [0.3, 0.1, 0.1, 0.3, 0.2]
    masks = splits.mask_nodes_by_property(values, ratios, random_seed=1)
    assert [int(mask.sum()) for mask in masks.values()] == [6, 2, 2, 6, 4]
    assert torch.stack(list(masks.values())).sum(0).tolist() == [1] * 20
    highest = {name: set(values[mask.numpy()]) for name, mask in masks.items()}
    assert highest["out_valid_mask"] == set(range(10, 16)) and highest["out_test_mask"] == set(range(16, 20))
    assert highest["in_train_mask"] != set(range(6)), "the split in distribution is random"
    with pytest.raises(DGLError, match="5 ratios"):
        splits.mask_nodes_by_property(values, [0.5, 0.5])


@pytest.mark.parametrize("name", ["popularity", "locality", "density"])
@pytest.mark.parametrize("ascending", [True, False])
def test_properties_of_nodes(name: str, ascending: bool) -> None:
    nx_graph = networkx.karate_club_graph()
    g = dglite.from_networkx(networkx.DiGraph(nx_graph.edges))
    splits.add_node_property_split([g], [0.3, 0.1, 0.1, 0.3, 0.2], name, ascending, random_seed=0)
    undirected = networkx.Graph(list(nx_graph.edges))
    ranks = networkx.pagerank(undirected)
    if name == "locality":
        ranks = networkx.pagerank(undirected, personalization={max(ranks, key=ranks.get): 1})
    if name == "density":
        ranks = networkx.clustering(undirected)
    values = np.array([ranks[node] for node in range(34)])
    inside = (g.ndata["in_train_mask"] | g.ndata["in_valid_mask"] | g.ndata["in_test_mask"]).numpy()
    tested = g.ndata["out_test_mask"].numpy()
    if ascending:
        assert values[inside].min() >= values[tested].max()
    else:
        assert values[inside].max() <= values[tested].min()


def test_an_unknown_property() -> None:
    with pytest.raises(DGLError, match="'beauty'"):
        splits.add_node_property_split([], [0.3, 0.1, 0.1, 0.3, 0.2], "beauty")
