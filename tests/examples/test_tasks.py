"""Examples of a task each learn what small made-up data has to teach, and say so when they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

import dglite
from examples import correct_and_smooth, graph_classification, knowledge_graph, link_prediction, unsupervised
from tests.examples.conftest import Run
from tests.examples.test_minibatch import Planted


def test_rings_are_told_from_stars(run: Run, tmp_path: Path) -> None:
    lines = ["40"]
    for i in range(40):
        count = 4 + i % 5
        lines.append(f"{count} {i % 2}")
        for node in range(count):
            ring = [(node - 1) % count, (node + 1) % count]
            neighbours = ring if i % 2 else list(range(1, count)) if node == 0 else [0]
            lines.append(" ".join(map(str, [0, len(neighbours), *neighbours])))
    (tmp_path / "MUTAG.txt").write_text("\n".join(lines) + "\n")
    options = ["--raw-dir", tmp_path, "--epochs", 15, "--hidden", 8, "--folds", 2]
    assert "of 2 folds" in run(graph_classification, *options, "--expect", 0.85)
    with pytest.raises(SystemExit, match=r"expected a .* of at least"):
        run(graph_classification, *options, "--expect", 1.01)


def test_hidden_citations_are_found(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_prediction, "CoraGraphDataset", Planted)
    options = ["--epochs", 10, "--hidden", 16, "--batch-size", 128]
    assert "hits@100" in run(link_prediction, *options, "--expect", 0.6)
    with pytest.raises(SystemExit, match=r"expected a .* of at least"):
        run(link_prediction, *options, "--expect", 1.01)


def test_the_city_of_a_team_is_that_of_its_members(run: Run, tmp_path: Path) -> None:
    teams = [f"{i}\tmember of\tteam {i % 5}\n" for i in range(60)]
    cities = [f"{i}\tlives in\tcity {i % 5}\n" for i in range(60)]
    (tmp_path / "train.txt").write_text("".join(teams + cities[10:]))
    (tmp_path / "valid.txt").write_text("")
    (tmp_path / "test.txt").write_text("".join(cities[:10]))
    options = [
        "--dataset",
        "cities",
        "--raw-dir",
        tmp_path,
        "--epochs",
        60,
        "--batch-size",
        16,
        "--learning-rate",
        0.02,
    ]
    assert "hits@10" in run(knowledge_graph, *options, "--width", 8, "--expect", 0.8)
    with pytest.raises(SystemExit, match=r"expected a .* of at least"):
        run(knowledge_graph, *options, "--expect", 1.01)


def test_labels_correct_words(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correct_and_smooth, "CoraGraphDataset", Planted)
    printed = run(correct_and_smooth, "--epochs", 30, "--steps", 10, "--seeds", 1, "--expect", 0.85)
    words, both = [float(word.rstrip(",")) for word in printed.split() if word.startswith(("0.", "1."))][-2:]
    assert both > words
    with pytest.raises(SystemExit, match=r"expected a .* of at least"):
        run(correct_and_smooth, "--epochs", 1, "--seeds", 1, "--expect", 1.01)


class Tied(Planted):
    """The same with a loop at each node, so that no walk ends."""

    def __getitem__(self, item: int) -> dglite.DGLGraph:
        return dglite.add_self_loop(super().__getitem__(item))


@pytest.mark.parametrize("method", ["deepwalk", "infomax"])
def test_what_was_learned_without_labels_tells_them(method: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsupervised, "CoraGraphDataset", Tied)
    options = ["--methods", method, "--width", 16, "--epochs", 60]
    assert method in run(unsupervised, *options, "--expect", 0.85)
    with pytest.raises(SystemExit, match=r"expected a .* of at least"):
        run(unsupervised, *options[:2], "--epochs", 1, "--expect", 1.01)


def test_papers_are_drawn(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(unsupervised, "CoraGraphDataset", Tied)
    picture = tmp_path / "papers.png"
    run(unsupervised, "--width", 8, "--epochs", 1, "--picture", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
