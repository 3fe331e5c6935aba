"""Node classification data sets, read from tiny files in the published layouts."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from dglite import DGLError, data
from dglite.data import AmazonCoBuyPhotoDataset, FlickrDataset, RedditDataset, WikiCSDataset, YelpDataset, dataset

EDGES = {(0, 1), (1, 0), (1, 2), (2, 1), (0, 3), (3, 0)}


def named_edges(g: Any, key: str = "label") -> set[tuple[int, int]]:
    """Return the edges between labels, which the order of nodes does not change."""
    label = g.ndata[key]
    return {(int(label[u]), int(label[v])) for u, v in zip(*g.edges(), strict=True)}


# -- GNN benchmark -----------------------------------------------------------------------------------------------------
def benchmark(folder: Path, **changes: Any) -> AmazonCoBuyPhotoDataset:
    adjacency = sp.csr_matrix(([1.0] * 4, ([0, 1, 0, 1], [1, 2, 3, 0])), (4, 4))
    features = sp.csr_matrix(np.array([[1, 0], [0, 2], [0, 0], [3, 4]], np.float32))
    arrays = {
        f"{name}_{part}": np.array(getattr(matrix, part))
        for name, matrix in (("adj", adjacency), ("attr", features))
        for part in ("data", "indices", "indptr", "shape")
    }
    given = {**arrays, "labels": np.arange(4), "node_names": np.array(["a", None]), **changes}
    np.savez(folder / "amazon_co_buy_photo.npz", **{name: part for name, part in given.items() if part is not None})
    return AmazonCoBuyPhotoDataset(raw_dir=folder)


def test_benchmark(tmp_path: Path) -> None:
    result = benchmark(tmp_path)
    g = result[0]
    assert (len(result), result.num_classes, g.num_nodes(), g.num_edges()) == (1, 8, 4, 6)
    assert named_edges(g) == EDGES
    assert g.edges()[1].tolist() == sorted(g.edges()[1].tolist())
    order = g.ndata["label"].argsort()
    assert g.ndata["feat"][order].tolist() == [[1, 0], [0, 2], [0, 0], [3, 4]]
    assert (g.ndata["feat"].dtype, g.ndata["label"].dtype) == (torch.float32, torch.int64)
    dense = {"attr_matrix": np.ones((4, 3)), "attr_data": None}
    assert benchmark(tmp_path, **dense)[0].ndata["feat"].shape == (4, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"adj_indices": np.array([1, 9, 3, 0])}, "no CSR matrix adj_.*outside its shape"),
        ({"adj_indptr": None}, "no CSR matrix adj_"),
        ({"adj_data": np.array([None])}, "not numbers"),
        ({"labels": np.arange(3)}, r"4 nodes, features of \(4, 2\) and labels of \(3,\)"),
        ({"attr_shape": np.array([4, 1 << 40])}, "256 times as large when dense"),
        ({"attr_indptr": np.array([0, 9, 1, 1, 4])}, "row pointers do not fit"),
    ],
)
def test_benchmark_damage(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DGLError, match=rf"amazon_co_buy_photo\.npz.*{message}"):
        benchmark(tmp_path, **changes)


def test_older_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark(tmp_path)
    monkeypatch.setenv("DGLITE_DATA_DIR", str(tmp_path))
    assert isinstance(data.AmazonCoBuy("photo"), AmazonCoBuyPhotoDataset)
    with pytest.raises(DGLError, match="'cs' or 'physics'"):
        data.Coauthor("maths")


# -- Reddit ------------------------------------------------------------------------------------------------------------
def reddit(folder: Path, matrix: Any = None, **changes: Any) -> RedditDataset:
    given = sp.coo_matrix(([1] * 6, np.array(sorted(EDGES)).T), (4, 4)) if matrix is None else matrix
    sp.save_npz(folder / "reddit_graph.npz", given)
    arrays = {"feature": np.eye(4), "label": np.arange(4), "node_types": np.array([1, 2, 3, 1])}
    np.savez(folder / "reddit_data.npz", **{**arrays, **changes})
    return RedditDataset(raw_dir=folder)


def test_reddit(tmp_path: Path) -> None:
    g = reddit(tmp_path)[0]
    assert named_edges(g) == EDGES
    order = g.ndata["label"].argsort()
    masks = [g.ndata[f"{split}_mask"][order].int().tolist() for split in ("train", "val", "test")]
    assert masks == [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]]
    assert g.ndata["feat"][order].tolist() == np.eye(4).tolist()
    (tmp_path / "reddit_graph.npz").rename(tmp_path / "reddit_self_loop_graph.npz")
    assert named_edges(RedditDataset(True, raw_dir=tmp_path)[0]) == EDGES


@pytest.mark.parametrize(
    ("matrix", "changes", "message"),
    [
        (sp.csr_matrix((4, 5)), {}, r"reddit_graph\.npz has a matrix of shape \[4, 5\]"),
        (sp.csc_matrix((4, 4)), {}, r"reddit_graph\.npz has no matrix in CSR or COO"),
        (sp.csr_matrix((5, 5)), {}, r"reddit_data\.npz has feature of \(4, 4\).*5 nodes"),
        (None, {"label": np.array(["a"])}, r"reddit_data\.npz.*not numbers"),
    ],
)
def test_reddit_damage(tmp_path: Path, matrix: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DGLError, match=message):
        reddit(tmp_path, matrix, **changes)


# -- GraphSAINT --------------------------------------------------------------------------------------------------------
def saint(folder: Path, kind: Any = FlickrDataset, **changes: Any) -> Any:
    folder = folder / kind._published[0]
    folder.mkdir(exist_ok=True)
    sp.save_npz(folder / "adj_full.npz", sp.csr_matrix(([1] * 6, np.array(sorted(EDGES)).T), (4, 4)))
    np.save(folder / "feats.npy", changes.pop("feats", np.arange(8.0).reshape(4, 2)))
    content = {"class_map": {"0": 3, "2": 5}, "role": {"tr": [0], "va": [1, 3], "te": [2]}, **changes}
    for name, value in content.items():
        (folder / f"{name}.json").write_text(value if isinstance(value, str) else json.dumps(value))
    return kind(raw_dir=folder.parent)


def test_saint(tmp_path: Path) -> None:
    result = saint(tmp_path)
    g = result[0]
    assert list(zip(*(end.tolist() for end in g.edges()), strict=True)) == sorted(EDGES)
    assert (g.ndata["label"].tolist(), result.num_classes) == ([3, -1, 5, -1], 7)
    assert g.ndata["feat"].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert g.ndata["val_mask"].tolist() == [False, True, False, True]
    assert named_edges(FlickrDataset(raw_dir=tmp_path, reorder=True)[0]) == named_edges(g)
    several = {str(node): [node % 2, 1] for node in range(4)}
    assert saint(tmp_path, YelpDataset, class_map=several)[0].ndata["label"].tolist() == [[0, 1], [1, 1]] * 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"class_map": "{"}, r"class_map\.json is damaged, or no JSON"),
        ({"class_map": "[" * 100_000}, r"class_map\.json is damaged"),
        ({"class_map": {"4": 1}}, r"class_map\.json names node 4"),
        ({"class_map": {"0": [1], "1": 1}}, r"class_map\.json has a key that is no node number, or labels"),
        ({"class_map": {"0": [1]}}, r"class_map\.json has labels of shape"),
        ({"role": {"tr": []}}, r"role\.json is not an object with tr, va, te"),
        ({"role": {"tr": [-1], "va": [], "te": []}}, r"role\.json .*node -1"),
        ({"feats": np.zeros((3, 2))}, r"feats\.npy has 3 rows; expected 4"),
        ({"feats": np.array([None])}, r"feats\.npy is not read as \.npy"),
    ],
)
def test_saint_damage(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DGLError, match=message):
        saint(tmp_path, **changes)


def test_an_array_cut_short(tmp_path: Path) -> None:
    saint(tmp_path)
    path = tmp_path / "flickr" / "feats.npy"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DGLError, match=r"feats\.npy is not read"):
        FlickrDataset(raw_dir=tmp_path)


# -- Wiki-CS -----------------------------------------------------------------------------------------------------------
def wikics(folder: Path, **changes: Any) -> WikiCSDataset:
    (folder / "wiki_cs").mkdir(exist_ok=True)
    splits = {f"{name}_masks": [[True, False, False, i > 0] for i in range(3)] for name in ("train", "val", "stopping")}
    content = {"features": np.eye(4).tolist(), "labels": [0, 1, 2, 3], "links": [[1, 3], [2, 0], [], []], **splits}
    given = {**content, "test_mask": [False, True, False, False], **changes}
    (folder / "wiki_cs" / "data.json").write_text(json.dumps(given))
    return WikiCSDataset(raw_dir=folder)


def test_wikics(tmp_path: Path) -> None:
    g = wikics(tmp_path)[0]
    assert named_edges(g) == EDGES
    order = g.ndata["label"].argsort()
    assert g.ndata["train_mask"][order].int().tolist() == [[1, 1, 1], [0, 0, 0], [0, 0, 0], [0, 1, 1]]
    assert g.ndata["test_mask"][order].int().tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"links": [[1], [7], [], []]}, "node 7"),
        ({"links": [[1], ["a"], [], []]}, "not pairs of node numbers"),
        ({"links": [[1], [], []]}, "links of 3 nodes"),
        ({"features": [[1], [1, 2], [1], [1]]}, "no table of numbers"),
    ],
)
def test_wikics_damage(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DGLError, match=rf"data\.json .*{message}"):
        wikics(tmp_path, **changes)


# -- heterophilous -----------------------------------------------------------------------------------------------------
def cells(folder: Path, **changes: Any) -> data.MinesweeperDataset:
    masks = np.zeros((10, 4), bool)
    masks[1, 2] = True
    arrays = {"edges": np.array([[0, 1], [1, 2], [0, 3]]), "node_features": np.eye(4, dtype=np.float32)}
    splits = {f"{split}_masks": masks for split in ("train", "val", "test")}
    np.savez(folder / "minesweeper.npz", **{**arrays, "node_labels": np.array([0, 1, 1, 0]), **splits, **changes})
    return data.MinesweeperDataset(raw_dir=folder)


def test_heterophilous(tmp_path: Path) -> None:
    result = cells(tmp_path)
    g = result[0]
    assert set(zip(*(end.tolist() for end in g.edges()), strict=True)) == EDGES
    assert (result.num_classes, g.ndata["label"].tolist(), g.ndata["train_mask"].shape) == (2, [0, 1, 1, 0], (4, 10))
    assert g.ndata["test_mask"].nonzero().tolist() == [[2, 1]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edges": np.array([[0, 4]])}, "node 4"),
        ({"edges": np.array([0, 1])}, r"edges of \(2,\)"),
        ({"train_masks": np.zeros((10, 3))}, r"a train mask of \(3,\)"),
        ({"edges": np.array([[0.0, 1]])}, "not pairs of node numbers"),
    ],
)
def test_heterophilous_damage(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DGLError, match=message):
        cells(tmp_path, **changes)


# -- Geom-GCN ----------------------------------------------------------------------------------------------------------
def pages(folder: Path, kind: Any = data.TexasDataset, **changes: str) -> Any:
    name = kind._published[0]
    (folder / name).mkdir(exist_ok=True)
    text = {
        "node_feature_label": "id\tfeature\tlabel\n0\t1,0,1\t2\n1\t0,1,0\t0\n2\t0,0,0\t1\n",
        "graph_edges": "a\tb\n0\t1\n2\t1\n1\t1\n",
        **changes,
    }
    for part, content in text.items():
        (folder / name / f"out1_{part}.txt").write_text(content)
    for i in range(10):
        masks = {f"{split}_mask": np.arange(3) == (i + j) % 3 for j, split in enumerate(("train", "val", "test"))}
        np.savez(folder / name / f"{name}_split_0.6_0.2_{i}.npz", **masks)
    return kind(raw_dir=folder)


def test_pages(tmp_path: Path) -> None:
    result = pages(tmp_path)
    g = result[0]
    assert [end.tolist() for end in g.edges()] == [[1, 1, 1], [0, 2, 1]]
    assert g.ndata["feat"].tolist() == [[1, 0, 1], [0, 1, 0], [0, 0, 0]]
    assert (g.ndata["label"].tolist(), result.num_classes) == ([2, 0, 1], 3)
    assert g.ndata["val_mask"][:, :3].int().tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]


def test_actor(tmp_path: Path) -> None:
    rows = "id\tfeature\tlabel\n2\t0,3\t1\n0\t1\t0\n1\t3\t4\n"
    result = pages(tmp_path, data.ActorDataset, node_feature_label=rows)
    assert result[0].ndata["feat"].tolist() == [[0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 1]]
    assert (result[0].ndata["label"].tolist(), result.num_classes) == ([0, 4, 1], 5)
    for damaged, message in (
        (rows.replace("0,3", "999999999"), "names columns"),
        (rows.replace("\n2", "\n1"), "number"),
    ):
        with pytest.raises(DGLError, match=message):
            pages(tmp_path, data.ActorDataset, node_feature_label=damaged)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"graph_edges": "a\tb\n0\t3\n"}, r"graph_edges\.txt names node 3"),
        ({"graph_edges": "a\tb\n0\n"}, r"line 2 of .*graph_edges\.txt has 1 numbers; expected 2"),
        ({"node_feature_label": "h\n0\t1\n"}, r"line 2 of .*has 2 columns; expected 3"),
        ({"node_feature_label": "h\n0\t1,x\t0\n"}, r"line 2 of .*could not convert"),
        ({"node_feature_label": "h\n0\t1\t0\n1\t1,2\t0\n"}, "features of different lengths"),
        ({"node_feature_label": "h\n0\t1\t0\n1\t1\t-1\n2\t1\t0\n"}, "label below 0"),
        ({"node_feature_label": "h\n0\t1\t0\n"}, r"split_0\.6_0\.2_0\.npz has masks of \[3, 3, 3\] nodes; expected 1"),
    ],
)
def test_pages_damage(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(DGLError, match=message):
        pages(tmp_path, **changes)


# -- all of them -------------------------------------------------------------------------------------------------------
SETS = [kind for name in data.__all__ if getattr(kind := getattr(data, name), "_published", ("", None))[1]]


@pytest.mark.parametrize("kind", [kind for kind in SETS if kind is not data.QM9Dataset])
def test_without_a_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    def refused(self: Any, url: str, *_: Any) -> None:
        raise ConnectionError("there is no connection")

    monkeypatch.setattr(dataset.Downloader, "__call__", refused)
    name, url = kind._published
    file = url.rsplit("/")[-1].removesuffix("?dl=1")
    message = rf"(?s){name} was looked for.*{re.escape(url)}.* or {re.escape(file)} into.*raw_dir="
    with pytest.raises(DGLError, match=message):
        kind(raw_dir=tmp_path)
    assert not list(tmp_path.rglob("*.*"))


def test_sets_of_a_family_have_its_docstring() -> None:
    assert data.CoraFullDataset.__doc__.startswith("Cora in full")
    assert "70 classes.\n\nThe graph has each edge" in data.CoraFullDataset.__doc__
    assert "AmazonCoBuyPhotoDataset()" in data.CoraFullDataset.__doc__


@pytest.mark.parametrize("kind", [kind for kind in SETS if kind is not data.LegacyPPIDataset])
def test_docstrings_name_every_parameter(kind: Any) -> None:
    head, _, rest = kind.__doc__.partition("\nParameters\n----------\n")
    named = re.findall(r"^[a-z]\w*(?:, \w+)*$", rest.partition("\n\n")[0], re.MULTILINE)
    assert {*", ".join(named).split(", ")} == {*inspect.signature(kind).parameters}
    assert head and "{" not in rest


def test_docstrings_say_where_files_are() -> None:
    message = "Folder that has ``<mode>.txt``, in ``GDELT/``, or receives it."
    assert message in data.GDELTDataset.__doc__
    assert "``graphs.txt``, ``pmpds.pkl`` and ``labels.txt``, itself or in ``cora_binary/``" in data.CoraBinary.__doc__
