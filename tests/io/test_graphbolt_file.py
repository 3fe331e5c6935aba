"""GraphBolt's files of a graph, in the form in which torch pickles objects of C++ classes, and in ours."""

from __future__ import annotations

import pickle
import pickletools
import types
import zipfile
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from dglite import DGLError
from dglite.io.graphbolt_file import load_fused_graph, save_fused_graph

_NAMES = {
    "Graph": ("dgl.graphbolt.impl.fused_csc_sampling_graph", "FusedCSCSamplingGraph"),
    "ScriptObject": ("torch", "ScriptObject"),
}


class Graph:
    """Stands for GraphBolt's class."""


class ScriptObject:
    """Stands for torch's object of a C++ class, which has a state of its own."""

    def __getstate__(self) -> Any:
        return self.state, "__torch__.torch.classes.graphbolt.FusedCSCSamplingGraph"


class Pickler(pickle._Pickler):
    """Writes the two classes by the names that they stand for."""

    def _save_type(self, kind: type) -> None:
        if kind.__name__ in _NAMES:
            self.write(pickle.GLOBAL + "{}\n{}\n".format(*_NAMES[kind.__name__]).encode())
            self.memoize(kind)
        else:
            self.save_type(kind)

    dispatch: ClassVar[dict[type, Any]] = {**pickle._Pickler.dispatch, type: _save_type}


def graphbolt_saves(path: Path, groups: dict[str, dict[str, torch.Tensor]]) -> None:
    """Write what ``torch.save(graph, path)`` of GraphBolt 2.4 writes."""
    graph = Graph()
    graph._c_csc_graph = ScriptObject()
    graph._c_csc_graph.state = groups
    module = types.SimpleNamespace(Pickler=Pickler, __name__="stands for pickle")
    torch.save(graph, path, pickle_module=module, pickle_protocol=2)


GROUPS = {
    "independent_tensors": {
        "version_number": torch.tensor([6199]),
        "indptr": torch.tensor([0, 1, 3], dtype=torch.int32),
        "indices": torch.tensor([1, 0, 1], dtype=torch.int32),
        "node_type_offset": torch.tensor([0, 1, 2]),
        "type_per_edge": torch.tensor([0, 1, 1], dtype=torch.uint8),
    },
    "node_type_to_id": {"a": torch.tensor(0), "b": torch.tensor(1)},
    "edge_type_to_id": {"b:r:a": torch.tensor(0), "b:s:b": torch.tensor(1)},
    "edge_attributes": {"w": torch.tensor([1.0, 2.0, 3.0])},
}


def test_a_file_of_graphbolt_and_ours_have_the_same_arguments(tmp_path):
    graphbolt_saves(tmp_path / "theirs.pt", GROUPS)
    fields = load_fused_graph(tmp_path / "theirs.pt")
    assert fields["csc_indptr"].tolist() == [0, 1, 3] and fields["csc_indptr"].dtype == torch.int32
    assert fields["node_type_to_id"] == {"a": 0, "b": 1} and fields["node_attributes"] is None
    save_fused_graph(tmp_path / "ours.pt", fields)
    again = load_fused_graph(tmp_path / "ours.pt")
    assert again.keys() == fields.keys() and torch.equal(again["edge_attributes"]["w"], torch.tensor([1.0, 2.0, 3.0]))
    assert again["edge_type_to_id"] == {"b:r:a": 0, "b:s:b": 1} and again["type_per_edge"].dtype == torch.uint8


def test_our_file_calls_graphbolts_function(tmp_path):
    save_fused_graph(tmp_path / "ours.pt", {"csc_indptr": torch.tensor([0, 1]), "indices": torch.tensor([0])})
    with zipfile.ZipFile(tmp_path / "ours.pt") as archive:
        (name,) = [x for x in archive.namelist() if x.endswith("data.pkl")]
        codes = [code.name for code, _, _ in pickletools.genops(archive.read(name))]
        names = [value for code, value, _ in pickletools.genops(archive.read(name)) if code.name == "GLOBAL"]
    assert codes[-2:] == ["REDUCE", "STOP"] or "REDUCE" in codes[-4:]
    assert names[0] == "dgl.graphbolt.impl.fused_csc_sampling_graph fused_csc_sampling_graph"


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ({"a": torch.ones(2)}, "holds dict; expected a FusedCSCSamplingGraph"),
        (None, "holds NoneType; expected"),
    ],
)
def test_other_files_are_refused(tmp_path, content, match):
    torch.save(content, tmp_path / "x.pt")
    with pytest.raises(DGLError, match=match):
        load_fused_graph(tmp_path / "x.pt")


def test_a_graph_without_structure_is_refused(tmp_path):
    graphbolt_saves(tmp_path / "x.pt", {"independent_tensors": {"version_number": torch.tensor([7])}})
    with pytest.raises(DGLError, match="damaged, or of another version of GraphBolt: KeyError"):
        load_fused_graph(tmp_path / "x.pt")
    with pytest.raises(DGLError, match="cannot be read"):
        load_fused_graph(tmp_path / "missing.pt")
