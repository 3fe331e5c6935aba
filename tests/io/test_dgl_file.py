"""Graph files that DGL 2.1 wrote are read; the files beside this one are DGL's, with the unused part of the header
(bytes 32 to 4096, uninitialised memory) cleared."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import torch

import dglite
from dglite import DGLError
from dglite.io import load_graphs, load_labels, save_graphs

HERE = Path(__file__).parent


def test_homogeneous_graphs_features_and_labels():
    (g, h), labels = load_graphs(HERE / "dgl_2_1_homogeneous.bin")
    assert [end.tolist() for end in g.edges()] == [[0, 1, 2, 2], [1, 2, 0, 0]]
    assert (g.num_nodes(), g.idtype, g.ntypes, g.etypes) == (3, torch.int64, ["_N"], ["_E"])
    assert torch.equal(g.ndata["x"], torch.arange(6.0).reshape(3, 2))
    assert torch.equal(g.edata["w"], torch.arange(4.0).double())
    assert [end.tolist() for end in h.edges()] == [[3, 0, 1], [0, 2, 2]]
    assert (h.num_nodes(), h.idtype) == (5, torch.int32)
    for name in ("bfloat16", "float16", "int16", "int8"):
        assert torch.equal(h.ndata[name], torch.tensor([1, 0, 1, 1, 0]).to(getattr(torch, name)))
        assert h.ndata[name].dtype == getattr(torch, name)
    assert h.ndata["bool"].tolist() == [1, 0, 1, 1, 0]  # which DGL writes as uint8
    for by_name in (labels, load_labels(HERE / "dgl_2_1_homogeneous.bin")):
        assert by_name["y"].tolist() == [7, 8]
        assert torch.equal(by_name["z"], torch.full((2, 2), 0.5))


@pytest.mark.parametrize("name", ["heterogeneous", "formats"])
def test_heterogeneous_graphs(name):
    for g in load_graphs(HERE / f"dgl_2_1_{name}.bin")[0]:
        assert g.ntypes == ["game", "shop", "user"]
        assert g.canonical_etypes == [
            ("shop", "sells", "game"),
            ("user", "follows", "user"),
            ("user", "plays", "game"),
        ]
        assert [g.num_nodes(ntype) for ntype in g.ntypes] == [5, 2, 4]
        edges = [[end.tolist() for end in g.edges(etype=etype)] for etype in g.etypes]
        assert edges == [[[], []], [[0, 1], [1, 2]], [[0, 0, 2], [1, 3, 0]]]
        assert g.nodes["user"].data["h"].tolist() == [0, 1, 2, 3]
        assert g.edges["plays"].data["t"].tolist() == [0, 1, 2]
        assert list(g.nodes["game"].data) == list(g.edges["sells"].data) == []


def test_formats_are_those_of_the_file():
    (g, h), _ = load_graphs(HERE / "dgl_2_1_heterogeneous.bin")
    assert g.formats() == {"created": ["coo"], "not created": ["csr", "csc"]}
    assert h.formats() == {"created": ["csc"], "not created": []}
    (g,), _ = load_graphs(HERE / "dgl_2_1_formats.bin")
    assert g.formats()["created"] == ["coo", "csr", "csc"]


def test_some_graphs_in_any_order():
    (g, h), _ = load_graphs(HERE / "dgl_2_1_homogeneous.bin", [1, 0])
    assert (g.num_nodes(), h.num_nodes()) == (5, 3)
    with pytest.raises(DGLError, match="holds 2 graphs"):
        load_graphs(HERE / "dgl_2_1_homogeneous.bin", [2])


def _words(*values):
    return struct.pack(f"<{len(values)}Q", *values)


MAGIC = 0xDD2E4FF046B4A13F


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (_words(MAGIC, 2, 2), "before 8 bytes"),
        (_words(MAGIC, 1, 1, 1) + bytes(5000), "before 0.5"),
        (_words(MAGIC, 2, 1, 1) + bytes(5000), "before 0.5"),
        (_words(MAGIC, 3, 2, 1) + bytes(5000), "has version 3 of DGL's format .* or of a newer DGL"),
        (_words(MAGIC, 2, 77, 1) + bytes(5000), "kind 77 of graphs"),
        (_words(MAGIC, 2, 2, 2**60).ljust(4096) + _words(4104) + bytes(900), "cannot hold"),
        (_words(MAGIC, 2, 2, 1).ljust(4096) + _words(2**40) + bytes(900), "cannot hold"),
        (_words(MAGIC, 2, 2, 1).ljust(4096) + _words(4104) + bytes(900), "list of graphs"),
        (_words(MAGIC, 2, 2, 1).ljust(4096) + _words(4104, 0, 1, 2**62, 16), "follow each other"),
        (_words(MAGIC, 2, 2, 2).ljust(4096) + _words(4104, 0, 2, 4104, 4104, 24), "follow each other"),
        (_words(MAGIC, 2, 2, 1).ljust(4096) + _words(4104, 0, 1, 4104, 16), "no graph at byte 4104"),
        (_words(MAGIC, 2, 2, 0).ljust(4096) + _words(4104, 2**50, 0, 8), "before|no array"),
    ],
)
def test_a_file_that_lies_is_refused(tmp_path, content, message):
    (tmp_path / "g.bin").write_bytes(content)
    with pytest.raises(DGLError, match=message):
        load_graphs(tmp_path / "g.bin")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (_words(3, 3), _words(3, 2**61), "numbers of nodes|destination node"),
        (struct.pack("<4q", 1, 2, 0, 0), struct.pack("<4q", 1, 2, 0, 9), "destination node id 9"),
        (struct.pack("<4q", 1, 2, 0, 0), struct.pack("<4q", 1, 2, 0, -9), "destination node id -9"),
        (struct.pack("<iBBHqq", 2, 2, 32, 1, 3, 2), struct.pack("<iBBHqq", 2, 2, 32, 1, 3, 2**60), "is said to have"),
        (struct.pack("<iBBHqq", 2, 2, 32, 1, 3, 2), struct.pack("<iBBHqq", 99, 2, 32, 1, 3, 2), "99 axes"),
        (struct.pack("<iBBHqq", 2, 2, 32, 1, 3, 2), struct.pack("<iBBHqq", 2, 9, 32, 1, 3, 2), "kind 9"),
        (struct.pack("<iBBHqq", 2, 2, 32, 1, 3, 2), struct.pack("<iBBHqq", 2, 2, 32, 4, 3, 2), "is said to have"),
        (_words(2) + b"_N", _words(2) + b"\xff\xff", "not text"),
    ],
)
def test_a_structure_that_lies_is_refused(tmp_path, old, new, message):
    content = (HERE / "dgl_2_1_homogeneous.bin").read_bytes()
    assert old in content
    (tmp_path / "g.bin").write_bytes(content.replace(old, new))
    with pytest.raises(DGLError, match=message):
        load_graphs(tmp_path / "g.bin")


# -- files for DGL -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["homogeneous", "heterogeneous", "formats"])
def test_files_for_dgl_are_those_that_it_writes_itself(name, tmp_path):
    original = HERE / f"dgl_2_1_{name}.bin"
    graphs, labels = load_graphs(original)
    formats = ["coo", "csr", "csc"] if name == "formats" else None
    save_graphs(tmp_path / "sub" / "g.bin", graphs, labels, formats, format="dgl")
    assert (tmp_path / "sub" / "g.bin").read_bytes() == original.read_bytes()


def test_files_for_dgl_of_nothing_of_blocks_and_of_unknown_formats(tmp_path):
    path = tmp_path / "g.bin"
    empty = dglite.graph(([], []))
    empty.ndata["h"] = torch.zeros(0, 3)
    save_graphs(path, [empty], format="dgl")
    (loaded,), labels = load_graphs(path)
    assert loaded.num_nodes() == 0 and loaded.ndata["h"].shape == (0, 3) and labels == {}
    save_graphs(path, [], format="dgl")
    assert load_graphs(path) == ([], {})
    before = path.read_bytes()
    with pytest.raises(DGLError, match="graph 0 is a block"):
        save_graphs(path, dglite.create_block(([0], [0])), format="dgl")
    with pytest.raises(DGLError, match='"dglite" or "dgl"'):
        save_graphs(path, empty, format="DGL 2")
    assert path.read_bytes() == before
