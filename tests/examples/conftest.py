"""Examples run in this process, on small made-up data and on one thread; what they print is read."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Return a function that runs an example's ``main`` with arguments and returns what it prints."""

    def run(example: ModuleType, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [example.__name__, *map(str, arguments)])
        example.main()
        return capsys.readouterr().out

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield run
    torch.set_num_threads(threads)


@pytest.fixture
def treebank(tmp_path: Path) -> Path:
    """Return a folder with sentences whose sentiment is that of their one good or bad word; they branch to the left."""
    generator = random.Random(0)
    lines = []
    for _ in range(100):
        words = generator.choices(["a", "film", "with", "music"], k=generator.randrange(1, 5))
        mood = generator.choice(["bad", "good"])
        words.insert(generator.randrange(len(words) + 1), mood)
        tree, label = None, 2
        for word in words:
            own = {"bad": 0, "good": 4}.get(word, 2)
            label = own if own != 2 else label
            leaf = f"({own} {word})"
            tree = leaf if tree is None else f"({label} {tree} {leaf})"
        lines.append(f"{tree}\n")
    (tmp_path / "train.txt").write_text("".join(lines))
    return tmp_path


@pytest.fixture
def tagged(tmp_path: Path) -> Path:
    """Return a folder with sentences in which words that begin with N are names; each name occurs once."""
    generator = random.Random(0)
    lines = []
    for i in range(100):
        words = generator.choices(["the", "river", "runs", "through"], k=generator.randrange(1, 5))
        tokens = [f"{word}|O" for word in words]
        tokens.insert(generator.randrange(len(tokens) + 1), f"N{i}|I-PER")
        lines.append(f"{' '.join(tokens)}\n")
    (tmp_path / "dev.txt").write_text("".join(lines))
    return tmp_path
