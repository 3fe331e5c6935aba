"""The Temporal Graph Benchmark's files: written here in its layout, read back."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from dglite import DGLError, metrics
from dglite.data.tgb import LinkPropPredDataset

pytest.importorskip("pandas")
RANDOM = np.random.default_rng(0)
USERS, ITEMS = RANDOM.integers(6, size=200), RANDOM.integers(9, size=200)
TIMES, FEATURES = np.sort(RANDOM.integers(1000, size=200)), RANDOM.random((200, 3)).round(4)


def write_wiki(folder, times=TIMES):
    folder.mkdir()
    lines = ["user_id,item_id,timestamp,state_label,comma_separated_list_of_features"]
    for u, i, t, feat in zip(USERS, ITEMS, times, FEATURES, strict=True):
        lines.append(",".join(map(str, (u, i, t, 0, *feat))))
    (folder / "tgbl-wiki_edgelist_v2.csv").write_text("\n".join(lines))
    for split in ("val", "test"):
        pickled = {}
        for u, i, t in zip(USERS, ITEMS + USERS.max() + 1, times, strict=True):
            pickled[u, i, np.float64(t)] = RANDOM.integers(6, 15, size=5 if t % 2 else 4)  # keys are NumPy's numbers
        with open(folder / f"tgbl-wiki_{split}_ns_v2.pkl", "wb") as file:
            pickle.dump(pickled, file)
    return pickled


@pytest.mark.parametrize("inside", [False, True])
def test_wiki_is_read(tmp_path, inside):
    pickled = write_wiki(tmp_path / "tgbl_wiki")
    data = LinkPropPredDataset("tgbl-wiki", tmp_path / "tgbl_wiki" if inside else tmp_path)
    g = data[0]
    src, dst = (np.asarray(x) for x in g.edges())
    assert len(data) == 1
    assert src.tolist() == USERS.tolist()
    assert dst.tolist() == (ITEMS + USERS.max() + 1).tolist()
    assert np.asarray(g.edata["t"]).tolist() == TIMES.tolist()
    np.testing.assert_allclose(np.asarray(g.edata["feat"]), FEATURES, rtol=1e-6)
    masks = [np.asarray(g.edata[f"{split}_mask"]) for split in ("train", "val", "test")]
    assert (sum(mask.astype(int) for mask in masks) == 1).all()
    val, test = np.quantile(TIMES, [0.7, 0.85])
    assert TIMES[masks[0]].max() <= val < TIMES[masks[1]].min()
    assert TIMES[masks[1]].max() <= test < TIMES[masks[2]].min()
    edges, negatives = (np.asarray(x) for x in data.negatives("test"))
    assert edges.tolist() == np.flatnonzero(masks[2]).tolist()
    for edge, row in zip(edges, negatives, strict=True):
        expected = pickled[src[edge], dst[edge], TIMES[edge]].tolist()
        assert row.tolist() == expected + expected[-1:] * (5 - len(expected))
    assert 0 < metrics.mrr(np.ones(len(edges)), np.zeros(negatives.shape)) <= 1


def test_events_are_put_in_order(tmp_path):
    write_wiki(tmp_path / "tgbl_wiki", TIMES[::-1])
    g = LinkPropPredDataset("tgbl-wiki", tmp_path)[0]
    order = np.argsort(TIMES[::-1], kind="stable")
    assert np.asarray(g.edges()[0]).tolist() == USERS[order].tolist()
    assert np.asarray(g.edata["t"]).tolist() == TIMES.tolist()


def test_names_are_numbered_as_they_come(tmp_path):
    (tmp_path / "tgbl-coin_edgelist_v2.csv").write_text("time,src,dst,weight\n5,b,a,8\n6,nan,b,0\n6,a,1,2.0\n")
    g = LinkPropPredDataset("tgbl-coin", tmp_path)[0]
    assert [np.asarray(x).tolist() for x in g.edges()] == [[0, 2, 1], [1, 0, 3]]
    assert np.asarray(g.edata["weight"]).tolist() == [3, 0, 1]
    assert "feat" not in g.edata
    (tmp_path / "tgbl-comment_edgelist.csv").write_text("ts,src,dst,words,score\n5,7,3,500,-2\n7,3,7,5000,4\n")
    g = LinkPropPredDataset("tgbl-comment", tmp_path)[0]
    np.testing.assert_allclose(np.asarray(g.edata["feat"]), [[0.1], [1.0]])
    assert np.asarray(g.edata["weight"]).tolist() == [-2, 4]


def test_wrong_files_are_named(tmp_path):
    with pytest.raises(DGLError, match="'tgbl-none' is not one of"):
        LinkPropPredDataset("tgbl-none", tmp_path)
    with pytest.raises(DGLError, match=r"there is no tgbl-wiki_edgelist_v2\.csv in .*tgbl_wiki or "):
        LinkPropPredDataset("tgbl-wiki", tmp_path)
    path = tmp_path / "tgbl-uci_edgelist.csv"
    path.write_text("user,item,t,label\n")
    with pytest.raises(DGLError, match=r"has no events|no table"):
        LinkPropPredDataset("tgbl-uci", tmp_path)
    path.write_text("user,item,t,label\n1,2,3,0\n1,2,,0\n")
    with pytest.raises(DGLError, match=r"line 3 of .* has a time that is no number"):
        LinkPropPredDataset("tgbl-uci", tmp_path)
    path.write_text("user,item,t,label\na,2,3,0\n")
    with pytest.raises(DGLError, match="expected user, item, time, label and numbers"):
        LinkPropPredDataset("tgbl-uci", tmp_path)
    path.write_text("user,item,t,label\n1,2,3,0\n1,2,4,0\n")
    data = LinkPropPredDataset("tgbl-uci", tmp_path)
    with pytest.raises(DGLError, match="split is 'train'"):
        data.negatives("train")
    with pytest.raises(DGLError, match=r"tgbl-uci_test_ns\.pkl is missing"):
        data.negatives("test")
    (tmp_path / "tgbl-uci_test_ns.pkl").write_bytes(pickle.dumps({(1, 9, 4): np.array([3])}))
    with pytest.raises(DGLError, match="no destinations for the edge"):
        data.negatives("test")


class Hostile:
    def __reduce__(self):
        return print, ("run",)


def test_no_code_of_a_file_is_run(tmp_path, capsys):
    (tmp_path / "tgbl-uci_edgelist.csv").write_text("user,item,t,label\n1,2,3,0\n1,2,4,0\n")
    (tmp_path / "tgbl-uci_test_ns.pkl").write_bytes(pickle.dumps({(1, 4, 4): Hostile()}))
    with pytest.raises(DGLError, match=r"builtins\.print"):
        LinkPropPredDataset("tgbl-uci", tmp_path).negatives("test")
    assert capsys.readouterr().out == ""


# -- flights and typed links -------------------------------------------------------------------------------------------
def write(folder, name, lines, **files):
    """Write a data set's edges, and others of its files."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("\n".join(lines) + "\n")
    for file, rows in files.items():
        (folder / f"{file}.csv").write_text("\n".join(rows) + "\n")
    return folder


