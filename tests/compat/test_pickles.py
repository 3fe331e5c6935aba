"""Pickles that DGL 0.4 to 2.1 wrote are read, restricted and under the alias; the files in ``pickles`` are DGL's,
and the JSON beside each is what that version of DGL itself said of its graphs."""

from __future__ import annotations

import collections
import copyreg
import json
import os
import pickle
import pickletools
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

import dglite
from dglite import DGLError
from dglite.io import load_info, load_pickled

FILES = Path(__file__).parent / "pickles"
OLD = ("0.4.2", "0.4.3", "0.5.3", "0.9.1")


def values_of(data) -> dict:
    return {name: column.tolist() for name, column in sorted(data.items())}


def described(g, ntypes, etypes) -> dict:
    """Say of a graph what the JSON files say."""
    return {
        "n": [g.num_nodes(ntype) for ntype in ntypes],
        "e": [[end.tolist() for end in g.edges(form="uv", order="eid", etype=etype)] for etype in etypes],
        "nf": [values_of(g.ndata if ntype is None else g.nodes[ntype].data) for ntype in ntypes],
        "ef": [values_of(g.edata if etype is None else g.edges[etype].data) for etype in etypes],
    }


def described_2_1(g) -> dict:
    frames = [g.srcnodes[t].data for t in g.srctypes] + [g.dstnodes[t].data for t in g.dsttypes]
    sides = [[g.num_src_nodes(t) for t in g.srctypes], [g.num_dst_nodes(t) for t in g.dsttypes]]
    typed = lambda data: {name: [str(x.dtype), x.tolist()] for name, x in sorted(data.items())}  # noqa: E731
    return {
        "n": sides if g.is_block else {ntype: g.num_nodes(ntype) for ntype in g.ntypes},
        "c": [list(etype) for etype in g.canonical_etypes],
        "e": [[end.tolist() for end in g.edges(order="eid", etype=etype)] for etype in g.canonical_etypes],
        "dt": str(g.idtype),
        "blk": g.is_block,
        "nf": [typed(data) for data in frames],
        "ef": [typed(g.edges[etype].data) for etype in g.canonical_etypes],
        "b": 1 if g.is_block else g.batch_size,
        "bn": None if g.is_block else [g.batch_num_nodes(ntype).tolist() for ntype in g.ntypes],
    }


def check_old(content, version) -> None:
    expected = json.loads((FILES / f"{version}.json").read_text())
    for name, facts in expected["want"].items():
        assert described(content[name], *expected["types"][name]) == facts, name
    assert content["bt"].batch_num_nodes().tolist() == [2, 3]
    block, facts = content["blk"], expected["blk"]
    if facts is not None:
        assert block.is_block
        assert (block.num_src_nodes(), block.num_dst_nodes()) == (facts["src"], facts["dst"])
        assert [end.tolist() for end in block.edges(order="eid")] == facts["e"]
    (graph, label), *_ = content["pairs"]
    assert graph is content["g"] and int(label) == 1


def check_2_1(content) -> None:
    for name, facts in json.loads((FILES / "2.1.json").read_text()).items():
        assert described_2_1(content[name]) == facts, name
    assert content["pairs"][0][0] is content["g"]
    assert content["np"].tolist() == [0, 1, 2] and content["scalar"] == 2 and content["set"] == {1, 2}


@pytest.mark.parametrize("version", OLD)
def test_older_versions(version):
    check_old(load_pickled(FILES / f"{version}.pkl"), version)


def test_a_file_of_torch_before_2020_whose_tensors_follow_the_pickle():
    check_old(load_pickled(FILES / "0.4.3_legacy.pt"), "0.4.3")


def test_a_batch_of_several_types_of_0_4_2():
    g = load_pickled(FILES / "0.4.2_batch.pkl")
    assert (g.batch_size, g.batch_num_nodes("user").tolist(), g.batch_num_edges("plays").tolist()) == (
        2,
        [3, 3],
        [2, 2],
    )
    assert [end.tolist() for end in g.edges(etype="follows")] == [[0, 1, 0, 3, 4, 3], [1, 0, 2, 4, 3, 5]]


@pytest.mark.parametrize("name", ["2.1.pkl", "2.1.pt"])
def test_graphs_of_2_1(name):
    content = load_pickled(FILES / name)
    check_2_1(content)
    assert type(content["g"]) is dglite.DGLGraph
    content["g"].add_edges([0], [4])  # they are graphs as any others
    assert content["g"].num_edges() == 5


