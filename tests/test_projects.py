"""``benchmarks/projects.py``: its reading of reports, the failures that it calls dglite's, and no fetching unasked."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
REPORT = """<?xml version="1.0"?><testsuites><testsuite time="90">{}</testsuite></testsuites>"""
CASE = '<testcase classname="tests.a" name="{}">{}</testcase>'
CHILDREN = {"passed": "", "failed": '<failure message="x"/>', "error": '<error message="x"/>', "skipped": "<skipped/>"}


@pytest.fixture
def projects(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("projects")


def write(path: Path, **outcomes: str) -> None:
    cases = [CASE.format(name, CHILDREN[outcome]) for name, outcome in outcomes.items()]
    path.write_text(REPORT.format("".join(cases)), encoding="utf-8")


def test_faults_are_tests_that_pass_with_dgl_only(projects: ModuleType, tmp_path: Path) -> None:
    ours, dgl = tmp_path / "x.dglite.xml", tmp_path / "x.dgl.xml"
    write(dgl, same="passed", worse="passed", error="passed", gone="passed", better="failed", neither="error")
    write(ours, same="passed", worse="failed", error="error", better="passed", neither="failed", new="skipped")
    record = projects.compare({"dglite": projects.outcomes_of(ours), "dgl": projects.outcomes_of(dgl)})
    assert record["faults"] == ["tests.a.worse", "tests.a.error", "tests.a.gone"]
    assert (record["dgl"], record["dglite"]) == ({"passed": 4, "failed": 2}, {"passed": 2, "failed": 3})
    assert projects.seconds_of(ours) == 90


def test_the_table_has_tests_and_steps(projects: ModuleType) -> None:
    tests = {"dgl": {"passed": 9, "failed": 1}, "dglite": {"passed": 8, "failed": 2}, "faults": ["tests.a.b"]}
    about = {
        "repository": "https://x.org/a",
        "revision": "0123456789",
        "note": "all",
        "seconds": {"dgl": 60, "dglite": 30},
    }
    step = {"step": {"dgl": 0.2, "dglite": 0.1}, "value": {"dgl": 2.0, "dglite": 2.002}}
    records = [{"project": "a", **about, **tests}, {"project": "b", **about, **step}]
    first, second = [
        [cell.strip() for cell in line.split("|")] for line in projects.projects_table(records).split("\n")[2:]
    ]
    assert first[1:8] == [
        "[a](https://x.org/a) 0123456",
        "9 pass, 1 fail",
        "8 pass, 2 fail",
        "1",
        "1.0 and 0.5",
        "",
        "",
    ]
    assert second[3:8] == ["", "", "", "200 ms, 2.0 x", "100 ms"]
    assert projects.summary(records).startswith("Of 9 tests that pass with DGL 2.1, 8 pass with dglite.")
    assert "at most 1.0e-03" in projects.summary(records)
    assert projects.share(records) == pytest.approx(8 / 9) and projects.share([]) == 1


def test_recipes_are_complete(projects: ModuleType) -> None:
    names = [recipe.name for recipe in projects.RECIPES]
    assert len(set(names)) == len(names) >= 10
    for recipe in projects.RECIPES:
        assert recipe.tests or recipe.step, recipe.name
        assert recipe.repository.startswith("https://") and recipe.revision and recipe.needs and recipe.note, (
            recipe.name
        )
        compile(recipe.step, recipe.name, "exec")
        compile(recipe.first, recipe.name, "exec")
    steps = {path.stem.replace("_", "-") for path in (ROOT / "benchmarks" / "project_steps").iterdir()}
    assert steps == {recipe.name for recipe in projects.RECIPES if recipe.step}


def test_a_project_has_modules_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text("import dgl\nprint('its own, with', dgl.graph.__module__)")
    command = [sys.executable, str(ROOT / "benchmarks" / "project_run.py"), "dglite", "layers"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "its own, with dglite.convert.edges\n", done.stderr


def test_nothing_is_fetched_unasked(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "projects.py"), "--sources", str(tmp_path), "matgl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "matgl: no checkout" in done.stderr and not list(tmp_path.iterdir())
