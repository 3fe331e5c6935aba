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
    with pytest.raises(DGLError, match="'tgbl-flight' is not one of"):
        LinkPropPredDataset("tgbl-flight", tmp_path)
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
