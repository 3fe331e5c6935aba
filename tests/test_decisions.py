"""Decisions have a topic, a date and a status, are in the index, and name what exists."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
CODE = ("dglite/**/*.py", "dglite/**/*.cuh", "dglite/**/*.h", "tests/**/*.py", "benchmarks/*.py", "examples/*.py")
CODE = (*CODE, "docs/*.py", "docs/_ext/*.py", "shim/**/*.py", "Makefile", "setup.cfg", ".ci/*")

FOREIGN = """
    BuiltinDataset CSCFormatBase FakeTensor cuLaunchKernel io_uring kamada_kawai_layout _linear_pointwise MADV_FREE
    OPENBLAS_THREAD_TIMEOUT ogbn_arxiv_dgl sampled_subgraphs
    __array_function__ register_autocast register_autograd spring_layout swap_tensors
    __create_chunk_list__ validate_inputs
""".split()
"""Names of other projects and of the system."""

UNREAL = "ClassicGraph by_count by_rank g_squares g_sum u_add_e_sum u_pow_v".split()
"""Names that a page says do not exist, that formulas bind, or that dglite composes: ``u_add_e`` and ``sum``."""


@cache
def words() -> frozenset[str]:
    """Return all words of the code."""
    paths = [path for pattern in CODE for path in ROOT.glob(pattern) if path != Path(__file__)]
    texts = [f"{path.stem} {path.read_text(encoding='utf-8')}" for path in paths]
    return frozenset(word for text in texts for word in re.findall(r"\w+", text))


@cache
def members() -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of dglite's classes, and of all their methods and attributes."""
    classes, attributes = set(), set()
    for path in (ROOT / "dglite").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                classes.add(node.name)
                for inner in ast.walk(node):
                    if isinstance(inner, ast.FunctionDef):
                        attributes.add(inner.name)
                    elif isinstance(inner, ast.Attribute | ast.Name) and isinstance(inner.ctx, ast.Store):
                        attributes.add(inner.attr if isinstance(inner, ast.Attribute) else inner.id)
    return frozenset(classes), frozenset(attributes)


def quoted(text: str) -> list[str]:
    """Return what is in backquotes, outside of blocks of code."""
    return re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))


def stale(text: str) -> list[str]:
    """Return the names in backquotes that look like dglite's and that nothing has."""
    strangers, (classes, attributes) = [], members()
    for name in quoted(text):
        looks_ours = [w for w in re.findall(r"[A-Za-z_]\w+", name) if "_" in w.strip("_") or re.search("[a-z][A-Z]", w)]
        strangers += [word for word in looks_ours if word not in words() and word not in (*FOREIGN, *UNREAL)]
        if re.fullmatch(r"[\w./-]+\.(py|cuh|h|toml)", name):
            places = [ROOT / name, ROOT / "dglite" / name, ROOT / "docs" / name, *ROOT.glob(f"*/{name}")]
            strangers += [] if any(place.exists() for place in places) or [*ROOT.glob(f"dglite/**/{name}")] else [name]
        match = re.fullmatch(r"([A-Z]\w+)\.([a-z_]\w*)(\(.*\))?", name)
        if match and match[1] in classes and match[2] not in attributes:
            strangers.append(name)
    return strangers


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name[:4])
def test_names_in_backquotes_exist(path: Path) -> None:
    names = stale(path.read_text(encoding="utf-8"))
    assert not names, f"docs/decisions/{path.name} names what does not exist: {names}"


def test_a_stale_name_is_noticed() -> None:
    text = "`Frame.peek`, `frame.py`; `Frame.no_such`, `no_such_file.py`, `NoSuchClass`, `no_such_name`"
    assert stale(text) == ["no_such", "Frame.no_such", "no_such_file", "no_such_file.py", "NoSuchClass", "no_such_name"]


def test_pages_have_topic_date_and_status_and_are_in_the_index() -> None:
    script = ROOT / "docs" / "decisions.py"
    run = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    index = (ROOT / "docs" / "decisions" / "index.md").read_text(encoding="utf-8")
    assert [
        path.name for path in PAGES if len(re.findall(rf"^- \[\d+\]\({path.name}\)", index, re.MULTILINE)) != 1
    ] == []


def test_what_replaces_a_decision_exists() -> None:
    for path in PAGES:
        for other in re.findall(r"^\*.*Replaced by \[\d+\]\((.*?)\)\.\*$", path.read_text("utf-8"), re.MULTILINE):
            assert (path.parent / other).exists(), f"{path.name} is replaced by {other}"
