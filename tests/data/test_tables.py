"""Graphs from tables: in memory, and converted on disk with little memory."""

from __future__ import annotations

import doctest
import errno
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

pytest.importorskip("pyarrow")
import pyarrow as pa
import pyarrow.parquet as pq

import dglite
from dglite.data import ROW, GraphFolder, NodeIds, Table, convert_tables, database_tables, estimate_conversion
from dglite.data.__main__ import main
from dglite.data.tables import convert, files
from dglite.errors import DGLError
from tests import forked

USERS, ITEMS, EDGES = 400, 60, 30_000
BUYS = ("user", "buys", "item")
BOUGHT_BY = ("item", "bought_by", "user")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users with sparse ids in Parquet, items with text ids in CSV, edges in two Parquet files of small row groups."""
    folder, rng = tmp_path_factory.mktemp("shop"), np.random.default_rng(0)
    users = rng.permutation(10 * USERS)[:USERS]
    items = [f"sku-{i}" for i in rng.permutation(ITEMS)]
    x = pa.FixedSizeListArray.from_arrays(pa.array(rng.random(USERS * 4).astype(np.float16)), 4)
    pq.write_table(pa.table({"id": users, "age": rng.random(USERS), "x": x}), folder / "users.parquet", 64)
    kinds = rng.choice(["toy", "book"], ITEMS)
    pd.DataFrame({"name": items, "price": rng.random(ITEMS), "kind": kinds}).to_csv(folder / "items.csv", index=False)
    src = users[(rng.random(EDGES) ** 3 * USERS).astype(int)]
    dst = np.array(items)[(rng.random(EDGES) ** 6 * ITEMS).astype(int)]  # a third of the edges go to one item
    when = pd.to_datetime(1_600_000_000 + np.arange(EDGES), unit="s")
    for i, part in enumerate((slice(0, 20_000), slice(20_000, EDGES))):
        table = pa.table({"uid": src[part], "sku": dst[part], "at": pa.array(when[part])})
        pq.write_table(table, folder / f"buys{i}.parquet", 1500)
    return folder


def tables(shop: Path) -> tuple[dict[str, Any], dict[Any, Any]]:
    nodes = {"user": shop / "users.parquet", "item": Table(shop / "items.csv", categories=["kind"])}
    files = str(shop / "buys*.parquet")
    back = Table(files, source="sku", target="uid", features=[])
    return nodes, {BUYS: Table(files, source="uid", target="sku", time="at"), BOUGHT_BY: back}


def assert_same(g: dglite.DGLGraph, h: dglite.DGLGraph) -> None:
    assert g.ntypes == h.ntypes
    assert g.canonical_etypes == h.canonical_etypes
    for ntype in g.ntypes:
        assert g.num_nodes(ntype) == h.num_nodes(ntype)
        assert g.nodes[ntype].data.keys() == h.nodes[ntype].data.keys()
        assert all(torch.equal(x, h.nodes[ntype].data[name]) for name, x in g.nodes[ntype].data.items())
    for etype, first, second in zip(g.canonical_etypes, g.adjacencies, h.adjacencies, strict=True):
        assert g.edges[etype].data.keys() == h.edges[etype].data.keys()
        assert all(torch.equal(x, h.edges[etype].data[name]) for name, x in g.edges[etype].data.items())
        a, b = first.csc(), second.csc()
        for name in ("indptr", "indices"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        np.testing.assert_array_equal(a.entry_edge_ids(), b.entry_edge_ids())


# -- in memory ---------------------------------------------------------------------------------------------------------
def test_agrees_with_pandas(shop: Path) -> None:
    g = dglite.from_tables(*tables(shop))
    users, items = pd.read_parquet(shop / "users.parquet"), pd.read_csv(shop / "items.csv")
    buys = pd.concat([pd.read_parquet(shop / f"buys{i}.parquet") for i in (0, 1)])
    src, dst = g.edges(etype="buys")
    assert src.tolist() == pd.Index(users["id"]).get_indexer(buys["uid"]).tolist()
    assert dst.tolist() == pd.Index(items["name"]).get_indexer(buys["sku"]).tolist()
    assert g.edges["buys"].data["at"].tolist() == list(range(1_600_000_000, 1_600_000_000 + EDGES))
    np.testing.assert_array_equal(g.nodes["user"].data["x"].numpy(), np.stack(users["x"]))
    assert g.nodes["user"].data["age"].dtype == torch.float32
    texts = [g.categories["item"]["kind"][code] for code in g.nodes["item"].data["kind"].tolist()]
    assert texts == items["kind"].tolist()
    assert g.id_maps["item"].numbers(items["name"]).tolist() == list(range(ITEMS))
    assert g.id_maps["user"].names([5, 0]).tolist() == users["id"][[5, 0]].tolist()


def kinds_of_table() -> dict[str, Any]:
    frame = pd.DataFrame({"src": ["b", "a", "b"], "dst": ["a", "c", "c"], "w": [1.0, 2.0, np.nan]})
    arrow = pa.Table.from_pandas(frame)
    kinds = {"pandas": frame, "arrow": arrow, "columns": {name: frame[name].tolist() for name in frame}}
    kinds["batch"] = arrow.to_batches()[0]
    try:
        import polars
    except ImportError:
        return kinds
    return kinds | {"polars": polars.from_pandas(frame)}


@pytest.mark.parametrize("kind", kinds_of_table())
def test_tables_in_memory(kind: str) -> None:
    g = dglite.from_tables(edges=kinds_of_table()[kind], idtype=torch.int32)
    assert g.node_names.tolist() == ["a", "b", "c"]
    assert g.idtype == torch.int32
    assert [end.tolist() for end in g.edges()] == [[1, 0, 1], [0, 2, 2]]
    assert g.edata["w"][:2].tolist() == [1, 2]
    assert g.edata["w"][2].isnan()


def test_features() -> None:
    when = pd.to_datetime(["1969-12-31 23:59:59.5", "2001-09-09 01:46:40"], format="mixed")
    nodes = {
        "id": [10, 4],
        "flag": [True, False],
        "when": pa.array(when),
        "pair": [[1, 2], [3, 4]],
        "colour": pa.array(["red", None]).dictionary_encode(),
        "note": ["left", "out"],
        "rank": pa.array([None, 7]),
        "wide": np.ones((2, 3), np.float64),
    }
    edges = {"src": [4], "dst": [10]}
    table = Table(nodes, fill={"rank": -1}, time_unit="ms")
    data = dglite.from_tables({"_N": table}, {("_N", "_E", "_N"): edges}).ndata
    assert list(data) == ["flag", "when", "pair", "colour", "rank", "wide"]
    assert data["when"].tolist() == [-500, 1_000_000_000_000]
    assert data["pair"].tolist() == [[1, 2], [3, 4]]
    assert data["colour"].tolist() == [0, -1]
    assert data["rank"].tolist() == [-1, 7]
    assert (data["wide"].dtype, data["wide"].shape) == (torch.float32, (2, 3))
    assert dglite.from_tables({"_N": Table(nodes, features=["when"])}, {("_N", "_E", "_N"): edges}).ndata[
        "when"
    ].tolist() == [-1, 1_000_000_000]
    both = Table(nodes, features={"x": ["rank", "flag"]}, fill={"rank": 0})
    assert dglite.from_tables({"_N": both}, {("_N", "_E", "_N"): edges}).ndata["x"].tolist() == [[0, 1], [7, 0]]


def test_empty_tables() -> None:
    g = dglite.from_tables({"id": [], "x": pa.array([], pa.float32())}, {"src": [], "dst": []})
    assert (g.num_nodes(), g.num_edges(), g.ndata["x"].shape) == (0, 0, (0,))
    g = dglite.from_tables({"id": ["a", "b"]}, {"src": pa.array([], pa.string()), "dst": pa.array([], pa.string())})
    assert (g.num_nodes(), g.num_edges()) == (2, 0)


def test_rows_as_nodes_and_foreign_keys_that_are_missing() -> None:
    orders = {"customer": pa.array([7, None, 3]), "total": [1.0, 2.0, 3.0]}
    edges = Table(orders, source=ROW, target="customer", features=[], missing="drop")
    nodes = {"order": Table(orders, id=ROW, features=["total"]), "customer": {"id": [3, 7]}}
    g = dglite.from_tables(nodes, {("order", "of", "customer"): edges})
    assert [end.tolist() for end in g.edges()] == [[0, 2], [1, 0]]


def test_ids_are_looked_up_both_ways(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    numbers, texts = rng.integers(-(2**62), 2**62, 5000), [f"é{'x' * (i % 50)}{i}" for i in range(5000)]
    for values in (numbers, texts, np.arange(100)):
        ids = NodeIds.from_values(values)
        ids.save(tmp_path / str(len(values)) / type(values).__name__)
        for lookup in (ids, NodeIds.load(tmp_path / str(len(values)) / type(values).__name__)):
            order = rng.permutation(len(values))
            assert lookup.names(order).tolist() == [list(values)[i] for i in order]
            assert lookup.numbers(lookup.names(order)).tolist() == order.tolist()
            with pytest.raises(DGLError, match="no node has the id"):
                lookup.numbers(["é"] if lookup.is_text else [-5])


# -- on disk -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize(("memory", "dealt", "workers"), [("100 MB", 80, 8), ("4 MB", 1000, 1), ("4 MB", 200, 3)])
def test_converted_graph_is_the_one_in_memory(
    shop: Path, tmp_path: Path, memory: str, dealt: int, workers: int, compress: bool, monkeypatch: Any
) -> None:
    monkeypatch.setattr("dglite.data.tables.sort._DEALT", dealt)
    monkeypatch.setattr("dglite.data.tables.sort._FEWEST", 100)
    monkeypatch.setattr("dglite.data.tables.sort.active.num_threads", lambda: workers)
    nodes, edges = tables(shop)
    folder = convert_tables(nodes, edges, tmp_path / "graph", memory=memory, compress=compress)
    expected = dglite.from_tables(nodes, edges)
    assert_same(expected, folder.graph)
    assert sorted(path.name for path in folder.path.iterdir()) == ["edges", "graph.dgl", "ids", "meta.json", "nodes"]
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]
    assert folder.categories == expected.categories
    (checked,), _ = dglite.load_graphs(folder.path / "graph.dgl")  # reads and checks every entry
    assert checked.num_edges("buys") == EDGES
    x = dglite.dataloading.MappedFeatures(folder.feature_file("user", "x")).rows([3, 0])
    assert torch.equal(x, expected.nodes["user"].data["x"][[3, 0]].float())


def test_ids_without_tables_and_an_empty_relation(tmp_path: Path) -> None:
    empty = {"src": pa.array([], pa.string()), "dst": pa.array([], pa.string())}
    edges = {("a", "r", "a"): {"src": ["y", "x"], "dst": ["x", "z"]}, ("a", "s", "a"): empty}
    assert_same(dglite.from_tables(None, edges), convert_tables(None, edges, tmp_path / "g").graph)
    assert GraphFolder(tmp_path / "g").ids["a"].numbers(["z", "x"]).tolist() == [2, 0]


class FullDisk:
    """Stands for ``write_all``; raises after some calls."""

    def __init__(self, calls: int) -> None:
        self.calls, self.write = calls, files.write_all

    def __call__(self, file: Any, array: np.ndarray) -> None:
        self.calls -= 1
        if self.calls < 0:
            file.write(array.tobytes()[:7])
            raise OSError(errno.ENOSPC, "No space left on device")
        self.write(file, array)


@pytest.mark.parametrize("calls", [0, 9, 60, 100, 150, 190])
def test_a_full_disk_leaves_the_earlier_result_and_the_next_call_continues(
    shop: Path, tmp_path: Path, calls: int, monkeypatch: Any
) -> None:
    nodes, edges = tables(shop)
    target = tmp_path / "graph"
    convert_tables({"_N": {"id": [1]}}, {("_N", "_E", "_N"): {"src": [1], "dst": [1]}}, target)
    monkeypatch.setattr("dglite.data.tables.sort._DEALT", 500)
    with monkeypatch.context() as patch:
        full = FullDisk(calls)
        for module in ("files", "convert", "sort"):
            patch.setattr(f"dglite.data.tables.{module}.write_all", full)
        with pytest.raises(DGLError, match=r"disk of .* is full"):
            convert_tables(nodes, edges, target, memory="4 MB", overwrite=True)
    assert GraphFolder(target).graph.num_nodes() == 1
    steps = json.loads((tmp_path / "graph.converting" / "state.json").read_text())["steps"] if calls else {}
    reads: list[Any] = []
    read = convert.NodeTable.read
    monkeypatch.setattr(convert.NodeTable, "read", lambda *args: reads.append(args) or read(*args))
    assert_same(
        dglite.from_tables(nodes, edges), convert_tables(nodes, edges, target, memory="4 MB", overwrite=True).graph
    )
    done = [name for name, step in steps.items() if name in ("nodes user", "nodes item") and step.get("done")]
    assert len(reads) == 2 + (2 - len(done))  # two by from_tables


def convert_with_limits(edges: Path, target: Path, compress: bool) -> None:
    """Convert while no file may have more than 1 to 7 MB, and then without a limit; print the errors and the edges."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    options: dict[str, Any] = {"memory": "4 MB", "overwrite": True, "show_progress": False, "compress": compress}
    for megabytes in range(1, 8):
        resource.setrlimit(resource.RLIMIT_FSIZE, (megabytes << 20, hard))
        try:
            convert_tables(None, edges, target, **options)
        except Exception as error:
            print(type(error).__name__, error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    print(convert_tables(None, edges, target, **options).graph.num_edges())


@pytest.mark.skipif(sys.platform == "win32", reason="files have no limit there")
@pytest.mark.parametrize("compress", [False, True])
def test_the_system_ends_a_write_for_real_and_the_next_call_continues(tmp_path: Path, compress: bool) -> None:
    ends = np.random.default_rng(0).integers(0, 1000, (2, 500_000))
    pq.write_table(pa.table(dict(zip(["src", "dst"], ends, strict=True))), tmp_path / "e.parquet", 50_000)
    target = tmp_path / "graph"
    convert_tables({"_N": {"id": [1]}}, {("_N", "_E", "_N"): {"src": [1], "dst": [1]}}, target)
    run = forked.run(convert_with_limits, tmp_path / "e.parquet", target, compress)
    assert run.returncode == 0, run.stderr
    *errors, edges = run.stdout.splitlines()
    assert edges == "500000"
    assert errors
    assert all(line.startswith("DGLError a file in ") and "is as it was before" in line for line in errors)
    assert_same(dglite.from_tables(None, tmp_path / "e.parquet"), GraphFolder(target).graph)


def test_changed_files_start_again(shop: Path, tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "e.csv"
    path.write_text("src,dst\n" + "1,2\n" * 10)
    with monkeypatch.context() as patch:
        patch.setattr("dglite.data.tables.sort.write_all", FullDisk(0))
        with pytest.raises(DGLError, match="full"):
            convert_tables(None, path, tmp_path / "g")
    path.write_text("src,dst\n" + "1,2\n" * 5 + "5,6\n" * 9)
    assert convert_tables(None, path, tmp_path / "g").graph.num_edges() == 14


# -- bad input ---------------------------------------------------------------------------------------------------------
def refused(match: str, nodes: Any, edges: Any, tmp_path: Path, **options: Any) -> None:
    """Both ways raise the same error, and a folder that was there stays."""
    target = tmp_path / "kept"
    convert_tables(None, {"src": [0], "dst": [0]}, target, overwrite=True)
    if not options:
        with pytest.raises(DGLError, match=match):
            dglite.from_tables(nodes, edges)
    with pytest.raises(DGLError, match=match):
        convert_tables(nodes, edges, target, overwrite=True, **options)
    assert GraphFolder(target).graph.num_edges() == 1


def test_an_edge_to_an_unknown_node(shop: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"uid": np.zeros(5, np.int64) + 10**6, "sku": ["a"] * 5}), tmp_path / "e.parquet", 2)
    users = pa.table({"id": [10**6]})
    nodes = {"user": users, "item": {"id": ["b"]}}
    refused(
        r"e\.parquet, row group 0, row 0, column 'sku': no node of type 'item' has the id 'a'",
        nodes,
        {BUYS: tmp_path / "e.parquet"},
        tmp_path,
    )