@pytest.mark.usefixtures("dgl_is_dglite")
@pytest.mark.parametrize("version", OLD)
def test_pickle_load_under_the_alias(version):
    with open(FILES / f"{version}.pkl", "rb") as file:
        check_old(pickle.load(file), version)


@pytest.mark.usefixtures("dgl_is_dglite")
def test_torch_load_under_the_alias():
    check_2_1(torch.load(FILES / "2.1.pt", weights_only=False))
    with pytest.raises(DGLError, match=r"before 2020.*load_pickled"):
        torch.load(FILES / "0.4.3_legacy.pt", weights_only=False)


@pytest.mark.usefixtures("dgl_is_dglite")
def test_frames_alone_and_graphs_of_dglite_are_pickled_under_the_alias_as_before():
    from dgl.frame import Frame
    from dgl.utils import toindex

    frame = pickle.loads(pickle.dumps(Frame({"h": torch.ones(2, 3)})))
    assert frame.num_rows == 2 and torch.equal(frame["h"], torch.ones(2, 3))
    for ids in (slice(2, 4), [2, 3]):
        assert pickle.loads(pickle.dumps(toindex(ids))).tonumpy().tolist() == [2, 3]
    g = pickle.loads(pickle.dumps(dglite.graph(([0], [1]))))
    assert [end.tolist() for end in g.edges()] == [[0], [1]]


def test_what_0_4_1_did_not_write_is_said():
    with pytest.raises(DGLError, match=r"0\.4\.1\.pkl.*before 0\.4\.2 wrote no edges"):
        load_pickled(FILES / "0.4.1.pkl")


def test_info_of_dgl(tmp_path):
    (tmp_path / "info.pkl").write_bytes(pickle.dumps({"classes": 7, "names": ["a"], "mean": np.arange(2.0)}))
    info = load_info(tmp_path / "info.pkl")
    assert (info["classes"], info["names"], info["mean"].tolist()) == (7, ["a"], [0, 1])


# -- files that are not to be trusted ----------------------------------------------------------------------------------
class Call:
    """Pickled as a call."""

    def __init__(self, function, *args) -> None:
        self.call = function, args

    def __reduce__(self):
        return self.call


HOSTILE = {
    "a command": (Call(os.system, "true"), r"posix\.system|nt\.system"),
    "an attribute": (Call(getattr, "", "join"), "attribute 'join'"),
    "code": (Call(eval, "1"), r"_*builtins?_*\.eval"),
    "a class of torch": (Call(torch.nn.Linear, 1, 1), "torch.nn.modules.linear.Linear"),
    "a function of torch": (Call(torch.load, "x"), "torch.serialization.load"),
    "a module of ours": (Call(dglite.graph, ([0], [1])), "dglite.convert"),
    "a size for a bytearray": (Call(bytearray, 1 << 40), "bytes of int"),
    "a size for bytes": (Call(bytes, 1 << 40), "bytes of int"),
    "a list of a range": (Call(list, range(1 << 40)), "container of the numbers of a range"),
    "a set of a range": (Call(set, range(1 << 40)), "container of the numbers of a range"),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("by_torch", [False, True])
def test_whatever_could_run_is_refused_by_name(name, by_torch, tmp_path):
    content, message = HOSTILE[name]
    path = tmp_path / "file"
    if by_torch:
        torch.save({"x": content}, path)
    else:
        path.write_bytes(pickle.dumps([content]))
    with pytest.raises(DGLError, match=rf"{path.name} is not read.*({message})"):
        load_pickled(path)


@pytest.mark.parametrize(
    "code",
    [
        b"\x80\x02cbuiltins\ntuple\n%s\x85\x81.",  # NEWOBJ
        b"\x80\x04\x8c\x08builtins\x8c\x05tuple\x93%s\x85}\x92.",  # NEWOBJ_EX
        b"(cbuiltins\nlist\n%so.",  # OBJ
        b"(%sibuiltins\nlist\n.",  # INST
    ],
)
def test_a_range_is_not_written_out_by_any_opcode(code, tmp_path):
    numbers = b"cbuiltins\nrange\n(L%dL\ntR" % (1 << 40)
    (tmp_path / "x.pkl").write_bytes(code % numbers)
    with pytest.raises(DGLError, match=r"x\.pkl.*the numbers of a range"):
        load_pickled(tmp_path / "x.pkl")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (b"\x80\x02\x82\xf0)R.", "extension code 240"),
        (b"\x80\x02U\x01xQ.", "persistent id"),
        (b"\x80\x02Nq\x00cos\nsystem\nq\x000h\x00X\x04\x00\x00\x00true\x85R.", r"os\.system"),
        (b"\x80\x02ccollections\ndefaultdict\ncos\nsystem\n\x85R.", r"os\.system"),
        (b"\x80\x02cbuiltins\ngetattr\ncbuiltins\ndict\nX\x08\x00\x00\x00fromkeys\x86R.", "attribute 'fromkeys'"),
        (b"\x80\x04\x8c\x05torch\x8c\x10os.path.samefile\x93.", r"torch\.os\.path"),
        (b"\x80\x02h\x07.", "is not read"),
        (b"\x80\x02]q\x00h\x00a" + b"h\x00\x85" * 2000 + b"cos\nsystem\n.", r"os\.system"),
    ],
    ids=["extension", "persistent", "memo", "factory", "getattr", "dotted", "absent memo", "nested"],
)
def test_ways_around_the_list_of_names_are_refused(code, message, tmp_path):
    saved = dict(copyreg._extension_cache)
    copyreg._extension_cache[240] = os.getcwd  # as after an ordinary load of a pickle with this code
    try:
        (tmp_path / "x.pkl").write_bytes(code)
        with pytest.raises(DGLError, match=rf"x\.pkl.*{message}"):
            load_pickled(tmp_path / "x.pkl")
    finally:
        copyreg._extension_cache.clear()
        copyreg._extension_cache.update(saved)


