"""Examples on graphs that they make themselves beat their baselines when these are small, too."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from examples import compiled, heterogeneous, large_graph, molecules, numpy_inference, recommend, temporal, user_defined
from tests.examples.conftest import Run
from tests.examples.test_minibatch import Planted
from tests.versions import compiles_whole, has_torch


def _numbers(printed: str) -> list[float]:
    """Return what is printed with three decimals."""
    return [float(number) for number in re.findall(r"\d\.\d{3}\b", printed)]


@pytest.mark.parametrize("model", ["rgcn", "han", "hgt"])
def test_authors_and_venues_tell_more_than_words(model: str, run: Run) -> None:
    options = ["--papers", 400, "--hidden", 16, "--epochs", 30]
    words, result = _numbers(run(heterogeneous, "--models", "words", model, *options, "--expect", 0.6))
    assert result > words + 0.1


def test_what_others_took_is_better_than_what_is_popular(run: Run) -> None:
    options = ["--users", 400, "--items", 200, "--taken", 10, "--size", 16, "--batch-size", 100]
    popular, result = _numbers(run(recommend, *options, "--epochs", 8, "--expect", 0.2))
    assert result > 1.5 * popular


def test_ages_help_to_predict_clicks(run: Run) -> None:
    without, result = _numbers(run(temporal, "--users", 20, "--items", 50, "--clicks", 3000, "--epochs", 10))
    assert result > 1.3 * without


@pytest.mark.parametrize("model", ["egnn", "transformer"])
def test_energies_depend_on_distances(model: str, run: Run) -> None:
    options = ["--models", model, "--molecules", 320, "--hidden", 16, "--epochs", 20, "--expect", 0.5]
    assert len(_numbers(run(molecules, *options))) == 2


def test_own_functions_have_the_gradients_of_built_ins(run: Run) -> None:
    printed = run(user_defined, "--nodes", 50, "--edges", 300, "--width", 4, "--repeat", 1)
    assert "f1 is total, recorded" in printed
    assert "f1 is median, executed as written" in printed


@pytest.mark.skipif(has_torch("2.8"), reason="needs an older torch")
def test_an_older_torch_is_named_by_the_compiled_step(run: Run) -> None:
    with pytest.raises(SystemExit, match=r"needs torch 2\.8 or newer"):
        run(compiled)


@compiles_whole
def test_a_compiled_step_has_the_same_losses(run: Run) -> None:
    printed = run(compiled, "--nodes", 100, "--edges", 500, "--hidden", 8, "--steps", 3, "--compiler", "aot_eager")
    assert "losses differ by at most" in printed


def test_a_graph_on_disk_is_trained_on_twice(run: Run, tmp_path: Path) -> None:
    options = ["--nodes", 3000, "--edges", 30_000, "--labelled", 2000, "--epochs", 25, "--hidden", 32]
    alone, result = _numbers(run(large_graph, *options, "--folder", tmp_path, "--expect", 0.5))
    assert result > alone + 0.1
    written = (tmp_path / "features.npy").stat().st_mtime_ns
    run(large_graph, *options, "--epochs", 1, "--folder", tmp_path)
    assert (tmp_path / "features.npy").stat().st_mtime_ns == written


def test_numpy_gives_the_logits_of_torch(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_inference, "CoraGraphDataset", Planted)
    printed = run(numpy_inference, "--epochs", 60, "--expect", 0.8)
    assert "numpy backend, no torch" in printed


@pytest.mark.parametrize(
    ("example", "options"),
    [
        (heterogeneous, ["--models", "rgcn", "--papers", 100, "--epochs", 1]),
        (recommend, ["--users", 50, "--items", 40, "--batch-size", 20, "--epochs", 1]),
        (temporal, ["--users", 5, "--items", 20, "--clicks", 200, "--epochs", 1]),
        (molecules, ["--models", "egnn", "--molecules", 80, "--epochs", 1]),
        (user_defined, ["--nodes", 50, "--edges", 300, "--width", 4, "--repeat", 1]),
    ],
)
def test_results_are_drawn_and_missed_expectations_fail(
    example: ModuleType, options: list[object], run: Run, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "result.png"
    run(example, *options, "--picture", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    if example is not user_defined:
        with pytest.raises(SystemExit, match=r"expected a .* of at"):
            run(example, *options, "--expect", 0.0 if example is molecules else 1.01)
