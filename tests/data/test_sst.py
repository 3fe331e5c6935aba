"""The sentiment treebank, read from files made here."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dglite import DGLError
from dglite.data import SSTDataset

TRAIN = "(3 (2 It) (4 (2 really) (3 works)))\n\n(2 works)\n"


def folder_of(tmp_path: Path, **parts: str) -> Path:
    for name, text in parts.items():
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    return tmp_path


def test_a_tree(tmp_path: Path) -> None:
    data = SSTDataset(raw_dir=folder_of(tmp_path, train=TRAIN))
    assert (len(data), data.vocab, data.vocab_size, data.num_classes) == (2, {"It": 0, "really": 1, "works": 2}, 3, 5)
    g = data[0]
    assert [end.tolist() for end in g.edges()] == [[1, 2, 3, 4], [0, 0, 2, 2]]
    assert {name: x.tolist() for name, x in g.ndata.items()} == {
        "x": [-1, 0, -1, 1, 2],
        "y": [3, 2, 4, 2, 3],
        "mask": [0, 1, 0, 1, 1],
    }
    assert g.ndata["x"].dtype == torch.int64
    assert (data[-1].num_nodes(), data[1].num_edges()) == (1, 0)
    with pytest.raises(IndexError):
        data[2]


def test_children_come_from_left_to_right(tmp_path: Path) -> None:
    data = SSTDataset(raw_dir=folder_of(tmp_path, train="(2 (2 (2 a) (2 b)) (2 (2 c) (2 d)))"))
    g = data[0]
    for parent in (0, 1, 4):
        children = g.in_edges(parent)[0].tolist()
        assert children == sorted(children)
        assert len(children) == 2


def test_other_parts_share_the_words_of_the_training_part(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, train=TRAIN, dev="(1 (2 It) (1 broke))")
    assert SSTDataset("dev", raw_dir=folder)[0].ndata["x"].tolist() == [-1, 0, SSTDataset.UNK_WORD]
    own = SSTDataset("dev", raw_dir=folder, vocab={"broke": 5}, transform=lambda g: g.ndata["x"].tolist())
    assert own[0] == [-1, -1, 5]


def test_the_subfolder_is_looked_in_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sst").mkdir()
    folder_of(tmp_path / "sst", train=TRAIN)
    assert len(SSTDataset(raw_dir=tmp_path, verbose=True)) == 2
    assert "2 trees of 6 nodes, 3 words" in capsys.readouterr().out


def test_a_tiny_part(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, train=TRAIN * 100)
    assert [len(SSTDataset("tiny", raw_dir=folder)), len(SSTDataset(raw_dir=folder))] == [100, 200]
    tiny = SSTDataset("tiny", raw_dir=folder_of(tmp_path, tiny="(1 (2 it) (1 works))"))
    assert len(tiny) == 1 and tiny[0].ndata["x"].tolist() == [-1, -1, 2]


def test_a_vocabulary_and_word_vectors_from_files(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, train=TRAIN, words="works\nit\nworks\n", vectors="It 1 2.5\nWORKS 3 4\nit is 5 6\n")
    files = {"vocab_file": folder / "words.txt", "raw_dir": folder}
    data = SSTDataset("train", str(folder / "vectors.txt"), **files)  # type: ignore[arg-type]
    assert data.vocab == {"works": 0, "it": 1} and data[0].ndata["x"].tolist() == [-1, 1, -1, -1, 0]
    assert torch.equal(data.pretrained_emb, torch.tensor([[3, 4], [1, 2.5]], dtype=torch.float64))
    assert SSTDataset(**files).pretrained_emb is None  # type: ignore[arg-type]
    partly = SSTDataset(glove_embed_file=folder / "vectors.txt", raw_dir=folder).pretrained_emb
    assert partly is not None and partly.shape == (3, 2) and partly[1].abs().max() <= 0.05
    (folder / "vectors.txt").write_text("it 1 2\nworks 3\n")
    with pytest.raises(DGLError, match=r"line 2 of .* is not a word and 2 numbers"):
        SSTDataset(glove_embed_file=folder / "vectors.txt", raw_dir=folder)


def test_a_very_deep_tree(tmp_path: Path) -> None:
    depth = 5000
    text = "".join("(2 (2 a) " for _ in range(depth)) + "(2 b)" + ")" * depth
    assert SSTDataset(raw_dir=folder_of(tmp_path, train=text))[0].num_nodes() == 2 * depth + 1


@pytest.mark.parametrize("line", ["(2 a", "(2 a))", "2 a", "(2 a) (2 b)", "a (2 b)"])
def test_lines_that_are_no_trees(tmp_path: Path, line: str) -> None:
    with pytest.raises(DGLError, match="line 2 is not one tree"):
        SSTDataset(raw_dir=folder_of(tmp_path, train=f"(2 fine)\n{line}\n"))


def test_missing_files_and_unknown_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DGLError, match="expected one of train, dev, test, tiny"):
        SSTDataset("valid", raw_dir=tmp_path)

    def no_connection(*args: object) -> None:
        raise DGLError("no connection")

    monkeypatch.setattr("dglite.data.sst.fetch", no_connection)
    with pytest.raises(DGLError, match=r"looked for in .*no connection.*raw_dir"):
        SSTDataset(raw_dir=tmp_path)
