"""OGB's data sets, read from tiny files in the published layout, and their evaluators."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dglite import DGLError
from dglite.data import dataset
from dglite.data.ogb import (
    DglGraphPropPredDataset,
    DglLinkPropPredDataset,
    DglNodePropPredDataset,
    Evaluator,
    collate_dgl,
    graphproppred,
    linkproppred,
    nodeproppred,
)

ARXIV = {
    "raw/edge": "0,1\n2,0\n",
    "raw/num-node-list": "3\n",
    "raw/num-edge-list": "2\n",
    "raw/node-feat": "0.5,1\n2,3\n4,5\n",
    "raw/node_year": "2010\n2011\n2012\n",
    "raw/node-label": "4\n0\n39\n",
    "split/time/train": "0\n",
    "split/time/valid": "2\n",
    "split/time/test": "1\n",
}
MAG = {
    "raw/num-node-dict": "paper,author\n2,1\n",
    "raw/triplet-type-list": "paper,cites,paper\nauthor,writes,paper\n",
    "raw/nodetype-has-label": "author,paper\nFalse,True\n",
    "raw/relations/paper___cites___paper/edge": "0,1\n",
    "raw/relations/paper___cites___paper/num-edge-list": "1\n",
    "raw/relations/paper___cites___paper/edge_reltype": "7\n",
    "raw/relations/author___writes___paper/edge": "0,1\n0,0\n",
    "raw/relations/author___writes___paper/num-edge-list": "2\n",
    "raw/node-feat/paper/node-feat": "1.5\n2\n",
    "raw/node-feat/paper/node_year": "2010\n2011\n",
    "raw/node-label/paper/node-label": "3\n5\n",
    "split/time/nodetype-has-split": "author,paper\nFalse,True\n",
    "split/time/paper/train": "0\n",
    "split/time/paper/valid": "1\n",
    "split/time/paper/test": "",
}
MOLECULES = {
    "raw/edge": "0,1\n0,1\n1,2\n",
    "raw/num-node-list": "2\n3\n1\n",
    "raw/num-edge-list": "1\n2\n0\n",
    "raw/node-feat": "1,2\n3,4\n5,6\n7,8\n9,10\n11,12\n",
    "raw/edge-feat": "1\n2\n3\n",
    "raw/graph-label": "1\n0\n1\n",
    "split/scaffold/train": "0\n2\n",
    "split/scaffold/valid": "1\n",
    "split/scaffold/test": "1\n",
}


def write(folder: Path, files: dict[str, str], **changes: str | None) -> Path:
    for name, text in {**files, **{name.replace("__", "/"): text for name, text in changes.items()}}.items():
        path = folder / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_bytes(gzip.compress(text.encode()))
    return folder


def arxiv(folder: Path, **changes: str | None) -> DglNodePropPredDataset:
    write(folder / "ogbn_arxiv", ARXIV)
    for name, text in changes.items():
        write(folder / "ogbn_arxiv", {f"raw/{name}": text or ""})
    return DglNodePropPredDataset("ogbn-arxiv", root=folder)


def edges(g: Any, etype: Any = None) -> list[list[int]]:
    return [end.tolist() for end in g.edges(etype=etype)]


def lists(split: dict[str, Any]) -> list[Any]:
    return [split[part].tolist() for part in ("train", "valid", "test")]


# -- nodes -------------------------------------------------------------------------------------------------------------
def test_node_set(tmp_path: Path) -> None:
    data = arxiv(tmp_path)
    g, labels = data[0]
    assert (edges(g), g.ndata["feat"].dtype) == ([[0, 2], [1, 0]], torch.float32)
    assert (g.ndata["feat"].tolist(), g.ndata["year"].tolist()) == (
        [[0.5, 1], [2, 3], [4, 5]],
        [[2010], [2011], [2012]],
    )
    assert (labels.tolist(), labels.dtype, len(data)) == ([[4], [0], [39]], torch.int64, 1)
    assert (data.num_classes, data.num_tasks, data.eval_metric, data.is_hetero) == (40, 1, "acc", False)
    assert data.task_type == "multiclass classification"
    assert lists(data.get_idx_split()) == [[0], [2], [1]]
    with pytest.raises(IndexError):
        data[1]
    with pytest.raises(DGLError, match=r"random is missing; ogbn-arxiv has the splits \['time'\]"):
        data.get_idx_split("random")


def test_undirected_edges_are_followed_by_their_reverse(tmp_path: Path) -> None:
    files = {name.replace("time", "species"): text for name, text in ARXIV.items() if "node-feat" not in name}
    write(tmp_path / "proteins", files, **{"raw__edge-feat": "0.5\n1\n", "raw__species": "9\n9\n8\n"})
    g, labels = DglNodePropPredDataset("ogbn-proteins", tmp_path)[0]
    assert edges(g) == [[0, 1, 2, 0], [1, 0, 0, 2]]
    assert (g.edata["feat"].tolist(), g.ndata["species"].tolist()) == ([[0.5], [0.5], [1], [1]], [[9], [9], [8]])
    assert labels.dtype == torch.int64


def test_hetero_set(tmp_path: Path) -> None:
    data = DglNodePropPredDataset("ogbn-mag", write(tmp_path / "mag", MAG).parent)
    g, labels = data[0]
    assert (g.ntypes, g.etypes) == (["author", "paper"], ["writes", "cites"])
    assert (edges(g, "writes"), edges(g, "cites")) == ([[0, 0], [1, 0]], [[0], [1]])
    assert (g.edges["cites"].data["reltype"].tolist(), list(g.edges["writes"].data)) == ([[7]], [])
    assert g.nodes["paper"].data["feat"].tolist() == [[1.5], [2]]
    assert {kind: x.tolist() for kind, x in labels.items()} == {"paper": [[3], [5]]}
    split = data.get_idx_split()
    assert [split[part]["paper"].tolist() for part in ("train", "valid", "test")] == [[0], [1], []]


def test_binary_set(tmp_path: Path) -> None:
    folder = write(tmp_path / "papers100M-bin", {name: text for name, text in ARXIV.items() if "split" in name})
    (folder / "raw").mkdir()
    arrays = {
        "edge_index": [[0, 2], [1, 0]],
        "num_nodes_list": [3],
        "num_edges_list": [2],
        "node_year": [[1], [2], [3]],
    }
    feat = np.ones((3, 2), np.float32)

    def store(**changes: Any) -> None:
        np.savez(folder / "raw/data.npz", **{**arrays, "node_feat": feat, **changes})

    np.savez(folder / "raw/node-label.npz", node_label=np.array([[1], [np.nan], [3]]))
    store()
    g, labels = DglNodePropPredDataset("ogbn-papers100M", tmp_path)[0]
    assert (edges(g), g.ndata["feat"].tolist(), g.ndata["year"].tolist()) == (
        [[0, 2], [1, 0]],
        [[1, 1]] * 3,
        [[1], [2], [3]],
    )
    assert (labels.dtype, labels[[0, 2]].tolist(), labels[1].isnan().item()) == (torch.float32, [[1], [3]], True)
    for changes, message in (
        ({"edge_index": [[0, 2], [1, 3]]}, r"edge 1 of .*data\.npz is between \[2, 3\]"),
        ({"num_edges_list": [3]}, "do not fit its 2 edges"),
        ({"node_feat": feat[:2]}, "'node_feat' of shape"),
        ({"node_year": np.array([None] * 3)}, r"data\.npz is not read as \.npz"),
    ):
        store(**changes)
        with pytest.raises(DGLError, match=message):
            DglNodePropPredDataset("ogbn-papers100M", tmp_path)


# -- links -------------------------------------------------------------------------------------------------------------
def collab(folder: Path) -> Path:
    files = {name: text for name, text in ARXIV.items() if "raw" in name and "label" not in name and "year" not in name}
    write(folder / "collab", files, raw__edge_weight="1\n2\n", raw__edge_year="2000\n2001\n")
    (folder / "collab/split/time").mkdir(parents=True, exist_ok=True)
    return folder / "collab/split/time"


@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.parametrize("tensors", [True, False])
def test_link_set(tmp_path: Path, legacy: bool, tensors: bool) -> None:
    place = collab(tmp_path)
    pairs = np.array([[0, 1], [2, 0]])
    for part in ("train", "valid", "test"):
        content = {"edge": torch.tensor(pairs) if tensors else pairs, "head_type": ["a", "b"]}
        torch.save(content, place / f"{part}.pt", _use_new_zipfile_serialization=not legacy)
    data = DglLinkPropPredDataset("ogbl-collab", tmp_path)
    assert edges(data[0]) == [[0, 1, 2, 0], [1, 0, 0, 2]]
    assert (data[0].edata["weight"].tolist(), data[0].edata["year"].tolist()[2]) == ([[1], [1], [2], [2]], [2001])
    split = data.get_edge_split()
    assert (list(split), split["test"]["head_type"]) == (["train", "valid", "test"], ["a", "b"])
    assert (split["train"]["edge"].tolist(), split["train"]["edge"].dtype) == (pairs.tolist(), torch.int64)


class Hostile:
    def __reduce__(self) -> Any:
        return print, ("this ran",)


@pytest.mark.parametrize("legacy", [True, False])
def test_hostile_splits_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], legacy: bool) -> None:
    place = collab(tmp_path)
    data = DglLinkPropPredDataset("ogbl-collab", tmp_path)
    with pytest.raises(DGLError, match=r"train\.pt is missing; unpack the published archive again"):
        data.get_edge_split()
    torch.save({"edge": Hostile()}, place / "train.pt", _use_new_zipfile_serialization=not legacy)
    with pytest.raises(DGLError, match=r"train\.pt is not read: it holds .*print"):
        data.get_edge_split()
    assert "ran" not in capsys.readouterr().out
    (place / "train.pt").write_bytes(b"no pickle")
    with pytest.raises(DGLError, match=r"train\.pt is not read"):
        data.get_edge_split()
    for part in ("train", "valid", "test"):
        torch.save([1], place / f"{part}.pt")
    with pytest.raises(DGLError, match=r"train\.pt holds list; expected a dict"):
        data.get_edge_split()


# -- graphs ------------------------------------------------------------------------------------------------------------
def test_graph_set(tmp_path: Path) -> None:
    data = DglGraphPropPredDataset("ogbg-molhiv", write(tmp_path / "hiv", MOLECULES).parent)
    g, label = data[-2]
    assert (edges(g), label.tolist(), len(data)) == ([[0, 1, 1, 2], [1, 0, 2, 1]], [0], 3)
    assert (g.ndata["feat"].tolist(), g.edata["feat"].tolist()) == ([[5, 6], [7, 8], [9, 10]], [[2], [2], [3], [3]])
    assert (data[2][0].num_edges(), data[2][0].ndata["feat"].tolist()) == (0, [[11, 12]])
    split = data.get_idx_split()
    assert lists(split) == [[0, 2], [1], [1]]
    train = data[split["train"]]
    assert (len(train), train[1][1].tolist()) == (2, [1])
    graphs, labels = collate_dgl([train[0], train[1]])
    assert (graphs.batch_size, graphs.num_nodes(), labels.tolist()) == (2, 3, [[1], [1]])
    for wrong in (3, -4, [0, 3], "0", 1.0):
        with pytest.raises(IndexError):
            data[wrong]


def test_missing_labels_and_splits_in_one_file(tmp_path: Path) -> None:
    tasks = [",".join(["1", *[""] * 126, "0"]), ",".join([""] * 128), ",".join(["0"] * 128)]
    files = {name: text for name, text in MOLECULES.items() if "split" not in name}
    folder = write(tmp_path / "pcba", files, **{"raw__graph-label": "\n".join(tasks) + "\n"})
    (folder / "split/scaffold").mkdir(parents=True)
    torch.save({"train": torch.tensor([0]), "valid": torch.tensor([1]), "test": torch.tensor([2])},
               folder / "split/scaffold/split_dict.pt")  # fmt: skip
    data = DglGraphPropPredDataset("ogbg-molpcba", tmp_path)
    assert (data.labels.dtype, data.labels.isnan().sum(1).tolist()) == (torch.float32, [126, 128, 0])
    assert lists(data.get_idx_split()) == [[0], [1], [2]]
    torch.save({"train": torch.tensor([3])}, folder / "split/scaffold/split_dict.pt")
    with pytest.raises(DGLError, match=r"split_dict\.pt has no 'train', or it is not numbers from 0 to 2"):
        data.get_idx_split()


def test_words_as_labels(tmp_path: Path) -> None:
    files = {name: text for name, text in MOLECULES.items() if "raw" in name}
    numbers = "\n".join("123456") + "\n"
    more = {f"raw__node_{what}": numbers for what in ("is_attributed", "dfs_order", "depth")}
    write(tmp_path / "code2", files, **more, **{"raw__graph-label": "get item\nset\nadd all\n"})
    data = DglGraphPropPredDataset("ogbg-code2", tmp_path)
    assert (data[0][1], data[2][1], data[1][0].ndata["dfs_order"].tolist()) == (
        ["get", "item"],
        ["add", "all"],
        [[3], [4], [5]],
    )
    assert edges(data[1][0]) == [[0, 1], [1, 2]]
    assert collate_dgl([data[0], data[1]])[1] == [["get", "item"], ["set"]]


# -- damage ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edge": "0,1\n3,0\n"}, r"edge 1 of .*edge\.csv\.gz is between \[3, 0\]"),
        ({"edge": "0,1\n"}, r"edge\.csv\.gz has 1 lines; expected 2"),
        ({"edge": "0\n1\n"}, r"edge\.csv\.gz is not two node numbers a line"),
        ({"edge": "0,1\n0,x\n"}, r"edge\.csv\.gz is not a table of numbers"),
        ({"edge": "0,1\n0,1.5\n"}, r"edge\.csv\.gz is not two node numbers"),
        ({"num-node-list": "-3\n"}, r"num-node-list\.csv\.gz is not one count a line"),
        ({"num-node-list": "3\n0\n"}, r"num-node-list\.csv\.gz of 2 graphs, num-edge-list\.csv\.gz of 1"),
        ({"node-label": "1\n2\n"}, r"node-label\.csv\.gz has 2 lines; expected 3"),
        ({"node-feat": "1\n2\n3\n4\n"}, r"node-feat\.csv\.gz has 4 lines; expected 3"),
    ],
)
def test_damage(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(DGLError, match=message):
        arxiv(tmp_path, **changes)


def test_damaged_packing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arxiv(tmp_path)
    path = tmp_path / "ogbn_arxiv/raw/node_year.csv.gz"
    whole = path.read_bytes()
    for content, message in (
        (whole[:-6], "damaged"),
        (b"2010\n", "damaged"),
        (gzip.compress(b"0\n" * (1 << 20)), "more than"),
    ):
        path.write_bytes(content)
        monkeypatch.setattr("dglite.data.ogb.files._FREE", 1 << 16)
        with pytest.raises(DGLError, match=rf"node_year\.csv\.gz .*{message}"):
            DglNodePropPredDataset("ogbn-arxiv", tmp_path)
    path.unlink()
    with pytest.raises(DGLError, match=r"node_year\.csv\.gz is missing"):
        DglNodePropPredDataset("ogbn-arxiv", tmp_path)


def test_damaged_split(tmp_path: Path) -> None:
    data = arxiv(tmp_path)
    for text, message in (("3\n", "names numbers from 3 to 3; expected 0 to 2"), ("0,1\n", "not one integer a line")):
        write(tmp_path / "ogbn_arxiv", {"split/time/test": text})
        with pytest.raises(DGLError, match=rf"test\.csv\.gz .*{message}|test\.csv\.gz is {message}"):
            data.get_idx_split()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("raw/num-node-dict", "paper,author\n2\n", "not a line of node types"),
        ("raw/num-node-dict", "paper,author\n2,x\n", "not a line of node types"),
        ("raw/triplet-type-list", "paper,cites\n", r"names \('paper', 'cites'\)"),
        ("raw/triplet-type-list", "paper,../../cites,paper\n", "which is not two node types"),
        ("raw/triplet-type-list", "paper,cites,venue\n", "which is not two node types"),
        ("raw/relations/author___writes___paper/edge", "0,1\n1,0\n", "edge 1 of .* names a node that is not there"),
        ("raw/nodetype-has-label", "author,paper\nFalse,False\n", "says True of no node type"),
        ("raw/nodetype-has-label", "venue\nTrue\n", "labels or a split of 'venue'"),
        ("raw/node-label/paper/node-label", None, r"node-label\.csv\.gz is missing"),
    ],
)
def test_hetero_damage(tmp_path: Path, name: str, text: str | None, message: str) -> None:
    write(tmp_path / "mag", {**MAG, name: text})  # type: ignore[dict-item]
    with pytest.raises(DGLError, match=message):
        DglNodePropPredDataset("ogbn-mag", tmp_path)


# -- where files are ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("make", "name", "file"),
    [
        (DglNodePropPredDataset, "ogbn-products", r"node-label\.csv\.gz.*products\.zip into"),
        (DglLinkPropPredDataset, "ogbl-citation2", r"edge\.csv\.gz.*citation-v2\.zip into"),
        (DglGraphPropPredDataset, "ogbg-molpcba", r"graph-label\.csv\.gz.*csv_mol_download/pcba\.zip.*pcba\.zip into"),
    ],
)
def test_without_a_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Any, name: str, file: str) -> None:
    def refused(self: Any, *_: Any) -> None:
        raise ConnectionError("there is no connection")

    monkeypatch.setattr(dataset.Downloader, "__call__", refused)
    with pytest.raises(DGLError, match=rf"(?s){file}.*raw_dir="):
        make(name, root=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_archive_is_unpacked(tmp_path: Path) -> None:
    write(tmp_path / "made/arxiv", ARXIV)
    with zipfile.ZipFile(tmp_path / "arxiv.zip", "w") as archive:
        for path in sorted((tmp_path / "made").rglob("*.gz")):
            archive.write(path, path.relative_to(tmp_path / "made"))
    assert DglNodePropPredDataset("ogbn-arxiv", tmp_path)[0][0].num_nodes() == 3
    assert (tmp_path / "ogbn-arxiv/arxiv/raw").is_dir()


def test_unknown_names_list_those_that_are_known() -> None:
    with pytest.raises(DGLError, match=r"'ogbl-ppa' is not a known set of OGB; expected one of ogbn-proteins"):
        DglNodePropPredDataset("ogbl-ppa")
    with pytest.raises(DGLError, match="'arxiv' is not a known set"):
        Evaluator("arxiv")


# -- evaluators --------------------------------------------------------------------------------------------------------
def judge(name: str, **given: Any) -> dict[str, Any]:
    return Evaluator(name).eval(given)


def test_modules_have_the_evaluator_of_their_task() -> None:
    assert nodeproppred.Evaluator is linkproppred.Evaluator is graphproppred.Evaluator is Evaluator


def test_accuracy() -> None:
    y_true, y_pred = torch.tensor([[1], [2], [3], [0]]), np.array([[1], [2], [0], [0]])
    assert judge("ogbn-arxiv", y_true=y_true, y_pred=y_pred) == {"acc": 0.75}
    assert judge("ogbn-papers100M", y_true=torch.tensor([[1.0], [torch.nan]]), y_pred=y_pred[:2]) == {"acc": 1}


def test_scores_of_tasks_without_both_classes_do_not_count() -> None:
    y_true = np.full((4, 128), np.nan)
    y_true[:, 0], y_true[:, 1], y_true[:3, 2] = [1, 0, 1, 0], 1, [1, 0, 0]
    y_pred = np.zeros((4, 128))
    y_pred[:, 0], y_pred[:3, 2] = [4, 3, 2, 1], [3, 2, 1]
    assert judge("ogbg-molpcba", y_true=y_true, y_pred=y_pred)["ap"] == pytest.approx(((1 + 2 / 3) / 2 + 1) / 2)
    assert judge("ogbg-molhiv", y_true=y_true[:, :1], y_pred=y_pred[:, :1]) == {"rocauc": 0.75}
    with pytest.raises(DGLError, match="no task can be evaluated"):
        judge("ogbg-molhiv", y_true=y_true[:, 1:2], y_pred=y_pred[:, 1:2])


def test_errors_of_numbers() -> None:
    given = {"y_true": np.array([[1.0], [2], [np.nan]]), "y_pred": np.array([[1.0], [4], [0]])}
    assert judge("ogbg-molesol", **given) == {"rmse": pytest.approx(2**0.5)}


def test_words() -> None:
    results = judge("ogbg-code2", seq_ref=[["a", "b"], ["c"]], seq_pred=[["a", "a", "x", "y"], []])
    assert results == {"precision": pytest.approx(1 / 6), "recall": 0.25, "F1": pytest.approx(0.2)}


def test_hits() -> None:
    negative = torch.arange(60.0)
    assert judge("ogbl-collab", y_pred_pos=torch.tensor([10.0, 10.5, 99]), y_pred_neg=negative) == {
        "hits@50": pytest.approx(2 / 3)
    }
    assert judge("ogbl-ppa", y_pred_pos=torch.tensor([-1.0]), y_pred_neg=negative) == {"hits@100": 1}
    assert judge("ogbl-vessel", y_pred_pos=np.array([2.0, 0]), y_pred_neg=np.array([1.0, 1])) == {"rocauc": 0.5}


@pytest.mark.parametrize("kind", [torch.tensor, np.array])
def test_reciprocal_ranks(kind: Any) -> None:
    result = judge("ogbl-citation2", y_pred_pos=kind([3.0, 1.0]), y_pred_neg=kind([[1.0, 2.0, 0.0], [2.0, 1.0, 4.0]]))
    assert {name: values.tolist() for name, values in result.items()} == {
        "hits@1_list": [1, 0],
        "hits@3_list": [1, 0],
        "hits@10_list": [1, 1],
        "mrr_list": [1, pytest.approx(1 / 3.5)],
    }


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("ogbn-arxiv", {"y_true": [[1]]}, "needs 'y_true' and 'y_pred'; got"),
        ("ogbn-arxiv", {"y_true": np.ones(3), "y_pred": np.ones(3)}, r"expected both \(num_rows, 1\) for ogbn-arxiv"),
        ("ogbn-proteins", {"y_true": np.ones((2, 3)), "y_pred": np.ones((2, 3))}, r"\(num_rows, 112\)"),
        ("ogbn-arxiv", {"y_true": [["a"]], "y_pred": [["a"]]}, "must be numbers"),
        ("ogbl-ddi", {"y_pred_pos": np.ones((2, 1)), "y_pred_neg": np.ones(2)}, r"\(num_edges,\) and \(num_pairs,\)"),
        ("ogbl-biokg", {"y_pred_pos": np.ones(2), "y_pred_neg": np.ones(2)}, r"\(num_edges, num_negatives\)"),
        ("ogbl-ddi", {"y_pred_pos": np.array([np.nan]), "y_pred_neg": np.ones(30)}, "NaN"),
        ("ogbg-code2", {"seq_ref": [["a"]], "seq_pred": []}, "seq_ref has 1 rows, seq_pred 0"),
    ],
)
def test_input_is_checked(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(DGLError, match=message):
        Evaluator(name).eval(given)


def test_formats_are_said() -> None:
    assert Evaluator("ogbl-ddi").expected_input_format == (
        "ogbl-ddi: {'y_pred_pos': scores (num_edges,), 'y_pred_neg': scores (num_pairs,)}"
    )
    assert Evaluator("ogbg-code2").expected_output_format == "ogbg-code2: {'precision', 'recall', 'F1': float}"
    assert "hits@3_list" in Evaluator("ogbl-biokg").expected_output_format
    assert "classes (num_rows, 1)" in Evaluator("ogbn-mag").expected_input_format
    assert "lists of words" in Evaluator("ogbg-code2").expected_input_format
