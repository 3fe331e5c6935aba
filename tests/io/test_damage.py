"""Damaged and hostile files give a DGLError; nothing in them runs, and nothing large is allocated for them."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import dglite
from dglite import DGLError
from dglite.io import load_graphs, load_info, load_labels, save_graphs, save_info
from tests.io.graphs import batched, block, heterogeneous, homogeneous


@pytest.fixture
def path(tmp_path):
    """Return a file with graphs of three groups and labels."""
    save_graphs(
        tmp_path / "g.bin",
        [homogeneous(), heterogeneous(), homogeneous(), batched(), block()],
        {"y": torch.arange(5)},
        ["coo", "csr"],
    )
    return tmp_path / "g.bin"


def _parts(path):
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name).clone() for name in file.keys()}, json.loads(file.metadata()["dglite"])  # noqa: SIM118


def _write(path, arrays, header):
    save_file(arrays, path, {"dglite": header if isinstance(header, str) else json.dumps(header)})


def test_the_parts_written_again_are_read(path):
    _write(path, *_parts(path))
    assert len(load_graphs(path)[0]) == 5


ARRAYS = {
    "group out of range": ("group", lambda x: x + 9),
    "negative group": ("group", lambda x: x - 9),
    "group of floats": ("group", lambda x: x.float()),
    "group of two axes": ("group", lambda x: x[:, None]),
    "huge number of nodes": ("0.num_nodes", lambda x: x + 2**60),
    "counts that wrap": ("0.num_nodes", lambda x: x + 2**62),
    "negative number of nodes": ("0.num_nodes", lambda x: -x),
    "fewer nodes than ids": ("0.num_nodes", lambda x: x // 2),
    "huge number of edges": ("0.num_edges", lambda x: x + 2**40),
    "wrong number of edges": ("0.num_edges", lambda x: x + 1),
    "counts for other graphs": ("0.num_nodes", lambda x: x[:1]),
    "source out of range": ("0.edges.0.coo.src", lambda x: x + 100),
    "negative source": ("0.edges.0.coo.src", lambda x: x - 100),
    "destination out of range": ("0.edges.0.coo.dst", lambda x: x + 100),
    "too few sources": ("0.edges.0.coo.src", lambda x: x[:-1]),
    "ids of floats": ("0.edges.0.coo.src", lambda x: x.float()),
    "ids of bytes": ("0.edges.0.coo.src", lambda x: x.to(torch.int8)),
    "ids of booleans": ("0.edges.0.coo.src", lambda x: x.bool()),
    "pointers that fall": ("0.edges.0.csr.indptr", lambda x: x.flip(0)),
    "pointers that run past the end": ("0.edges.0.csr.indptr", lambda x: x * 100),
    "negative pointers": ("0.edges.0.csr.indptr", lambda x: x - 1),
    "indices out of range": ("0.edges.0.csr.indices", lambda x: x + 7),
    "indices of other edges": ("0.edges.0.csr.indices", lambda x: x.flip(0)),
    "edge ids given twice": ("0.edges.0.csr.edge_ids", lambda x: x * 0),
    "edge ids out of range": ("0.edges.0.csr.edge_ids", lambda x: x + 1),
    "edge ids of other edges": ("0.edges.0.csr.edge_ids", lambda x: x.flip(0)),
    "too few rows of a feature": ("0.nodes.0.data.0", lambda x: x[:-1]),
    "a feature without axes": ("0.nodes.0.data.0", lambda x: x.flatten()[0]),
    "a complex feature of other numbers": ("0.nodes.0.data.11", lambda x: x.float()),
    "batch sizes of other graphs": ("2.nodes.0.batch", lambda x: x + 1),
    "negative batch sizes": ("2.nodes.0.batch", lambda x: x * 2 - 2),
    "too many batches": ("2.nodes.batch_size", lambda x: x + 2**40),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_an_array_that_contradicts_the_others_is_refused(path, kind):
    arrays, header = _parts(path)
    name, change = ARRAYS[kind]
    changed = change(arrays[name]).contiguous()
    assert (
        changed.shape != arrays[name].shape
        or not torch.equal(changed, arrays[name])
        or changed.dtype != arrays[name].dtype
    )
    arrays[name] = changed
    _write(path, arrays, header)
    with pytest.raises(DGLError, match=r"g\.bin is not read"):
        load_graphs(path)


def test_every_array_is_missed(path):
    arrays, header = _parts(path)
    optional = {name for name in arrays if name.endswith("edge_ids")}
    for name in arrays:
        _write(path, {other: values for other, values in arrays.items() if other != name}, header)
        if name in optional:
            try:
                load_graphs(path)
            except DGLError as error:
                assert "formats" in str(error) or "other" in str(error)
        else:
            with pytest.raises(DGLError, match="is missing"):
                load_graphs(path)


HEADERS = {
    "later version": ("reads up to 2", lambda h: h | {"version": 3}),
    "no version": ("version", lambda h: {k: v for k, v in h.items() if k != "version"}),
    "truth as version": ("version", lambda h: h | {"version": True}),
    "other kind": ("not 'graphs'", lambda h: h | {"kind": "info"}),
    "no groups": ("groups", lambda h: h | {"groups": None}),
    "groups of text": ("missing", lambda h: h | {"groups": ["x"] * 4}),
    "too few groups": ("group", lambda h: h | {"groups": h["groups"][:1]}),
    "no labels": ("labels", lambda h: h | {"labels": {}}),
    "labels of numbers": ("names", lambda h: h | {"labels": [3]}),
    "more labels": ("missing", lambda h: h | {"labels": ["y", "z"]}),
    "a list": ("not a JSON object", lambda h: [h]),
    "no JSON": ("not JSON", lambda h: "{"),
    "deep": ("not JSON", lambda h: "[" * 100_000),
}
FIELDS = {
    "ntypes": [None, 3, [3], ["_N", "_N"], ["other"], ["_N", "more"]],
    "dsttypes": [3, [3], ["_N"], []],
    "etypes": [None, [["_N", "_E"]], [["_N", "_E", 3]], [["_N", "_E", "absent"]], [["_N", "_E", "_N"]] * 2, []],
    "idtype": [None, "float32", "int8", 64],
    "allowed": [None, [], ["coo"], ["coo", "csr", "dense"], [["coo"]]],
    "stored": [None, [], ["csc"], ["dense"], "coo"],
    "node_data": [None, [], [["h"], ["h"]], ["float32"], [[3]], [["h"] * 99]],
    "edge_data": [None, [], [["w", "v"]]],
    "batched_nodes": [None, 1, True],
    "batched_edges": [None, 1, True],
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_header_of_another_sort_is_refused(path, kind):
    arrays, header = _parts(path)
    message, change = HEADERS[kind]
    _write(path, arrays, change(header))
    with pytest.raises(DGLError, match=message):
        load_graphs(path)


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in FIELDS.items() for value in values])
def test_a_field_that_is_wrong_is_refused(path, field, value):
    arrays, header = _parts(path)
    header["groups"][0][field] = value
    _write(path, arrays, header)
    with pytest.raises(DGLError, match=r"g\.bin is not read"):
        load_graphs(path)


class _Call:
    def __init__(self, function, *args):
        self.call = (function, args)

    def __reduce__(self):
        return self.call


def _others(marker):
    return {
        "pickle": (pickle.dumps(_Call(os.system, f"touch {marker}")), "looks like a pickle"),
        "old pickle": (pickle.dumps(_Call(os.system, f"touch {marker}"), 0), "is not read"),
        "zip": (b"PK\x03\x04" + bytes(100), "zip archive"),
        "text": (b"0 1\n1 2\n", "is not read"),
        "nothing": (b"", "is not read"),
        "zeros": (bytes(5000), "is not read"),
        "a header of 2**63 bytes": ((2**63 - 1).to_bytes(8, "little") + bytes(90), "is not read"),
        "DGL's first version": (
            (0xDD2E4FF046B4A13F).to_bytes(8, "little") + (1).to_bytes(8, "little") + bytes(9000),
            "version 1 of DGL.s format and kind 0",
        ),
    }


@pytest.mark.parametrize("kind", _others("x"))
def test_other_files_are_refused_and_nothing_runs(tmp_path, kind):
    content, message = _others(tmp_path / "ran")[kind]
    (tmp_path / "g.bin").write_bytes(content)
    for load in (load_graphs, load_labels):
        with pytest.raises(DGLError, match=message):
            load(tmp_path / "g.bin")
    with pytest.raises(DGLError, match=r"g\.bin"):
        load_info(tmp_path / "g.bin")
    assert not (tmp_path / "ran").exists()


def test_a_foreign_safetensors_file_is_refused(tmp_path):
    save_file({"weight": torch.ones(3)}, tmp_path / "g.bin")
    with pytest.raises(DGLError, match="not one of dglite's"):
        load_graphs(tmp_path / "g.bin")


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(DGLError, match="cannot be read"):
        load_graphs(tmp_path)


@pytest.mark.parametrize(
    "content",
    [["call", "os.system"], {"a": 1}, ["dict", 3], ["dict", [[["list", []], 1]]], ["tensor", "9"], ["int", "x"],
     ["int", 3], [], ["list"], ["strings", [3], ["a"]], ["scalar", "../x"], ["complex", "x", 1],
     ["list", [["bytes", "0"]] * 2], ["strings", "0"], ["strings", "1"], ["strings", [1], ["a"]]],
)  # fmt: skip
def test_a_file_of_facts_that_is_wrong_is_refused(tmp_path, content):
    save_info(tmp_path / "i", {"x": 1})
    _write(
        tmp_path / "i",
        {"0": torch.ones(2, dtype=torch.uint8), "1": torch.tensor([65, 0x110000], dtype=torch.int32)},
        {"kind": "info", "version": 1, "complex128": [], "info": content},
    )
    with pytest.raises(DGLError, match="is not read"):
        load_info(tmp_path / "i")


def test_a_graph_is_not_made_in_part(path):
    arrays, header = _parts(path)
    arrays["0.edges.0.coo.src"][-1] = 99  # of the last graph of its group
    _write(path, arrays, header)
    assert load_graphs(path, [0])[0][0].num_edges() == homogeneous().num_edges()
    with pytest.raises(DGLError, match="source node id 99"):
        load_graphs(path, [2])


def test_relations_need_a_format():
    from dglite.structure.restore import restore

    with pytest.raises(DGLError, match="in no format"):
        restore((1, 1, 0), np.dtype(np.int64), ("coo",))
    assert dglite.graph(([0], [0])).num_edges() == 1


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the limit is counted by Linux's means")
def test_damaged_files_of_every_format_are_read_or_refused():
    """A process of its own damages and reads them: it may end, allocate too much, or raise what is no DGLError."""
    cases = "2000" if os.environ.get("DGLITE_TEST_FULL") else "25"
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "ignore", "-m", "tests.io.damage", cases],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr[-2000:]
