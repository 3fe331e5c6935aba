"""Graphs in CSV files."""

from __future__ import annotations

import builtins
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from dglite import DGLError, DGLWarning
from dglite.data import CSVDataset

HOMOGENEOUS = """
dataset_name: tiny
node_data: [{file_name: nodes.csv}]
edge_data: [{file_name: edges.csv}]
"""
NODES = 'node_id,label,feat,on\n7,1,"0.5, 1",True\n3,0,"2, 3",False\n5,2,"4, 5.5",True\n'
EDGES = "src_id,dst_id,w\n7,3,0.5\n3,5,1\n5,5,2\n"

SEVERAL = """
dataset_name: several
separator: ";"
node_data:
- {file_name: users.csv, ntype: user, node_id_field: name}
- {file_name: items.csv, ntype: item}
edge_data:
- {file_name: buys.csv, etype: [user, buys, item], src_id_field: who}
- {file_name: knows.csv, etype: [user, knows, user]}
graph_data: {file_name: graphs.csv, graph_id_field: number}
"""
USERS = "graph_id;name;age\n1;bob;30\n0;eve;20\n1;ann;\n"
ITEMS = "graph_id;node_id\n0;10\n1;10\n1;2\n"
BUYS = "graph_id;who;dst_id;price\n1;ann;2;3\n1;bob;10;4\n0;eve;10;5\n"
KNOWS = "graph_id;src_id;dst_id\n1;bob;ann\n"
GRAPHS = "number;label;size\n1;0;2.5\n0;1;1\n9;1;0\n"


@pytest.fixture(autouse=True)
def needs_yaml() -> None:
    pytest.importorskip("yaml")


def _write(folder: Path, meta: str = HOMOGENEOUS, **files: str) -> Path:
    for name, text in {"nodes": NODES, "edges": EDGES, **files}.items():
        (folder / f"{name}.csv").write_text(text)
    (folder / "meta.yaml").write_text(meta)
    return folder


def _several(folder: Path, **files: str) -> Path:
    return _write(
        folder, SEVERAL, **{"users": USERS, "items": ITEMS, "buys": BUYS, "knows": KNOWS, "graphs": GRAPHS} | files
    )


def test_one_graph(tmp_path: Path) -> None:
    data = CSVDataset(_write(tmp_path))
    g = data[0]
    assert (len(data), data.name, data.data, hasattr(data, "labels")) == (1, "tiny", {}, False)
    assert torch.stack(g.edges()).tolist() == [[2, 0, 1], [0, 1, 1]]
    assert g.ndata["label"].tolist() == [0, 2, 1] and g.ndata["label"].dtype is torch.int64
    assert g.ndata["feat"].tolist() == [[2, 3], [4, 5.5], [0.5, 1]] and g.ndata["feat"].dtype is torch.float32
    assert g.ndata["on"].tolist() == [False, True, True] and g.edata["w"].tolist() == [0.5, 1, 2]
    assert (g.ntypes, g.canonical_etypes) == (["_V"], [("_V", "_E", "_V")])


def test_several_graphs_and_types(tmp_path: Path) -> None:
    data = CSVDataset(_several(tmp_path))
    (g, facts), (other, _), (empty, _) = data[0], data[1], data[2]
    assert {name: x.tolist() for name, x in facts.items()} == {"label": [0], "size": [2.5]}
    assert data.data["label"].shape == (3, 1) and data.data["size"].dtype is torch.float32
    assert g.num_nodes("user") == g.num_nodes("item") == 2 and torch.isnan(g.nodes["user"].data["age"][0])
    assert torch.stack(g.edges(etype="buys")).tolist() == [[0, 1], [0, 1]]
    assert g.edges["buys"].data["price"].tolist() == [3, 4]
    assert torch.stack(g.edges(etype="knows")).tolist() == [[1], [0]]
    assert (other.num_nodes("user"), other.num_edges("buys"), other.num_edges("knows")) == (1, 1, 0)
    assert empty.num_nodes() == 0 and empty.canonical_etypes == g.canonical_etypes
    assert empty.edges["buys"].data["price"].shape == (0,)
    part = data[torch.tensor([2, 0])]
    assert [graph.num_nodes() for graph, _ in part] == [0, 4]


def test_one_fact_is_the_label(tmp_path: Path) -> None:
    data = CSVDataset(_several(tmp_path, graphs="number;y\n0;4\n1;5\n"), transform=lambda g: g.num_nodes())
    assert [(count, label.tolist()) for count, label in data] == [(2, [4]), (4, [5])]
    assert data.labels.tolist() == [[4], [5]]


