"""Folders that DGL 1.1 and newer filled, with eight digits of a hash behind the name, are read without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dglite import DGLError, DGLGraph, data
from dglite.data import dataset
from tests.data import planetoid_files
from tests.data.test_damage import FAMILIES

HASHED = {
    "planetoid": "tiny",
    "tu": "X",
    "knowledge graph": "FB15k-237",
    "gnn benchmark": "amazon_co_buy_photo",
    "reddit": "reddit",
    "graphsaint": "flickr",
    "wikics": "wiki_cs",
    "heterophilous": "minesweeper",
    "web pages": "texas",
    "ratings": "bitcoinotc",
    "news": "ICEWS18",
    "proteins": "ppi",
    "fraud": "yelp",
    "rumours": "politifact",
    "superpixels": "Superpixel",
    "cora binary": "cora_binary",
    "rdf": "aifb-hetero",
    "sst": "sst",
}
"""By family: what DGL calls the set."""


def refuse(self: Any, *_: Any) -> None:
    raise ConnectionError("there is no connection")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", HASHED)
def test_folders_with_hashes(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset.Downloader, "__call__", refuse)
    write, read = FAMILIES[family]
    raw, plain, name = tmp_path / "raw", tmp_path / "plain", HASHED[family]
    for folder in (raw, plain):
        folder.mkdir()
        write(folder)
    hashed = raw / f"{name}_0123abcd"
    if (raw / name).is_dir():
        (raw / name).rename(hashed)
    else:
        content = list(raw.iterdir())
        hashed.mkdir()
        for path in content:
            path.rename(hashed / path.name)
    items, expected = read(raw), read(plain)
    assert len(items) == len(expected) > 0
    assert first_graph(items).num_edges() == first_graph(expected).num_edges() > 0


def first_graph(items: Any) -> DGLGraph:
    return items[0][0] if isinstance(items[0], tuple | list) else items[0]


@pytest.mark.parametrize("folder", ["cora_v2_d697a464", "cora_v2"])
def test_cora_has_another_name_in_dgl(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset.Downloader, "__call__", refuse)
    (tmp_path / folder).mkdir()
    planetoid_files.write(tmp_path / folder, "cora_v2")
    with pytest.raises(DGLError, match=rf"{folder} hold Counts\(nodes=10.* published are"):  # it is not the real Cora
        data.CoraGraphDataset(tmp_path)
