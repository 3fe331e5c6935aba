"""Data sets of several graphs, of events and of fraud, read from tiny files in the published layouts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.io import savemat

import dglite
from dglite import EID, NID, DGLError, data
from dglite.data import published

DAYS = 86400


def ends(g: Any) -> list[list[int]]:
    return [end.tolist() for end in g.edges()]


# -- events ------------------------------------------------------------------------------------------------------------
def ratings(folder: Path, text: str | None = None) -> data.BitcoinOTCDataset:
    given = f"6,2,4,{DAYS}.7\n2,3,-10,{20 * DAYS}\n6,9,1,{30 * DAYS}\n" if text is None else text
    (folder / "soc-sign-bitcoinotc.csv").write_text(given)
    return data.BitcoinOTCDataset(raw_dir=folder)


def test_ratings(tmp_path: Path) -> None:
    result = ratings(tmp_path)
    assert (len(result), len(result.graphs), result.is_temporal) == (2, 2, True)
    assert (ends(result[0]), result[0].edata["h"].tolist()) == ([[4], [0]], [[4]])
    assert (ends(result[-1]), result[1].edata["h"].tolist(), result[1].num_nodes()) == (
        [[4, 0], [0, 1]],
        [[4], [-10]],
        5,
    )
    with pytest.raises(IndexError):
        result[2]


def test_packed_ratings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = tmp_path / "soc-sign-bitcoinotc.csv.gz"
    packed.write_bytes(gzip.compress(b"1,2,3,0\n2,3,4,1300000\n"))
    with pytest.raises(DGLError, match="another content than was published"):
        data.BitcoinOTCDataset(raw_dir=tmp_path)
    monkeypatch.setattr(published, "check_sha1", lambda *_: True)
    assert len(data.BitcoinOTCDataset(raw_dir=tmp_path)) == 1


def news(folder: Path, kind: Any = data.ICEWS18Dataset, text: str = "0\t5\t2\t24\t0\n3\t6\t2\t48\t0\n") -> Any:
    name = kind._published[0]
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "valid.txt").write_text(text)
    return kind("VALID", folder)


def test_news(tmp_path: Path) -> None:
    result = news(tmp_path)
    assert (len(result), ends(result[0]), ends(result[1])) == (2, [[0], [2]], [[0, 3], [2, 2]])
    assert result[1].edata["rel_type"].tolist() == [[5], [6]]
    quarters = news(tmp_path, data.GDELTDataset)
    assert (quarters.start_time, quarters.end_time, len(quarters), ends(quarters[1])) == (1, 3, 3, [[0], [2]])


@pytest.mark.parametrize("kind", [ratings, news])
def test_damaged_events(tmp_path: Path, kind: Any) -> None:
    tab = "\t" if kind is news else ","
    for row, message in (
        (["1", "x", "2", "3"], "is not four numbers a line"),
        (["1", "2", "2"], "is not four numbers a line"),
        (["1", "2", "2", "nan"], "line 1 of .* has no number"),
        (["1", "9" * 12, "9" * 12, "3"], "line 1 of .*names nodes"),
    ):
        with pytest.raises(DGLError, match=message):
            kind(tmp_path, text=tab.join(row) + "\n")
    with pytest.raises(DGLError, match="expected 'train', 'valid' or 'test'"):
        data.ICEWS18Dataset("all", raw_dir=tmp_path)


# -- PPI ---------------------------------------------------------------------------------------------------------------
LINKS = [(0, 1), (2, 0), (1, 0), (3, 3), (0, 1)]


def proteins(folder: Path, kind: Any = data.PPIDataset, **changes: Any) -> Any:
    content = {
        "directed": False,
        "nodes": [{"id": i} for i in (1, 0, 2, 3)],
        "links": [{"source": u, "target": v} for u, v in LINKS],
        **changes,
    }
    (folder / "valid_graph.json").write_text(json.dumps(content))
    np.save(folder / "valid_labels.npy", np.eye(4))
    np.save(folder / "valid_feats.npy", np.arange(8.0).reshape(4, 2))
    np.save(folder / "valid_graph_id.npy", np.array([21, 21, 22, 21]))
    return kind("valid", folder)


def test_proteins(tmp_path: Path) -> None:
    result = proteins(tmp_path)
    assert (len(result), result.num_labels, ends(result.graph)) == (2, 121, [[1, 0, 0, 2, 3], [0, 1, 2, 0, 3]])
    g = result[0]
    assert (sorted(zip(*ends(g), strict=True)), g.ndata[NID].tolist()) == ([(0, 1), (1, 0), (2, 2)], [0, 1, 3])
    assert (g.ndata["feat"].tolist(), g.ndata["label"].dtype) == ([[0, 1], [2, 3], [6, 7]], torch.float32)
    assert EID in g.edata
    _, feat, label = proteins(tmp_path, data.LegacyPPIDataset, directed=True)[1]
    assert (feat.tolist(), label.tolist()) == ([[4, 5]], [[0, 0, 1, 0]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": [{"id": 1}, {"id": 1}]}, "does not number its 2 nodes"),
        ({"nodes": [{}]}, "no node-link file"),
        ({"links": [{"source": 0, "target": 4}]}, "names node 4"),
        ({"nodes": [{"id": i} for i in range(5)]}, r"valid_labels\.npy has 4 rows; expected 5"),
    ],
)
def test_proteins_damage(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DGLError, match=message):
        proteins(tmp_path, **changes)


# -- stored graphs -----------------------------------------------------------------------------------------------------
def test_stored_graphs(tmp_path: Path) -> None:
    g = dglite.graph(([0, 1], [1, 0]))
    g.ndata["feat"], g.edata["feat"] = torch.tensor([2, 3]), torch.tensor([0, 1])
    dglite.save_graphs(str(tmp_path / "ZincDGL_test.bin"), [g, g], {"g_label": torch.tensor([0.5, 1])})
    molecule, label = data.ZINCDataset("test", tmp_path)[1]
    assert (molecule.ndata["feat"].tolist(), label.item()) == ([2, 3], 1)
    dglite.save_graphs(str(tmp_path / "ZincDGL_test.bin"), [g, g])
    with pytest.raises(DGLError, match=r"ZincDGL_test\.bin has no g_label"):
        data.ZINCDataset("test", tmp_path)
    dglite.save_graphs(str(tmp_path / "SBM_PATTERN_train.bin"), [g])
    with pytest.raises(DGLError, match=r"SBM_PATTERN_train\.bin is another file.*'label'"):
        data.PATTERNDataset(raw_dir=tmp_path)
    g.ndata["label"] = torch.tensor([0, 1], dtype=torch.int16)
    for kind, file in ((data.PATTERNDataset, "SBM_PATTERN_train.bin"), (data.CLUSTERDataset, "CLUSTER_train.bin")):
        dglite.save_graphs(str(tmp_path / file), [g])
        assert kind(raw_dir=tmp_path)[0].ndata["label"].tolist() == [0, 1]
    (tmp_path / "CLUSTER_train.bin").write_bytes(b"damaged")
    with pytest.raises(DGLError, match=r"CLUSTER_train\.bin"):
        data.CLUSTERDataset(raw_dir=tmp_path)


# -- fraud -------------------------------------------------------------------------------------------------------------
def reviews(folder: Path, **changes: Any) -> data.FraudDataset:
    edges = sp.csc_matrix(([1.0] * 3, ([0, 2, 1], [1, 0, 2])), (10, 10))
    content = {"net_rsr": edges, "net_rtr": edges.T.tocsc(), "net_rur": edges, "label": np.arange(10)[None] % 2}
    savemat(folder / "YelpChi.mat", {"features": sp.csc_matrix(np.eye(10, 3)), **content, **changes})
    return data.FraudYelpDataset(raw_dir=folder)


def test_reviews(tmp_path: Path) -> None:
    result = reviews(tmp_path)
    g = result[0]
    assert (len(result), result.num_classes, g.etypes, g.ntypes) == (
        1,
        2,
        ["net_rsr", "net_rtr", "net_rur"],
        ["review"],
    )
    assert [end.tolist() for end in g.edges(etype="net_rsr")] == [[2, 0, 1], [0, 1, 2]]
    assert (g.ndata["feature"].tolist(), g.ndata["label"].tolist()) == (np.eye(10, 3).tolist(), [0, 1] * 5)
    masks = [g.ndata[f"{split}_mask"] for split in ("train", "val", "test")]
    assert [int(mask.sum()) for mask in masks] == [7, 1, 2]
    assert bool((sum(mask.int() for mask in masks) == 1).all())
    order = np.random.RandomState(717).permutation(np.arange(10))
    assert masks[0].nonzero().squeeze(1).tolist() == sorted(order[:7].tolist())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": np.arange(9)}, "has 9 labels"),
        ({"net_rtr": sp.csc_matrix((9, 9))}, r"net_rtr of shape \(9, 9\) for 10 nodes"),
        ({"net_rtr": np.zeros(3)}, "is not read as a .mat file"),
        ({"features": sp.csc_matrix((10, 1 << 20))}, "too sparse to be true"),
    ],
)
def test_reviews_damage(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DGLError, match=rf"YelpChi\.mat .*{message}"):
        reviews(tmp_path, **changes)


def test_reviews_options(tmp_path: Path) -> None:
    with pytest.raises(DGLError, match="expected 'yelp' or 'amazon'"):
        data.FraudDataset("ebay", raw_dir=tmp_path)
    with pytest.raises(DGLError, match="sum to 1 at most"):
        data.FraudDataset("yelp", raw_dir=tmp_path, train_size=0.9, val_size=0.2)


# -- rumours -----------------------------------------------------------------------------------------------------------
def rumours(folder: Path, **changes: Any) -> data.FakeNewsDataset:
    """Two trees, of nodes 0, 2 and of nodes 1, 3, 4."""
    arrays = {
        "graph_labels": np.array([1, 0]),
        "node_graph_id": np.array([0, 1, 0, 1, 1]),
        "train_idx": np.array([1]),
        "val_idx": np.array([0]),
        "test_idx": np.array([], np.int64),
    }
    for name, array in {**arrays, **changes}.items():
        np.save(folder / f"{name}.npy", array)
    (folder / "A.txt").write_text("0, 2\n1, 3\n1, 4\n")
    sp.save_npz(folder / "new_profile_feature.npz", sp.csr_matrix(np.eye(5, 10)))
    return data.FakeNewsDataset("politifact", "profile", raw_dir=folder)


def test_rumours(tmp_path: Path) -> None:
    result = rumours(tmp_path)
    assert (len(result), result.num_graphs, result.num_classes) == (2, 2, 2)
    (first, real), (second, fake) = result[0], result[1]
    assert (ends(first), ends(second), real.item(), fake.item()) == ([[0], [1]], [[0, 0], [1, 2]], 1, 0)
    assert second.ndata[NID].tolist() == [1, 3, 4]
    assert (tuple(result.feature.shape), result.feature.dtype) == ((5, 10), torch.float32)
    assert [mask.tolist() for mask in (result.train_mask, result.val_mask, result.test_mask)] == [
        [0, 1],
        [1, 0],
        [0, 0],
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node_graph_id": np.array([0, 1, 0, 1, 2])}, r"node_graph_id\.npy names node 2"),
        ({"node_graph_id": np.array([0, 1, 0, 1])}, r"A\.txt names node 4"),
        ({"train_idx": np.array([5])}, r"train_idx\.npy names node 5"),
    ],
)
def test_rumours_that_do_not_fit(tmp_path: Path, changes: Any, message: str) -> None:
    with pytest.raises(DGLError, match=message):
        rumours(tmp_path, **changes)


def test_rumours_of_unknown_names(tmp_path: Path) -> None:
    with pytest.raises(DGLError, match="expected one of gossipcop, politifact"):
        data.FakeNewsDataset("facebook", "bert", raw_dir=tmp_path)
    with pytest.raises(DGLError, match="profile"):
        data.FakeNewsDataset("gossipcop", "profiles", raw_dir=tmp_path)