def test_duplicate_and_missing_ids(tmp_path: Path) -> None:
    edges = {("a", "r", "a"): {"src": ["x"], "dst": ["x"]}}
    refused(
        r"nodes of type 'a', column 'id' has the id 'x' twice, in its rows 0 and 2",
        {"a": {"id": ["x", "y", "x"]}},
        edges,
        tmp_path,
    )
    refused(r"row 1, column 'id': the id is missing", {"a": {"id": ["x", None]}}, edges, tmp_path)
    refused("row 1, column 'id': 1.5 is no id", {"a": {"id": [1.0, 1.5]}}, edges, tmp_path)
    refused("ids are texts here, and integers in the table", {"a": {"id": [1]}}, edges, tmp_path)


def test_a_cut_file(shop: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.parquet"
    cut.write_bytes((shop / "buys0.parquet").read_bytes()[:-100])
    refused(r"cut\.parquet is not read, it is cut short", None, Table(cut, source="uid", target="sku"), tmp_path)
    damaged = bytearray((shop / "buys0.parquet").read_bytes())
    damaged[40_000:60_000] = bytes(20_000)
    (tmp_path / "damaged.parquet").write_bytes(damaged)
    refused(
        r"damaged\.parquet, row group \d+ from row \d+ on is damaged",
        None,
        Table(tmp_path / "damaged.parquet", source="uid", target="sku"),
        tmp_path,
    )


def test_a_column_of_another_type(tmp_path: Path) -> None:
    pq.write_table(pa.table({"src": [1], "dst": [2]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"src": [1], "dst": ["2"]}), tmp_path / "b.parquet")
    refused(
        r"column 'dst' is string in .*b\.parquet, and int64 in .*a\.parquet",
        None,
        str(tmp_path / "*.parquet"),
        tmp_path,
    )
    (tmp_path / "c.csv").write_text("src,dst\n" + "1,2\n" * 400_000 + "1,x\n")
    refused(r"c\.csv, from row \d+ on .*'x'", None, tmp_path / "c.csv", tmp_path)


def test_columns_that_are_there_twice_and_times_that_are_texts(tmp_path: Path) -> None:
    twice = pa.table([[1], [2], [3]], names=["src", "dst", "dst"])
    pq.write_table(twice, tmp_path / "e.parquet")
    refused("has several columns named 'dst'", None, twice, tmp_path)
    refused(r"e\.parquet has several columns named 'dst'", None, tmp_path / "e.parquet", tmp_path)
    text = Table({"src": [1], "dst": [2], "t": ["yesterday"]}, time="t")
    refused("column 't' is string; times are numbers, timestamps or dates", None, text, tmp_path)


def test_ids_that_are_no_utf8(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_bytes(b"src,dst\na,b\nb,\xc3\n")
    g = dglite.from_tables(None, tmp_path / "e.csv")
    assert g.num_nodes() == 3
    assert [x.tolist() for x in g.edges()] == [[0, 1], [1, 2]]


def test_missing_numbers_times_and_lists_of_other_lengths(tmp_path: Path) -> None:
    edges = {("a", "r", "a"): {"src": ["x"], "dst": ["y"]}}
    ids = ["x", "y"]
    refused("row 1, column 'n': there is no value", {"a": {"id": ids, "n": pa.array([1, None])}}, edges, tmp_path)
    refused(
        "row 0, column 't': the time is NaN", {"a": Table({"id": ids, "t": [np.nan, 1.0]}, time="t")}, edges, tmp_path
    )
    refused(
        "row 1, column 'l': the list has 1 elements; expected 2",
        {"a": {"id": ids, "l": [[1, 2], [3]]}},
        edges,
        tmp_path,
    )


def test_a_path_that_cannot_be_made(tmp_path: Path) -> None:
    edges = {"src": [0, 1], "dst": [1, 2]}
    (tmp_path / "file").write_text("x")
    (tmp_path / "g.converting").write_text("x")
    for name, match in {
        "file/g": r"file/g cannot be made, since .*file is no folder",
        "file/a/b/g": r"since .*file is no folder",
        "g": r"g is not made, .*g\.converting",
        "a" * 300: "is no name of a folder: .*too long",
        "a\0b": "is no name of a folder",
    }.items():
        with pytest.raises(DGLError, match=match):
            convert_tables(None, edges, tmp_path / name)
        if name.startswith("file") or "\0" in name:
            with pytest.raises(DGLError, match=match):
                estimate_conversion(None, edges, tmp_path / name)
    assert (tmp_path / "file").read_text() == (tmp_path / "g.converting").read_text() == "x"
    assert main(["convert", "--edges", "x.csv", "--out", str(tmp_path / "file" / "g")]) == 1


def test_a_limit_below_one_batch(shop: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"src": np.arange(2**20), "dst": np.arange(2**20)}), tmp_path / "e.parquet")
    refused(
        r"e\.parquet, row group 0: its columns .* more than the limit",
        None,
        tmp_path / "e.parquet",
        tmp_path,
        memory="5 MB",
    )
    refused("memory must be an integer >= 4194304 bytes", None, tmp_path / "e.parquet", tmp_path, memory="1 MB")
    refused("memory must be a number of bytes", None, tmp_path / "e.parquet", tmp_path, memory="much")
    ids = {"id": np.arange(1, 2**18 + 1)}
    edges = {("a", "r", "a"): {"src": [1], "dst": [1]}}
    refused("the ids of 262,144 nodes of type 'a' need", {"a": ids}, edges, tmp_path, memory="5 MB")


