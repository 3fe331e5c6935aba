"""Raw files that are missing, cut, other files' or hostile: every reader says which file it is, and runs nothing."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dglite import DGLError, data
from dglite.data import dataset
from tests.data import (
    planetoid_files,
    test_csv_dataset,
    test_films_and_images,
    test_graph_sets,
    test_node_sets,
    test_ogb,
    test_published,
    test_rdf,
    test_sst,
)

Write, Read = Callable[[Path], Any], Callable[..., Any]


def _named(kind: Any, *options: Any) -> Read:
    return lambda folder: kind(*options, raw_dir=folder)


def _ogb(name: str) -> Read:
    return lambda folder: test_ogb.DglNodePropPredDataset(name, root=folder).get_idx_split()


def _csv(folder: Path) -> None:
    pytest.importorskip("yaml")
    test_csv_dataset._several(folder)
    for unused in ("nodes.csv", "edges.csv"):
        (folder / unused).unlink()


FAMILIES: dict[str, tuple[Write, Read]] = {
    "planetoid": (lambda f: planetoid_files.write(f, "tiny"), _named(data.CitationGraphDataset, "tiny")),
    "csv": (_csv, lambda folder: data.CSVDataset(folder, force_reload=True)),
    "tu": (test_published.tu, _named(data.TUDataset, "X")),
    "gin": (lambda f: test_published.gin(f, test_published.GIN), _named(data.GINDataset, "MUTAG", False)),
    "knowledge graph": (test_published.kg, _named(data.FB15k237Dataset)),
    "qm9": (test_published.qm9, _named(data.QM9Dataset, ["mu"])),
    "gnn benchmark": (test_node_sets.benchmark, _named(data.AmazonCoBuyPhotoDataset)),
    "reddit": (test_node_sets.reddit, _named(data.RedditDataset)),
    "graphsaint": (test_node_sets.saint, _named(data.FlickrDataset)),
    "wikics": (test_node_sets.wikics, _named(data.WikiCSDataset)),
    "heterophilous": (test_node_sets.cells, _named(data.MinesweeperDataset)),
    "web pages": (test_node_sets.pages, _named(data.TexasDataset)),
    "ratings": (test_graph_sets.ratings, _named(data.BitcoinOTCDataset)),
    "news": (test_graph_sets.news, _named(data.ICEWS18Dataset, "VALID")),
    "proteins": (test_graph_sets.proteins, _named(data.PPIDataset, "valid")),
    "fraud": (test_graph_sets.reviews, _named(data.FraudYelpDataset)),
    "rumours": (test_graph_sets.rumours, _named(data.FakeNewsDataset, "politifact", "profile")),
    "ml-100k": (test_films_and_images.ml_100k, _named(data.MovieLensDataset, "ml-100k", 0.25)),
    "ml-1m": (test_films_and_images.ml_1m, _named(data.MovieLensDataset, "ml-1m", 0.2, 0.3)),
    "superpixels": (
        lambda f: (test_films_and_images.images(f), (f / "cifar10_150sp_test.pkl").unlink()),
        lambda f: data.MNISTSuperPixelDataset(f, "test"),
    ),
    "cora binary": (test_films_and_images.cora_binary, data.CoraBinary),
    "rdf": (test_rdf.aifb, _named(data.AIFBDataset)),
    "sst": (lambda f: test_sst.folder_of(f, train=test_sst.TRAIN), _named(data.SSTDataset)),
    "ogb nodes": (test_ogb.arxiv, _ogb("ogbn-arxiv")),
    "ogb types": (
        lambda f: test_ogb.write(f / "ogbn_mag", test_ogb.MAG),
        _ogb("ogbn-mag"),
    ),
}


class _Code:
    def __init__(self, ran: Path) -> None:
        self._ran = ran

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._ran,)


DAMAGE: dict[str, Callable[[bytes, Path], bytes | None]] = {
    "missing": lambda content, ran: None,
    "empty": lambda content, ran: b"",
    "cut": lambda content, ran: content[: len(content) // 2],
    "a picture": lambda content, ran: b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)),
    "a web page": lambda content, ran: b"<!DOCTYPE html>\n<html><body>404: not, found</body></html>\n",
    "code": lambda content, ran: pickle.dumps(_Code(ran)),
}
MAY_BE_WHOLE = ("missing", "empty", "cut")
"""What optional files are, or text with fewer lines may be."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FAMILIES)
def test_damaged_files_are_named(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Any, *_: Any) -> None:
        raise ConnectionError("there is no connection")

    monkeypatch.setattr(dataset.Downloader, "__call__", refused)
    folder = tmp_path / "raw"
    folder.mkdir()
    write, read = FAMILIES[family]
    write(folder)
    whole = {path: path.read_bytes() for path in _files(folder)}
    read(folder)
    files = _files(folder)
    for path, content in whole.items():
        for kind, damage in DAMAGE.items():
            damaged = damage(content, tmp_path / "ran")
            path.unlink() if damaged is None else path.write_bytes(damaged)
            fault = _fault(read, folder)
            case = f"{path.name}, {kind}: {fault!r}"
            assert not (tmp_path / "ran").exists(), case
            if fault is None:
                assert kind in MAY_BE_WHOLE, case
            else:
                assert isinstance(fault, DGLError) and str(folder) in str(fault), case
            path.write_bytes(content)
            assert _files(folder) == files, case


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _fault(read: Read, folder: Path) -> Exception | None:
    try:
        read(folder)
    except Exception as error:
        return error
    return None
