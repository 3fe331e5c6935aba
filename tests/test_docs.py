"""What the documentation shows runs, and its numbers are the measured ones."""

from __future__ import annotations

import ast
import contextlib
import io
import re
from pathlib import Path

import pytest
import torch

from tests import forked
from tests.versions import exports

ROOT = Path(__file__).parents[1]


def _blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    return [block for name, block in blocks if name == language]


PAGES = ["README.md"] + [
    f"docs/{page}.md"
    for page in (
        "index first_graph heterogeneous machines message_passing coming_from graphs sampling dataloading large_graphs "
        "memory compile serving file_format sparse_matrices backends dynamic dynamic_lazy dynamic_persistent tofu "
        "tofu_describe inspect"
    ).split()
]


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=exports) if page == "docs/serving.md" else page for page in PAGES]
)
def test_the_code_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict[str, object] = {}
    printed = io.StringIO()
    blocks = _blocks(page, "python")
    assert blocks
    try:
        with contextlib.redirect_stdout(printed):
            for block in blocks:
                exec(compile(block, page, "exec", dont_inherit=True), names)
    finally:
        if torch.distributed.is_initialized():  # by a page, for what follows on it
            torch.distributed.destroy_process_group()
    if page == "README.md":
        assert printed.getvalue().rstrip() in "\n".join(_blocks(page, ""))


@pytest.mark.parametrize(
    "page", ["docs/first_graph.md", "docs/heterogeneous.md", "docs/message_passing.md", "docs/graphs.md"]
)
def test_comments_that_show_output_are_true(page: str) -> None:
    names: dict[str, object] = {}
    shown = 0
    for block in _blocks(page, "python"):
        for statement in ast.parse(block).body:
            code = ast.unparse(statement)
            comment = block.splitlines()[statement.end_lineno - 1].partition("  # ")[2]
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(code, names)
            if code.startswith("print(") and comment:
                assert printed.getvalue().rstrip() == comment
                shown += 1
    assert shown


def test_the_tables_are_the_measured_ones() -> None:
    report = ROOT / "benchmarks" / "report.py"
    result = forked.run(forked.script, str(report), "--check")
    assert result.returncode == 0, result.stderr


def test_what_layers_take_is_what_the_tests_call_them_with() -> None:
    script = ROOT / "docs" / "layer_table.py"
    done = forked.run(forked.script, str(script), "--check")
    assert done.returncode == 0, done.stderr


def test_links_lead_somewhere() -> None:
    written = ROOT / "docs" / "examples"  # by the build of the site
    for page in [ROOT / "README.md", *(page for page in ROOT.glob("docs/**/*.md") if page.parent != written)]:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
            assert target.startswith("https://") or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_decisions_named_in_code_exist() -> None:
    for path in [*ROOT.glob("dglite/**/*.py"), *ROOT.glob("benchmarks/*.py"), *ROOT.glob("docs/*.py")]:
        for named in re.findall(r"docs/decisions/(\d{4}[\w-]*)", path.read_text(encoding="utf-8")):
            assert list((ROOT / "docs" / "decisions").glob(f"{named}*.md")), f"{path.name} names decision {named}"


def test_a_decision_has_its_number_and_a_title() -> None:
    for page in (ROOT / "docs" / "decisions").glob("0*.md"):
        first = page.read_text(encoding="utf-8").partition("\n")[0]
        assert re.fullmatch(rf"# {int(page.name[:4])}\. \S.*", first), f"{page.name} begins with {first!r}"