def characters(text, size):
    return [-1 if c == "!" else int(c) if c.isdigit() else ord(c.upper()) - 35 for c in text.ljust(size, "!")]


FLIGHTS = ["day,src,dst,callsign,typecode", "1546300800,EDDF,KJFK,DLH400,a388", "1546387200,KJFK,NZAA,,toolongcode",
           "1546473600,NZAA,EDDF,ANZ1,"]  # fmt: skip
AIRPORTS = ["airport_code,type,continent,iso_region,longitude,latitude", "KJFK,large,NA,US-NY,-73.7,40.6",
            "ZZZZ,small,AF,ZZ,1,2", "EDDF,large,EU,DE-HE,8.5,50.0", "NZAA,medium,OC,NZ-AUK,174.7,-37.0"]  # fmt: skip


@pytest.mark.parametrize("dates", [False, True])
def test_flights(tmp_path, dates):
    lines = list(FLIGHTS)
    if dates:
        for i, (seconds, day) in enumerate(zip((1546300800, 1546387200, 1546473600), (1, 2, 3), strict=True)):
            lines[i + 1] = lines[i + 1].replace(str(seconds), f"2019-01-0{day}")
    write(tmp_path / "tgbl_flight", "tgbl-flight_edgelist_v2.csv", lines, airport_node_feat_v2=AIRPORTS)
    g = LinkPropPredDataset("tgbl-flight", tmp_path)[0]
    assert [np.asarray(x).tolist() for x in g.edges()] == [[0, 1, 2], [1, 2, 0]]
    assert np.asarray(g.edata["t"]).tolist() == [1546300800, 1546387200, 1546473600]
    expected = [("DLH400", "a388"), ("", ""), ("ANZ1", "")]
    assert np.asarray(g.edata["feat"]).tolist() == [characters(a, 8) + characters(b, 8) for a, b in expected]
    feat = np.asarray(g.ndata["feat"])
    assert feat.shape == (3, 2 + 3 + 7 + 2)
    np.testing.assert_allclose(feat[1], [1, 0, 1, 0, 0, *characters("US-NY", 7), -73.7, 40.6], rtol=1e-6)
    np.testing.assert_allclose(feat[2], [0, 1, 0, 0, 1, *characters("NZ-AUK", 7), 174.7, -37.0], rtol=1e-6)