def test_ranges_and_bytes_are_read(tmp_path):
    content = [range(3, 1 << 40, 2), b"", b"ab\xff", {1, 2}, frozenset("a"), collections.defaultdict(list, a=[1])]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        (tmp_path / "x.pkl").write_bytes(pickle.dumps(content, protocol))
        assert load_pickled(tmp_path / "x.pkl") == content


def test_names_of_dgl_that_hold_no_graph_are_refused(tmp_path):
    path = tmp_path / "x.pkl"
    path.write_bytes(b"\x80\x02cdgl.data.utils\ndownload\n(X\x01\x00\x00\x00utR.")
    with pytest.raises(DGLError, match=r"dgl\.data\.utils\.download"):
        load_pickled(path)


@pytest.mark.parametrize(
    "name",
    [
        "dgl.ndarray\nSparseMatrix",
        "dgl.heterograph\nDGLGraph",
        "torch.nn.parameter\nParameter",
        "dgl.init\nbase_initializer",
    ],
)
def test_classes_and_functions_are_not_changed(name, tmp_path):
    state = pickle.dumps((None, {"added": 1}), 2)[2:-1]
    (tmp_path / "x.pkl").write_bytes(b"\x80\x02c" + name.encode() + b"\n" + state + b"b.")
    with pytest.raises(DGLError, match=r"x\.pkl.*a change of"):
        load_pickled(tmp_path / "x.pkl")
    assert not hasattr(torch.nn.Parameter, "added")


@pytest.mark.parametrize("version", ["0.4.3", "2.1"])
def test_damaged_files_raise_errors(version, tmp_path):
    content = (FILES / f"{version}.pkl").read_bytes()
    rng = np.random.default_rng(0)
    path = tmp_path / "damaged.pkl"
    for place in rng.integers(0, len(content), 150):
        damaged = bytearray(content)
        damaged[place] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(damaged[: len(content) if place % 2 else int(place)]))
        try:
            load_pickled(path)
        except DGLError as error:
            assert "damaged.pkl" in str(error)


@pytest.mark.parametrize("content", [b"", b"some text\n", b"\x80\x04\x95\xff", b"PK\x03\x04", b"\x80\x02h\x05."])
def test_what_is_no_pickle_is_said(content, tmp_path):
    path = tmp_path / "notes.pkl"
    path.write_bytes(content)
    with pytest.raises(DGLError, match=r"notes.pkl is not read: it is damaged, or neither a pickle nor torch's"):
        load_pickled(path)


def test_edges_and_versions_that_do_not_fit(tmp_path):
    content = (FILES / "0.9.1.pkl").read_bytes()
    place = next(at for op, arg, at in pickletools.genops(content) if isinstance(arg, bytes | str) and len(arg) == 232)
    counts = content.index(struct.pack("<QQ", 1, 5), place)  # one type, of five nodes
    path = tmp_path / "few.pkl"
    path.write_bytes(content[: counts + 8] + struct.pack("<Q", 2) + content[counts + 16 :])
    with pytest.raises(DGLError, match="does not exist; ids run from 0 to 1"):
        load_pickled(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DGLError, match="cannot be read"):
        load_pickled(tmp_path / "absent.pkl")
    with pytest.raises(DGLError, match="is not read"):
        (tmp_path / "empty").touch()
        load_pickled(tmp_path / "empty")
