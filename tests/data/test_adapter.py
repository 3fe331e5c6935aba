"""Data sets made ready for a task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dglite
from dglite import DGLError
from dglite.data import AsGraphPredDataset, AsLinkPredDataset, AsNodePredDataset, DGLDataset, MiniGCDataset

RATIO = (0.5, 0.2, 0.3)


class One(DGLDataset):
    """A data set of one graph."""

    def __init__(self, g: Any, **attributes: Any) -> None:
        self.g = g
        super().__init__("one")
        self.__dict__.update(attributes)

    def process(self) -> None:
        """The graph is given."""

    def __getitem__(self, index: int) -> Any:
        return self.g

    def __len__(self) -> int:
        return 1


def _graph(**columns: Any) -> Any:
    g = dglite.rand_graph(20, 60)
    g.ndata.update({"label": torch.arange(20) % 3, **columns})
    return g


# -- nodes -------------------------------------------------------------------------------------------------------------
def test_nodes_are_split_once(tmp_path: Path) -> None:
    g = _graph()
    dataset = AsNodePredDataset(One(g), RATIO, save_dir=tmp_path, transform=lambda g: g.clone())
    parts = [dataset.train_idx, dataset.val_idx, dataset.test_idx]
    assert [len(part) for part in parts] == [10, 4, 6] and torch.cat(parts).sort()[0].tolist() == list(range(20))
    assert dataset[0].ndata["val_mask"].nonzero().flatten().tolist() == dataset.val_idx.tolist()
    assert (dataset.num_classes, len(dataset), dataset.name) == (
        3,
        1,
        "one-as-nodepred",
    ) and "train_mask" not in g.ndata
    again = AsNodePredDataset(One(g), RATIO, save_dir=tmp_path)
    assert again.train_idx.tolist() == dataset.train_idx.tolist() and again.num_classes == 3
    other = AsNodePredDataset(One(g), (0.3, 0.3, 0.4), save_dir=tmp_path)
    assert [len(other.train_idx), len(other.val_idx)] == [6, 6]
    with pytest.raises(IndexError):
        dataset[1]


def test_the_seed_of_numpy_reproduces_a_split(tmp_path: Path) -> None:
    drawn = []
    for _ in range(2):
        np.random.seed(4)
        drawn.append(AsNodePredDataset(One(_graph()), RATIO, save_dir=tmp_path, force_reload=True).test_idx.tolist())
    np.random.seed(4)
    assert drawn[0] == drawn[1] == sorted(np.random.permutation(20)[14:])


def test_masks_that_are_there_are_kept(tmp_path: Path) -> None:
    masks = {f"{part}_mask": torch.arange(20) % 3 == i for i, part in enumerate(("train", "val", "test"))}
    dataset = AsNodePredDataset(One(_graph(**masks), num_classes=7), save_dir=tmp_path)
    assert dataset.val_idx.tolist() == list(range(1, 20, 3)) and dataset.num_classes == 7


def test_nodes_of_one_type(tmp_path: Path) -> None:
    g = dglite.heterograph({("user", "buys", "item"): ([0, 1], [0, 9])})
    g.nodes["item"].data["label"] = torch.ones(10, dtype=torch.int64)
    dataset = AsNodePredDataset(One(g), RATIO, "item", save_dir=tmp_path)
    assert dataset[0].nodes["item"].data["train_mask"].sum() == 5 and "train_mask" not in dataset[0].nodes["user"].data


def test_the_split_of_an_ogb_data_set(tmp_path: Path) -> None:
    g = dglite.rand_graph(5, 9)
    split = {"train": torch.tensor([3, 0]), "valid": torch.tensor([1]), "test": torch.tensor([2])}
    dataset = One((g, torch.tensor([[1], [0], [1], [0], [2]])), get_idx_split=lambda: split)
    result = AsNodePredDataset(dataset, save_dir=tmp_path)
    assert result.train_idx.tolist() == [0, 3] and result[0].ndata["label"].tolist() == [1, 0, 1, 0, 2]


def test_what_nodes_lack_is_said(tmp_path: Path) -> None:
    with pytest.raises(DGLError, match="have no 'label'; they have no features"):
        AsNodePredDataset(One(dglite.rand_graph(3, 3)), RATIO, save_dir=tmp_path)
    with pytest.raises(DGLError, match="give split_ratio="):
        AsNodePredDataset(One(_graph()), save_dir=tmp_path)
    with pytest.raises(DGLError, match="sum to 1"):
        AsNodePredDataset(One(_graph()), (1, 1, 1), save_dir=tmp_path)


# -- edges -------------------------------------------------------------------------------------------------------------
def _pairs(ends: Any) -> list[tuple[int, int]]:
    return list(zip(ends[0].tolist(), ends[1].tolist(), strict=True))


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_edges_are_split_once(tmp_path: Path, idtype: torch.dtype) -> None:
    src, dst = (torch.arange(60, dtype=idtype) % 20, (torch.arange(60, dtype=idtype) * 7 + 1) % 20)
    g = dglite.graph((src, dst), num_nodes=20)
    g.ndata["feat"] = torch.rand(20, 4)
    dataset = AsLinkPredDataset(One(g), RATIO, neg_ratio=2, save_dir=tmp_path)
    (val, no_val), (test, no_test) = dataset.val_edges, dataset.test_edges
    train = dataset.train_graph
    assert sorted(_pairs(train.edges()) + _pairs(val) + _pairs(test)) == sorted(_pairs(g.edges()))
    assert [train.num_edges(), len(val[0]), len(test[0])] == [30, 12, 18]
    assert torch.equal(train.ndata["feat"], g.ndata["feat"]) and dataset.feat_size == 4 and dataset[0] is g
    others = _pairs(no_val) + _pairs(no_test)
    assert [len(no_val[0]), len(no_test[0])] == [24, 36] and len(set(others)) == 60
    assert not set(others) & set(_pairs(g.edges())) and all(u != v for u, v in others)
    assert all(ends.dtype is idtype for ends in (*val, *no_val, *train.edges()))
    again = AsLinkPredDataset(One(g), RATIO, neg_ratio=2, save_dir=tmp_path)
    assert _pairs(again.val_edges[1]) == _pairs(no_val) and _pairs(again.test_edges[0]) == _pairs(test)
    assert _pairs(again.train_graph.edges()) == _pairs(train.edges()) and again[0] is g


def test_a_graph_with_nearly_all_edges_gives_the_pairs_that_there_are(tmp_path: Path) -> None:
    g = dglite.graph(([0, 0, 1, 2, 2], [1, 2, 0, 0, 1]))
    dataset = AsLinkPredDataset(One(g), (0.2, 0.4, 0.4), save_dir=tmp_path)
    assert _pairs(dataset.val_edges[1]) + _pairs(dataset.test_edges[1]) == [(1, 2)]


def test_the_splits_of_ogb_data_sets(tmp_path: Path) -> None:
    g = dglite.rand_graph(9, 9)
    part = {"edge": torch.tensor([[0, 1], [2, 3]]), "edge_neg": torch.tensor([[4, 5]])}
    dataset = AsLinkPredDataset(One(g, get_edge_split=lambda: {"valid": part, "test": part}), save_dir=tmp_path / "a")
    assert [_pairs(pairs) for pairs in dataset.test_edges] == [[(0, 1), (2, 3)], [(4, 5)]] and dataset.train_graph is g
    ends = {"source_node": torch.tensor([0, 1]), "target_node": torch.tensor([2, 3])}
    ends["target_node_neg"] = torch.tensor([[4, 5], [6, 7]])
    dataset = AsLinkPredDataset(One(g, get_edge_split=lambda: {"valid": ends, "test": ends}), save_dir=tmp_path / "b")
    assert [_pairs(pairs) for pairs in dataset.val_edges] == [[(0, 2), (1, 3)], [(0, 4), (0, 5), (1, 6), (1, 7)]]
    with pytest.raises(DGLError, match="give split_ratio="):
        AsLinkPredDataset(One(g), save_dir=tmp_path / "c")


# -- graphs ------------------------------------------------------------------------------------------------------------
def test_graphs_are_split_once(tmp_path: Path) -> None:
    graphs = MiniGCDataset(20, 6, 9)
    dataset = AsGraphPredDataset(graphs, RATIO, save_dir=tmp_path)
    parts = [dataset.train_idx, dataset.val_idx, dataset.test_idx]
    assert [len(part) for part in parts] == [10, 4, 6] and torch.cat(parts).sort()[0].tolist() == list(range(20))
    assert (len(dataset), dataset.num_classes, dataset.num_tasks, dataset.name) == (20, 8, 1, "minigc-as-graphpred")
    assert dataset[3][0] is graphs[3][0] and dataset.node_feat_size is dataset.edge_feat_size is None
    again = AsGraphPredDataset(graphs, RATIO, save_dir=tmp_path)
    assert again.val_idx.tolist() == dataset.val_idx.tolist() and again.num_classes == 8


def test_graphs_with_a_split_of_their_own(tmp_path: Path) -> None:
    g = _graph(feat=torch.rand(20, 6))
    masks = {f"{part}_mask": torch.tensor([part == "test"]) for part in ("train", "val", "test")}
    dataset = AsGraphPredDataset(One((g, 1), **masks), save_dir=tmp_path / "a")
    assert dataset.test_idx.tolist() == [0] and dataset.train_idx.tolist() == [] and dataset.node_feat_size == 6
    split = {"train": torch.tensor([0]), "valid": torch.tensor([]), "test": torch.tensor([])}
    dataset = AsGraphPredDataset(One((g, 1), get_idx_split=lambda: split, num_tasks=3), save_dir=tmp_path / "b")
    assert dataset.train_idx.tolist() == [0] and (dataset.num_tasks, dataset.num_classes) == (3, None)
    with pytest.raises(DGLError, match="give split_ratio="):
        AsGraphPredDataset(One((g, 1)), save_dir=tmp_path / "c")
