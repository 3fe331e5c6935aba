"""Options of all examples are explained, with their defaults, and have the same names for the same things."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

import pytest

EXAMPLES = sorted(path.stem for path in (Path(__file__).parents[2] / "examples").glob("*.py"))
ANOTHER_NAME = {"--lr": "--learning-rate", "--plot": "--picture", "--output": "--picture", "--data": "--raw-dir"}

NEEDS = {"ray_train": "ray", "lightning_sage": "lightning"}
"""Packages that an example needs, by its name."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_option_says_what_it_is_and_its_default(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    parsers: list[argparse.ArgumentParser] = []

    def stop(parser: argparse.ArgumentParser, *arguments: object) -> None:
        parsers.append(parser)
        raise SystemExit

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    example = importlib.import_module(f"examples.{name}")
    with pytest.raises(SystemExit):
        example.main()
    for action in parsers[0]._actions:
        option = action.option_strings[-1]
        assert action.help, f"{option} has no help"
        assert option not in ANOTHER_NAME, f"{option} is called {ANOTHER_NAME.get(option)} in other examples"
        if action.default not in (None, False, argparse.SUPPRESS):
            assert "default: " in action.help, f"the help of {option} does not say its default"
    assert parsers[0].format_help()
