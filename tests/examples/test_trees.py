"""The examples over trees learn what there is to learn."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

import dglite
from examples import parser, tree_fc, tree_lstm
from tests.examples.conftest import Run

CELLS = [("binary",), ("child-sum",), ("recursive",), ("recursive", "--time-delay"), ("binary", "--time-delay")]


@pytest.mark.parametrize("cell", CELLS, ids=" ".join)
def test_sentiments_of_phrases(cell: tuple[str, ...], treebank: Path, run: Run) -> None:
    size = ("--hidden", 16, "--epochs", 12, "--batch-size", 8, "--learning-rate", 0.02, "--dropout", 0)
    printed = run(tree_lstm, "--cell", *cell, *size, "--raw-dir", treebank, "--expect", 0.99)
    assert f"{cell[0]}, averaged: test accuracy 1.000 (roots)" in printed


def test_a_sentence_is_drawn(treebank: Path, run: Run) -> None:
    pytest.importorskip("matplotlib")
    picture = treebank / "sentence.png"
    run(tree_lstm, "--hidden", 4, "--epochs", 1, "--raw-dir", treebank, "--picture", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_time_delay_reads_neighbours_in_the_sentence_only() -> None:
    delay = tree_lstm.TimeDelay(2)
    words, results = torch.randn(5, 2), []
    for part in (slice(0, 3), slice(3, 5)):
        padded = torch.cat([torch.zeros(1, 2), words[part], torch.zeros(1, 2)])
        results += [torch.tanh(delay.V(padded[i : i + 3].flatten())) for i in range(len(padded) - 2)]
    torch.testing.assert_close(delay(words, torch.tensor([0, 0, 0, 1, 1])), torch.stack(results))


def test_expressions(run: Run) -> None:
    printed = run(tree_fc, "--leaves", 4, "--hidden", 32, "--trees", 12800, "--learning-rate", 0.01, "--expect", 0.9)
    assert "test accuracy" in printed
    with pytest.raises(SystemExit):
        run(tree_fc, "--leaves", 6)


def test_values_of_expressions() -> None:
    trees = tree_fc.Trees(3, 4)
    digits, values = trees.draw()
    assert trees.graph.num_nodes() == len(values) == 21 and trees.leaves.tolist() == list(range(9, 21))
    for node in range(21):
        below = trees.graph.predecessors(node).tolist()
        expected = (2 * values[below[0]] + values[below[1]]) % 5 if below else digits[node - 9]
        assert values[node] == expected


def test_phrases_of_sentences(treebank: Path, run: Run) -> None:
    size = ("--width", 8, "--hidden", 8, "--epochs", 4, "--batch-size", 8, "--learning-rate", 0.02)
    printed = run(parser, *size, "--raw-dir", treebank, "--expect", 0.99)
    assert "phrases found 1.000" in printed


def test_actions_build_the_tree_that_they_were_read_from() -> None:
    tree = dglite.graph(([1, 4, 2, 3], [0, 0, 1, 1]))  # ((2 3) 4), in preorder
    tree.ndata["x"] = torch.tensor([-1, -1, 7, 8, 9])
    words, actions = parser.sentence_of(tree)
    assert words == [7, 8, 9] and actions == [parser.SHIFT, parser.SHIFT, parser.REDUCE, parser.SHIFT, parser.REDUCE]
    assert parser.phrases(actions) == {(0, 2), (0, 3)}


def test_parsing_takes_actions_that_can_be_taken() -> None:
    generator = random.Random(0)
    sentences = [parser.Sentence([generator.randrange(9) for _ in range(n)], []) for n in (1, 2, 7, 4)]
    for sentence, actions in zip(sentences, parser.parse(parser.Parser(9, 4, 4), sentences), strict=True):
        n = len(sentence.words)
        assert len(actions) == 2 * n - 1 and len(parser.phrases(actions)) == n - 1
