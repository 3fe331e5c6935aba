"""Data sets of published files, read from tiny files in the published layouts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.io import savemat

from dglite import EID, NID, DGLError
from dglite.data import (
    FB15k237Dataset,
    GINDataset,
    LegacyTUDataset,
    QM7bDataset,
    QM9Dataset,
    QM9EdgeDataset,
    TUDataset,
    dataset,
)

TU = {
    "A": "1, 2\n2, 1\n4, 5\n5, 3\n3, 4\n",
    "graph_indicator": "1\n1\n2\n2\n2\n",
    "graph_labels": "-1\n1\n",
    "node_labels": "2\n3\n4\n2\n2\n",
}
GIN = "2\n2 5\n0 1 1\n7 1 0\n1 3\n0 0\n"
KG = {
    "entities.dict": "0\ta\n1\tb\n2\tc\n",
    "relations.dict": "0\tlikes\n1\tknows\n",
    "train.txt": "a\tknows\tb\nb\tlikes\tc\n",
    "valid.txt": "c\tknows\ta\n",
    "test.txt": "a\tlikes\tc\n",
}


def tu(folder: Path, **files: str | None) -> Path:
    for part, text in {**TU, **files}.items():
        if text is not None:
            (folder / f"X_{part}.txt").write_text(text)
    return folder


def kg(folder: Path, **files: str) -> Path:
    for name, text in {**KG, **{name.replace("_", "."): text for name, text in files.items()}}.items():
        (folder / name).write_text(text)
    return folder


def edges(g: Any) -> list[list[int]]:
    return [end.tolist() for end in g.edges()]


# -- TU ----------------------------------------------------------------------------------------------------------------
def test_tu_graphs(tmp_path: Path) -> None:
    files = {"node_attributes": "1, 2\n3, 4\n5, 6\n7, 8\n9, 10.5\n", "edge_attributes": "1\n2\n3\n4\n5\n"}
    data = TUDataset("X", raw_dir=tu(tmp_path, edge_labels="5\n6\n5\n5\n5\n", **files))
    assert (len(data), data.num_classes, data.num_labels, data.max_num_node) == (2, 2, 2, 3)
    assert data.graph_labels.tolist() == [[0], [1]]
    g, label = data[1]
    assert (edges(g), label.tolist()) == ([[0, 1, 2], [1, 2, 0]], [1])
    assert (g.ndata[NID].tolist(), g.edata[EID].tolist()) == ([2, 3, 4], [4, 2, 3])
    assert g.ndata["node_labels"].tolist() == [[2], [0], [0]]
    assert g.ndata["node_attr"].tolist() == [[5, 6], [7, 8], [9, 10.5]]
    assert g.edata["edge_labels"].tolist() == [[0], [0], [0]]
    assert g.edata["edge_attr"].tolist() == g.edata["node_labels"].tolist() == [[5], [3], [4]]
    assert TUDataset("X", raw_dir=tmp_path, transform=lambda g: g.num_nodes())[0][0] == 2


def test_tu_real_labels(tmp_path: Path) -> None:
    data = TUDataset("X", raw_dir=tu(tmp_path, graph_labels=None, graph_attributes="0.5\n2\n"))
    assert (data.num_labels, data.graph_labels.tolist(), data.graph_labels.dtype) == (None, [[0.5], [2]], torch.float64)
    with pytest.raises(DGLError, match="no classes"):
        LegacyTUDataset("X", raw_dir=tmp_path).num_classes  # noqa: B018


def test_legacy_features(tmp_path: Path) -> None:
    data = LegacyTUDataset("X", raw_dir=tu(tmp_path))
    assert (data.data_mode, data.statistics(), data.graph_labels.tolist()) == ("node_label", (3, 3, 3), [0, 2])
    assert data[1][0].ndata["feat"].tolist() == [[0, 0, 1], [1, 0, 0], [1, 0, 0]]
    tu(tmp_path, node_attributes="1\n2\n3\n4\n5\n")
    assert LegacyTUDataset("X", raw_dir=tmp_path)[0][0].ndata["feat"].tolist() == [[1], [2]]
    small = LegacyTUDataset("X", raw_dir=tmp_path, max_allow_node=2)
    assert (len(small), small.max_num_node, small.graph_labels.tolist()) == (1, 2, [0])
    for part in ("labels", "attributes"):
        (tmp_path / f"X_node_{part}.txt").unlink()
    plain = LegacyTUDataset("X", raw_dir=tmp_path, hidden_size=4)[0][0]
    assert plain.ndata["feat"].tolist() == [[1] * 4] * 2


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"A": "1, 2\n2, 6\n"}, r"line 2 of .*X_A\.txt names nodes \[2, 6\]; expected 1 to 5"),
        ({"A": "1, 2\n2, 3\n"}, r"line 2 of .*X_A\.txt is an edge between two graphs"),
        ({"A": "1\n2\n"}, r"X_A\.txt is not two node numbers"),
        ({"A": "1, x\n"}, r"X_A\.txt is not a table of numbers"),
        ({"graph_indicator": "1\n1\n900000000\n2\n2\n"}, r"X_graph_indicator\.txt names graph 900000000 for 5 nodes"),
        ({"graph_labels": "1\n"}, r"X_graph_labels\.txt has 1 lines; expected 2"),
        ({"graph_labels": None}, r"has neither X_graph_labels"),
        ({"node_labels": "1\n2\n"}, r"X_node_labels\.txt has 2 lines; expected 5"),
    ],
)
def test_tu_damage(tmp_path: Path, files: dict[str, Any], message: str) -> None:
    for kind in (TUDataset, LegacyTUDataset):
        with pytest.raises(DGLError, match=message):
            kind("X", raw_dir=tu(tmp_path, **files))


def test_one_hot_features_have_a_bound(tmp_path: Path) -> None:
    with pytest.raises(DGLError, match=r"X_node_labels\.txt has labels 899999999 apart"):
        LegacyTUDataset("X", raw_dir=tu(tmp_path, node_labels="1\n2\n3\n4\n900000000\n"))


# -- GIN ---------------------------------------------------------------------------------------------------------------
def gin(folder: Path, text: str, *options: Any) -> GINDataset:
    (folder / "MUTAG.txt").write_text(text)
    return GINDataset("MUTAG", *(options or (False,)), raw_dir=folder)


def test_gin(tmp_path: Path) -> None:
    data = gin(tmp_path, GIN)
    assert (len(data), data.num_classes, data.N, data.n, data.m, data.dim_nfeats) == (2, 2, 2, 3, 2, 2)
    g, label = data[0]
    assert (edges(g), label.item(), data.labels.dtype) == ([[0, 1], [1, 0]], 0, torch.int64)
    assert g.ndata["label"].tolist() == [0, 1]
    loops = gin(tmp_path, GIN, True, True)[0][0]
    assert (edges(loops), loops.ndata["label"].tolist()) == ([[0, 0, 1, 1], [1, 0, 0, 1]], [2, 2])


def test_gin_attributes(tmp_path: Path) -> None:
    data = gin(tmp_path, "1\n2 0\n0 1 1 0.5 1\n0 1 0 2 3\n")
    assert data[0][0].ndata["attr"].tolist() == [[0.5, 1], [2, 3]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GIN[:-5], r"MUTAG\.txt ends after line 5"),
        ("", r"MUTAG\.txt ends after line 0"),
        ("1\n2 0\n0 1 5\n0 0\n", r"line 3 of .*MUTAG\.txt .* from 0 to 1"),
        ("1\n1 0\n0 3 0\n", r"line 3 of .*MUTAG\.txt"),
        ("x\n", r"line 1 of .*MUTAG\.txt"),
        ("1\n2 0\n0 0 1\n0 0\n", r"MUTAG\.txt has nodes with \[1\] attributes, or some with none"),
    ],
)
def test_gin_damage(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DGLError, match=message):
        gin(tmp_path, text)


# -- knowledge graphs --------------------------------------------------------------------------------------------------
def test_knowledge_graph(tmp_path: Path) -> None:
    data = FB15k237Dataset(raw_dir=kg(tmp_path), verbose=False)
    assert (data.num_nodes, data.num_rels, len(data)) == (3, 2, 1)
    g = data[0]
    assert edges(g) == [[0, 2, 1, 0, 1, 0, 2, 2], [1, 0, 2, 2, 0, 2, 1, 0]]
    assert g.edata["etype"].tolist() == [1, 1, 0, 0, 3, 3, 2, 2]
    masks = {name: mask.int().tolist() for name, mask in g.edata.items() if name != "etype"}
    assert masks["train_edge_mask"] == [1, 0, 1, 0, 0, 0, 0, 0]
    assert masks["train_mask"] == [1, 0, 1, 0] * 2
    assert masks["valid_edge_mask"] == [0, 1, 0, 0, 0, 0, 0, 0]
    assert masks["test_mask"] == [0, 0, 0, 1] * 2
    assert g.edata["val_mask"].dtype == torch.bool
    assert g.ndata["ntype"].tolist() == [0, 0, 0]
    assert FB15k237Dataset(False, tmp_path, verbose=False)[0].num_edges() == 4


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"train_txt": "a\tknows\n"}, r"line 1 of .*train\.txt is not head, relation and tail"),
        ({"test_txt": "a\tknows\tz\n"}, r"line 1 of .*test\.txt names 'z'"),
        ({"entities_dict": "0\ta\n0\tb\n"}, r"entities\.dict does not number its 2 names from 0 on"),
        ({"entities_dict": "0\ta\n1\ta\n"}, r"line 2 of .*entities\.dict is not a number and a new name"),
    ],
)
def test_knowledge_graph_damage(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(DGLError, match=message):
        FB15k237Dataset(raw_dir=kg(tmp_path, **files), verbose=False)


def test_a_knowledge_graph_without_dictionaries(tmp_path: Path) -> None:
    """Names are numbered as they come; one dictionary alone says too little."""
    for name in ("entities.dict", "relations.dict"):
        (kg(tmp_path) / name).unlink()
        kg_left = sorted(path.name for path in tmp_path.glob("*.dict"))
        with pytest.raises(DGLError, match=rf"{kg_left[0]} alone"):
            FB15k237Dataset(raw_dir=tmp_path, verbose=False)
    (tmp_path / "entities.dict").unlink()
    data = FB15k237Dataset(False, tmp_path, verbose=False)
    assert (data.num_nodes, data.num_rels) == (3, 2)
    assert edges(data[0]) == [[0, 2, 1, 0], [1, 0, 2, 2]]
    assert data[0].edata["etype"].tolist() == [0, 0, 1, 1]


# -- molecules ---------------------------------------------------------------------------------------------------------
def test_qm7b(tmp_path: Path) -> None:
    matrices = np.zeros((2, 3, 3), np.float32)
    matrices[0, 0, 1] = matrices[0, 1, 0] = 2.5
    savemat(tmp_path / "qm7b.mat", {"X": matrices, "T": np.arange(28.0).reshape(2, 14)})
    data = QM7bDataset(raw_dir=tmp_path)
    g, label = data[0]
    assert (edges(g), g.edata["h"].tolist()) == ([[0, 1], [1, 0]], [[2.5], [2.5]])
    assert (label.tolist(), label.dtype, data.num_tasks) == (list(range(14)), torch.float32, 14)
    (tmp_path / "qm7b.mat").write_bytes((tmp_path / "qm7b.mat").read_bytes()[:300])
    with pytest.raises(DGLError, match=r"qm7b\.mat is not read"):
        QM7bDataset(raw_dir=tmp_path)


def qm9(folder: Path, **changes: Any) -> Path:
    rows = np.array([[0.0, 0, 0], [1, 0, 0], [0, 0, 0], [3, 0, 0], [9, 0, 0]])
    arrays = {"N": np.array([2, 3]), "R": rows, "Z": np.arange(5), "mu": np.array([1.5, 2]), "gap": np.array([3, 4.5])}
    np.savez(folder / "qm9_eV.npz", **{**arrays, **changes})
    return folder


def test_qm9(tmp_path: Path) -> None:
    data = QM9Dataset(["gap", "mu"], cutoff=4, raw_dir=qm9(tmp_path))
    assert (len(data), data.num_tasks) == (2, 2)
    g, label = data[-1]
    assert (edges(g), label.tolist(), label.dtype) == ([[0, 1], [1, 0]], [4.5, 2], torch.float32)
    assert (g.ndata["R"][:, 0].tolist(), g.ndata["Z"].tolist()) == ([0, 3, 9], [2, 3, 4])
    with pytest.raises(IndexError):
        data[2]
    with pytest.raises(DGLError, match=r"label_keys has 'A'; expected some of mu,"):
        QM9Dataset(["A"], raw_dir=tmp_path)
    with pytest.raises(DGLError, match=r"qm9_eV\.npz has no array 'homo'"):
        QM9Dataset(["homo"], raw_dir=tmp_path)


def test_qm9_pickles_are_read_by_nobody(tmp_path: Path) -> None:
    assert len(QM9Dataset(["mu"], raw_dir=qm9(tmp_path, id=np.array(["a", None])))) == 2
    for changes, message in (
        ({"Z": np.array([None])}, "not numbers"),
        ({"N": np.array([2, 4])}, "counts that do not fit"),
    ):
        with pytest.raises(DGLError, match=message):
            QM9Dataset(["mu"], raw_dir=qm9(tmp_path, **changes))


def test_qm9_edges(tmp_path: Path) -> None:
    arrays = {
        "n_node": [2, 1], "n_edge": [1, 0], "node_attr": np.ones((3, 11)), "node_pos": np.zeros((3, 3)),
        "edge_attr": np.ones((1, 4)), "src": [0], "dst": [1], "targets": np.arange(38.0).reshape(2, 19),
    }  # fmt: skip
    np.savez(tmp_path / "qm9_edge.npz", **{name: np.array(values) for name, values in arrays.items()})
    g, label = QM9EdgeDataset(["C", "mu"], raw_dir=tmp_path)[0]
    assert (edges(g), label.tolist()) == ([[0], [1]], [18, 0])
    assert [tuple(x.shape) for x in (g.ndata["pos"], g.ndata["attr"], g.edata["edge_attr"])] == [
        (2, 3),
        (2, 11),
        (1, 4),
    ]
    everything = QM9EdgeDataset(raw_dir=tmp_path)
    assert (everything[1][0].num_nodes(), tuple(everything[1][1].shape), everything.num_tasks) == (1, (1, 19), 19)


# -- where files are ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda **where: TUDataset("X", **where), r"X_A\.txt.*X\.zip into"),
        (lambda **where: GINDataset("MUTAG", False, **where), r"MUTAG\.txt.*dataset\.zip into"),
        (FB15k237Dataset, r"train\.txt.*FB15k-237\.tgz into"),
        (QM7bDataset, r"qm7b\.mat"),
        (lambda **where: QM9Dataset(["mu"], **where), r"qm9_eV\.npz"),
        (QM9EdgeDataset, r"qm9_edge\.npz"),
    ],
)
def test_without_a_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[..., Any], names: str
) -> None:
    def refused(self: Any, *_: Any) -> None:
        raise ConnectionError("there is no connection")

    monkeypatch.setattr(dataset.Downloader, "__call__", refused)
    with pytest.raises(DGLError, match=rf"(?s){names}.*raw_dir="):
        make(raw_dir=tmp_path)


def test_an_archive_that_is_there_is_unpacked(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "X.zip", "w") as archive:
        for part, text in TU.items():
            archive.writestr(f"X/X_{part}.txt", text)
    assert len(TUDataset("X", raw_dir=tmp_path)) == 2
    (tmp_path / "Y.zip").write_bytes((tmp_path / "X.zip").read_bytes()[:100])
    with pytest.raises(DGLError, match=r"Y\.zip cannot be unpacked"):
        TUDataset("Y", raw_dir=tmp_path)
