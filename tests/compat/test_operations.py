"""``dgl.ops``, ``dgl.mpops``, ``dgl.core`` and the helpers of ``dgl.data`` and ``dgl.nn`` beyond dglite's own."""

from __future__ import annotations

import argparse
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

import dglite
import dglite.function as fn
from dglite.compat import base, core, data, mpops, nn, ops, sampling, sparse_ops, top
from dglite.data import dataset, utils
from dglite.errors import DGLError, DGLWarning


@pytest.fixture
def g() -> dglite.DGLGraph:
    return dglite.heterograph({("a", "r", "b"): ([0, 1], [0, 0]), ("b", "s", "b"): ([1, 2], [0, 1])}, {"a": 2, "b": 3})


A, B = torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [4.0], [5.0]])


def test_operations_on_heterographs(g: dglite.DGLGraph) -> None:
    nodes = [A, B]
    assert ops.gspmm(g, "copy_lhs", "sum", nodes, None)[1].flatten().tolist() == [7, 5, 0]
    assert [x.flatten().tolist() for x in ops.gsddmm(g, "add", nodes, nodes)] == [[4, 5], [7, 9]]
    weights = ops.edge_softmax(g, {"s": torch.zeros(2, 1), "r": torch.zeros(2, 1)})
    assert list(weights) == g.canonical_etypes
    assert weights[g.canonical_etypes[0]].flatten().tolist() == pytest.approx([1 / 3, 1 / 3])
    assert weights[g.to_canonical_etype("s")][1] == 1


def test_operations_on_the_index_of_a_graph() -> None:
    g = dglite.graph(([0, 1, 2, 0], [1, 1, 0, 3]), num_nodes=5)
    u, e = torch.arange(5.0), torch.tensor([1.0, -2.0, 3.0, 5.0])
    reduced, (arg_u, arg_e) = sparse_ops._gspmm(g._graph, "copy_rhs", "max", None, e)
    assert reduced.tolist() == [3, 1, 0, 5, 0] and arg_u is None and arg_e is None
    assert sparse_ops._gspmm(g._graph, "mul", "sum", u, e)[0].tolist() == [6, -2, 0, 0, 0]
    assert sparse_ops._gsddmm(g._graph, "sub", e, reduced, "e", "v").tolist() == [0, -3, 0, 0]
    with pytest.raises(DGLError, match="sum, max or min, got 'mean'"):
        sparse_ops._gspmm(g._graph, "copy_rhs", "mean", None, e)
    for whole, nodes, ends in ((True, 5, [[1, 0], [1, 1]]), (False, 2, [[0, 1], [0, 0]])):
        part = g._graph.edge_subgraph([torch.tensor([1, 0])], whole).graph
        assert part.num_nodes() == nodes and [end.tolist() for end in part.edges()[:2]] == ends
    empty = dglite.graph(([], []), num_nodes=2)._graph
    assert sparse_ops._gspmm(empty, "copy_lhs", "sum", torch.ones(2, 3), None)[0].tolist() == [[0] * 3] * 2


def test_operations_on_one_relation(g: dglite.DGLGraph) -> None:
    one = g["r"]
    assert ops.gspmm(one, "copy_lhs", "max", A, None).flatten().tolist() == [2, 0, 0]
    assert ops.gsddmm(one, "sub", A, B).flatten().tolist() == [-2, -1] and ops.copy_e(one, A) is A
    assert ops.edge_softmax(one, torch.zeros(2)).tolist() == [0.5, 0.5]
    matrices = torch.tensor([[[2.0]], [[3.0]]])
    assert ops.segment_mm(A, matrices, torch.tensor([1, 1])).flatten().tolist() == [2, 6]
    assert ops.gather_mm(A, matrices, idx_b=torch.tensor([1, 0])).flatten().tolist() == [3, 4]


def test_operations_by_relation(g: dglite.DGLGraph) -> None:
    assert mpops.u_add_v(g, A, B, etype="r").flatten().tolist() == [4, 5]
    assert mpops.u_dot_v(g["r"], A, B).flatten().tolist() == [3, 6]
    assert mpops.copy_u(g, B, etype="s").flatten().tolist() == [4, 5]
    assert mpops.copy_v(g, B, etype="s").flatten().tolist() == [3, 4]
    with pytest.raises(DGLError):
        mpops.copy_u(g, A)


def test_message_passing_that_writes_nothing(g: dglite.DGLGraph) -> None:
    one = g["r"]
    one.srcdata["h"], one.dstdata["h"] = A, B
    summed = core.message_passing(one, fn.copy_u("h", "m"), fn.sum("m", "h"))
    assert list(summed) == ["h"] and summed["h"].flatten().tolist() == [3, 0, 0]
    assert core.invoke_gspmm(one, fn.copy_u("h", "m"), fn.max("m", "x"))["x"][0] == 2
    assert core.invoke_gsddmm(one, fn.u_add_v("h", "h", "e"))["e"].flatten().tolist() == [4, 5]
    reduced = core.invoke_udf_reduce(one, lambda nodes: {"x": nodes.mailbox["m"].sum(1)}, {"m": A})
    assert reduced["x"].flatten().tolist() == [3, 0, 0]
    assert core.invoke_node_udf(one, [1], "a", lambda nodes: {"x": nodes.data["h"] * 2})["x"].tolist() == [[4]]
    assert core.invoke_edge_udf(one, [1], "r", lambda edges: {"x": edges.src["h"]})["x"].tolist() == [[2]]
    assert one.dstdata["h"] is B and not one.edata and set(one.dstdata) == {"h"}
    assert core.is_builtin(fn.sum("m", "h")) and core.is_builtin(fn.copy_u("h", "m")) and not core.is_builtin(sum)


