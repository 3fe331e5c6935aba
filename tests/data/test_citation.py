"""Citation networks: a small synthetic one with every oddity of the format, and Cora where its files are at hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

import dglite
from dglite.data import CitationGraphDataset, CiteseerGraphDataset, CoraGraphDataset, PubmedGraphDataset, citation
from dglite.errors import DGLError
from tests.data import planetoid_files as planetoid


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return planetoid.write(tmp_path / "raw", "tiny")


def _edges(graph: Any) -> list[tuple[int, int]]:
    src, dst = graph.edges()
    return list(zip(src.tolist(), dst.tolist(), strict=True))


@pytest.mark.parametrize("protocol", [2, 4])
def test_every_node_has_its_own_features_and_label(tmp_path: Path, protocol: int) -> None:
    dataset = CitationGraphDataset("tiny", raw_dir=planetoid.write(tmp_path, "tiny", protocol=protocol))
    graph = dataset[0]
    total = planetoid.FEATURES.sum(axis=1, keepdims=True)
    expected = planetoid.FEATURES / np.where(total == 0, 1, total)
    assert (len(dataset), dataset.num_classes, graph.num_nodes()) == (1, 2, planetoid.NUM_NODES)
    np.testing.assert_allclose(graph.ndata["feat"], expected, rtol=1e-6)
    assert graph.ndata["feat"].dtype is torch.float32
    assert graph.ndata["label"].dtype is torch.int64
    assert graph.ndata["label"].tolist() == planetoid.LABELS.tolist()


def test_an_isolated_node_among_the_test_nodes_is_in_no_mask(folder: Path) -> None:
    graph = CitationGraphDataset("tiny", raw_dir=folder)[0]
    masks = {name: torch.nonzero(graph.ndata[f"{name}_mask"]).flatten().tolist() for name in ("train", "val", "test")}
    assert masks["train"] == [0, 1]
    assert masks["test"] == sorted(planetoid.TEST_NODES)
    assert graph.in_degrees(7) == 0
    assert not graph.ndata["feat"][7].any()
    assert not graph.ndata["test_mask"][7]


def test_each_citation_is_one_edge_each_way(folder: Path) -> None:
    edges = _edges(CitationGraphDataset("tiny", raw_dir=folder)[0])
    assert len(edges) == len(set(edges))
    assert set(edges) == planetoid.EDGES


def test_without_reverse_edges_each_citation_is_one_edge(folder: Path) -> None:
    edges = _edges(CitationGraphDataset("tiny", raw_dir=folder, reverse_edge=False)[0])
    assert sorted(edges) == sorted((u, v) for u, v in planetoid.EDGES if u <= v)


@pytest.mark.parametrize("reverse_edge", [True, False])
def test_edges_have_the_order_that_networkx_gives_them(tmp_path: Path, reverse_edge: bool) -> None:
    neighbours = {3: [9, 0, 3], 0: [5, 4, 4], 4: [0, 3], 1: [9, 2], 9: [8, 1], 2: [7]}
    planetoid.write(tmp_path, "tiny", {**planetoid.parts(), "graph": neighbours})
    listed = nx.from_dict_of_lists(neighbours)
    expected = (nx.DiGraph(listed) if reverse_edge else listed).edges
    assert _edges(CitationGraphDataset("tiny", raw_dir=tmp_path, reverse_edge=reverse_edge)[0]) == list(expected)


def test_without_any_citation(tmp_path: Path) -> None:
    planetoid.write(tmp_path, "tiny", {**planetoid.parts(), "graph": {}})
    assert CitationGraphDataset("tiny", raw_dir=tmp_path)[0].num_edges() == 0


def test_reordering_moves_papers_with_what_they_have(folder: Path) -> None:
    plain, moved = (CitationGraphDataset("tiny", raw_dir=folder, reorder=reorder) for reorder in (False, True))
    expected = dglite.reorder_graph(plain[0], "rcmk", "dst", store_ids=False)
    assert _edges(moved[0]) == _edges(expected) != _edges(plain[0])
    assert torch.equal(moved[0].ndata["feat"], expected.ndata["feat"])
    assert moved.labels.tolist() == expected.ndata["label"].tolist()


def test_the_arrays_that_first_versions_had(folder: Path) -> None:
    data = CitationGraphDataset("tiny", raw_dir=folder)
    g = data[0]
    assert data.features.tolist() == g.ndata["feat"].tolist() and data.num_labels == 2
    assert data.labels.tolist() == planetoid.LABELS.tolist() == data.onehot_labels.argmax(1).tolist()
    assert data.onehot_labels.shape == (planetoid.NUM_NODES, 2)
    for name in ("train_mask", "val_mask", "test_mask"):
        assert getattr(data, name).dtype == bool and getattr(data, name).tolist() == g.ndata[name].tolist()
    data.graph.remove_edges_from(nx.selfloop_edges(data.graph))
    assert dglite.DGLGraph(data.graph).num_edges() == len(planetoid.EDGES) - 1
    assert data.graph.number_of_nodes() == planetoid.NUM_NODES


def test_a_transform_is_applied_at_each_access(folder: Path) -> None:
    seen = []
    dataset = CitationGraphDataset("tiny", raw_dir=folder, transform=lambda g: (seen.append(g), "changed")[1])
    assert (dataset[0], dataset[0]) == ("changed", "changed")
    assert len(seen) == 2


def test_there_is_only_graph_0(folder: Path) -> None:
    with pytest.raises(IndexError, match="tiny has one graph, number 0; got 1"):
        CitationGraphDataset("tiny", raw_dir=folder)[1]


@pytest.mark.parametrize("place", [".", "planetoid"])
def test_files_are_found_through_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    planetoid.write(tmp_path / place, "tiny")
    monkeypatch.setenv("DGLITE_DATA_DIR", str(tmp_path))
    assert CitationGraphDataset("TINY")[0].num_nodes() == planetoid.NUM_NODES
    assert (
        "tiny: 10 nodes, 13 edges, 3 features, 2 classes; 2 training, 8 validation, 3 test nodes"
        in capsys.readouterr().out
    )


def test_missing_files_are_downloaded_with_their_checksums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = planetoid.write(tmp_path / "source", "cora")
    fetched = []

    def fetch(url: str, folder: Path, sha256: str | None) -> None:
        name = url.rsplit("/", 1)[-1]
        fetched.append((name, sha256))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((source / name).read_bytes())

    monkeypatch.setattr(citation, "fetch", fetch)
    monkeypatch.setitem(citation._PUBLISHED, "cora", citation.Counts(10, 3, 2, 2, 3))
    data = planetoid.write(tmp_path / "data" / "planetoid", "cora")
    (data / "ind.cora.ty").unlink()
    (data / "ind.cora.graph").unlink()
    assert CoraGraphDataset(raw_dir=tmp_path / "data")[0].num_nodes() == planetoid.NUM_NODES
    assert [name for name, _ in fetched] == ["ind.cora.ty", "ind.cora.graph"]
    assert all(sha256 is not None and len(sha256) == 64 for _, sha256 in fetched)


@pytest.mark.parametrize("dataset", [CoraGraphDataset, CiteseerGraphDataset, PubmedGraphDataset])
def test_a_failed_download_says_where_the_files_were_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dataset: type
) -> None:
    def fetch(url: str, folder: Path, sha256: str | None) -> None:
        raise DGLError(f"{url} could not be downloaded: no route to host")

    monkeypatch.setattr(citation, "fetch", fetch)
    with pytest.raises(DGLError) as error:
        dataset(raw_dir=tmp_path)
    message = str(error.value)
    assert f"was looked for in {tmp_path}, {tmp_path / 'planetoid'}" in message
    assert "no route to host" in message
    assert "raw_dir= or the environment variable DGLITE_DATA_DIR" in message


def test_a_network_of_another_name_is_not_downloaded(tmp_path: Path) -> None:
    with pytest.raises(DGLError, match="only cora, citeseer, pubmed can be downloaded"):
        CitationGraphDataset("tiny", raw_dir=tmp_path)


def test_files_of_another_size_than_published_are_refused(tmp_path: Path) -> None:
    planetoid.write(tmp_path, "citeseer")
    with pytest.raises(DGLError, match=r"hold Counts\(nodes=10.*published are Counts\(nodes=3327"):
        CiteseerGraphDataset(raw_dir=tmp_path)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("graph", {0: [99]}, "names node 99; there are 10 nodes"),
        ("graph", {-1: [0]}, "names node -1"),
        ("graph", {0: ["a"]}, "not a dict of lists of node numbers"),
        ("graph", {0: 1}, "not a dict of lists of node numbers"),
        ("graph", [1, 2], "part graph .* is a list; expected dict"),
        ("y", np.zeros((5, 2)), "contradict each other"),
        ("tx", planetoid.parts()["x"], "contradict each other"),
        ("ty", np.zeros((3, 4)), "contradict each other"),
        ("x", np.zeros((2, 3)), "part x .* is a ndarray; expected CsrMatrix"),
    ],
)
def test_files_that_contradict_each_other_are_refused(tmp_path: Path, part: str, value: object, message: str) -> None:
    planetoid.write(tmp_path, "tiny", {**planetoid.parts(), part: value})
    with pytest.raises(DGLError, match=message):
        CitationGraphDataset("tiny", raw_dir=tmp_path)


def test_a_test_index_that_is_no_number_is_refused(folder: Path) -> None:
    (folder / "ind.tiny.test.index").write_text("9\nsix\n8\n")
    with pytest.raises(DGLError, match="has a line that is no number"):
        CitationGraphDataset("tiny", raw_dir=folder)


def _cora_folder() -> Path | None:
    beside = Path(__file__).parents[3] / "shared" / "data"
    for root in filter(None, (os.environ.get("DGLITE_DATA_DIR"), beside)):
        for place in (Path(root), Path(root) / "planetoid"):
            if (place / "ind.cora.graph").is_file():
                return place
    return None


@pytest.mark.skipif(_cora_folder() is None, reason="Cora's files are not at hand; DGLITE_DATA_DIR names their folder")
def test_cora_is_as_published() -> None:
    folder = _cora_folder()
    graph = CoraGraphDataset(raw_dir=folder)[0]
    assert (graph.num_nodes(), graph.num_edges()) == (2708, 10556)
    assert graph.ndata["feat"].shape == (2708, 1433)
    assert [int(graph.ndata[f"{name}_mask"].sum()) for name in ("train", "val", "test")] == [140, 500, 1000]
    assert torch.bincount(graph.ndata["label"]).tolist() == [351, 217, 418, 818, 426, 298, 180]
    assert torch.bincount(graph.ndata["label"][:140]).tolist() == [20] * 7
    torch.testing.assert_close(graph.ndata["feat"].sum(1), torch.ones(2708))
    edges = set(_edges(graph))
    assert len(edges) == 10556
    assert all((v, u) in edges for u, v in edges)


def test_a_node_without_citations_that_is_out_of_range_is_refused():
    with pytest.raises(DGLError, match="names node 7; there are 3 nodes"):
        citation._edges({0: [1], 7: []}, 3, True, "ind.x.graph")
