"""Folders of IGB and IGBH, as its package writes them, but narrower."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import dglite
from dglite import DGLError
from dglite.data import IGBFolder
from dglite.dataloading import MappedFeatures

COUNTS = {"paper": 10, "author": 4, "institute": 2, "fos": 3}
EDGES = {
    ("paper", "cites", "paper"): [[0, 1], [1, 2], [9, 0], [3, 3]],
    ("paper", "written_by", "author"): [[0, 3], [5, 0]],
    ("author", "affiliated_to", "institute"): [[3, 1]],
    ("paper", "topic", "fos"): [[9, 2], [9, 1]],
}


def written(folder: Path, etypes: list[tuple[str, str, str]], width: int = 6) -> dict[str, np.ndarray]:
    """Write the files of some edge types, and return the features."""
    rng = np.random.default_rng(0)
    features = {}
    for etype in etypes:
        place = folder / "processed" / "__".join(etype)
        place.mkdir(parents=True)
        np.save(place / "edge_index.npy", np.array(EDGES[etype]))
    for ntype in {end for etype in etypes for end in etype[::2]}:
        place = folder / "processed" / ntype
        place.mkdir()
        features[ntype] = rng.random((COUNTS[ntype], width), np.float32)
        np.save(place / "node_feat.npy", features[ntype])
    np.save(folder / "processed/paper/node_label_19.npy", np.arange(10, dtype=np.float32))
    return features


def test_a_homogeneous_folder(tmp_path: Path) -> None:
    features = written(tmp_path, [("paper", "cites", "paper")])
    for path in (tmp_path, tmp_path / "processed"):
        folder = IGBFolder(path)
        g = folder.graph
        assert g.ntypes == ["_N"] and g.num_nodes() == 10
        assert torch.stack(g.edges(), 1).tolist() == EDGES["paper", "cites", "paper"]
        assert g.ndata["label"].tolist() == list(range(10)) and g.ndata["label"].dtype == torch.int64
        masks = [g.ndata[f"{part}_mask"].nonzero()[:, 0].tolist() for part in ("train", "val", "test")]
        assert masks == [[0, 1, 2, 3, 4, 5], [6, 7], [8, 9]]
        assert np.array_equal(folder.features("paper"), features["paper"])
        mapped = MappedFeatures(folder.feature_file("paper"))
        assert torch.equal(mapped.rows([7, 2]), torch.from_numpy(features["paper"][[7, 2]]))


def test_a_heterogeneous_folder(tmp_path: Path) -> None:
    features = written(tmp_path, list(EDGES))
    folder = IGBFolder(tmp_path)
    g = folder.graph
    assert sorted(g.canonical_etypes) == sorted(EDGES)
    for etype, pairs in EDGES.items():
        assert torch.stack(g.edges(etype=etype), 1).tolist() == pairs
    assert {ntype: g.num_nodes(ntype) for ntype in g.ntypes} == COUNTS
    assert g.nodes["paper"].data["train_mask"].sum() == 6 and not g.nodes["author"].data
    for ntype, x in features.items():
        assert np.array_equal(folder.features(ntype), x)


def test_features_without_a_header(tmp_path: Path) -> None:
    features = written(tmp_path, [("paper", "cites", "paper")], width=1024)["paper"]
    features.tofile(tmp_path / "processed/paper/node_feat.npy")
    np.arange(10, dtype=np.float32).tofile(tmp_path / "processed/paper/node_label_19.npy")
    folder = IGBFolder(tmp_path)
    assert np.array_equal(folder.features("paper"), features)
    assert folder.graph.ndata["label"].tolist() == list(range(10))


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    with pytest.raises(DGLError, match="has no folder like paper__cites__paper"):
        dglite.data.IGBFolder(tmp_path)
    written(tmp_path, [("paper", "cites", "paper")])
    with pytest.raises(DGLError, match="19 or 2983 classes, not 7"):
        IGBFolder(tmp_path, num_classes=7)
    with pytest.raises(DGLError, match=r"node_label_2K\.npy is missing"):
        IGBFolder(tmp_path, num_classes=2983)
    place = tmp_path / "processed"
    np.save(place / "paper/node_label_19.npy", np.zeros(9))
    with pytest.raises(DGLError, match="has 9 labels of 10 papers"):
        IGBFolder(tmp_path)
    for ends, words in (
        (np.array([[0, 10]]), "ids from 10 to 10; there are 10 nodes of type 'paper'"),
        (np.array([[-1, 0]]), "ids from -1 to -1"),
        (np.zeros((2, 3), np.int64), r"int64 of shape \(2, 3\); expected integers of shape \(num_edges, 2\)"),
        (np.zeros((2, 2)), "holds float64"),
    ):
        np.save(place / "paper__cites__paper/edge_index.npy", ends)
        with pytest.raises(DGLError, match=words):
            IGBFolder(tmp_path)
    (place / "paper/node_feat.npy").write_bytes(b"1234567")
    with pytest.raises(DGLError, match="has 7 bytes and no header"):
        IGBFolder(tmp_path)
    (place / "paper/node_feat.npy").unlink()
    with pytest.raises(DGLError, match=r"node_feat\.npy is missing"):
        IGBFolder(tmp_path)
