"""WikiNER: a small file with every oddity of the format, and the real one where it is at hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from dglite.data import WikiNERDataset, wikiner
from dglite.errors import DGLError

LINES = "Kojima|I-PER plays|O\n\na|b|O plays|O Kojima|I-PER plays|O\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "wikiner").mkdir()
    (tmp_path / "wikiner" / "dev.txt").write_text(LINES)
    return tmp_path


@pytest.mark.parametrize("inside", [False, True])
def test_words_and_tags_are_numbered_as_they_occur(folder: Path, inside: bool) -> None:
    data = WikiNERDataset(raw_dir=folder / "wikiner" if inside else folder)
    assert (len(data), data.vocabulary, data.tags) == (2, ["<unknown>", "Kojima", "plays"], ["I-PER", "O"])
    assert [part.tolist() for part in data[0]] == [[1, 2], [0, 1]]
    assert [part.tolist() for part in data[1]] == [[0, 2, 1, 2], [1, 1, 0, 1]]
    assert data.spellings == [["Kojima", "plays"], ["a|b", "plays", "Kojima", "plays"]]
    assert data[0].words.dtype is data[0].tags.dtype is torch.int64
    with pytest.raises(IndexError):
        data[2]


def test_rare_words_may_have_numbers_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = WikiNERDataset(raw_dir=folder, min_count=1, verbose=True)
    assert data.vocabulary == ["<unknown>", "Kojima", "plays", "a|b"]
    assert capsys.readouterr().out == "wikiner: 2 sentences, 4 words, 2 tags\n"


@pytest.mark.parametrize(("text", "message"), [("word\n", "line 1 .* has 'word'"), ("\n", "no sentences")])
def test_other_files_are_refused(folder: Path, text: str, message: str) -> None:
    (folder / "wikiner" / "dev.txt").write_text(text)
    with pytest.raises(DGLError, match=message):
        WikiNERDataset(raw_dir=folder)


def test_without_a_connection_it_says_where_it_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(url: str, folder: str, sha256: str) -> None:
        raise DGLError("no connection")

    monkeypatch.setattr(wikiner, "fetch", refuse)
    with pytest.raises(DGLError, match=r"no connection\. Put the files into one of these folders"):
        WikiNERDataset(raw_dir=tmp_path)


def test_the_published_file() -> None:
    if not (Path(os.environ.get("DGLITE_DATA_DIR", "")) / "wikiner" / "dev.txt").is_file():
        pytest.skip("DGLITE_DATA_DIR names no folder with wikiner/dev.txt")
    data = WikiNERDataset()
    assert len(data) == 1696
    assert sorted(data.tags) == ["I-LOC", "I-MISC", "I-ORG", "I-PER", "O"]
    assert sum(len(sentence.words) for sentence in (data[i] for i in range(len(data)))) == 39007