@pytest.mark.parametrize(
    "nodes, edges, match",
    [
        (None, {}, "expected 1 or more"),
        (None, "nowhere.parquet", "there is no file"),
        (None, "setup.cfg", "neither Parquet"),
        (None, 5, "must be a pandas, Polars or Arrow table"),
        (None, {("a", "b"): {"src": [1], "dst": [1]}}, "expected .source type"),
        ({"a": {"id": [1]}}, {"src": [1], "dst": [1]}, "edges must be a dictionary, too"),
        (None, Table({"src": [1], "dst": [1]}, source="u"), "source='u' is no column"),
        (None, Table({"src": [1], "dst": [1]}, source="dst", target="dst"), "are both 'dst'"),
        (None, Table({"src": [1], "dst": [1]}, features=["w"]), "has no column 'w'"),
    ],
)
def test_arguments(nodes: Any, edges: Any, match: str) -> None:
    with pytest.raises(DGLError, match=match):
        dglite.from_tables(nodes, edges)


@pytest.mark.parametrize("function", [dglite.from_tables, NodeIds, database_tables])
def test_examples(function: Any) -> None:
    """Run the examples, which are skipped by those who have no pyarrow."""
    text = inspect.getdoc(function).replace("# doctest: +SKIP", "")
    names = {"np": np, "NodeIds": NodeIds, "Table": Table, "database_tables": database_tables}
    test = doctest.DocTestParser().get_doctest(text, names, function.__name__, None, None)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


