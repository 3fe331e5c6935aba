"""The files around the code are true: workflows name what exists and run every test, templates and hooks are valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
YAML = [*WORKFLOWS, *(ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"), ROOT / ".pre-commit-config.yaml"]


def _yaml(path: Path) -> dict:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", [*YAML, ROOT / "CITATION.cff"], ids=lambda path: path.name)
def test_files_are_valid_yaml(path: Path) -> None:
    assert isinstance(_yaml(path), dict)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_name_files_and_targets_that_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = re.findall(r"\b((?:tests|examples|benchmarks|docs|\.ci)/[\w./*-]+)", text)
    missing = [name for name in named if not list(ROOT.glob(name))]
    assert not missing, f"{path.name} names what does not exist: {missing}"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"run: make ([\w-]+)", text):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{path.name} runs make {target}"


def test_the_workflow_runs_every_test_once() -> None:
    parts = _yaml(ROOT / ".github" / "workflows" / "test.yml")["jobs"]["test"]["strategy"]["matrix"]["tests"]
    listed = sorted(path for part in parts for name in part.split() for path in ROOT.glob(name))
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if "__pycache__" not in path.parts]
    assert len(listed) == len(set(listed))
    missing = [path for path in files if not any(path == part or part in path.parents for part in listed)]
    assert not missing, f"no part of the matrix in test.yml runs {missing}"


def test_the_workflow_runs_every_supported_python() -> None:
    supported = re.findall(r"Python :: (3\.\d+)", (ROOT / "setup.cfg").read_text(encoding="utf-8"))
    matrix = _yaml(ROOT / ".github" / "workflows" / "test.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == supported


PAGES = ["README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md", ".github/pull_request_template.md"]


@pytest.mark.parametrize("page", PAGES)
def test_links_of_the_pages_at_the_root_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / page).read_text(encoding="utf-8")):
        assert target.startswith("https://") or (ROOT / target).exists(), f"{page} links to {target}"


def test_commands_of_the_guide_name_what_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for name in re.findall(r"\b((?:tests|docs|dglite)/[\w./-]+\w)", text):
        assert (ROOT / name).exists(), f"CONTRIBUTING.md names {name}"
