"""The examples over sentences learn what there is to learn."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from examples import bilstm_tagger, language_model
from tests.examples.conftest import Run


@pytest.mark.parametrize("write", ["cells", "operations"])
def test_names_by_their_place(write: str, tagged: Path, run: Run) -> None:
    size = ("--width", 8, "--hidden", 8, "--epochs", 4, "--batch-size", 8, "--learning-rate", 0.03)
    run(bilstm_tagger, "--write", write, *size, "--raw-dir", tagged, "--expect", 0.99)


def test_names_by_their_first_letter(tagged: Path, run: Run) -> None:
    lines = (tagged / "dev.txt").read_text().replace("the|O", "the|O x|O").splitlines()
    other = [line.replace("runs|O", f"R{i}|O") for i, line in enumerate(lines)]  # rare words that are no names
    (tagged / "dev.txt").write_text("\n".join(other))
    size = ("--width", 8, "--hidden", 8, "--epochs", 6, "--batch-size", 8, "--learning-rate", 0.03)
    run(bilstm_tagger, "--chars", *size, "--raw-dir", tagged, "--expect", 0.99)


def test_rare_words_are_spelled(tagged: Path) -> None:
    samples, data, num_characters = bilstm_tagger.load(str(tagged), True, 3)
    assert [len(sample.rare) for sample in samples] == [1, 1, 1]
    characters = sorted({c for words in data.spellings for word in words for c in word})
    assert num_characters == len(characters)
    assert ["".join(characters[c] for c in sample.rare[0]) for sample in samples] == ["N0", "N1", "N2"]
    without, _, _ = bilstm_tagger.load(str(tagged), False, None)
    assert len(without) == 100 and not any(sample.rare for sample in without)


@pytest.mark.parametrize("fixed", [(), ("--fixed", 6)])
def test_next_words(fixed: tuple[object, ...], tmp_path: Path, run: Run) -> None:
    (tmp_path / "dev.txt").write_text("one|O two|O three|O\nthree|O two|O one|O four|O\n" * 30)
    size = ("--width", 16, "--hidden", 16, "--epochs", 6, "--batch-size", 4, "--learning-rate", 0.03, "--dropout", 0)
    printed = run(language_model, *fixed, *size, "--raw-dir", tmp_path, "--expect", 2.5)
    assert "by frequency alone" in printed


def test_chains() -> None:
    graph = language_model.graph_of(torch.tensor([3, 1, 2]))
    assert [end.tolist() for end in graph.edges()] == [[0, 1, 4], [1, 2, 5]] and graph.num_nodes() == 6
    sentences = [torch.tensor([1, 2]), torch.tensor([3])]
    assert [x.tolist() for x in language_model.chains_of(sentences, 9, None)] == [[9, 1, 2, 9], [9, 3, 9]]
    assert [x.tolist() for x in language_model.chains_of(sentences, 9, 2)] == [[9, 1, 2], [2, 9, 3]]
