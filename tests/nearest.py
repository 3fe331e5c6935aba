"""Run the tests that are nearest to a change, nearest first, until two minutes are over: ``make test-fast``.

    python -m tests.nearest [--base main] [--minutes 2] [--list]

What changed is what git sees since ``--base``, committed or not. Near to a changed module are, in this order: the test
files that changed; those that import the module or are named like it in the folder that mirrors its package; those that
mention what it defines, rare names first; then the same for the modules that import it. What was not reached is said.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
IMPORTED, MENTIONED, AROUND = 1.0, 0.5, 0.1
"""Weights of the relations of a test file to a change; what was changed itself has an infinite one."""
MOST_FILES = 40
"""Files that are collected: collecting all takes most of the two minutes."""


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def module_name(path: Path) -> str:
    """Return the dotted name of a file below the root."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(path: Path) -> frozenset[str]:
    """Return the dotted names of the modules that a file imports, and of the names taken out of them."""
    names: set[str] = set()
    package = module_name(path).split(".") + ["_"] * (path.name == "__init__.py")
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*(package[: -node.level] if node.level else ()), *filter(None, [node.module])])
            names.update([base, *(f"{base}.{alias.name}" for alias in node.names)])
    return frozenset(names)


@cache
def mentions(path: Path) -> frozenset[str]:
    """Return the words in a file."""
    return frozenset(re.findall(r"[A-Za-z_]\w+", path.read_text(encoding="utf-8")))


def is_imported(name: str, path: Path) -> bool:
    """Return whether a file imports a module; files without its last name are not parsed."""
    return name.rpartition(".")[2] in mentions(path) and name in imports(path)


def definitions(path: Path) -> set[str]:
    """Return the functions, classes and methods that a module defines, without private ones."""
    kinds = ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef
    return {node.name for node in ast.walk(tree(path)) if isinstance(node, kinds) and not node.name.startswith("_")}


def changed(base: str) -> list[Path]:
    """Return the Python files that differ from the place where this branch left ``base``, and those not yet in git."""

    def git(*words: str) -> list[str]:
        run = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        if run.returncode:
            raise SystemExit(f"git {' '.join(words)}: {run.stderr.strip()}")
        return run.stdout.split()

    (fork,) = git("merge-base", base, "HEAD")
    names = [*git("diff", "--name-only", fork), *git("ls-files", "--others", "--exclude-standard")]
    return [ROOT / name for name in names if name.endswith(".py") and (ROOT / name).exists()]


def ranked(changes: Iterable[Path]) -> list[Path]:
    """Return the test files that have to do with changed files, nearest first."""
    sources, helpers = list((ROOT / "dglite").rglob("*.py")), list((ROOT / "tests").rglob("*.py"))
    spread = Counter(name for path in helpers for name in mentions(path))
    near: defaultdict[Path, float] = defaultdict(float)

    def add(module: Path, weight: float) -> None:
        name, names = module_name(module), definitions(module)
        folder = module_name(module.parent).replace("dglite", "tests", 1)
        for path in helpers:
            imported = is_imported(name, path) or (module.stem in path.stem and module_name(path).startswith(folder))
            rare = sum(1 / spread[word] for word in names & mentions(path))
            near[path] += weight * (IMPORTED * imported + MENTIONED * min(rare, 1))

    for path in changes:
        if path in helpers:
            near[path] = float("inf")
        elif path in sources:
            add(path, 1)
            for other in sources:
                if is_imported(module_name(path), other):
                    add(other, AROUND)
    waiting = [path for path in near if not path.name.startswith("test_")]
    while waiting:  # a table of cases counts for the tests that read it
        helper = waiting.pop()
        for path in helpers:
            if near[path] < near[helper] and is_imported(module_name(helper), path):
                near[path] = near[helper]
                waiting += [] if path.name.startswith("test_") else [path]
    tests = [path for path, weight in near.items() if weight and path.name.startswith("test_")]
    return sorted(tests, key=lambda path: -near[path])


class Limit:
    """Stops the tests when their time is over."""

    def __init__(self, minutes: float) -> None:
        self._minutes, self._end, self._left = minutes, time.monotonic() + 60 * minutes, 0
        self.over = False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._left = len(session.items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        self._left -= 1
        if time.monotonic() > self._end and self._left:
            item.session.shouldstop = f"{self._minutes:g} minutes are over; {self._left} further tests were not run"

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.over = bool(session.shouldstop) and not session.testsfailed


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--base", default="main", help="what the change is a change of (default: main)")
    parser.add_argument("--minutes", type=float, default=2.0, help="when to stop (default: 2)")
    parser.add_argument("--list", action="store_true", help="print the test files and run none")
    options, rest = parser.parse_known_args()
    files = [str(path.relative_to(ROOT)) for path in ranked(changed(options.base))]
    if options.list or not files:
        print("\n".join(files) or f"no test has to do with what changed since {options.base}")
        return 0
    if files[MOST_FILES:]:
        print(f"the {MOST_FILES} nearest test files; {len(files) - MOST_FILES} further ones are left out")
    limit = Limit(options.minutes)
    status = pytest.main([*files[:MOST_FILES], *(rest or ["-q"])], plugins=[limit])
    return 0 if limit.over else int(status)


if __name__ == "__main__":
    sys.exit(main())