def typed_lines(named=False, count=40):
    rng = np.random.default_rng(1)
    rows = [(t, *rng.integers(0, 7, 2) * 10, rng.integers(0, 3)) for t in range(count)]
    text = (lambda kind: f"P{kind}") if named else str
    return rows, ["timestamp,head,tail,relation_type", *(f"{t},{u},{v},{text(kind)}" for t, u, v, kind in rows)]


def numbered(values):
    order = {}
    return [order.setdefault(x, len(order)) for x in values]


@pytest.mark.parametrize("name", ["tkgl-polecat", "tkgl-yago", "tkgl-smallpedia", "thgl-myket", "thgl-forum"])
def test_typed_links(tmp_path, name):
    rows, lines = typed_lines(name == "tkgl-smallpedia")
    nodes = ["node_id,type", *(f"{10 * i},{i % 2}" for i in range(8))]
    if name == "thgl-forum":
        lines = [lines[0] + ",num_words,score", *(f"{line},{i},{-i}" for i, line in enumerate(lines[1:]))]
    folder = write(tmp_path / name.replace("-", "_"), f"{name}_edgelist.csv", lines, **{f"{name}_nodetype": nodes})
    data = LinkPropPredDataset(name, tmp_path)
    g = data[0]
    ends = numbered([x for _, u, v, _ in rows for x in (u, v)])
    src, dst = (np.asarray(x) for x in g.edges())
    assert src.tolist() == ends[::2] and dst.tolist() == ends[1::2]
    kinds = [kind for *_, kind in rows]
    assert np.asarray(g.edata["type"]).tolist() == (numbered(kinds) if name == "tkgl-smallpedia" else kinds)
    times, masks = np.arange(40), [np.asarray(g.edata[f"{x}_mask"]) for x in ("train", "val", "test")]
    both = np.concatenate([times, times]) if name.startswith("tkgl") else times
    bounds = np.quantile(both, [0.8, 0.9] if name == "tkgl-yago" else [0.7, 0.85])
    assert masks[0].tolist() == (times <= bounds[0]).tolist() and masks[2].tolist() == (times > bounds[1]).tolist()
    if name.startswith("thgl"):
        original = {number: x for x, number in zip([x for _, u, v, _ in rows for x in (u, v)], ends, strict=True)}
        expected = [original[i] // 10 % 2 for i in range(g.num_nodes())]
        assert np.asarray(g.ndata["type"]).tolist() == expected
    if name == "thgl-forum":
        np.testing.assert_allclose(np.asarray(g.edata["feat"])[7], [7e-4, -7e-4], rtol=1e-6)
    types = np.asarray(g.edata["type"])
    pickled = {
        (np.float64(t), u, kind): np.array([(u + t) % 5, t % 4])
        for t, u, kind in zip(times, src.tolist(), types.tolist(), strict=True)
    }
    with open(folder / f"{name}_val_ns.pkl", "wb") as file:
        pickle.dump(pickled, file)
    ask, other = (data.conflicts, data.negatives) if name in ("tkgl-polecat", "tkgl-yago") else (
        data.negatives, data.conflicts)  # fmt: skip
    edges, listed = ask("val")
    assert np.asarray(edges).tolist() == np.flatnonzero(masks[1]).tolist()
    for edge, row in zip(np.asarray(edges).tolist(), listed, strict=True):
        assert np.asarray(row).tolist() == [(src[edge] + edge) % 5, edge % 4]
    with pytest.raises(DGLError, match=name):
        other("val")


def test_wrong_typed_files_are_named(tmp_path):
    _, lines = typed_lines()
    for change, match in (
        (lambda x: x.replace("39,", "nan,", 1), "line 41 of .* has 'nan' in column 1"),
        (lambda x: x.rsplit(",", 1)[0] + ",1.5", r"line 41 of .*myket_edgelist.csv has the type 1\.5"),
        (lambda x: x.rsplit(",", 1)[0] + ",x", "line 41 of .* has 'x' in column 4; expected a number"),
    ):
        write(tmp_path / "thgl_myket", "thgl-myket_edgelist.csv", [*lines[:-1], change(lines[-1])])
        with pytest.raises(DGLError, match=match):
            LinkPropPredDataset("thgl-myket", tmp_path)
    write(tmp_path / "thgl_myket", "thgl-myket_edgelist.csv", lines)
    with pytest.raises(DGLError, match=r"thgl-myket_nodetype\.csv is missing"):
        LinkPropPredDataset("thgl-myket", tmp_path)
    write(tmp_path / "tgbl_flight", "tgbl-flight_edgelist_v2.csv", [*FLIGHTS, "someday,A,B,C,D"])
    with pytest.raises(DGLError, match="neither seconds nor a date"):
        LinkPropPredDataset("tgbl-flight", tmp_path)
