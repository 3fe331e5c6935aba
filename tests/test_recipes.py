"""Each recipe runs as it is written and prints what it says, and becomes a notebook with the same code."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

DOCS = Path(__file__).parents[1] / "docs"
RECIPES = sorted(page for page in (DOCS / "recipes").glob("*.md") if page.stem != "index")
OPTIONAL = {"fastapi", "httpx", "lightning", "matplotlib", "networkx", "pandas", "pyarrow", "rdkit", "torch_geometric"}
"""Packages without which the rest of a recipe is skipped."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def _code(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def _missing(block: str) -> set[str]:
    imports = [node for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in imports if isinstance(node, ast.ImportFrom) and node.module}
    packages = {name.partition(".")[0] for name in names} & OPTIONAL
    return {package for package in packages if importlib.util.find_spec(package) is None}


def assert_same(printed: str, comment: str) -> None:
    """Check words exactly and numbers nearly; of a line that says "about", as of times, the words only."""
    about = comment.startswith("about ")
    comment = comment.removeprefix("about ")
    assert _NUMBER.sub("0", printed) == _NUMBER.sub("0", comment)
    if not about:
        for number, expected in zip(_NUMBER.findall(printed), _NUMBER.findall(comment), strict=True):
            whole = expected.isdigit() and "%" not in comment
            assert float(number) == pytest.approx(float(expected), rel=0 if whole else 0.05, abs=0 if whole else 0.05)


@pytest.mark.parametrize("page", RECIPES, ids=lambda page: page.stem)
def test_a_recipe_prints_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names: dict[str, object] = {"__name__": "recipe"}
    monkeypatch.setitem(sys.modules, "recipe", ModuleType("recipe"))  # where classes look up their annotations
    shown = 0
    generator = torch.get_rng_state()
    try:
        for block in _code(page):
            if missing := _missing(block):
                pytest.skip(f"the rest of the recipe needs {', '.join(sorted(missing))}")
            for statement in ast.parse(block).body:
                comment = block.splitlines()[(statement.end_lineno or 1) - 1].partition("  # ")[2]
                with contextlib.redirect_stdout(io.StringIO()) as printed:
                    exec(compile(ast.Module([statement], []), str(page), "exec"), names)
                if ast.unparse(statement).startswith("print(") and comment:
                    assert_same(printed.getvalue().rstrip(), comment)
                    shown += 1
    finally:
        torch.set_rng_state(generator)
    assert shown


@pytest.mark.parametrize("page", RECIPES, ids=lambda page: page.stem)
def test_a_recipe_begins_with_its_result_and_ends_with_what_is_next(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ .*", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    assert text.split("\n\n")[1].startswith("**Result:**")
    assert headings[0].startswith("# ") and headings[-1] == "## Next"


_INSTALLED_BY = {
    "fastapi": "fastapi",
    "httpx": "httpx",
    "lightning": "dglite[lightning]",
    "matplotlib": "draw",
    "pandas": "pandas",
    "pyarrow": "tables",
    "rdkit": "molecules",
    "torch_geometric": "torch_geometric",
}
"""By a package that a recipe imports: what it installs it by."""


@pytest.mark.parametrize("page", RECIPES, ids=lambda page: page.stem)
def test_a_recipe_says_what_it_needs(page: Path) -> None:
    text = page.read_text()
    (command,) = re.findall(r"It needs `pip install ([^`]+)`", text)
    imported = set(re.findall(r"^(?:from|import) (\w+)", text, re.M))
    assert [name for package, name in _INSTALLED_BY.items() if package in imported and name not in command] == []


def test_the_contents_name_every_recipe() -> None:
    contents = (DOCS / "recipes" / "index.md").read_text(encoding="utf-8")
    assert {page.name for page in RECIPES} == set(re.findall(r"\]\((\w+\.md)\)", contents))


@pytest.mark.parametrize("page", RECIPES, ids=lambda page: page.stem)
def test_a_notebook_has_the_code_of_its_recipe(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sphinx = {name: ModuleType(name) for name in ("sphinx", "sphinx.application")}
    sphinx["sphinx.application"].Sphinx = object  # type: ignore[attr-defined]
    for name, module in sphinx.items():
        monkeypatch.setitem(sys.modules, name, module)
    spec = importlib.util.spec_from_file_location("notebooks", DOCS / "_ext" / "notebooks.py")
    assert spec and spec.loader
    notebooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(notebooks)
    written = json.loads(json.dumps(notebooks.notebook(page.read_text(encoding="utf-8"))))
    code = ["".join(cell["source"]) + "\n" for cell in written["cells"] if cell["cell_type"] == "code"]
    assert code == _code(page)
    assert written["nbformat"] == 4 and len({cell["id"] for cell in written["cells"]}) == len(written["cells"])
    text = "".join("".join(cell["source"]) for cell in written["cells"] if cell["cell_type"] == "markdown")
    assert text.startswith("# ") and "```python" not in text
    assert not re.search(r"\]\((?!https:)[^)]*\)", text), "links lead to the site"