def test_the_result_is_kept_until_a_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = CSVDataset(_several(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(CSVDataset, "process", lambda self: pytest.fail("read again"))
        again = CSVDataset(tmp_path)
    assert [g.num_edges() for g in again.graphs] == [g.num_edges() for g in first.graphs]
    assert again.data["size"].tolist() == first.data["size"].tolist()
    (tmp_path / "graphs.csv").write_text("number;y\n0;4\n1;5\n")
    later = (tmp_path / "several" / "several.bin").stat().st_mtime + 5
    os.utime(tmp_path / "graphs.csv", (later, later))
    assert CSVDataset(tmp_path).labels.tolist() == [[4], [5]]


def test_parsers_of_ones_own(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    seen: list[list[str]] = []

    def double(frame: Any) -> dict[str, Any]:
        seen.append(list(frame))
        return {"twice": (2 * frame["label"]).to_numpy()}

    g = CSVDataset(_write(tmp_path), ndata_parser={"_V": double}, force_reload=True)[0]
    assert g.ndata["twice"].tolist() == [0, 4, 2] and seen == [["label", "feat", "on"]] and "w" in g.edata
    g = CSVDataset(tmp_path, edata_parser=lambda frame: {}, force_reload=True)[0]
    assert not g.edata and "feat" in g.ndata
    with pytest.raises(DGLError, match="the parser made 1 rows of 'x' from 3"):
        CSVDataset(tmp_path, ndata_parser=lambda frame: {"x": [1]}, force_reload=True)


def test_a_column_without_a_name_is_left_out(tmp_path: Path) -> None:
    with pytest.warns(DGLWarning, match="column without a name"):
        g = CSVDataset(_write(tmp_path, edges=",src_id,dst_id\n0,7,3\n"))[0]
    assert not g.edata and g.num_edges() == 1


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"nodes": "id,x\n1,2\n"}, r"nodes\.csv has no column 'node_id'; it has \['id', 'x'\]"),
        ({"nodes": "node_id\n1\n\n1\n"}, r"line 4 of .*nodes\.csv has node 1, which occurs twice"),
        ({"nodes": "node_id,x\n1\n"}, r"line 2 of .*nodes\.csv has 1 cells, .* expected 2"),
        ({"nodes": "node_id,x\n3,a b\n5,1\n7,1\n"}, "column 'x' of .* is no list of numbers"),
        ({"nodes": "node_id,x\n3,'a'\n5,'b'\n7,'c'\n"}, "'x' has values of dtype <U1; expected numbers"),
        ({"edges": "src_id,dst_id\n3,5\n3,4\n"}, r"line 3 of .*edges\.csv: .*name node 4, and no node of type '_V'"),
        ({"edges": "src_id,dst_id\n3,a\n"}, "name node a"),
        ({"edges": "src_id,dst_id,graph_id\n3,5,1\n"}, r"of graphs \['1'\]; graph_data, or 0 without it, has \[0\]"),
        (
            {"meta": HOMOGENEOUS + "graph_data: {file_name: graphs.csv}", "graphs": "graph_id,y\n0,1\n0,2\n"},
            r"line 3 of .*graphs\.csv has graph 0, which occurs twice",
        ),
        ({"meta": HOMOGENEOUS + "graph_data: {file_name: none.csv}"}, r"none\.csv is not readable"),
        ({"meta": "dataset_name: x"}, "needs node_data, a list; got None"),
        ({"meta": "- x"}, "is not a mapping of names to values"),
        ({"meta": "a: b: c"}, "or no YAML"),
        ({"meta": "[" * 5000}, "or no YAML"),
        ({"meta": "dataset_name: 2024-13-01"}, "or no YAML"),
        ({"meta": HOMOGENEOUS + "version: 2.0.0"}, r"has version 2\.0\.0; expected 1\.0\.0"),
        ({"meta": HOMOGENEOUS.replace("file_name: nodes.csv", "ntype: a")}, "describes a file without file_name"),
        ({"meta": HOMOGENEOUS.replace("nodes.csv}", "nodes.csv}, {file_name: x}")}, "two files for type _V"),
        ({"meta": HOMOGENEOUS.replace("edges.csv", "edges.csv, etype: [a, b, a]")}, r"of the node types \['_V'\]"),
    ],
)
def test_files_that_are_not_as_described(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(DGLError, match=message):
        CSVDataset(_write(tmp_path, **files))


def test_without_a_description(tmp_path: Path) -> None:
    with pytest.raises(DGLError, match=r"meta\.yaml does not exist"):
        CSVDataset(tmp_path)


@pytest.mark.parametrize(("module", "message"), [("yaml", "pip install pyyaml"), ("pandas", "pip install pandas")])
def test_without_an_optional_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, message: str
) -> None:
    real = builtins.__import__

    def lacking(name: str, *args: Any, **options: Any) -> Any:
        if name == module:
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", lacking)
    with pytest.raises(ImportError, match=message):
        CSVDataset(_write(tmp_path), ndata_parser=lambda frame: {})