def test_warnings_are_those_of_dgl() -> None:
    with pytest.warns(DGLWarning, match="old") as caught:
        base.dgl_warning("old")
    assert caught[0].filename == __file__
    for deprecate in (data.deprecate_property, data.deprecate_function, data.deprecate_class):
        with pytest.warns(DGLWarning, match="old.*use new") as caught:
            deprecate("old", "new")
    assert base.is_all(dglite.ALL) and not base.is_all([0]) and base.is_internal_column(dglite.NID)


def test_switches_that_change_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        top.use_libxsmm(True)
        top.enable_verbose_logging()
    assert top.is_libxsmm_enabled()
    top.use_libxsmm(False)
    assert not top.is_libxsmm_enabled()


def refuse(self: Any, *_: Any) -> None:
    raise ConnectionError("there is no connection")


def test_data_sets_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DGLITE_DATA_DIR", str(tmp_path))
    parser = argparse.ArgumentParser()
    data.register_data_args(parser)
    with pytest.raises(DGLError, match=r"'redit'.*cora, citeseer, pubmed, reddit, reddit-self-loop"):
        data.load_data(parser.parse_args(["--dataset", "redit"]))
    for name, folder in (("reddit", "reddit"), ("reddit-self-loop", "reddit_self_loop")):
        monkeypatch.setattr(dataset.Downloader, "__call__", refuse)
        with pytest.raises(
            DGLError, match=rf"{folder} was looked for in"
        ):  # the set is known, the network is not there
            data.load_data(parser.parse_args(["--dataset", name]))


class Archived(data.DGLBuiltinDataset):
    """A graph whose edges are in a table in an archive."""

    def process(self) -> None:
        edges = torch.from_numpy(utils.loadtxt(Path(self.raw_path) / "edges.csv", ","))
        self.graph = dglite.graph((edges[:, 0], edges[:, 1]))

    def __getitem__(self, index: int) -> dglite.DGLGraph:
        return self.graph

    def __len__(self) -> int:
        return 1


def test_a_data_set_in_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(url: str, path: Path) -> str:
        assert url == "https://data.dgl.ai/dataset/tiny.zip" and path == tmp_path / "tiny.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("edges.csv", "0,1\n1,2\n")
        return str(path)

    monkeypatch.setattr(utils, "download", download)
    dataset = Archived("tiny", data._get_dgl_url("dataset/tiny.zip"), raw_dir=tmp_path)
    assert dataset[0].num_edges() == 2 and (tmp_path / "tiny" / "edges.csv").is_file()


def test_helpers_of_layers() -> None:
    matrices = torch.arange(12.0).reshape(2, 3, 2)
    ids, index = torch.tensor([2, 0]), torch.tensor([1, 0])
    one_hot = torch.eye(3)[ids]
    assert nn.matmul_maybe_select(ids, matrices[0]).tolist() == nn.matmul_maybe_select(one_hot, matrices[0]).tolist()
    assert nn.bmm_maybe_select(ids, matrices, index).tolist() == nn.bmm_maybe_select(one_hot, matrices, index).tolist()
    assert nn.bmm_maybe_select(ids, matrices, index).tolist() == [[10, 11], [0, 1]]
    assert nn.Identity()(ids) is ids


@pytest.mark.parametrize("name, expected", [("sum", [4, 6]), ("max", [3, 4]), ("min", [1, 2]), ("mean", [2, 3])])
def test_aggregates_by_name(name: str, expected: list[int]) -> None:
    parts = [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])]
    assert nn.get_aggregate_fn(name)(parts, "node").tolist() == expected
    assert nn.get_aggregate_fn("stack")(parts, "node").tolist() == [[1, 3], [2, 4]]
    with pytest.raises(DGLError, match="'median' is not known; expected one of sum"):
        nn.get_aggregate_fn("median")


def test_knowledge_graphs_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(data._BY_NAME, "wn18", lambda: "the graph")
    assert data.load_data("wn18") == "the graph"
    with pytest.raises(DGLError, match=r"'yago'.*FB15k-237"):
        data.load_data("yago")


def test_visits_of_walks_are_counted() -> None:
    visited, ends = torch.tensor([3, 1, 3, -1, 2, 2, 5, 5, -1, -1, -1, -1]), torch.tensor([7] * 4 + [8] * 4 + [9] * 4)
    src, dst, times = sampling._select_pinsage_neighbors(visited, ends, 4, 2)
    assert src.tolist() == [3, 1, 2, 5] and dst.tolist() == [7, 7, 8, 8] and times.tolist() == [2, 1, 2, 2]
    assert [x.tolist() for x in sampling._select_pinsage_neighbors(visited, ends, 4, 1)] == [[3, 2], [7, 8], [2, 2]]
