"""Graphs come back from files as they were."""

from __future__ import annotations

import gc
import os
import pickle
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dglite
from dglite import DGLError
from dglite.data.utils import load_graphs, load_labels, save_graphs
from tests.io.graphs import KINDS, assert_same, heterogeneous, homogeneous


def _there_and_back(path: Path, graphs, **arguments):
    save_graphs(str(path), graphs, **arguments)
    return load_graphs(str(path))


@pytest.mark.parametrize("kind", KINDS)
def test_one_graph_comes_back(tmp_path, kind):
    g = KINDS[kind]()
    (result,), labels = _there_and_back(tmp_path / "g.bin", g)
    assert_same(g, result)
    assert labels == {}


def test_graphs_of_every_kind_in_one_file_come_back_in_order(tmp_path):
    graphs = [make() for make in KINDS.values()] * 3
    result, _ = _there_and_back(tmp_path / "g.bin", graphs)
    assert len(result) == len(graphs)
    for g, h in zip(graphs, result, strict=True):
        assert_same(g, h)


def test_the_comparison_sees_differences():
    def changed(change):
        g = homogeneous()
        change(g)
        return g

    for change in (
        lambda g: g.ndata.pop("bool"),
        lambda g: g.ndata.update(int8=g.ndata["int8"] + 1),
        lambda g: g.ndata.update(int8=g.ndata["int8"].int()),
        lambda g: g.add_nodes(1),
        lambda g: g.add_edges([0], [0]),
        lambda g: g.set_batch_num_nodes(torch.tensor([3, 3])),
    ):
        with pytest.raises(AssertionError):
            assert_same(changed(lambda g: None), changed(change))


@pytest.mark.parametrize("formats", ["coo", "csr", "csc", ["csc", "coo"], ["coo", "csr"], ["csr", "csc"],
                                     ["coo", "csr", "csc"]])  # fmt: skip
@pytest.mark.parametrize("kind", ["homogeneous", "heterogeneous", "block", "no edges"])
def test_the_formats_asked_for_exist_after_loading(tmp_path, kind, formats):
    g = KINDS[kind]()
    result, _ = _there_and_back(tmp_path / "g.bin", [g, g], formats=formats)
    for h in result:
        assert sorted(h.formats()["created"]) == sorted([formats] if isinstance(formats, str) else formats)
        assert_same(g, h)


def test_one_format_is_stored_by_default(tmp_path):
    g = homogeneous()
    g.create_formats_()
    (result,), _ = _there_and_back(tmp_path / "g.bin", g)
    assert result.formats()["created"] == ["coo"]
    (result,), _ = _there_and_back(tmp_path / "g.bin", g.formats(["csr", "csc"]))
    assert result.formats() == {"created": ["csc"], "not created": ["csr"]}


def test_labels_and_a_choice_of_graphs(tmp_path):
    path = tmp_path / "new" / "folder" / "g.bin"
    graphs = [dglite.graph(([0], [i]), num_nodes=9) for i in range(9)]
    labels = {"glabel": torch.arange(9), "0": torch.rand(3, 2).bfloat16(), "number": torch.tensor(4.0)}
    save_graphs(path, graphs, labels)
    result, read = load_graphs(path, [7, 2, 2])
    assert [g.edges()[1].item() for g in result] == [7, 2, 2]
    for by_name in (read, load_labels(path)):
        assert set(by_name) == set(labels)
        assert all(torch.equal(by_name[name], labels[name]) for name in labels)
    assert len(load_graphs(path, [])[0]) == 9
    for wrong in ([9], [-1]):
        with pytest.raises(DGLError, match="holds 9 graphs"):
            load_graphs(path, wrong)


def test_a_file_of_no_graphs(tmp_path):
    assert _there_and_back(tmp_path / "g.bin", [], labels={"y": torch.ones(2)})[0] == []


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8)),
                max_size=6), st.sampled_from([None, "coo", "csr", "csc"]))  # fmt: skip
def test_any_list_of_graphs_comes_back(tmp_path_factory, described, formats):
    graphs = []
    for num_nodes, edges in described:
        g = dglite.graph([(u % num_nodes, v % num_nodes) for u, v in edges], num_nodes=num_nodes)
        g.ndata["h"] = torch.rand(num_nodes, 2)
        g.edata["w"] = torch.rand(len(edges))
        graphs.append(g)
    result, _ = _there_and_back(tmp_path_factory.mktemp("io") / "g.bin", graphs, formats=formats)
    assert len(result) == len(graphs)
    for g, h in zip(graphs, result, strict=True):
        assert_same(g, h)


def test_what_is_loaded_is_a_graph_like_any_other(tmp_path):
    (g, other), _ = _there_and_back(tmp_path / "g.bin", [homogeneous(), homogeneous()])
    before = (tmp_path / "g.bin").read_bytes()
    g.ndata["float32"] += 1
    g.add_edges([0], [5], {"w": torch.ones(1)})
    g.update_all(dglite.function.copy_u("float64", "m"), dglite.function.sum("m", "out"))
    assert torch.equal(g.ndata["float32"], other.ndata["float32"] + 1)
    assert (tmp_path / "g.bin").read_bytes() == before
    assert g.num_edges() == other.num_edges() + 1


