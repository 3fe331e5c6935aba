"""Every page and every public name is on the documentation site, whose links lead somewhere."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import dglite

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ONLY_READ_AS_FILES = {"progress"}
NOT_USERS = set(
    """
    backend batch convert errors generators graph homophily kernels propagate readout recorder scheduler serving
    structure subgraph traversal
    """.split()
)
"""Modules whose public names, if any, are names of dglite itself."""


def listed(page: Path) -> set[str]:
    """Return the pages in a page's toctrees."""
    result = set()
    for tree in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        for line in tree.splitlines():
            if line and not line.startswith(":"):
                result.add(re.sub(r".*<(.*)>", r"\1", line))
    return result


def documented() -> dict[str, set[str]]:
    """Return for each module of the API reference the names that it lists; none where it lists all."""
    results: dict[str, set[str]] = {}
    for page in (DOCS / "api").glob("*.rst"):
        for module, names in re.findall(r"^\.\. public:: (\S+)\n((?:\n|   .*\n)*)", page.read_text(), re.MULTILINE):
            lines = [line for line in names.splitlines() if not line.strip().startswith(":")]
            results.setdefault(module, set()).update(" ".join(lines).split())
    return results


def test_every_page_is_in_the_navigation() -> None:
    pages = {page.stem for page in DOCS.glob("*.md")} - ONLY_READ_AS_FILES - {"index"}
    assert pages == {name for name in listed(DOCS / "index.md") if "/" not in name}
    assert {"recipes/index"} <= listed(DOCS / "index.md")
    for folder, contents in (("recipes", DOCS / "recipes" / "index.md"), ("performance", DOCS / "performance.md")):
        pages = {page.stem for page in (DOCS / folder).glob("*.md")} - {"index"}
        assert pages == {name.rpartition("/")[2] for name in listed(contents)}


def test_every_page_of_the_reference_is_in_its_contents() -> None:
    contents = (DOCS / "api" / "index.rst").read_text().split()
    assert {page.stem for page in (DOCS / "api").glob("*.rst")} - {"index"} <= set(contents)


def test_every_public_name_is_documented() -> None:
    result = documented()
    for module, names in result.items():
        assert all(hasattr(importlib.import_module(module), name) for name in names), module
    public = {name for name in dglite.__all__ if not inspect.ismodule(getattr(dglite, name))}
    elsewhere = {
        name
        for module, names in result.items()
        if module != "dglite" and not names
        for name in importlib.import_module(module).__all__
    }
    assert public - result["dglite"] - elsewhere == set()


def test_every_package_of_users_is_documented() -> None:
    packages = {module.name for module in pkgutil.iter_modules(dglite.__path__) if not module.name.startswith("_")}
    packages -= {name for name in packages if not getattr(importlib.import_module(f"dglite.{name}"), "__all__", [])}
    assert packages - NOT_USERS == {module.removeprefix("dglite.") for module in documented()} - {"dglite"}


class _Page(HTMLParser):
    """The anchors of a page and the addresses that it refers to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.addresses: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.anchors.update(value for name, value in attrs if name == "id" and value)
        self.addresses.update(value for name, value in attrs if name in ("href", "src") and value)


def dead_links(site: Path) -> list[str]:
    """Return the links within a site that lead to no file, or to no anchor of a page."""
    pages = {path: _Page(path) for path in site.rglob("*.html")}
    dead = []
    for path, page in pages.items():
        for address in page.addresses:
            parts = urlsplit(address)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = target.exists()
            if parts.fragment and target in pages:
                there = unquote(parts.fragment) in pages[target].anchors
            if not there:
                dead.append(f"{path.relative_to(site)}: {address}")
    return sorted(dead)


def test_a_dead_link_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a id="x" href="#x"></a><a href="b.html#y"></a><a href="https://c.org/"></a>')
    (tmp_path / "b.html").write_text('<a id="y"></a>')
    assert dead_links(tmp_path) == []
    (tmp_path / "b.html").write_text('<img src="none.png">')
    assert dead_links(tmp_path) == ["a.html: b.html#y", "b.html: none.png"]


@pytest.mark.skipif(importlib.util.find_spec("sphinx") is None, reason="the extra 'docs' is not installed")
def test_the_site_is_built_without_a_warning_or_dead_link(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", str(DOCS), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert dead_links(tmp_path) == []
