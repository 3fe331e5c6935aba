"""Reports of data sets: directions of edges, labels, odd columns, splits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import dglite
from dglite.data import AsLinkPredDataset, CoraGraphDataset, CSVDataset, TUDataset, citation
from tests.data import planetoid_files
from tests.reports.cases import pairs, report


@pytest.fixture
def cora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a small network in Cora's place."""
    planetoid_files.write(tmp_path, "cora")
    monkeypatch.setitem(citation._PUBLISHED, "cora", citation.Counts(10, 3, 2, 2, 3))
    return tmp_path


def tu(folder: Path, **files: str) -> TUDataset:
    """Return two graphs of 2 and 3 nodes in the layout of the TU collection."""
    files = {
        "A": "1, 2\n2, 1\n3, 4\n4, 5\n5, 5\n",
        "graph_indicator": "1\n1\n2\n2\n2\n",
        "graph_labels": "-1\n1\n",
        **files,
    }
    for name, text in files.items():
        (folder / f"TINY_{name}.txt").write_text(text)
    return TUDataset("TINY", raw_dir=folder)


@report("dmlc/dgl#3832", "without reverse edges, both directions came nonetheless")
def test_one_direction_of_cora(cora: Path) -> None:
    both = CoraGraphDataset(raw_dir=cora)[0]
    one = CoraGraphDataset(raw_dir=cora, reverse_edge=False)[0]
    assert set(pairs(both)) == planetoid_files.EDGES
    undirected = {frozenset(edge) for edge in planetoid_files.EDGES}
    assert {frozenset(edge) for edge in pairs(one)} == undirected and one.num_edges() == len(undirected)


@report("dmlc/dgl#2109", "features and labels differed from other libraries': rows are as published, or add up to 1")
def test_features_of_cora(cora: Path) -> None:
    g = CoraGraphDataset(raw_dir=cora)[0]
    rows = torch.from_numpy(planetoid_files.FEATURES)
    expected = rows / rows.sum(1, keepdim=True).clamp(min=1)
    torch.testing.assert_close(g.ndata["feat"], expected)
    labelled = [node for node in range(10) if node != 7]  # node 7 is in no file
    assert g.ndata["label"][labelled].tolist() == planetoid_files.LABELS[labelled].tolist()
    assert g.ndata["train_mask"].dtype == torch.bool


@report("dmlc/dgl#5621", "a set of one graph was loaded as triples")
def test_iterating_over_a_set_of_one_graph(cora: Path) -> None:
    dataset = CoraGraphDataset(raw_dir=cora)
    assert len(dataset) == 1 and [g.num_nodes() for g in dataset] == [10]
    with pytest.raises(IndexError):
        dataset[1]


@report("dmlc/dgl#1477", "attributes with a single column failed")
def test_attributes_of_one_column(tmp_path: Path) -> None:
    dataset = tu(tmp_path, node_attributes="0.5\n1\n1.5\n2\n2.5\n")
    first, second = (g for g, _ in dataset)
    assert first.ndata["node_attr"].flatten().tolist() == [0.5, 1]
    assert second.ndata["node_attr"].flatten().tolist() == [1.5, 2, 2.5]
    assert pairs(second) == [(0, 1), (1, 2), (2, 2)]


@report("pyg-team/pytorch_geometric#7813", "list(dataset) gave each graph the same label")
def test_labels_of_listed_graphs(tmp_path: Path) -> None:
    dataset = tu(tmp_path)
    assert [int(label) for _, label in list(dataset)] == [0, 1] and dataset.num_labels == 2
    assert [g.num_nodes() for g, _ in list(dataset)] == [2, 3]
    assert [int(dataset[number][1]) for number in (1, 0)] == [1, 0]


@report("dmlc/dgl#3757", "ids in CSV files, some of them numbers and others not", also="dmlc/dgl#3547")
@pytest.mark.parametrize("names", [("a", "b"), ("10", "9"), ("9", "x")])
def test_ids_in_csv_files(tmp_path: Path, names: tuple[str, str]) -> None:
    first, second = names
    (tmp_path / "meta.yaml").write_text(
        "dataset_name: tiny\nnode_data: [{file_name: nodes.csv}]\nedge_data: [{file_name: edges.csv}]\n"
    )
    (tmp_path / "nodes.csv").write_text(f'node_id,label,feat\n{first},1,"0.5, 1"\n{second},0,"2, 3"\n')
    (tmp_path / "edges.csv").write_text(f"src_id,dst_id,w\n{first},{second},0.5\n{second},{second},1.5\n")
    g = CSVDataset(str(tmp_path))[0]
    row = {1: g.ndata["label"].tolist().index(1), 0: g.ndata["label"].tolist().index(0)}
    assert pairs(g) == [(row[1], row[0]), (row[0], row[0])] and g.edata["w"].tolist() == [0.5, 1.5]
    assert g.ndata["feat"][row[1]].tolist() == [0.5, 1] and g.ndata["feat"][row[0]].tolist() == [2, 3]


class OneGraph(dglite.data.DGLDataset):
    """A set of one random graph."""

    def process(self) -> None:
        self.graph = dglite.rand_graph(30, 120)

    def __getitem__(self, number: int) -> dglite.DGLGraph:
        return self.graph

    def __len__(self) -> int:
        return 1


@report(
    "pyg-team/pytorch_geometric#10706", "negative pairs of the validation came again in the test", also="dmlc/dgl#3586"
)
def test_splits_of_links(tmp_path: Path) -> None:
    dglite.seed(0)
    dataset = AsLinkPredDataset(OneGraph("one"), [0.8, 0.1, 0.1], neg_ratio=2, save_dir=tmp_path)
    positives, negatives = [], []
    for (src, dst), (neg_src, neg_dst) in (dataset.val_edges, dataset.test_edges):
        positives += zip(src.tolist(), dst.tolist(), strict=True)
        negatives += zip(neg_src.tolist(), neg_dst.tolist(), strict=True)
        assert (len(src), len(neg_src)) == (12, 24)
    assert sorted(pairs(dataset.train_graph) + positives) == sorted(pairs(dataset[0]))
    assert len(set(negatives)) == 48 and not set(negatives) & set(pairs(dataset[0]))