def test_a_loaded_feature_pickles_no_larger_than_it_is(tmp_path):
    g = dglite.graph(([0], [1]), num_nodes=2)
    big = dglite.graph(([], []), num_nodes=100_000)
    big.ndata["h"] = torch.rand(100_000, 4)
    g.ndata["h"] = torch.rand(2, 4)
    g.ndata["b"] = torch.rand(2, 4).bfloat16()
    (result, *_), _ = _there_and_back(tmp_path / "g.bin", [g, g, big])
    assert len(pickle.dumps(result)) < 10_000


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "g.bin"
    save_graphs(path, homogeneous())
    (old,), _ = load_graphs(path)
    before = path.read_bytes()
    with pytest.raises(DGLError, match="which a file cannot hold"):
        save_graphs(path, dglite.graph(([0], [1])), {"y": torch.zeros(2, dtype=torch.complex32)})
    assert path.read_bytes() == before
    monkeypatch.setattr(Path, "replace", _refuse)
    with pytest.raises(DGLError, match="cannot be written"):
        save_graphs(path, heterogeneous())
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["g.bin"]
    save_graphs(path, heterogeneous())
    assert load_graphs(path)[0][0].ntypes == heterogeneous().ntypes
    assert old.edges()[0].tolist() == homogeneous().edges()[0].tolist()  # mapped, and still the old file's


def _refuse(*_):
    raise OSError("disk full")


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_a_file_may_be_read_by_whom_the_umask_allows(tmp_path):
    old = os.umask(0o027)
    try:
        save_graphs(tmp_path / "g.bin", homogeneous())
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "g.bin").stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["no graph"],), "holds a str"),
        (([], {"y": [1, 2]}), "labels are tensors by name"),
        (([], {3: torch.ones(1)}), "labels are tensors by name"),
        (([], None, "dense"), "formats must be some of"),
    ],
)
def test_wrong_arguments_are_named(tmp_path, arguments, message):
    with pytest.raises(DGLError, match=message):
        save_graphs(tmp_path / "g.bin", *arguments)
    assert not (tmp_path / "g.bin").exists()


def test_wrong_places_are_named(tmp_path):
    g = dglite.graph(([0], [1]))
    with pytest.raises(DGLError, match="is a folder"):
        save_graphs(tmp_path, g)
    for remote in ("s3://bucket/g.bin", "hdfs://host/g.bin"):
        with pytest.raises(DGLError, match="not on this machine"):
            save_graphs(remote, g)
        with pytest.raises(DGLError, match="not on this machine"):
            load_graphs(remote)
    with pytest.raises(DGLError, match="does not exist"):
        load_graphs(tmp_path / "absent")
    with pytest.raises(DGLError, match="by its name"):
        load_graphs(3)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read by Linux's means")
def test_large_features_are_read_when_they_are_used(tmp_path):
    g = dglite.graph(([], []), num_nodes=4_000_000)
    g.ndata["h"] = torch.ones(4_000_000, 8)
    save_graphs(tmp_path / "g.bin", g)
    code = """if True:
        import sys, dglite
        def resident(): return int(open("/proc/self/statm").read().split()[1]) * 4096
        before = resident()
        (g,), _ = dglite.load_graphs(sys.argv[1])
        h = g.ndata["h"]
        print(resident() - before)
        assert h[123456].sum() == 8
    """
    grown = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "g.bin"], capture_output=True, text=True, check=True
    ).stdout
    assert int(grown) < 40_000_000 < 128_000_000


@pytest.mark.parametrize("formats", ["coo", "csr", "csc", ["coo", "csr", "csc"]])
@pytest.mark.parametrize("kind", ["homogeneous", "heterogeneous", "block", "batched", "no edges"])
def test_mapped_graphs_are_the_same(tmp_path, kind, formats):
    g = KINDS[kind]()
    save_graphs(tmp_path / "g.bin", [g, g], formats=formats)
    for actual in load_graphs(tmp_path / "g.bin", mmap=True)[0]:
        assert_same(g, actual)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read by Linux's means")
def test_edges_of_a_mapped_graph_are_read_when_they_are_used(tmp_path):
    num_edges = 8_000_000
    save_graphs(
        tmp_path / "g.bin", dglite.graph((torch.arange(num_edges) % 999, torch.arange(num_edges) % 1000)), formats="csc"
    )
    code = """if True:
        import sys, dglite, dglite.dataloading
        from dglite.dataloading import DataLoader, NeighborSampler
        def resident(): return int(open("/proc/self/statm").read().split()[1]) * 4096
        before = resident()
        (g,), _ = dglite.load_graphs(sys.argv[1], mmap=True)
        print(resident() - before)
        assert g.num_edges() == 8_000_000
        _, _, (block,) = next(iter(DataLoader(g, [7], NeighborSampler([5]))))
        assert block.num_edges() == 5
    """
    grown = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "g.bin"], capture_output=True, text=True, check=True
    ).stdout
    assert int(grown) < num_edges


def test_a_mapped_graph_that_is_cut_short(tmp_path):
    save_graphs(tmp_path / "g.bin", homogeneous())
    content = (tmp_path / "g.bin").read_bytes()
    for length in (len(content) - 1, len(content) // 2, 3):
        (tmp_path / "g.bin").write_bytes(content[:length])
        with pytest.raises(DGLError, match="not read"):
            load_graphs(tmp_path / "g.bin", mmap=True)


def test_a_file_is_closed_when_its_graphs_are_read(tmp_path: Path) -> None:
    path = tmp_path / "graphs.bin"
    dglite.save_graphs(path, [dglite.rand_graph(3, 4)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dglite.load_graphs(path)
        with pytest.raises(dglite.DGLError, match="graph 5 is not in"):
            dglite.load_graphs(path, [5])
        gc.collect()
    assert [str(warning.message) for warning in caught if warning.category is ResourceWarning] == []