# -- the command -------------------------------------------------------------------------------------------------------
def test_command(shop: Path, tmp_path: Path, capsys: Any) -> None:
    arguments = [
        "convert",
        f"--nodes=user={shop}/users.parquet",
        f"--nodes=item={shop}/items.csv,id=name,categories=kind",
        f"--edges=user:buys:item={shop}/buys*.parquet,source=uid,target=sku,time=at",
        f"--out={tmp_path / 'g'}",
        "--memory=50MB",
    ]
    assert main([*arguments, "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert "user-buys-item: 30,000" in text
    assert not list(tmp_path.iterdir())
    assert main(arguments) == 0
    assert "460 nodes, 30,000 edges" in capsys.readouterr().out
    assert main(arguments) == 1
    assert "is there already" in capsys.readouterr().err
    assert main([*arguments[:2], "--edges=a:b=x.csv", "--out=o"]) == 1
    assert "expected SOURCE:TYPE:TARGET" in capsys.readouterr().err


def test_estimate(shop: Path, tmp_path: Path) -> None:
    nodes, edges = tables(shop)
    estimate = estimate_conversion(nodes, edges, tmp_path / "deep" / "g")
    folder = convert_tables(nodes, edges, tmp_path / "g")
    size = sum(path.stat().st_size for path in folder.path.rglob("*") if path.is_file())
    assert 0.5 < estimate.disk / size < 2
    assert estimate.num_edges == {BUYS: EDGES, BOUGHT_BY: EDGES}
    assert estimate.num_nodes["user"] == USERS
    assert estimate.seconds > 0
    assert not (tmp_path / "deep").exists()
